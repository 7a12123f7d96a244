"""Fault rules for calls of the AppFunction host, handed over in the device's database.

AICore owns the rules and writes them; the host counts in a table of its own, so that each table has
one writer and the host needs no AICore to follow a rule.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from aicore_sim.device.clock import Clock
from aicore_sim.device.fault_rules import FaultRule
from aicore_sim.device.faults import FaultPlan, Fired

_RULES = """
CREATE TABLE IF NOT EXISTS host_faults (
    position INTEGER PRIMARY KEY,
    serial INTEGER NOT NULL,
    rule TEXT NOT NULL
) STRICT
"""
_COUNTS = """
CREATE TABLE IF NOT EXISTS host_fault_counts (
    serial INTEGER PRIMARY KEY,
    matched INTEGER NOT NULL,
    hits INTEGER NOT NULL
) STRICT
"""


class SharedFaults:
    """AICore's side: the `HostPort` of its plan."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Rules of an earlier run are gone, as AICore's own are."""
        self._connection = connection
        connection.execute(_RULES)
        rows = self._rows("SELECT max(serial) FROM host_fault_counts")
        self._last_serial = rows[0][0] or 0 if rows else 0
        self._serials: dict[str, tuple[int, FaultRule]] = {}
        self.publish(())

    def publish(self, rules: Iterable[FaultRule]) -> None:
        """Replace what the host follows. It does so from its next call on.

        A rule that stays keeps its number, and so its counts; a new one of an old id does not.
        """
        numbered: dict[str, tuple[int, FaultRule]] = {}
        for rule in rules:
            known = self._serials.get(rule.id)
            if known is None or known[1] is not rule:
                self._last_serial += 1
                known = (self._last_serial, rule)
            numbered[rule.id] = known
        rows = [
            (position, serial, json.dumps(rule.to_wire(hits=0)))
            for position, (serial, rule) in enumerate(numbered.values())
        ]
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.execute("DELETE FROM host_faults")
            self._connection.executemany("INSERT INTO host_faults VALUES (?, ?, ?)", rows)
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._serials = numbered

    def hits(self) -> dict[str, int]:
        found = dict(self._rows("SELECT serial, hits FROM host_fault_counts"))
        return {fault_id: found.get(serial, 0) for fault_id, (serial, _) in self._serials.items()}

    def _rows(self, query: str) -> list[tuple[int, int]]:
        """Of the host's table, which is there once a host has run."""
        try:
            return self._connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []


class FollowedFaults:
    """The host's side. For one event loop."""

    def __init__(self, connection: sqlite3.Connection, *, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._version: int | None = None
        self._plan = FaultPlan(rpcs=(), clock=clock, for_host=True)
        self._serials: dict[str, int] = {}
        connection.execute(_COUNTS)

    def decide(
        self, rpc: str, *, package_name: str, function_identifier: str = ""
    ) -> tuple[Fired, ...]:
        """As `FaultPlan.decide`, by the rules of now."""
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._version = version
            self._read()
        if not self._serials:
            return ()
        fired = self._plan.decide(
            rpc, package_name=package_name, function_identifier=function_identifier
        )
        self._write_counts()
        return fired

    def _read(self) -> None:
        try:
            rows = self._connection.execute(
                "SELECT serial, rule FROM host_faults ORDER BY position"
            ).fetchall()
        except sqlite3.OperationalError:  # No AICore has made the table yet.
            rows = []
        if not rows and not self._serials:
            return
        counts = {
            serial: (matched, hits)
            for serial, matched, hits in self._connection.execute(
                "SELECT serial, matched, hits FROM host_fault_counts"
            )
        }
        self._plan = FaultPlan(rpcs=(), clock=self._clock, for_host=True)
        self._serials = {}
        for serial, text in rows:
            rule = FaultRule.model_validate(json.loads(text))
            matched, hits = counts.get(serial, (0, 0))
            self._plan.resume(rule, matched=matched, hits=hits)
            self._serials[rule.id] = serial

    def _write_counts(self) -> None:
        changed = [
            (self._serials[fault_id], matched, hits)
            for fault_id, matched, hits in self._plan.take_changed_counts()
        ]
        if changed:
            self._connection.executemany(
                "INSERT OR REPLACE INTO host_fault_counts VALUES (?, ?, ?)", changed
            )
