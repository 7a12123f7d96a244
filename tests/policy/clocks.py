"""A device clock that moves only by hand."""

from __future__ import annotations

import asyncio

START = 1_780_000_000.0


class ManualClock:
    """Implements Clock."""

    def __init__(self, start: float = START) -> None:
        self._now = start
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + seconds, due))
        await due

    def forward(self, seconds: float) -> None:
        """Move on while nobody sleeps."""
        assert not self._sleepers
        self._now += seconds

    def jump_to(self, now: float) -> None:
        self._now = now

    async def advance(self, seconds: float) -> None:
        """Move on, waking sleepers in order and letting each act before the next."""
        end = self._now + seconds
        await turns()
        while self._sleepers and min(due for due, _ in self._sleepers) <= end:
            self._sleepers.sort(key=lambda sleeper: sleeper[0])
            self._now, future = self._sleepers.pop(0)
            if not future.done():
                future.set_result(None)
            await turns()
        self._now = end


async def turns() -> None:
    """Let everything that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)
