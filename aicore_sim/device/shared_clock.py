"""The device's time for a process that is not AICore: read from the device's database.

AICore writes the state of its clock there when the device starts and with each change, so that the
AppFunction host shows the device's time while AICore is dead, too.
"""

from __future__ import annotations

import asyncio
import sqlite3

from aicore_sim.device.clock import NANOS, Clock, ClockError, ClockMode, ClockState, RealClock

_STATE = "clock"
_HOST_TIME = "clock.host_ns"
"""Keys in the table `settings`: the state, and the host's time when it was written."""
_POLL = 0.02
"""Real seconds between two looks at a clock that stands still."""


def save_clock(connection: sqlite3.Connection, state: ClockState) -> None:
    """Write the state of AICore's clock."""
    host_ns = round(RealClock().now() * NANOS)
    connection.executemany(
        "INSERT OR REPLACE INTO settings VALUES (?, ?)",
        [(_STATE, state.to_json()), (_HOST_TIME, str(host_ns))],
    )


def kept_clock(connection: sqlite3.Connection) -> ClockState | None:
    """What was written last. Raises ClockError for a state that is damaged."""
    text = _setting(connection, _STATE)
    return None if text is None else ClockState.from_json(text)


class SharedClock:
    """Implements `Clock` from the database. The host's time where nothing readable is written.

    A sleeper of this clock is not waited for when time is advanced: it wakes a little later.
    """

    def __init__(self, connection: sqlite3.Connection, *, host: Clock | None = None) -> None:
        self._connection = connection
        self._host = host or RealClock()
        self._version: int | None = None
        self._still: float | None = None
        self._ahead = 0.0

    def now(self) -> float:
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._version = version
            self._read()
        return self._host.now() + self._ahead if self._still is None else self._still

    def monotonic(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        end = self.now() + seconds
        # Another process moves the time: there is nothing to wait for but the database.
        while (left := end - self.now()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left if self._still is None else _POLL)

    def _read(self) -> None:
        try:
            state = kept_clock(self._connection)
            written = int(_setting(self._connection, _HOST_TIME) or 0)
        except (ClockError, ValueError):
            state, written = None, 0
        self._still, self._ahead = None, 0.0
        if state is None:
            return
        if state.mode is ClockMode.REAL:
            self._ahead = max(0, state.now_ns - written) / NANOS if written else 0.0
        else:
            self._still = state.now


def _setting(connection: sqlite3.Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])
