"""Ending a stream from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NoReturn

import pytest

from aicore_sim.device.errors import GenAiError
from aicore_sim.policy.interruption import UNWIND_SECONDS, Interruptible


class Endless:
    """Numbers without end; says whether it was closed."""

    def __init__(self) -> None:
        self.closed = False
        self.asked = 0

    async def stream(self) -> AsyncGenerator[int, None]:
        try:
            while True:
                self.asked += 1
                yield self.asked
                await asyncio.sleep(0)
        finally:
            self.closed = True


class Reader:
    """Takes numbers, the last one only when it is let."""

    def __init__(self, last: int) -> None:
        self.seen: list[int] = []
        self.has_last = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self._last = last

    async def take(self, number: int) -> None:
        self.seen.append(number)
        if number == self._last:
            self.has_last.set()
            await self.may_go_on.wait()


async def test_the_first_interruption_counts_and_the_stream_is_closed() -> None:
    numbers, seen = Endless(), list[int]()
    running = Interruptible(numbers.stream(), name="numbers")

    async def interrupt_at_three(number: int) -> None:
        seen.append(number)
        if number == 3:
            running.interrupt(GenAiError(30, "first"))
            running.interrupt(GenAiError(7, "second"))

    with pytest.raises(GenAiError) as ended:
        await asyncio.wait_for(running.deliver(interrupt_at_three), 5)
    assert ended.value.error_code == 30
    assert seen == [1, 2, 3]
    assert numbers.closed


async def test_an_item_is_made_only_when_the_one_before_was_taken() -> None:
    numbers, reader = Endless(), Reader(last=2)
    call = asyncio.create_task(Interruptible(numbers.stream(), name="numbers").deliver(reader.take))
    await asyncio.wait_for(reader.has_last.wait(), 5)
    for _ in range(5):
        await asyncio.sleep(0)
    assert numbers.asked == 2
    call.cancel()
    await asyncio.wait({call}, timeout=5)
    assert call.cancelled()
    assert numbers.closed


async def test_an_interruption_lets_the_item_that_is_being_taken_arrive() -> None:
    numbers, reader = Endless(), Reader(last=2)
    running = Interruptible(numbers.stream(), name="numbers")
    call = asyncio.create_task(running.deliver(reader.take))
    await asyncio.wait_for(reader.has_last.wait(), 5)
    running.interrupt(GenAiError(30, "left"))
    await asyncio.sleep(0)
    assert not numbers.closed
    reader.may_go_on.set()
    with pytest.raises(GenAiError, match="left"):
        await asyncio.wait_for(call, 5)
    assert (reader.seen, numbers.asked, numbers.closed) == ([1, 2], 2, True)


async def test_a_reader_that_takes_nothing_more_does_not_hold_up_an_interruption() -> None:
    numbers, reader = Endless(), Reader(last=1)
    running = Interruptible(numbers.stream(), name="numbers")
    call = asyncio.create_task(running.deliver(reader.take))
    await asyncio.wait_for(reader.has_last.wait(), 5)
    running.interrupt(GenAiError(30, "left"))
    with pytest.raises(GenAiError, match="left"):
        await asyncio.wait_for(call, UNWIND_SECONDS + 0.5)
    assert numbers.closed


async def test_an_interruption_before_the_start_lets_nothing_through() -> None:
    numbers, reader = Endless(), Reader(last=1)
    running = Interruptible(numbers.stream(), name="numbers")
    running.interrupt(GenAiError(7, "early"))
    with pytest.raises(GenAiError, match="early"):
        await running.deliver(reader.take)
    assert (numbers.asked, reader.seen) == (0, [])


async def test_the_streams_own_end_and_its_own_error_pass_through() -> None:
    async def numbers(*, fail: bool) -> AsyncGenerator[int, None]:
        yield 1
        if fail:
            raise ValueError("its own")

    seen: list[int] = []

    async def take(number: int) -> None:
        seen.append(number)

    await Interruptible(numbers(fail=False), name="numbers").deliver(take)
    with pytest.raises(ValueError, match="its own"):
        await Interruptible(numbers(fail=True), name="failing").deliver(take)
    assert seen == [1, 1]


async def test_a_reader_that_fails_closes_the_stream() -> None:
    numbers = Endless()

    async def fail(number: int) -> NoReturn:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        await Interruptible(numbers.stream(), name="numbers").deliver(fail)
    assert numbers.closed
