"""The device's time. Nothing else reads the wall clock."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, as the device sees them."""

    def monotonic(self) -> float:
        """Seconds that never go back, for durations."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of device time."""


class RealClock:
    """Device time is the host's time."""

    def now(self) -> float:
        return time.time()  # noqa: TID251 - the one place that may

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
