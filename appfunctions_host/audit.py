"""What the host decided, call by call: who asked for what, the rule that decided, the outcome.

Entries hold names and rules, never arguments or results. The newest are in memory, all of them (up
to KEEP) in a table of the device's database. Writing is put off for up to FLUSH_SECONDS and done in
one transaction, so that a call pays for a list append; a host that is killed loses what it had not
written.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from aicore_sim.device.clock import Clock
from appfunctions_host.access import Decision, Rule

logger = logging.getLogger(__name__)

IN_MEMORY = 2000
KEEP = 20_000
FLUSH_SECONDS = 0.5
_TEXT_LIMIT = 200

_TABLE = """
CREATE TABLE IF NOT EXISTS app_function_decisions (
    id INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    operation TEXT NOT NULL,
    calling_package TEXT NOT NULL,
    target_package TEXT NOT NULL,
    function_identifier TEXT NOT NULL,
    rule TEXT NOT NULL,
    allowed INTEGER NOT NULL,
    error_code INTEGER NOT NULL
) STRICT
"""


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One decision. The fields are those of `AppFunctionDecision` in appfunctions.proto."""

    id: int
    time: float
    operation: str
    calling_package: str
    target_package: str
    function_identifier: str
    rule: str
    """Name of a `Rule`."""
    allowed: bool
    error_code: int

    @property
    def reason(self) -> str:
        """The rule as a sentence; the name itself for a rule of another version."""
        return Rule[self.rule].value if self.rule in Rule.__members__ else self.rule


class AuditJournal:
    """The decisions of one device. For one event loop."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        clock: Clock,
        *,
        in_memory: int = IN_MEMORY,
        keep: int = KEEP,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._keep = keep
        connection.execute(_TABLE)
        rows = connection.execute(
            "SELECT * FROM app_function_decisions ORDER BY id DESC LIMIT ?", (in_memory,)
        ).fetchall()
        self._newest = deque((_entry(row) for row in reversed(rows)), maxlen=in_memory)
        self._last_id = self._newest[-1].id if self._newest else 0
        self._pending: deque[AuditEntry] = deque(maxlen=in_memory)
        self._timer: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        self._closed = False

    def record(
        self,
        operation: str,
        *,
        caller: str,
        decision: Decision,
        package_name: str = "",
        function_identifier: str = "",
    ) -> AuditEntry:
        """Add an entry. Names that callers chose are cut to 200 characters."""
        self._last_id += 1
        entry = AuditEntry(
            id=self._last_id,
            time=self._clock.now(),
            operation=operation,
            calling_package=caller,
            target_package=package_name[:_TEXT_LIMIT],
            function_identifier=function_identifier[:_TEXT_LIMIT],
            rule=decision.rule.name,
            allowed=decision.allowed,
            error_code=decision.error_code,
        )
        self._newest.append(entry)
        self._pending.append(entry)
        self._tell()
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
        return entry

    def flush(self) -> None:
        """Write what waits. A database that refuses is tried again with the next entry."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pending:
            return
        try:
            self._write([_row(entry) for entry in self._pending])
        except sqlite3.Error:
            logger.exception("%d decisions could not be written", len(self._pending))
            return
        self._pending.clear()

    def read(self, after_id: int = 0) -> tuple[AuditEntry, ...]:
        """Entries after `after_id`, oldest first."""
        if self._newest and self._newest[0].id > after_id + 1:
            self.flush()
            rows = self._connection.execute(
                "SELECT * FROM app_function_decisions WHERE id > ? AND id < ? ORDER BY id",
                (after_id, self._newest[0].id),
            ).fetchall()
            return (*(_entry(row) for row in rows), *self._newest)
        return tuple(entry for entry in self._newest if entry.id > after_id)

    async def follow(self, after_id: int = 0) -> AsyncGenerator[AuditEntry, None]:
        """As `read`, and then each entry as it is made, until `close`.

        A slow reader has no buffer, only a place, so it misses nothing that is kept.
        """
        place = after_id
        while True:
            # Taken before reading, so that an entry made meanwhile is not slept through.
            news = self._news
            for entry in self.read(place):
                yield entry
                place = entry.id
            if self._last_id > place:
                continue
            if self._closed:
                return
            await news.wait()

    def close(self) -> None:
        """Write what waits and end the followers. Idempotent."""
        self.flush()
        self._closed = True
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _write(self, rows: list[tuple[object, ...]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            # An imported state may hold the same ids.
            self._connection.executemany(
                "INSERT OR REPLACE INTO app_function_decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._connection.execute(
                "DELETE FROM app_function_decisions WHERE id <= ?", (self._last_id - self._keep,)
            )
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def _row(entry: AuditEntry) -> tuple[object, ...]:
    return (
        entry.id,
        entry.time,
        entry.operation,
        entry.calling_package,
        entry.target_package,
        entry.function_identifier,
        entry.rule,
        int(entry.allowed),
        entry.error_code,
    )


def _entry(row: tuple[int, float, str, str, str, str, str, int, int]) -> AuditEntry:
    return AuditEntry(
        id=row[0],
        time=row[1],
        operation=row[2],
        calling_package=row[3],
        target_package=row[4],
        function_identifier=row[5],
        rule=row[6],
        allowed=bool(row[7]),
        error_code=row[8],
    )
