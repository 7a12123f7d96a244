"""The short-term quota of one app: three models, all pure arithmetic over the device's time.

AICore publishes neither numbers nor model. Common rules, ours: a call is admitted while there is
anything left and charged in full for what ran, however much that was, since nobody knows a call's
cost before it ran; the app then waits until the excess is paid off. `retry_delay` is therefore the
time until the next call can pass, whatever its size. It is always above zero for a refused call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from aicore_sim.device.profile import (
    QuotaModelProfile,
    SlidingCallsQuota,
    SlidingTimeQuota,
    TokenBucketQuota,
)

RETRY_MARGIN = 0.001
"""Seconds added to a retry delay, so that rounding never brings a caller back too early."""
_MICROS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One call that ran: when it ended (seconds since the epoch), and its device time."""

    at: float
    device_seconds: float


@dataclass(frozen=True, kw_only=True)
class Level:
    """A bucket's content at a time, in seconds; below zero when a call took more than was left."""

    at: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class PastUse:
    """What a restarted device knows of an app, oldest charge first."""

    charges: Sequence[Charge] = ()
    level: Level | None = None


class ShortTermQuota(Protocol):
    """The allowance of one app. Times never go back; an earlier one counts as the latest."""

    @property
    def level(self) -> Level | None:
        """What must be kept beside the charges to go on after a restart."""

    def retry_delay(self, now: float) -> float:
        """Seconds until a call can pass; 0 when it can now."""

    def available(self, now: float) -> float:
        """What is left, never below zero: seconds of device time, or calls."""

    def charge(self, charge: Charge) -> None:
        """Take off what a call used."""


class TokenBucket:
    """`burst_seconds` of device time, refilled by `refill_per_second`."""

    def __init__(self, profile: TokenBucketQuota, level: Level | None = None) -> None:
        self._burst = profile.burst_seconds
        self._refill = profile.refill_per_second
        self._level = level

    @property
    def level(self) -> Level | None:
        return self._level

    def retry_delay(self, now: float) -> float:
        seconds = self._seconds(now)
        return 0.0 if seconds > 0 else -seconds / self._refill + RETRY_MARGIN

    def available(self, now: float) -> float:
        return max(0.0, self._seconds(now))

    def charge(self, charge: Charge) -> None:
        at = charge.at if self._level is None else max(charge.at, self._level.at)
        self._level = Level(at=at, seconds=self._seconds(at) - charge.device_seconds)

    def _seconds(self, now: float) -> float:
        if self._level is None:
            return self._burst
        passed = max(0.0, now - self._level.at)
        return min(self._burst, self._level.seconds + passed * self._refill)


class SlidingCalls:
    """At most `calls` within the last `window_seconds`."""

    def __init__(self, profile: SlidingCallsQuota, charges: Sequence[Charge] = ()) -> None:
        self._calls = profile.calls
        self._window = _Window(profile.window_seconds)
        for charge in charges:
            self.charge(charge)

    @property
    def level(self) -> None:
        return None

    def retry_delay(self, now: float) -> float:
        self._window.move(now)
        over = len(self._window) - self._calls
        return 0.0 if over < 0 else self._window.until_gone(over, now) + RETRY_MARGIN

    def available(self, now: float) -> float:
        self._window.move(now)
        return max(0, self._calls - len(self._window))

    def charge(self, charge: Charge) -> None:
        self._window.add(charge)


class SlidingTime:
    """At most `inference_seconds` within the last `window_seconds`."""

    def __init__(self, profile: SlidingTimeQuota, charges: Sequence[Charge] = ()) -> None:
        self._limit = round(profile.inference_seconds * _MICROS)
        self._window = _Window(profile.window_seconds)
        for charge in charges:
            self.charge(charge)

    @property
    def level(self) -> None:
        return None

    def retry_delay(self, now: float) -> float:
        self._window.move(now)
        if self._window.micros < self._limit:
            return 0.0
        left = self._window.micros
        for index, micros in enumerate(self._window.costs()):
            left -= micros
            if left < self._limit:
                return self._window.until_gone(index, now) + RETRY_MARGIN
        raise AssertionError("an empty window is below every limit")

    def available(self, now: float) -> float:
        self._window.move(now)
        return max(0, self._limit - self._window.micros) / _MICROS

    def charge(self, charge: Charge) -> None:
        self._window.add(charge)


def short_term_quota(profile: QuotaModelProfile, past: PastUse) -> ShortTermQuota:
    """The allowance of an app whose `past` is known."""
    match profile:
        case TokenBucketQuota():
            return TokenBucket(profile, past.level)
        case SlidingCallsQuota():
            return SlidingCalls(profile, past.charges)
        case SlidingTimeQuota():
            return SlidingTime(profile, past.charges)
        case _:
            assert_never(profile)


class _Window:
    """Charges of the last `seconds`. A charge leaves exactly `seconds` after it came.

    Costs are summed in whole microseconds, so that no rounding gathers.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._charges: deque[tuple[float, int]] = deque()
        self.micros = 0

    def __len__(self) -> int:
        return len(self._charges)

    def add(self, charge: Charge) -> None:
        latest = self._charges[-1][0] if self._charges else charge.at
        micros = round(charge.device_seconds * _MICROS)
        self._charges.append((max(charge.at, latest), micros))
        self.micros += micros

    def move(self, now: float) -> None:
        while self._charges and self._charges[0][0] + self._seconds <= now:
            self.micros -= self._charges.popleft()[1]

    def costs(self) -> Iterator[int]:
        return (micros for _, micros in self._charges)

    def until_gone(self, index: int, now: float) -> float:
        return self._charges[index][0] + self._seconds - now
