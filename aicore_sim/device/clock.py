"""The device's time. Nothing else reads the wall clock."""

from __future__ import annotations

import asyncio
import json
import math
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

NANOS = 1_000_000_000

VIRTUAL_EPOCH = 1_767_225_600
"""Where virtual time starts unless a start is given: 2026-01-01T00:00:00Z, in seconds since 1970.

The same for every device, profile and seed, so that what a test prints does not change with the
day on which it runs.
"""

LATEST_NS = 253_402_300_800 * NANOS - 1
"""The end of the year 9999, the last instant that a google.protobuf.Timestamp can hold."""


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


class ClockMode(IntEnum):
    """Members and numbers of `SetClockRequest.Mode` in device.proto."""

    REAL = 1
    """Time flows as on the host."""
    VIRTUAL = 2
    """Time stands still until it is advanced."""
    FROZEN = 3
    """A clock that was stopped: it stands still, too, and can be advanced, too."""


class ClockError(ValueError):
    """A request that a clock cannot follow; nothing has changed."""


class SleeperNotIdle(Exception):
    """Somebody woke up during `advance` and was not idle again in time.

    The clock stands at the time at which they woke (`now`, seconds since the epoch); `left` is
    what was not advanced, in seconds.
    """

    def __init__(self, labels: tuple[str, ...], *, waited: float, now: float, left: float) -> None:
        others = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        super().__init__(
            f"{labels[0]}{others} woke up and was not idle again after {waited:g} s of real time; "
            f"{left:g} s of the advance are left"
        )
        self.labels = labels
        self.now = now
        self.left = left


@dataclass(frozen=True, kw_only=True)
class ClockState:
    """All that a clock keeps over a restart."""

    mode: ClockMode
    now_ns: int
    """Device time in nanoseconds since the epoch."""

    @property
    def now(self) -> float:
        """Device time in seconds since the epoch."""
        return self.now_ns / NANOS

    def to_json(self) -> str:
        return json.dumps({"mode": self.mode.name, "now_ns": self.now_ns})

    @classmethod
    def from_json(cls, text: str) -> ClockState:
        """What `to_json` made. Raises ClockError naming the key that is wrong."""
        try:
            found = json.loads(text)
        except ValueError:
            raise ClockError(f"{text[:80]!r} is not the state of a clock") from None
        if not isinstance(found, dict) or set(found) != {"mode", "now_ns"}:
            raise ClockError(f"{text[:80]!r} must have the keys 'mode' and 'now_ns'")
        mode, now_ns = found["mode"], found["now_ns"]
        if not isinstance(mode, str) or mode not in ClockMode.__members__:
            raise ClockError(f"mode: {mode!r} is none of {', '.join(ClockMode.__members__)}")
        if type(now_ns) is not int or not 0 <= now_ns <= LATEST_NS:
            raise ClockError(f"now_ns: {now_ns!r} is no time")
        return cls(mode=ClockMode[mode], now_ns=now_ns)


def to_nanos(seconds: float) -> int:
    """The nearest whole number of nanoseconds. Raises ClockError."""
    if not math.isfinite(seconds) or abs(seconds) * NANOS > LATEST_NS:
        raise ClockError(f"{seconds!r} is no number of seconds that a clock can count")
    return round(seconds * NANOS)
