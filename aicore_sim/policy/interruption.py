"""Ending a stream from outside, with an error that the app sees."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Generic, TypeVar

from aicore_sim.device.errors import DeviceError

logger = logging.getLogger(__name__)

UNWIND_SECONDS = 0.5
"""How long an interrupted stream may take to unwind before its app is answered anyway."""

_T = TypeVar("_T")

# Streams that took longer than UNWIND_SECONDS; a task must be held by somebody.
_unwinding: set[asyncio.Task[None]] = set()


class Interruptible(Generic[_T]):
    """A stream whose items are delivered until it ends, or until it is interrupted."""

    def __init__(
        self,
        stream: AsyncGenerator[_T, None],
        *,
        name: str,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`waiting` is entered by the one who called `deliver` while the stream goes on."""
        self._stream = stream
        self._name = name
        self._waiting = waiting
        self._error: DeviceError | None = None
        self._over: asyncio.Future[None] | None = None
        self._delivering = False

    def interrupt(self, error: DeviceError) -> None:
        """End the stream with `error`; of several the first counts."""
        if self._error is None:
            self._error = error
            self._wake()

    async def deliver(self, send: Callable[[_T], Awaitable[None]]) -> None:
        """Send every item, and ask for the next one when that has returned.

        When it is interrupted the stream is cancelled, so that it frees what it holds, and the
        error is raised, UNWIND_SECONDS later at the most. Cancelling this cancels the stream too.
        Raises what the stream and `send` raise.
        """
        if self._error is not None:
            await self._stream.aclose()
            raise self._error
        self._over = asyncio.get_running_loop().create_future()
        # One task sees the stream through, so that it may hold timeouts and task groups, and so
        # that it may unwind in its own time when its app must be answered.
        pump = asyncio.create_task(self._pump(send), name=self._name)
        pump.add_done_callback(lambda _: self._wake())
        try:
            with self._waiting():
                await self._over
            if pump.done():
                pump.result()
                return
            if self._delivering:
                # Half a message cannot be taken back; the stream ends after it.
                await asyncio.wait({pump}, timeout=UNWIND_SECONDS)
        finally:
            await _unwind(pump)
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    async def _pump(self, send: Callable[[_T], Awaitable[None]]) -> None:
        async with aclosing(self._stream):
            async for item in self._stream:
                self._delivering = True
                await send(item)
                self._delivering = False
                if self._error is not None:
                    raise self._error


async def _unwind(pump: asyncio.Task[None]) -> None:
    if not pump.done():
        pump.cancel()
        await asyncio.wait({pump}, timeout=UNWIND_SECONDS)
    if not pump.done():
        logger.warning("task=%s did not end within %s s", pump.get_name(), UNWIND_SECONDS)
        _unwinding.add(pump)
        pump.add_done_callback(_unwound)
    elif not pump.cancelled() and (error := pump.exception()) is not None:
        logger.debug("task=%s ended with %s", pump.get_name(), type(error).__name__)


def _unwound(pump: asyncio.Task[None]) -> None:
    _unwinding.discard(pump)
    if not pump.cancelled() and (error := pump.exception()) is not None:
        logger.warning("task=%s ended late", pump.get_name(), exc_info=error)
