"""What the device decided, call by call.

An entry says who called what, which rule decided, and figures: never what was said. The newest
entries are in memory, all of them (up to `keep`) in a table of the device's database, where they
survive a restart. Writing is put off for up to FLUSH_DELAY seconds and done in one transaction, so
a call pays only for a list append; a daemon that is killed loses what it had not written.

A follower has no buffer, only a place in the journal: one that reads slowly holds nobody up and
misses nothing but entries that were dropped in the meantime (`keep`, `clear`). Ids only grow and
have no other gaps.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import math
import re
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field

from aicore_sim.device.clock import Clock

logger = logging.getLogger(__name__)

OK = "ok"
"""The decision about a call that no rule stood against."""

IN_MEMORY = 1000
KEEP = 20_000
BATCH = 256
FLUSH_DELAY = 0.5
_PAGE = 500
# A name or a rule, not content: bounded, and one line.
_TEXT = re.compile(r"[!-~]([ -~]{0,198}[!-~])?")
_FIGURE = re.compile(r"[a-z][a-z0-9_]{0,39}")
_FIGURE_LIMIT = 32

_SCHEMA = """
CREATE TABLE IF NOT EXISTS journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    rpc TEXT NOT NULL,
    package_name TEXT NOT NULL,
    decision TEXT NOT NULL,
    error_code INTEGER NOT NULL,
    figures TEXT NOT NULL
) STRICT
"""


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """One decision. The fields are those of `JournalEntry` in device.proto."""

    id: int
    time: float
    """Device time in seconds since the epoch."""
    rpc: str
    package_name: str
    """The caller."""
    decision: str
    """OK, or the rule that decided."""
    error_code: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)
    """By name: input_tokens, cached_tokens, output_tokens; queue_seconds, load_seconds,
    prefill_seconds, decode_seconds of device time; lengths of content as *_chars or *_bytes."""


class Journal:
    """The journal of one device. Belongs to one event loop and its database connection."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        clock: Clock,
        in_memory: int = IN_MEMORY,
        keep: int = KEEP,
        batch: int = BATCH,
    ) -> None:
        """`in_memory` and `keep` are numbers of entries; `batch` is how many wait to be written."""
        if not 1 <= batch <= in_memory <= keep:
            raise ValueError(f"1 <= {batch} <= {in_memory} <= {keep} must hold")
        self._connection = connection
        self._clock = clock
        self._batch = batch
        self._keep = keep
        connection.execute(_SCHEMA)
        self._newest: deque[JournalEntry] = deque(maxlen=in_memory)
        # Not written yet, and bounded like the memory: a full disk must not fill the memory, too.
        self._pending: deque[JournalEntry] = deque(maxlen=in_memory)
        self._timer: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        self._refused = False
        self._closed = False
        self._last_id = 0
        self.reload()

    @property
    def last_id(self) -> int:
        """The id of the newest entry, or 0."""
        return self._last_id

    def record(
        self,
        *,
        rpc: str,
        package_name: str,
        decision: str = OK,
        error_code: int = 0,
        figures: Mapping[str, float] | None = None,
    ) -> JournalEntry:
        """Add an entry, with the time of the device.

        Raises ValueError for a name that may be content: more than 200 characters or not
        printable ASCII, and for a figure that is no finite number or whose name is no identifier.
        """
        for text in (rpc, package_name, decision):
            if not _TEXT.fullmatch(text):
                raise ValueError(f"{text[:40]!r} is no name of a call, a package or a rule")
        kept = {name: float(value) for name, value in (figures or {}).items()}
        if len(kept) > _FIGURE_LIMIT:
            raise ValueError(f"{len(kept)} figures are more than {_FIGURE_LIMIT}")
        for name, value in kept.items():
            if not _FIGURE.fullmatch(name) or not math.isfinite(value):
                raise ValueError(f"{name[:40]!r}: {value!r} is no figure")
        self._last_id += 1
        entry = JournalEntry(
            id=self._last_id,
            time=self._clock.now(),
            rpc=rpc,
            package_name=package_name,
            decision=decision,
            error_code=int(error_code),
            figures=kept,
        )
        self._newest.append(entry)
        self._pending.append(entry)
        self._tell()
        if len(self._pending) >= self._batch and not self._refused:
            self.flush()
        else:
            self._flush_later()
        return entry

    def flush(self) -> bool:
        """Write what waits. False when the database refused; the entries wait for the next try."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pending:
            return True
        rows = [_row(one) for one in self._pending]
        try:
            with self._transaction():
                self._connection.executemany(
                    "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?)", rows
                )
                self._connection.execute(
                    "DELETE FROM journal WHERE id <= ?", (self._last_id - self._keep,)
                )
        except sqlite3.Error:
            logger.exception("%d journal entries could not be written", len(rows))
            # A locked database makes each try slow, so calls do not try any more, the timer does.
            self._refused = True
            self._flush_later()
            return False
        self._refused = False
        self._pending.clear()
        return True

    def read(
        self, *, after_id: int = 0, rpc: str = "", package_name: str = "", limit: int | None = None
    ) -> tuple[JournalEntry, ...]:
        """Entries after `after_id`, oldest first; empty names match any.

        `limit` takes the first so many.
        """
        entries = self._entries(after_id, self._last_id, rpc, package_name)
        return tuple(itertools.islice(entries, limit))

    async def follow(
        self, *, after_id: int = 0, rpc: str = "", package_name: str = ""
    ) -> AsyncGenerator[JournalEntry, None]:
        """As `read`, and then each entry as it is made, until `close`."""
        place = after_id
        while True:
            # Taken before reading, so that an entry made meanwhile is not slept through.
            news, last = self._news, self._last_id
            for entry in self._entries(place, last, rpc, package_name):
                yield entry
            place = max(place, last)
            if self._last_id > place:
                continue
            if self._closed:
                return
            await news.wait()

    def clear(self) -> None:
        """Drop every entry; ids go on. Raises sqlite3.Error."""
        self.flush()
        self._connection.execute("DELETE FROM journal")
        self._newest.clear()
        self._pending.clear()

    def reload(self) -> None:
        """Read the table again, after it was replaced by an import. Ids never go back."""
        self._pending.clear()
        found = self._connection.execute(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'journal'"
        ).fetchone()
        self._last_id = max(self._last_id, found[0])
        rows = self._connection.execute(
            "SELECT * FROM journal ORDER BY id DESC LIMIT ?", (self._newest.maxlen,)
        )
        self._newest.clear()
        self._newest.extendleft(_entry(row) for row in rows)

    def close(self) -> None:
        """Write what waits and end the followers. Idempotent."""
        self.flush()
        self._closed = True
        self._tell()

    def _entries(
        self, after_id: int, last: int, rpc: str, package_name: str
    ) -> Iterator[JournalEntry]:
        place = after_id
        while place < last:
            page = self._page(place, last, rpc, package_name)
            yield from page
            if len(page) < _PAGE:
                return
            place = page[-1].id

    def _page(self, after_id: int, last: int, rpc: str, package_name: str) -> list[JournalEntry]:
        in_memory = bool(self._newest) and self._newest[0].id <= after_id + 1
        if not in_memory and self.flush():
            rows = self._connection.execute(
                "SELECT * FROM journal WHERE id > ? AND id <= ? AND ? IN ('', rpc) "
                "AND ? IN ('', package_name) ORDER BY id LIMIT ?",
                (after_id, last, rpc, package_name, _PAGE),
            )
            return [_entry(row) for row in rows]
        found = (
            one
            for one in self._newest
            if after_id < one.id <= last
            and rpc in ("", one.rpc)
            and package_name in ("", one.package_name)
        )
        return list(itertools.islice(found, _PAGE))

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _flush_later(self) -> None:
        if self._timer is not None:
            return
        with contextlib.suppress(RuntimeError):  # no event loop: `flush` is the caller's
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(FLUSH_DELAY, self.flush)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def _row(entry: JournalEntry) -> tuple[int, float, str, str, str, int, str]:
    return (
        entry.id,
        entry.time,
        entry.rpc,
        entry.package_name,
        entry.decision,
        entry.error_code,
        json.dumps(dict(entry.figures)),
    )


def _entry(row: tuple[int, float, str, str, str, int, str]) -> JournalEntry:
    number, time, rpc, package_name, decision, error_code, figures = row
    return JournalEntry(
        id=number,
        time=time,
        rpc=rpc,
        package_name=package_name,
        decision=decision,
        error_code=error_code,
        figures=json.loads(figures),
    )
