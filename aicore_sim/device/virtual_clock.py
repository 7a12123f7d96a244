"""The one clock of a device: real, virtual or frozen.

Modes. A REAL clock flows with the host's. VIRTUAL and FROZEN ones stand still and move only by
`advance`; nothing moves them by itself, not even when everybody sleeps, since the clock cannot see
an app that computes. VIRTUAL is a time that was given, FROZEN is where a running clock was stopped;
they behave alike. A change of mode never moves the time: a REAL clock goes on from where the
virtual one stood, and shows the host's time only when it was never anything else.

Advancing. `advance` goes from one due time to the next. At each it wakes, in the order in which
they went to sleep, all that are due, and goes on when each of them is idle again: asleep on this
clock, done, or waiting for something else inside `idle()`. So what wakes up sees the exact time it
asked for, and what it does counts as done at that time. Somebody who is not idle after
`idle_timeout` seconds of real time is named by SleeperNotIdle, and the clock stops there.

Who wakes up is the asyncio task that slept. A task that ended hands nothing on: work that it left
to another task is given a few turns of the event loop, no more, unless that task sleeps as well.
So a limit in real time goes round a sleep with `asyncio.timeout`: on Python 3.11 `wait_for` would
sleep in a task of its own.

A clock belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from weakref import WeakSet

from aicore_sim.device.clock import (
    LATEST_NS,
    NANOS,
    VIRTUAL_EPOCH,
    Clock,
    ClockError,
    ClockMode,
    ClockState,
    RealClock,
    SleeperNotIdle,
    to_nanos,
)

IDLE_TIMEOUT = 5.0
"""Real seconds in which somebody who woke up must be idle again."""

# Turns of the event loop in which a woken task's immediate consequences run.
_SETTLING_TURNS = 5
# How often, in real seconds, an advance asks whether somebody it waits for is gone.
_GONE_CHECK = 0.1
# A step of the host's clock is noticed after this many seconds at the latest.
_LONGEST_NAP = 30.0


@dataclass(frozen=True, kw_only=True)
class Sleeper:
    """Somebody asleep; `due` is in seconds since the epoch."""

    label: str
    due: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Participant:
    """A sleeper that is no task of this process, for `sleep_until`.

    It stays busy after it woke up until `release`, or until `is_gone` says that it will never
    call again.
    """

    label: str
    is_gone: Callable[[], bool] | None = None
    on_idle: Callable[[], None] | None = None
    """Called when it stops being busy, for whatever reason."""


_Owner = Participant | asyncio.Task[object]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sleep:
    owner: _Owner
    label: str
    woken: asyncio.Future[None]


class DeviceClock:
    """The device's time. Implements `Clock`."""

    def __init__(
        self,
        mode: ClockMode = ClockMode.REAL,
        *,
        now: float | None = None,
        host: Clock | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        """`now` is where a clock that stands still starts, in seconds since the epoch.

        Without it a VIRTUAL clock starts at VIRTUAL_EPOCH and a FROZEN one at the host's time.
        Raises ClockError when it is given to a REAL clock, or is before 1970.
        """
        self._host = host or RealClock()
        self._idle_timeout = idle_timeout
        self._mode = mode
        # Device time minus host time; means something in the mode REAL only.
        self._offset_ns = 0
        # The present of a clock that stands still, the latest reading of one that flows.
        self._now_ns = self._host_ns()
        if now is not None:
            if mode is ClockMode.REAL:
                raise ClockError("a real clock starts at the host's time; use the mode VIRTUAL")
            self._now_ns = _checked(to_nanos(now))
        elif mode is ClockMode.VIRTUAL:
            self._now_ns = VIRTUAL_EPOCH * NANOS
        self._origin_ns = self._now_ns
        self._order = 0
        # The heap may hold entries that are no longer asleep; `_asleep` is the truth.
        self._heap: list[tuple[int, int]] = []
        self._asleep: dict[tuple[int, int], _Sleep] = {}
        self._busy: dict[_Owner, str] = {}
        self._watched: WeakSet[asyncio.Task[object]] = WeakSet()
        self._all_idle = asyncio.Event()
        self._advancing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._listeners: list[Callable[[ClockState], None]] = []

    @classmethod
    def restored(
        cls, state: ClockState, *, host: Clock | None = None, idle_timeout: float = IDLE_TIMEOUT
    ) -> DeviceClock:
        """The clock of a device that starts again.

        A REAL one shows the host's time, since time has passed while the device was off, unless
        the device was ahead of it. The others go on where they stood.
        """
        if state.mode is not ClockMode.REAL:
            made = cls(state.mode, now=0, host=host, idle_timeout=idle_timeout)
            made._now_ns = made._origin_ns = state.now_ns
            return made
        made = cls(host=host, idle_timeout=idle_timeout)
        made._offset_ns = max(0, state.now_ns - made._host_ns())
        made._origin_ns = made.now_ns()
        return made

    @property
    def mode(self) -> ClockMode:
        return self._mode

    @property
    def state(self) -> ClockState:
        """Mode and time, to be kept over a restart or sent to a client."""
        return ClockState(mode=self._mode, now_ns=self.now_ns())

    @property
    def sleepers(self) -> tuple[Sleeper, ...]:
        """Who is asleep, in the order in which they will wake."""
        return tuple(
            Sleeper(label=self._asleep[key].label, due=key[0] / NANOS)
            for key in sorted(self._asleep)
        )

    @property
    def busy(self) -> tuple[str, ...]:
        """Labels of those that woke up and are not idle yet."""
        return tuple(self._busy.values())

    def now(self) -> float:
        return self.now_ns() / NANOS

    def now_ns(self) -> int:
        """The exact time, in nanoseconds since the epoch. It never goes back.

        When the host's clock is set back, a real device clock goes on from where it was.
        """
        if self._mode is ClockMode.REAL:
            found = self._host_ns() + self._offset_ns
            if found < self._now_ns:
                self._offset_ns += self._now_ns - found
            else:
                self._now_ns = found
        return self._now_ns

    def monotonic(self) -> float:
        """Seconds of device time since this object was made."""
        return (self.now_ns() - self._origin_ns) / NANOS

    async def sleep(self, seconds: float, *, label: str = "") -> None:
        """Return when `seconds` of device time have passed, never earlier.

        `label` names the sleeper when an advance has to wait for it; the default is the label it
        woke up with, else the task's name. Not more than zero seconds: others get a turn, and
        nothing else happens. Raises ClockError for a time that no clock can show.
        """
        await self.sleep_until(self.now_ns() + to_nanos(seconds), label=label)

    async def sleep_until(
        self, time_ns: int, *, participant: Participant | None = None, label: str = ""
    ) -> bool:
        """Return when the clock has reached `time_ns`; False when it had before.

        Whoever sleeps is idle; who woke up in an advance is busy. With a `participant` it is the
        busy one, in place of the calling task. Raises ClockError for a time after the year 9999.
        """
        if time_ns > LATEST_NS:
            raise ClockError("no clock goes beyond the year 9999")
        if time_ns <= self.now_ns():
            await asyncio.sleep(0)
            return False
        owner = participant or _current_task()
        self._order += 1
        key = (time_ns, self._order)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        known = self._busy.get(owner) or (participant.label if participant else "")
        name = label or known or _current_task().get_name()
        self._asleep[key] = _Sleep(owner=owner, label=name, woken=woken)
        heapq.heappush(self._heap, key)
        self._set_idle(owner)
        self._arm()
        try:
            await woken
        finally:
            if self._asleep.pop(key, None) is not None:
                self._forget_the_cancelled()
        return True

    @contextlib.contextmanager
    def idle(self) -> Iterator[None]:
        """The running task waits for something else than time inside the block.

        Without it a task that woke up and waits, say, for a slot that another sleeper holds would
        keep the clock from the time at which that one gives it back.
        """
        task = _current_task()
        label = self._busy.get(task)
        self._set_idle(task)
        try:
            yield
        finally:
            if label is not None:
                self._set_busy(task, label)

    def is_busy(self, participant: Participant) -> bool:
        """Whether an advance would wait for the participant."""
        return participant in self._busy

    def hold(self, participant: Participant) -> None:
        """Make a participant busy, as if it had just woken up."""
        self._set_busy(participant, participant.label)

    def hold_task(self, label: str) -> Callable[[], None]:
        """Make the running task busy, as if it had just woken up; returns what releases it."""
        task = _current_task()
        self._set_busy(task, label)
        return lambda: self._set_idle(task)

    def release(self, participant: Participant | None = None) -> None:
        """The participant, or the running task, has done what its waking was for."""
        self._set_idle(participant or _current_task())

    def set_mode(self, mode: ClockMode) -> ClockState:
        """Change how the time flows; it does not jump. Raises ClockError during an advance."""
        self._refuse_while_advancing()
        if self._mode is ClockMode.REAL:
            self._wake_due()
        now_ns = self.now_ns()
        self._mode = mode
        self._now_ns = now_ns
        if mode is ClockMode.REAL:
            self._offset_ns = now_ns - self._host_ns()
            for owner in tuple(self._busy):
                self._set_idle(owner)
        self._arm()
        return self._changed()

    def check_restore(self, state: ClockState) -> None:
        """Raises ClockError when `restore` would."""
        self._refuse_while_advancing()
        if state.mode is not ClockMode.REAL and state.now_ns < self.now_ns():
            raise ClockError(
                f"the time {state.now:.3f} is {self.now() - state.now:.3f} s before the device's; "
                "a clock is never set back, so restore it on a fresh device"
            )

    def restore(self, state: ClockState) -> ClockState:
        """Take over the mode and the time of another device, and wake who is due by then.

        A REAL state that is earlier keeps the present time. Raises ClockError for any other that
        is, and during an advance.
        """
        self.check_restore(state)
        self.set_mode(ClockMode.FROZEN)
        self._now_ns = max(self._now_ns, state.now_ns)
        self._wake_due()
        return self.set_mode(state.mode)

    async def advance(self, seconds: float) -> ClockState:
        """Move the time forward, through every due time on the way.

        Returns when all that fell due are idle again, and raises SleeperNotIdle for one that is
        not. A participant that was named is not waited for again; a task still is. Advances at
        the same time follow each other. A cancelled one stops where it is.

        Raises ClockError for a negative number, a time beyond the year 9999, and a real clock.
        """
        if not seconds >= 0:
            raise ClockError(f"{seconds!r}: a clock is never set back")
        return await self.advance_ns(to_nanos(seconds))

    async def advance_ns(self, nanos: int) -> ClockState:
        """`advance` by nanoseconds, exact for any distance."""
        if nanos < 0:
            raise ClockError(f"{nanos!r}: a clock is never set back")
        async with self._moving():
            await self._move_to(_checked(self._now_ns + nanos))
        return self._changed()

    async def advance_to_next(self) -> bool:
        """Advance to the next due time; False, and nothing moves, when nobody sleeps.

        Raises as `advance` does.
        """
        async with self._moving():
            due_ns = self._next_due()
            if due_ns is None:
                return False
            await self._move_to(max(self._now_ns, due_ns))
        self._changed()
        return True

    def on_change(self, listener: Callable[[ClockState], None]) -> Callable[[], None]:
        """Call `listener` after each change of mode and each advance; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @contextlib.asynccontextmanager
    async def _moving(self) -> AsyncIterator[None]:
        # Who waits for the clock to move is not busy, or two that do would wait for each other.
        self._set_idle(_current_task())
        async with self._advancing:
            if self._mode is ClockMode.REAL:
                raise ClockError(
                    "a real clock follows the host and cannot be advanced; make it VIRTUAL or "
                    "FROZEN first"
                )
            yield

    async def _move_to(self, target_ns: int) -> None:
        await self._until_idle(target_ns)
        while (due_ns := self._next_due()) is not None and due_ns <= target_ns:
            self._now_ns = max(self._now_ns, due_ns)
            self._wake_due()
            await self._until_idle(target_ns)
        self._now_ns = target_ns

    def _host_ns(self) -> int:
        return round(self._host.now() * NANOS)

    def _changed(self) -> ClockState:
        state = self.state
        for listener in tuple(self._listeners):
            listener(state)
        return state

    def _refuse_while_advancing(self) -> None:
        if self._advancing.locked():
            raise ClockError("the clock is being advanced; try again when that has ended")

    def _next_due(self) -> int | None:
        while self._heap and self._heap[0] not in self._asleep:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _forget_the_cancelled(self) -> None:
        if len(self._heap) > 2 * len(self._asleep) + 64:
            self._heap = sorted(self._asleep)

    def _wake_due(self) -> None:
        now_ns = self.now_ns()
        while (due_ns := self._next_due()) is not None and due_ns <= now_ns:
            sleep = self._asleep.pop(heapq.heappop(self._heap))
            # One that was cancelled in this turn of the loop has not left yet.
            if not sleep.woken.done():
                self._set_busy(sleep.owner, sleep.label)
                sleep.woken.set_result(None)

    def _arm(self) -> None:
        """In the mode REAL, have the event loop call when the next sleeper is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ns = self._next_due() if self._mode is ClockMode.REAL else None
        if due_ns is not None:
            nap = min(max(0, due_ns - self.now_ns()) / NANOS, _LONGEST_NAP)
            self._timer = asyncio.get_running_loop().call_later(nap, self._on_timer)

    def _on_timer(self) -> None:
        self._wake_due()
        self._arm()

    def _set_busy(self, owner: _Owner, label: str) -> None:
        if self._mode is ClockMode.REAL:
            return
        self._busy[owner] = label
        if isinstance(owner, asyncio.Task) and owner not in self._watched:
            self._watched.add(owner)
            owner.add_done_callback(self._set_idle)

    def _set_idle(self, owner: _Owner) -> None:
        if self._busy.pop(owner, None) is None:
            return
        if not self._busy:
            self._all_idle.set()
        if isinstance(owner, Participant) and owner.on_idle is not None:
            owner.on_idle()

    async def _until_idle(self, target_ns: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._idle_timeout
        while True:
            for _ in range(_SETTLING_TURNS):
                await asyncio.sleep(0)
            if not self._busy:
                return
            left = deadline - loop.time()
            if left <= 0:
                raise self._not_idle(target_ns)
            self._all_idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, _GONE_CHECK)):
                    await self._all_idle.wait()
            for owner in tuple(self._busy):
                if isinstance(owner, Participant) and owner.is_gone and owner.is_gone():
                    self._set_idle(owner)

    def _not_idle(self, target_ns: int) -> SleeperNotIdle:
        labels = tuple(self._busy.values())
        for owner in tuple(self._busy):
            if isinstance(owner, Participant):
                self._set_idle(owner)
        return SleeperNotIdle(
            labels,
            waited=self._idle_timeout,
            now=self._now_ns / NANOS,
            left=(target_ns - self._now_ns) / NANOS,
        )


def _checked(time_ns: int) -> int:
    if not 0 <= time_ns <= LATEST_NS:
        raise ClockError(f"{time_ns / NANOS:g} is no time between 1970 and 9999")
    return time_ns


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a device clock is slept on by an asyncio task")
    return task
