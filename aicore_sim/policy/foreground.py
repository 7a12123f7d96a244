"""Which app is on top: only that one may infer.

Foreground services and overlays do not count as foreground:
https://github.com/googlesamples/mlkit/issues/1013. Status calls are not asked here, since they
work from the background: https://github.com/googlesamples/mlkit/issues/1069
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum

from aicore_sim.device.errors import GenAiCode, GenAiError
from aicore_sim.policy.failures import aicore_failure


class Importance(IntEnum):
    """Importance of an app's process; the numbers are those of device.proto."""

    TOP = 1
    VISIBLE = 2
    FOREGROUND_SERVICE = 3
    OVERLAY = 4
    BACKGROUND = 5


class Foreground:
    """Importance of every app, by uid. Belongs to one event loop.

    Each app is on top until it is told otherwise. With `exclusive` there is at most one on top:
    the app that was put there last, or, before any was, the first that asks to infer, as if the
    user had just opened it. All others that were not told otherwise are then in the background.
    """

    def __init__(self, *, exclusive: bool = False) -> None:
        self._exclusive = exclusive
        # The app that was put on top last comes last.
        self._told: dict[int, Importance] = {}
        self._on_top: int | None = None
        self._opened = False
        self._watchers: dict[int, list[Callable[[], None]]] = {}

    @property
    def exclusive(self) -> bool:
        """Whether at most one app is on top."""
        return self._exclusive

    def set_exclusive(self, exclusive: bool) -> None:
        """Change that. The app that was put on top last stays there, and all others leave it.

        Without exclusiveness apps keep what they were told, and the others are on top.
        """
        if exclusive == self._exclusive:
            return
        self._exclusive = exclusive
        self._on_top = None
        tops = [uid for uid, told in self._told.items() if told is Importance.TOP]
        self._opened = exclusive and bool(tops)
        if self._opened:
            self._on_top = tops.pop()
            for uid in tops:
                self._told[uid] = Importance.BACKGROUND
        self._end_streams_of_others()

    def clear(self) -> None:
        """Forget every app, as when the device restarts; nobody's streams end."""
        self._told.clear()
        self._on_top, self._opened = None, False

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
        self._end_streams_of_others()

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

    def _put_on_top(self, uid: int) -> None:
        if self._exclusive:
            if self._on_top is not None:
                self._told[self._on_top] = Importance.BACKGROUND
            self._on_top, self._opened = uid, True
        self._told.pop(uid, None)
        self._told[uid] = Importance.TOP

    def _end_streams_of_others(self) -> None:
        for watched in list(self._watchers):
            if not self.is_top(watched):
                self._call_watchers(watched)

    def _call_watchers(self, uid: int) -> None:
        for callback in list(self._watchers.get(uid, ())):
            callback()


def left_the_top() -> GenAiError:
    """What a running stream ends with."""
    return _blocked("The app is not the top foreground app any more.")


def _blocked(detail: str) -> GenAiError:
    return aicore_failure(GenAiCode.BACKGROUND_USE_BLOCKED, detail)
