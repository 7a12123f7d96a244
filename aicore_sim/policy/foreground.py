"""Which app is on top: only that one may infer.

Foreground services and overlays do not count as foreground:
https://github.com/googlesamples/mlkit/issues/1013. Status calls are not asked here, since they
work from the background: https://github.com/googlesamples/mlkit/issues/1069
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from enum import Enum, IntEnum
from typing import TypeVar

from aicore_sim.device.errors import GenAiCode, GenAiError
from aicore_sim.policy.failures import aicore_failure

logger = logging.getLogger(__name__)

UNWIND_SECONDS = 0.5
"""How long a stream whose app left may take to unwind before the app is answered anyway."""

_T = TypeVar("_T")


class Importance(IntEnum):
    """Importance of an app's process; the numbers are those of device.proto."""

    TOP = 1
    VISIBLE = 2
    FOREGROUND_SERVICE = 3
    OVERLAY = 4
    BACKGROUND = 5


class _End(Enum):
    STREAM = "the stream has ended"
    TOP = "the app has left the top"


class Foreground:
    """Importance of every app, by uid. Belongs to one event loop.

    Each app is on top until it is told otherwise. With `exclusive` there is at most one on top:
    the app that was put there last, or, before any was, the first that asks to infer, as if the
    user had just opened it. All others that were not told otherwise are then in the background.
    """

    def __init__(self, *, exclusive: bool = False) -> None:
        self._exclusive = exclusive
        self._told: dict[int, Importance] = {}
        self._on_top: int | None = None
        self._opened = False
        self._watchers: dict[int, list[Callable[[], None]]] = {}
        self._unwinding: set[asyncio.Task[None]] = set()

    def importance(self, uid: int) -> Importance:
        """What the app is now."""
        told = self._told.get(uid)
        if told is None:
            lower = self._exclusive and self._opened
            return Importance.BACKGROUND if lower else Importance.TOP
        return told

    def told(self) -> Mapping[int, Importance]:
        """The apps that were given an importance, by uid."""
        return dict(self._told)

    def set(self, uid: int, importance: Importance) -> None:
        """Give the app an importance. The running streams of whoever leaves the top end."""
        if importance is Importance.TOP:
            self._put_on_top(uid)
        else:
            if self._on_top == uid:
                self._on_top = None
            self._told[uid] = importance
        for watched in list(self._watchers):
            if not self.is_top(watched):
                self._call_watchers(watched)

    def forget(self, uid: int) -> None:
        """Drop what is known of an app that is gone; its running streams end."""
        self._told.pop(uid, None)
        if self._on_top == uid:
            self._on_top = None
        self._call_watchers(uid)

    def is_top(self, uid: int) -> bool:
        """Whether the app may infer."""
        return self.importance(uid) is Importance.TOP

    def require_top(self, uid: int) -> None:
        """Raises GenAiError 30 for an app that is not on top."""
        if self._exclusive and not self._opened and uid not in self._told:
            self.set(uid, Importance.TOP)
        if not self.is_top(uid):
            now = self.importance(uid).name
            raise _blocked(f"Only the top foreground app may infer, and this one is {now}.")

    @contextmanager
    def when_left(self, uid: int, callback: Callable[[], None]) -> Iterator[None]:
        """Inside the block, `callback` is called as soon as the app is not on top any more."""
        self._watchers.setdefault(uid, []).append(callback)
        try:
            yield
        finally:
            callbacks = self._watchers[uid]
            callbacks.remove(callback)
            if not callbacks:
                del self._watchers[uid]

    async def while_top(
        self, uid: int, stream: AsyncGenerator[_T, None]
    ) -> AsyncGenerator[_T, None]:
        """The items of `stream`, one by one as they are asked for, while the app is on top.

        When the app leaves, the stream is cancelled, so that it frees what it holds, and
        GenAiError 30 is raised, UNWIND_SECONDS later at the most. Closing the generator cancels
        the stream too. Only an app that was on top at the start gets anything.
        """
        self.require_top(uid)
        items: asyncio.Queue[_T | _End] = asyncio.Queue()
        # One task sees the stream through, so that the stream may hold timeouts and task groups.
        pump = asyncio.create_task(_pump(stream, items), name=f"stream-of-{uid}")
        pump.add_done_callback(lambda _: items.put_nowait(_End.STREAM))
        try:
            with self.when_left(uid, lambda: items.put_nowait(_End.TOP)):
                while not isinstance(item := await items.get(), _End):
                    yield item
                    items.task_done()
            if item is _End.TOP:
                raise _blocked("The app is not the top foreground app any more.")
            pump.result()
        finally:
            await self._unwind(pump)

    def _put_on_top(self, uid: int) -> None:
        if self._exclusive:
            if self._on_top is not None:
                self._told[self._on_top] = Importance.BACKGROUND
            self._on_top, self._opened = uid, True
        self._told[uid] = Importance.TOP

    def _call_watchers(self, uid: int) -> None:
        for callback in list(self._watchers.get(uid, ())):
            callback()

    async def _unwind(self, pump: asyncio.Task[None]) -> None:
        if not pump.done():
            pump.cancel()
            await asyncio.wait({pump}, timeout=UNWIND_SECONDS)
        if not pump.done():
            logger.warning("task=%s did not end within %s s", pump.get_name(), UNWIND_SECONDS)
            self._unwinding.add(pump)
            pump.add_done_callback(self._unwound)
        elif not pump.cancelled() and (error := pump.exception()) is not None:
            logger.debug("task=%s ended with %s", pump.get_name(), type(error).__name__)

    def _unwound(self, pump: asyncio.Task[None]) -> None:
        self._unwinding.discard(pump)
        if not pump.cancelled() and (error := pump.exception()) is not None:
            logger.warning("task=%s ended late", pump.get_name(), exc_info=error)


async def _pump(stream: AsyncGenerator[_T, None], items: asyncio.Queue[_T | _End]) -> None:
    async with aclosing(stream):
        async for item in stream:
            items.put_nowait(item)
            await items.join()


def _blocked(detail: str) -> GenAiError:
    return aicore_failure(GenAiCode.BACKGROUND_USE_BLOCKED, detail)
