"""Random sleeps, cancellations and advances against a model of the clock."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aicore_sim.device.clock import ClockMode
from aicore_sim.device.virtual_clock import DeviceClock

START = 1_700_000_000
MILLI = 1_000_000
naps = st.integers(min_value=1, max_value=40)

Wake = tuple[int, int]
"""Number of the sleeper, and the millisecond in which it woke."""


@dataclass(kw_only=True)
class Model:
    """What must happen: sleepers by due time, then by the order of their calls."""

    now: int = 0
    calls: int = 0
    asleep: list[tuple[int, int, int, tuple[int, ...]]] = field(default_factory=list)
    woken: list[Wake] = field(default_factory=list)

    def sleep(self, number: int, plan: tuple[int, ...]) -> None:
        self.calls += 1
        heapq.heappush(self.asleep, (self.now + plan[0], self.calls, number, plan[1:]))

    def advance(self, by: int) -> None:
        target = self.now + by
        while self.asleep and self.asleep[0][0] <= target:
            self.now, _, number, rest = heapq.heappop(self.asleep)
            self.woken.append((number, self.now))
            if rest:
                self.sleep(number, rest)
        self.now = target

    def cancel(self, number: int) -> None:
        self.asleep = [one for one in self.asleep if one[2] != number]
        heapq.heapify(self.asleep)


class ClockMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = DeviceClock(ClockMode.VIRTUAL, now=START)
        self.model = Model()
        self.woken: list[Wake] = []
        self.tasks: list[asyncio.Task[None]] = []

    def teardown(self) -> None:
        self.runner.close()

    @rule(plan=st.lists(naps, min_size=1, max_size=4).map(tuple))
    def sleep(self, plan: tuple[int, ...]) -> None:
        number = len(self.tasks)
        self.model.sleep(number, plan)

        async def begin() -> None:
            self.tasks.append(asyncio.create_task(self._sleep_through(number, plan)))
            await asyncio.sleep(0)

        self.runner.run(begin())

    @rule(by=st.integers(min_value=0, max_value=60))
    def advance(self, by: int) -> None:
        self.model.advance(by)
        self.runner.run(self._advance(by))

    @precondition(lambda self: self.tasks)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.tasks) - 1))
        self.model.cancel(number)

        async def end() -> None:
            self.tasks[number].cancel()
            await asyncio.wait({self.tasks[number]})

        self.runner.run(end())

    @rule(mode=st.sampled_from([ClockMode.VIRTUAL, ClockMode.FROZEN]))
    def change_the_mode(self, mode: ClockMode) -> None:
        async def change() -> None:
            self.clock.set_mode(mode)

        self.runner.run(change())

    @invariant()
    def time_and_sleepers_are_those_of_the_model(self) -> None:
        assert self.clock.now_ns() == self._nanos(self.model.now)
        assert [one.label for one in self.clock.sleepers] == [
            str(number) for _, _, number, _ in sorted(self.model.asleep)
        ]
        assert self.clock.busy == ()

    @invariant()
    def everybody_woke_at_the_right_time_in_the_right_order(self) -> None:
        assert self.woken == self.model.woken

    async def _sleep_through(self, number: int, plan: tuple[int, ...]) -> None:
        for nap in plan:
            await self.clock.sleep(nap / 1000, label=str(number))
            passed, odd = divmod(self.clock.now_ns() - self._nanos(0), MILLI)
            assert odd == 0
            self.woken.append((number, passed))

    async def _advance(self, by: int) -> None:
        await self.clock.advance(by / 1000)

    @staticmethod
    def _nanos(millis: int) -> int:
        return START * 1_000_000_000 + millis * MILLI


@pytest.mark.requirement("simulator.clock.virtual")
def test_sleepers_keep_their_order_and_none_is_lost_or_woken_early() -> None:
    ClockMachine.TestCase.settings = settings(
        max_examples=40, stateful_step_count=30, deadline=None
    )
    ClockMachine.TestCase().runTest()
