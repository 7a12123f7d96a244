"""Who may generate now, who waits, and who is turned away."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aicore_sim.device.errors import GenAiCode
from aicore_sim.policy.failures import aicore_failure


class AdmissionQueue:
    """`slots` generations at once and `waiting` more in line, first come, first served.

    Belongs to one event loop. A slot passes straight to the first waiter, so a newcomer can
    never overtake one.
    """

    def __init__(self, *, slots: int, waiting: int) -> None:
        if slots < 1 or waiting < 0:
            raise ValueError(f"a queue of {slots} slots and {waiting} places cannot work")
        self._slots = slots
        self._places = waiting
        self._running = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def slots(self) -> int:
        """Generations that may run at once."""
        return self._slots

    @property
    def places(self) -> int:
        """Generations that may wait."""
        return self._places

    @property
    def running(self) -> int:
        """Generations that hold a slot."""
        return self._running

    @property
    def waiting(self) -> int:
        """Generations in line."""
        return sum(not turn.done() for turn in self._waiters)

    async def wait_idle(self) -> None:
        """Return when no generation runs."""
        await self._idle.wait()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot inside the block; wait for it in line if need be.

        Raises GenAiError 9 (BUSY) at once when the line is full. A caller that is cancelled while
        it waits leaves the line.
        """
        await self._acquire()
        try:
            yield
        finally:
            self._release()

    async def _acquire(self) -> None:
        if self._running < self._slots:
            self._running += 1
            self._idle.clear()
            return
        waiting = self.waiting
        if waiting >= self._places:
            raise aicore_failure(
                GenAiCode.BUSY,
                f"{self._running} running and {waiting} waiting fill the queue; try again later.",
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # The slot was handed over before the cancellation reached us.
                self._release()
            elif turn in self._waiters:
                self._waiters.remove(turn)
            raise

    def _release(self) -> None:
        while self._waiters:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1
        if not self._running:
            self._idle.set()
