"""The client without `await`, for plain scripts and notebooks (ours).

Everything runs on one event loop in a thread of its own, so that it can be used from any thread,
also from one whose own event loop runs; that loop stands still meanwhile.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

from aicore_client.events import AgentEvent
from aicore_client.flow import AgentEventFlow

T = TypeVar("T")

_JOIN_SECONDS = 2.0


class _Background:
    """The loop of this process; a forked child makes its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._pid = os.getpid()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="aicore-client", daemon=True
                )
                self._thread.start()
                atexit.register(self._stop, self._loop, self._thread)
            if threading.current_thread() is self._thread:
                raise RuntimeError("a blocking call inside the client's own event loop")
            return self._loop

    def _stop(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        if self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_JOIN_SECONDS)
            if not thread.is_alive():
                loop.close()


_background = _Background()


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """What a call of the client returns, for example
    `run_blocking(Generation.get_client().count_tokens("Hi"))`.

    Raises what it raises. Ctrl-C cancels it.
    """
    try:
        waiting = asyncio.run_coroutine_threadsafe(work, _background.loop())
    except BaseException:
        work.close()
        raise
    try:
        return waiting.result()
    except BaseException:
        waiting.cancel()
        raise


def iterate_blocking(source: AsyncIterable[T]) -> Iterator[T]:
    """The items of an asynchronous stream of the client. Leaving the loop stops the stream."""
    iterator = run_blocking(_begin(source))
    end = object()
    try:
        while (item := run_blocking(_next(iterator, end))) is not end:
            yield item  # type: ignore[misc]
    finally:
        run_blocking(_end(iterator))


class BlockingEvents:
    """An :class:`AgentEventFlow` for a plain `for`; as cold as the flow.

    The iteration raises GenAiException; CANCELLED (7) after :meth:`cancel`, which may be called
    from any thread.
    """

    def __init__(self, flow: AgentEventFlow) -> None:
        self._flow = flow

    def __iter__(self) -> Iterator[AgentEvent]:
        return iterate_blocking(self._flow)

    def text_tokens(self) -> Iterator[str]:
        """Only the texts of partial messages."""
        return iterate_blocking(self._flow.text_tokens())

    def text_messages(self) -> Iterator[str]:
        """Only the texts of completed messages."""
        return iterate_blocking(self._flow.text_messages())

    def cancel(self) -> None:
        """Stops every running iteration."""
        self._flow.cancel()


async def _begin(source: AsyncIterable[T]) -> AsyncIterator[T]:
    return aiter(source)


async def _next(iterator: AsyncIterator[T], end: object) -> T | object:
    return await anext(iterator, end)


async def _end(iterator: AsyncIterator[Any]) -> None:
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()
