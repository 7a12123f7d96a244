"""Tries again what a busy device refused (ours; a phone's library has no such helper)."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeVar

from aicore_client.connection import DeviceConnection
from aicore_client.device_clock import DeviceClock
from aicore_client.errors import GenAiException

T = TypeVar("T")

_NEVER: Final = frozenset(
    {
        # Waiting inside the window never clears the one, and only the user clears the other.
        GenAiException.ErrorCode.PER_APP_BATTERY_USE_QUOTA_EXCEEDED,
        GenAiException.ErrorCode.BACKGROUND_USE_BLOCKED,
    }
)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off that waits at least as long as AICore asks for.

    Before the second attempt it waits `initial_delay`, before each later one `multiplier` times
    as long as before, up to `max_delay`; never less than the error's `retry_delay`. With `jitter`
    each wait grows by a random share of up to that fraction. Time is the device's.

    Raises ValueError for a value outside its range, and for a code that no wait can clear:
    PER_APP_BATTERY_USE_QUOTA_EXCEEDED (27) and BACKGROUND_USE_BLOCKED (30).
    """

    attempts: int = 5
    """The first one included."""
    initial_delay: timedelta = timedelta(seconds=1)
    multiplier: float = 2.0
    max_delay: timedelta = timedelta(seconds=60)
    jitter: float = 0.0
    """0 to 1."""
    codes: frozenset[int] = frozenset({int(GenAiException.ErrorCode.BUSY)})
    """Errors that are worth another attempt."""
    random: random.Random = field(default_factory=random.Random, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", frozenset(int(code) for code in self.codes))
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts!r}")
        if self.initial_delay < timedelta() or self.max_delay < self.initial_delay:
            raise ValueError(
                f"0 <= initial_delay <= max_delay must hold, not {self.initial_delay} and "
                f"{self.max_delay}"
            )
        if self.multiplier < 1:
            raise ValueError(f"multiplier must be at least 1, not {self.multiplier!r}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be 0 to 1, not {self.jitter!r}")
        if hopeless := sorted(self.codes & _NEVER):
            raise ValueError(f"no wait clears the error codes {hopeless}; show them to the user")

    def delay_after(self, attempt: int, error: GenAiException) -> timedelta | None:
        """How long to wait after the failed attempt of that number (from 1); None to give up."""
        if attempt >= self.attempts or int(error.error_code) not in self.codes:
            return None
        # The exponent is bounded, so that no number of attempts overflows.
        grown = self.initial_delay.total_seconds() * self.multiplier ** min(attempt - 1, 64)
        seconds = min(grown, self.max_delay.total_seconds())
        seconds *= 1 + self.jitter * self.random.random()
        return max(timedelta(seconds=seconds), error.retry_delay)

    async def run(
        self, work: Callable[[], Awaitable[T]], *, connection: DeviceConnection | None = None
    ) -> T:
        """What `work` returns, called until it does. Raises its last GenAiException.

        `work` is called anew for each attempt; what it streams, it streams again. A task that is
        cancelled stops waiting at once.
        """
        clock = DeviceClock(connection)
        attempt = 1
        while True:
            try:
                return await work()
            except GenAiException as error:
                delay = self.delay_after(attempt, error)
                if delay is None:
                    raise
            await clock.sleep(delay)
            attempt += 1
