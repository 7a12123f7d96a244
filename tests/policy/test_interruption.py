"""Ending a stream from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from aicore_sim.device.errors import GenAiError
from aicore_sim.policy.interruption import Interruptible


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


async def test_the_first_interruption_counts_and_the_stream_is_closed() -> None:
    numbers = Endless()
    running = Interruptible(numbers.stream(), name="numbers")
    seen: list[int] = []

    async def interrupted_at_three() -> None:
        async with aclosing(running.items()) as items:
            async for number in items:
                seen.append(number)
                if number == 3:
                    running.interrupt(GenAiError(30, "first"))
                    running.interrupt(GenAiError(7, "second"))

    with pytest.raises(GenAiError) as ended:
        await interrupted_at_three()
    assert ended.value.error_code == 30
    assert seen[:3] == [1, 2, 3]
    assert numbers.closed


async def test_items_are_made_only_when_they_are_asked_for() -> None:
    numbers = Endless()
    async with aclosing(Interruptible(numbers.stream(), name="numbers").items()) as items:
        assert await anext(items) == 1
        for _ in range(5):
            await asyncio.sleep(0)
        assert numbers.asked == 1
    assert numbers.closed


async def test_an_interruption_before_the_start_lets_nothing_through() -> None:
    numbers = Endless()
    running = Interruptible(numbers.stream(), name="numbers")
    running.interrupt(GenAiError(7, "early"))
    with pytest.raises(GenAiError, match="early"):
        await anext(running.items())
    assert numbers.asked <= 1


async def test_the_streams_own_error_passes_through() -> None:
    async def failing() -> AsyncGenerator[int, None]:
        yield 1
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        async for _ in Interruptible(failing(), name="failing").items():
            pass
