"""The device's clock in its three modes, without a server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from aicore_sim.device.clock import (
    VIRTUAL_EPOCH,
    ClockError,
    ClockMode,
    ClockState,
    RealClock,
    SleeperNotIdle,
)
from aicore_sim.device.virtual_clock import DeviceClock, Participant, Sleeper

LIMIT = 5.0


class HostClock:
    """A host whose time the test sets."""

    def __init__(self, now: float = 1000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the device clock has its own sleepers")


def virtual(idle_timeout: float = LIMIT) -> DeviceClock:
    return DeviceClock(ClockMode.VIRTUAL, now=1000.0, idle_timeout=idle_timeout)


async def asleep(clock: DeviceClock, count: int) -> None:
    """Return when `count` sleep on the clock."""
    async with asyncio.timeout(LIMIT):
        while len(clock.sleepers) < count:  # noqa: ASYNC110 - what wakes the test is a loop turn
            await asyncio.sleep(0)


def sleeper(
    clock: DeviceClock, seconds: float, then: Callable[[], object], label: str = ""
) -> asyncio.Task[None]:
    async def run() -> None:
        await clock.sleep(seconds, label=label)
        then()

    return asyncio.create_task(run())


def test_virtual_time_starts_at_a_fixed_day_and_frozen_time_at_the_hosts() -> None:
    assert DeviceClock(ClockMode.VIRTUAL).state == ClockState(
        mode=ClockMode.VIRTUAL, now_ns=VIRTUAL_EPOCH * 10**9
    )
    assert DeviceClock(ClockMode.FROZEN, host=HostClock(77.0)).now() == 77.0
    assert DeviceClock(ClockMode.VIRTUAL, now=12.5).now() == 12.5
    with pytest.raises(ClockError, match="real clock starts at the host's time"):
        DeviceClock(ClockMode.REAL, now=12.5)
    with pytest.raises(ClockError, match="1970"):
        DeviceClock(ClockMode.VIRTUAL, now=-1.0)


@pytest.mark.requirement("simulator.clock.virtual")
async def test_sleepers_wake_in_the_order_of_their_times_and_then_of_their_calls() -> None:
    clock = virtual()
    seen: list[tuple[str, float]] = []
    times = [3.0, 1.0, 2.0, 1.0, 3.0]
    tasks = [
        sleeper(clock, seconds, lambda name=f"{number}": seen.append((name, clock.now())))  # type: ignore[misc]
        for number, seconds in enumerate(times)
    ]
    await asleep(clock, 5)
    assert [one.due for one in clock.sleepers] == [1001.0, 1001.0, 1002.0, 1003.0, 1003.0]
    state = await clock.advance(2.5)
    assert (state, clock.monotonic()) == (
        ClockState(mode=ClockMode.VIRTUAL, now_ns=1_002_500_000_000),
        2.5,
    )
    assert seen == [("1", 1001.0), ("3", 1001.0), ("2", 1002.0)]
    await clock.advance(0.5)
    assert seen[3:] == [("0", 1003.0), ("4", 1003.0)]
    await asyncio.gather(*tasks)


async def test_an_advance_runs_what_a_woken_sleeper_goes_on_to_sleep_for() -> None:
    clock = virtual()
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await clock.sleep(0.1)
            ticks.append(clock.monotonic())

    task = asyncio.create_task(tick())
    await asleep(clock, 1)
    await clock.advance(1.0)
    assert ticks == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    await clock.advance(3600 - 1.0)
    assert len(ticks) == 36_000
    task.cancel()
    await asyncio.wait({task})
    assert clock.sleepers == ()


async def test_nobody_wakes_while_time_stands_still() -> None:
    clock = virtual()
    task = sleeper(clock, 1e-9, lambda: None, label="the nap")
    await asleep(clock, 1)
    assert clock.sleepers == (Sleeper(label="the nap", due=1000.000000001),)
    await clock.advance(0)
    assert not task.done()
    await clock.advance(1e-9)
    assert task.done()


async def test_sleeping_for_no_time_only_gives_others_a_turn() -> None:
    clock = virtual()
    async with asyncio.timeout(LIMIT):
        await clock.sleep(0)
        await clock.sleep(-5)
    assert clock.now() == 1000.0


@pytest.mark.parametrize(
    ("seconds", "problem"),
    [
        (-1.0, "never set back"),
        (float("nan"), "never set back"),
        (float("inf"), "no number of seconds"),
        (1e15, "no number of seconds"),
        (253_402_300_799.0, "9999"),
    ],
)
async def test_an_advance_that_no_clock_can_make_is_refused(seconds: float, problem: str) -> None:
    clock = virtual()
    with pytest.raises(ClockError, match=problem):
        await clock.advance(seconds)
    assert clock.now() == 1000.0
    with pytest.raises(ClockError, match="number of seconds|9999"):
        await clock.sleep(float("inf"))
    with pytest.raises(ClockError, match="9999"):
        await clock.sleep(253_402_300_799.0)


async def test_a_thousand_sleepers_wake_in_order() -> None:
    clock = virtual()
    seed = random.Random(7)
    times = [seed.randrange(1, 400) for _ in range(1000)]
    woken: list[tuple[int, int]] = []
    tasks = [
        sleeper(clock, seconds, lambda item=(seconds, number): woken.append(item))  # type: ignore[misc]
        for number, seconds in enumerate(times)
    ]
    await asleep(clock, 1000)
    await clock.advance(200)
    assert woken == sorted((seconds, n) for n, seconds in enumerate(times) if seconds <= 200)
    await clock.advance(200)
    assert woken == sorted((seconds, n) for n, seconds in enumerate(times))
    assert clock.sleepers == ()
    await asyncio.gather(*tasks)


async def test_a_cancelled_sleeper_leaves_and_the_others_keep_their_order() -> None:
    clock = virtual()
    seen: list[int] = []
    tasks = [sleeper(clock, 1.0, lambda n=n: seen.append(n)) for n in range(300)]  # type: ignore[misc]
    await asleep(clock, 300)
    for task in tasks[1:]:
        task.cancel()
    await asyncio.wait(tasks[1:])
    assert [one.due for one in clock.sleepers] == [1001.0]
    late = sleeper(clock, 0.5, lambda: seen.append(-1))
    await asleep(clock, 2)
    await clock.advance(1.0)
    assert seen == [-1, 0]
    await asyncio.gather(tasks[0], late)


async def test_one_that_is_cancelled_in_the_turn_in_which_it_is_due_is_not_waited_for() -> None:
    clock = virtual(idle_timeout=0.2)
    forever = asyncio.Event()

    async def stubborn() -> None:
        try:
            await clock.sleep(1.0)
        except asyncio.CancelledError:
            await forever.wait()

    task = asyncio.create_task(stubborn())
    await asleep(clock, 1)
    task.cancel()
    clock.restore(ClockState(mode=ClockMode.VIRTUAL, now_ns=1001 * 10**9))
    assert clock.busy == ()
    await clock.advance(2.0)
    forever.set()
    await task


@pytest.mark.requirement("simulator.clock.virtual")
async def test_advance_waits_for_what_a_sleeper_does_before_it_sleeps_again() -> None:
    clock = virtual()
    answered = asyncio.Event()
    seen: list[float] = []

    async def work() -> None:
        await clock.sleep(1.0)
        await answered.wait()
        seen.append(clock.now())
        await clock.sleep(1.0)
        seen.append(clock.now())

    task = asyncio.create_task(work())
    await asleep(clock, 1)
    advance = asyncio.create_task(clock.advance(10.0))
    async with asyncio.timeout(LIMIT):
        while not clock.busy:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert (clock.now(), clock.busy) == (1001.0, (task.get_name(),))
    with pytest.raises(ClockError, match="being advanced"):
        clock.set_mode(ClockMode.REAL)
    answered.set()
    await asyncio.wait_for(advance, LIMIT)
    assert (seen, clock.now()) == ([1001.0, 1002.0], 1010.0)


async def test_a_sleeper_that_is_not_idle_again_is_named_and_time_stops_there() -> None:
    clock = virtual(idle_timeout=0.05)
    never = asyncio.Event()

    async def work() -> None:
        await clock.sleep(1.0, label="download")
        await never.wait()

    tasks = [asyncio.create_task(work()) for _ in range(3)]
    later = sleeper(clock, 2.0, lambda: None)
    await asleep(clock, 4)
    with pytest.raises(SleeperNotIdle, match=r"download and 2 more woke up .* 0\.05 s") as stuck:
        await clock.advance(3.0)
    assert (stuck.value.labels, stuck.value.now, stuck.value.left) == (
        ("download",) * 3,
        1001.0,
        2.0,
    )
    assert clock.now() == 1001.0
    with pytest.raises(SleeperNotIdle):
        await clock.advance(0.5)
    assert clock.now() == 1001.0
    never.set()
    await clock.advance(2.0)
    assert (clock.now(), later.done()) == (1003.0, True)
    await asyncio.gather(*tasks)


async def test_a_task_may_say_that_it_waits_for_something_else_than_time() -> None:
    clock = virtual(idle_timeout=0.2)
    slot = asyncio.Event()
    seen: list[tuple[str, float]] = []

    async def holder() -> None:
        await clock.sleep(5.0)
        slot.set()
        seen.append(("holder", clock.now()))

    async def waiter() -> None:
        await clock.sleep(1.0)
        with clock.idle():
            await slot.wait()
        seen.append(("waiter", clock.now()))
        await clock.sleep(1.0)
        seen.append(("waiter", clock.now()))

    tasks = [asyncio.create_task(holder()), asyncio.create_task(waiter())]
    await asleep(clock, 2)
    await clock.advance(10.0)
    assert seen == [("holder", 1005.0), ("waiter", 1005.0), ("waiter", 1006.0)]
    await asyncio.gather(*tasks)


async def test_who_is_called_by_a_sleeper_sleeps_before_the_clock_goes_on() -> None:
    clock = virtual()
    called = [asyncio.Event() for _ in range(4)]
    seen: list[float] = []

    async def pass_on(number: int) -> None:
        await called[number].wait()
        called[number + 1].set()

    async def last() -> None:
        await called[3].wait()
        await clock.sleep(1.0)
        seen.append(clock.now())

    tasks = [asyncio.create_task(pass_on(number)) for number in range(3)]
    tasks += [asyncio.create_task(last()), sleeper(clock, 1.0, called[0].set)]
    await asleep(clock, 1)
    await clock.advance(10.0)
    assert seen == [1002.0]
    await asyncio.gather(*tasks)


async def test_a_released_task_does_not_hold_the_clock() -> None:
    clock = virtual(idle_timeout=0.2)
    never = asyncio.Event()

    async def work() -> None:
        await clock.sleep(1.0)
        clock.release()
        await never.wait()

    task = asyncio.create_task(work())
    await asleep(clock, 1)
    assert (await clock.advance(2.0)).now == 1002.0
    never.set()
    await task


async def test_advances_at_the_same_time_follow_each_other_also_from_a_sleeper() -> None:
    clock = virtual(idle_timeout=1.0)
    seen: list[float] = []

    async def pusher() -> None:
        await clock.sleep(1.0)
        await clock.advance(10.0)
        seen.append(clock.now())

    task = asyncio.create_task(pusher())
    await asleep(clock, 1)
    await asyncio.wait_for(asyncio.gather(clock.advance(2.0), clock.advance(3.0)), LIMIT)
    await asyncio.wait_for(task, LIMIT)
    assert seen == [1015.0]


async def test_a_cancelled_advance_stops_where_it_is() -> None:
    clock = virtual()
    go_on = asyncio.Event()

    async def work() -> None:
        await clock.sleep(1.0)
        await go_on.wait()

    task = asyncio.create_task(work())
    await asleep(clock, 1)
    advance = asyncio.create_task(clock.advance(5.0))
    while not clock.busy:  # noqa: ASYNC110
        await asyncio.sleep(0)
    advance.cancel()
    await asyncio.wait({advance})
    assert clock.now() == 1001.0
    go_on.set()
    assert (await clock.advance(1.0)).now == 1002.0
    await task


async def test_a_participant_is_busy_until_it_is_released_or_gone() -> None:
    clock = virtual(idle_timeout=0.3)
    gone = False
    stays = Participant(label="stays")
    leaves = Participant(label="leaves", is_gone=lambda: gone)
    due = clock.now_ns() + 10**9

    async def act(then: Callable[[], Awaitable[object]]) -> None:
        await asyncio.gather(
            clock.sleep_until(due, participant=stays), clock.sleep_until(due, participant=leaves)
        )
        await then()

    async def on() -> None:
        nonlocal gone
        clock.release(stays)
        gone = True

    task = asyncio.create_task(act(on))
    await asleep(clock, 2)
    assert (await clock.advance(2.0)).now == 1002.0
    await task
    clock.hold(stays)
    with pytest.raises(SleeperNotIdle, match="^stays woke up"):
        await clock.advance(1.0)
    assert (await clock.advance(1.0)).now == 1003.0


async def test_no_change_of_mode_moves_the_time() -> None:
    host = HostClock()
    clock = DeviceClock(host=host)
    states: list[ClockState] = []
    stop = clock.on_change(states.append)
    host.time = 1010.0
    assert clock.now() == 1010.0
    with pytest.raises(ClockError, match="FROZEN first"):
        await clock.advance(1.0)
    clock.set_mode(ClockMode.FROZEN)
    host.time = 1020.0
    assert clock.now() == 1010.0
    await clock.advance(3600.0)
    clock.set_mode(ClockMode.VIRTUAL)
    clock.set_mode(ClockMode.REAL)
    assert clock.now() == 4610.0
    host.time = 1021.0
    assert (clock.now(), clock.monotonic()) == (4611.0, 3611.0)
    stop()
    clock.set_mode(ClockMode.FROZEN)
    assert [(state.mode.name, state.now) for state in states] == [
        ("FROZEN", 1010.0),
        ("FROZEN", 4610.0),
        ("VIRTUAL", 4610.0),
        ("REAL", 4610.0),
    ]


async def test_a_sleep_goes_on_over_a_change_of_mode() -> None:
    clock = DeviceClock()
    started = clock.now_ns()
    waking = asyncio.Event()
    task = sleeper(clock, 0.03, waking.set)
    short = sleeper(clock, 0.0001, lambda: None)
    await asyncio.wait_for(short, LIMIT)
    clock.set_mode(ClockMode.FROZEN)
    assert [round(one.due - started / 1e9, 2) for one in clock.sleepers] == [0.03]
    await clock.advance(0)
    assert not waking.is_set()
    clock.set_mode(ClockMode.REAL)
    await asyncio.wait_for(task, LIMIT)
    assert clock.now_ns() >= started + 30_000_000


async def test_a_real_clock_never_goes_back_when_the_hosts_does() -> None:
    host = HostClock()
    clock = DeviceClock(host=host)
    host.time = 1010.0
    assert clock.now() == 1010.0
    host.time = 500.0
    assert clock.now() == 1010.0
    host.time = 502.0
    assert (clock.now(), clock.monotonic()) == (1012.0, 12.0)


async def test_who_is_due_when_a_real_clock_is_stopped_wakes() -> None:
    host = HostClock()
    clock = DeviceClock(host=host)
    task = sleeper(clock, 60.0, lambda: None)
    await asleep(clock, 1)
    host.time = 1060.0
    clock.set_mode(ClockMode.FROZEN)
    await asyncio.wait_for(task, LIMIT)
    assert clock.busy == ()


async def test_time_and_mode_survive_a_restart() -> None:
    host = HostClock(1000.0)
    clock = DeviceClock(ClockMode.VIRTUAL, now=50.0, host=host)
    await clock.advance(3.5)
    kept = ClockState.from_json(clock.state.to_json())
    again = DeviceClock.restored(kept, host=host)
    assert (again.state, again.monotonic()) == (clock.state, 0.0)
    again.set_mode(ClockMode.REAL)
    assert (again.now(), DeviceClock.restored(again.state, host=host).now()) == (53.5, 1000.0)
    ahead = ClockState(mode=ClockMode.REAL, now_ns=2_000_000_000_000)
    assert DeviceClock.restored(ahead, host=host).now() == 2000.0
    later = DeviceClock.restored(kept)
    task = sleeper(later, 1.0, lambda: None)
    await asleep(later, 1)
    await later.advance(1.0)
    assert task.done()


async def test_restoring_another_devices_time_wakes_who_is_due_and_never_goes_back() -> None:
    clock = virtual()
    task = sleeper(clock, 5.0, lambda: None)
    await asleep(clock, 1)
    with pytest.raises(ClockError, match=r"1\.000 s before the device's"):
        clock.restore(ClockState(mode=ClockMode.VIRTUAL, now_ns=999 * 10**9))
    assert clock.state == ClockState(mode=ClockMode.VIRTUAL, now_ns=1000 * 10**9)
    later = ClockState(mode=ClockMode.FROZEN, now_ns=1005 * 10**9)
    assert clock.restore(later) == clock.state == later
    await asyncio.wait_for(task, LIMIT)
    earlier_and_real = ClockState(mode=ClockMode.REAL, now_ns=10**9)
    assert clock.restore(earlier_and_real).mode is ClockMode.REAL
    assert clock.now() >= 1005.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not the state of a clock"),
        ("[]", "must have the keys"),
        ('{"mode": "REAL"}', "must have the keys"),
        ('{"mode": "SLOW", "now_ns": 1}', "mode: 'SLOW' is none of REAL, VIRTUAL, FROZEN"),
        ('{"mode": [], "now_ns": 1}', r"mode: \[\] is none of"),
        ('{"mode": "REAL", "now_ns": -1}', "now_ns: -1"),
        ('{"mode": "REAL", "now_ns": 1.5}', "now_ns: 1.5"),
        ('{"mode": "REAL", "now_ns": true}', "now_ns: True"),
    ],
)
def test_a_wrong_state_is_refused_with_its_key(text: str, problem: str) -> None:
    with pytest.raises(ClockError, match=problem):
        ClockState.from_json(text)


async def test_advance_to_next_goes_from_sleeper_to_sleeper() -> None:
    clock = virtual()
    dues = (1_002_000_000_000, 1_002_000_000_000 + 2**60 + 1)
    tasks = [asyncio.create_task(clock.sleep_until(due)) for due in dues]
    await asleep(clock, 2)
    assert [await clock.advance_to_next(), clock.now_ns()] == [True, dues[0]]
    assert [await clock.advance_to_next(), clock.now_ns()] == [True, dues[1]]
    assert [await clock.advance_to_next(), clock.now_ns()] == [False, dues[1]]
    assert await asyncio.gather(*tasks) == [True, True]
    assert not await clock.sleep_until(dues[1])


@pytest.mark.requirement("simulator.clock.real")
async def test_the_real_clocks_sleep_as_long_as_they_are_told() -> None:
    for clock in (RealClock(), DeviceClock()):
        before = clock.monotonic()
        await asyncio.wait_for(clock.sleep(0.01), LIMIT)
        assert clock.monotonic() - before >= 0.0099
        assert abs(clock.now() - RealClock().now()) < 1.0
