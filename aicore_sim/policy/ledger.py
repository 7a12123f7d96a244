"""What the quota remembers across restarts, in tables of its own in the device's database.

Charges wait in memory and are written in one transaction, at most once in `write_interval` seconds
of the host's time: :meth:`Ledger.run` writes the first one at once and later ones together. A
`kill -9` loses what was charged within the last interval, so it can only make an app's allowance
larger, by what it used in that time. Loss of power may cost a few transactions more (SQLite's
`synchronous = NORMAL`). :meth:`Ledger.close` loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from aicore_sim.device.clock import Clock
from aicore_sim.policy.quota_models import Charge, Level, PastUse

logger = logging.getLogger(__name__)

WHOLE_DEVICE = -1
"""Stands where a uid does, for the budget of all apps together."""
WRITE_INTERVAL = 0.2
_PRUNE_INTERVAL = 60.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS quota_charges (
    uid INTEGER NOT NULL,
    at REAL NOT NULL,
    device_seconds REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS quota_charges_at ON quota_charges (at);
CREATE TABLE IF NOT EXISTS quota_levels (
    uid INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    seconds REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS quota_periods (
    owner INTEGER PRIMARY KEY,
    started REAL NOT NULL,
    calls INTEGER NOT NULL,
    device_seconds REAL NOT NULL
) STRICT;
"""


@dataclass(frozen=True, kw_only=True)
class Period:
    """Use of a battery budget since `started` (seconds since the epoch)."""

    started: float
    calls: int = 0
    device_seconds: float = 0.0

    def plus(self, device_seconds: float) -> Period:
        """The period with one call more."""
        return Period(
            started=self.started,
            calls=self.calls + 1,
            device_seconds=self.device_seconds + device_seconds,
        )


@dataclass(frozen=True, kw_only=True)
class LedgerState:
    """Everything that was written, by uid; periods also by WHOLE_DEVICE."""

    past: Mapping[int, PastUse] = field(default_factory=dict)
    periods: Mapping[int, Period] = field(default_factory=dict)


class Ledger:
    """The quota's tables. Belongs to one event loop, or to no loop when nothing calls `run`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        clock: Clock,
        keep_seconds: float,
        write_interval: float = WRITE_INTERVAL,
    ) -> None:
        """`keep_seconds`: the longest window that any short-term model looks back."""
        self._connection = connection
        self._clock = clock
        self._keep = keep_seconds
        self._write_interval = write_interval
        self._charges: list[tuple[int, Charge]] = []
        self._levels: dict[int, Level] = {}
        self._periods: dict[int, Period] = {}
        self._dirty = asyncio.Event()
        self._pruned_at = clock.now()
        connection.executescript(_SCHEMA)

    def load(self) -> LedgerState:
        """What was written. Times that lie in the future, as after a clock that ran ahead, count
        as now, so that nobody waits for a time that may never come."""
        self.flush()
        now = self._clock.now()
        self._prune(now)
        charges: defaultdict[int, list[Charge]] = defaultdict(list)
        for uid, at, seconds in self._connection.execute(
            "SELECT uid, at, device_seconds FROM quota_charges ORDER BY at, rowid"
        ):
            charges[uid].append(Charge(at=min(at, now), device_seconds=seconds))
        levels = {
            uid: Level(at=min(at, now), seconds=seconds)
            for uid, at, seconds in self._connection.execute(
                "SELECT uid, at, seconds FROM quota_levels"
            )
        }
        return LedgerState(
            past={
                uid: PastUse(charges=tuple(charges[uid]), level=levels.get(uid))
                for uid in charges.keys() | levels.keys()
            },
            periods={
                owner: Period(started=min(started, now), calls=calls, device_seconds=seconds)
                for owner, started, calls, seconds in self._connection.execute(
                    "SELECT owner, started, calls, device_seconds FROM quota_periods"
                )
            },
        )

    def record_charge(self, uid: int, charge: Charge, level: Level | None) -> None:
        """Note a charge, and the level that it leaves where the model has one."""
        self._charges.append((uid, charge))
        if level is not None:
            self._levels[uid] = level
        self._dirty.set()

    def record_period(self, owner: int, period: Period) -> None:
        """Note the use of a budget, of an app or of WHOLE_DEVICE."""
        self._periods[owner] = period
        self._dirty.set()

    def clear_short_term(self) -> None:
        """Forget charges and levels, and keep the battery budgets. Written at once."""
        self._charges.clear()
        self._levels.clear()
        self._connection.executescript("DELETE FROM quota_charges; DELETE FROM quota_levels;")

    def clear(self, uid: int | None = None) -> None:
        """Forget one app, or everything. Written at once."""
        self.flush()
        for table, column in (
            ("quota_charges", "uid"),
            ("quota_levels", "uid"),
            ("quota_periods", "owner"),
        ):
            self._connection.execute(
                f"DELETE FROM {table} WHERE ? IS NULL OR {column} = ?", (uid, uid)
            )

    def discard(self) -> None:
        """Forget what waits to be written."""
        self._charges.clear()
        self._levels.clear()
        self._periods.clear()

    def flush(self) -> None:
        """Write what waits, and drop charges that no window needs. Raises sqlite3.Error, after
        which everything waits as before."""
        now = self._clock.now()
        if now - self._pruned_at >= _PRUNE_INTERVAL:
            self._prune(now)
        if not (self._charges or self._levels or self._periods):
            return
        execute, executemany = self._connection.execute, self._connection.executemany
        execute("BEGIN IMMEDIATE")
        try:
            executemany(
                "INSERT INTO quota_charges VALUES (?, ?, ?)",
                [(uid, charge.at, charge.device_seconds) for uid, charge in self._charges],
            )
            executemany(
                "INSERT OR REPLACE INTO quota_levels VALUES (?, ?, ?)",
                [(uid, level.at, level.seconds) for uid, level in self._levels.items()],
            )
            executemany(
                "INSERT OR REPLACE INTO quota_periods VALUES (?, ?, ?, ?)",
                [
                    (owner, period.started, period.calls, period.device_seconds)
                    for owner, period in self._periods.items()
                ],
            )
            execute("COMMIT")
        except BaseException:
            execute("ROLLBACK")
            raise
        self.discard()

    async def run(self) -> None:
        """Write in the background until cancelled. The interval is the host's time: it bounds
        what a killed process loses, and must pass while the device's clock is frozen."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                self.flush()
            except sqlite3.Error:
                logger.exception("the quota ledger cannot be written; trying again")
                self._dirty.set()
            await asyncio.sleep(self._write_interval)

    def close(self) -> None:
        """Write what waits. The connection stays open; it belongs to the device."""
        self.flush()

    def _prune(self, now: float) -> None:
        self._connection.execute("DELETE FROM quota_charges WHERE at <= ?", (now - self._keep,))
        self._pruned_at = now
