"""Ending a stream from outside, with an error that the app sees."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from enum import Enum
from typing import Generic, TypeVar

from aicore_sim.device.errors import DeviceError

logger = logging.getLogger(__name__)

UNWIND_SECONDS = 0.5
"""How long an interrupted stream may take to unwind before its app is answered anyway."""

_T = TypeVar("_T")

# Streams that took longer than UNWIND_SECONDS; a task must be held by somebody.
_unwinding: set[asyncio.Task[None]] = set()


class _End(Enum):
    STREAM = "the stream has ended"
    INTERRUPTED = "the stream was interrupted"


class Interruptible(Generic[_T]):
    """A stream, handed out one item at a time as they are asked for."""

    def __init__(
        self,
        stream: AsyncGenerator[_T, None],
        *,
        name: str,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`waiting` is entered while the next item is awaited."""
        self._stream = stream
        self._name = name
        self._waiting = waiting
        self._error: DeviceError | None = None
        self._items: asyncio.Queue[_T | _End] = asyncio.Queue()

    def interrupt(self, error: DeviceError) -> None:
        """End the stream with `error`; of several the first counts."""
        if self._error is None:
            self._error = error
            self._items.put_nowait(_End.INTERRUPTED)

    async def items(self) -> AsyncGenerator[_T, None]:
        """The items of the stream.

        When it is interrupted the stream is cancelled, so that it frees what it holds, and the
        error is raised, UNWIND_SECONDS later at the most. Closing the generator cancels the stream
        too.
        """
        # One task sees the stream through, so that the stream may hold timeouts and task groups.
        pump = asyncio.create_task(self._pump(), name=self._name)
        pump.add_done_callback(lambda _: self._items.put_nowait(_End.STREAM))
        try:
            while not isinstance(item := await self._next(), _End):
                yield item
                self._items.task_done()
            if item is _End.STREAM:
                pump.result()
        finally:
            await _unwind(pump)
        if item is _End.INTERRUPTED and self._error is not None:
            raise self._error

    async def _next(self) -> _T | _End:
        with self._waiting():
            return await self._items.get()

    async def _pump(self) -> None:
        async with aclosing(self._stream):
            async for item in self._stream:
                self._items.put_nowait(item)
                await self._items.join()


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
