"""Apps that sleep on the device's clock from processes of their own.

A daemon cannot see what an app does after it woke up, so the app tells by its calls. It is named by
its token: processes that share one count as one app. From the moment at which one of its sleeps
falls due the app is busy, and an advance waits, until the first of

- its next SleepUntil for a later time, which ends one sleep, the oldest;
- its next GetTime, which ends all of them, `GET_TIME_GRACE` real seconds later, so that an app that
  asks the time and then sleeps is asleep before the clock moves. An app that has nothing more to
  do when it woke up says so by GetTime;
- the end of its process, when its token is a launch token;
- the idle timeout of the clock: the advance fails and names it, and later ones do not wait for it.

While a call of the app is served (`serving`) the call stands in for the app: it is idle when the
daemon sleeps on the clock for it. After the call the app is busy again, for it has an answer to
work on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aicore_sim.device.clock import ClockError
from aicore_sim.device.virtual_clock import DeviceClock, Participant

GET_TIME_GRACE = 0.05
SLEEPER_LIMIT = 10_000
"""Sleeps of apps at one time."""


class RemoteApps:
    """The apps of one clock. `app` is always the app's token."""

    def __init__(self, clock: DeviceClock, *, limit: int = SLEEPER_LIMIT) -> None:
        self._clock = clock
        self._limit = limit
        self._asleep = 0
        # Sleeps that fell due and that the app has not answered with a call, oldest first.
        self._awake: dict[str, dict[Participant, None]] = {}

    @property
    def awake(self) -> int:
        """Sleeps that fell due and that their apps have not answered."""
        return sum(map(len, self._awake.values()))

    async def sleep_until(
        self, app: str, time_ns: int, *, label: str, is_gone: Callable[[], bool] | None = None
    ) -> None:
        """Return when the clock has reached `time_ns`. `label` names the app in errors.

        `is_gone` says whether the app's process has ended. A sleeper that is cancelled leaves the
        clock at once. Raises ClockError when SLEEPER_LIMIT sleep already, and for a time that no
        clock reaches.
        """
        if self._asleep >= self._limit:
            raise ClockError(f"{self._limit} sleepers wait for the clock already")
        participant = Participant(
            label=label, is_gone=is_gone, on_idle=lambda: self._forget(app, participant)
        )
        if time_ns > self._clock.now_ns():
            answered = self._oldest(app)
            if answered is not None:
                self._clock.release(answered)
        self._asleep += 1
        try:
            await self._clock.sleep_until(time_ns, participant=participant)
        except BaseException:
            self._clock.release(participant)
            raise
        finally:
            self._asleep -= 1
        self._put(app, participant)

    def got_time(self, app: str) -> None:
        """The app asked for the time."""
        loop = asyncio.get_running_loop()
        for participant in self._awake.get(app, ()):
            loop.call_later(GET_TIME_GRACE, self._clock.release, participant)

    def release(self, app: str) -> None:
        """The app waits for the clock itself: it is about to advance it."""
        for participant in tuple(self._awake.get(app, ())):
            self._clock.release(participant)

    @contextmanager
    def serving(self, app: str) -> Iterator[None]:
        """Around the whole of a call of the app, in the task that serves it."""
        waiting = self._oldest(app)
        if waiting is None:
            yield
            return
        done = self._clock.hold_task(waiting.label)
        self._clock.release(waiting)
        try:
            yield
        finally:
            self._clock.hold(waiting)
            done()
            self._put(app, waiting)

    def _oldest(self, app: str) -> Participant | None:
        return next(iter(self._awake.get(app, ())), None)

    def _put(self, app: str, participant: Participant) -> None:
        if self._clock.is_busy(participant):
            self._awake.setdefault(app, {})[participant] = None

    def _forget(self, app: str, participant: Participant) -> None:
        awake = self._awake.get(app, {})
        awake.pop(participant, None)
        if not awake:
            self._awake.pop(app, None)
