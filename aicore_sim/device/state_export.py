"""The whole state of a device as bytes, to hand it on and to start from it.

One line of ASCII, `AICORE-SIM-STATE <format> <sha-256> <length>`, and a body of so many bytes of
JSON: the clock, and every table of the device's database with its rows. Of tokens it holds hashes
only, and no launch tokens, since they belong to processes of this machine. Conversations and the
control token are no part of the state.

    blob = export_state(home.database_path, clock=clock.state)
    state = read_export(blob)
    clock.check_restore(state.clock)
    import_state(home.database_path, state)
    clock.restore(state.clock)
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from aicore_sim.device.clock import ClockError, ClockState
from aicore_sim.device.database import SCHEMA_VERSION, open_database

FORMAT = 1
SIZE_LIMIT = 64 * 1024 * 1024
"""Bytes of an export that `read_export` looks at."""

_MAGIC = b"AICORE-SIM-STATE "
_HEADER = re.compile(rb"AICORE-SIM-STATE (\d{1,9}) ([0-9a-f]{64}) (\d{1,12})\n")
_HEADER_LIMIT = 120
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")

_NOT_KEPT = frozenset({"host_faults", "host_fault_counts"})
"""Tables of what ends with the device's run, as faults do."""

_Value = None | int | float | str | bytes


class ExportError(ValueError):
    """Bytes that cannot be imported. Nothing has changed."""


@dataclass(frozen=True, kw_only=True)
class TableState:
    sql: str
    """The statement that makes the table, for a device that has not got it yet."""
    columns: tuple[str, ...]
    rows: tuple[tuple[_Value, ...], ...]


@dataclass(frozen=True, kw_only=True)
class ExportedState:
    """A checked export."""

    clock: ClockState
    tables: Mapping[str, TableState]

    @property
    def packages(self) -> tuple[str, ...]:
        """Names of the installed packages."""
        table = self.tables["packages"]
        place = table.columns.index("package_name")
        return tuple(sorted(str(row[place]) for row in table.rows))


def export_state(database_path: Path, *, clock: ClockState) -> bytes:
    """The state at one moment. Journal and ledger must have written what they hold back.

    For any thread: it has a connection of its own. Raises FileNotFoundError without a database.
    """
    with _opened(database_path) as connection, _transaction(connection, "DEFERRED"):
        tables = {name: _read(connection, name) for name in sorted(_tables(connection))}
    body = json.dumps(
        {
            "schema": SCHEMA_VERSION,
            "clock": json.loads(clock.to_json()),
            "tables": {
                name: {
                    "sql": table.sql,
                    "columns": table.columns,
                    "rows": [[_to_json(value) for value in row] for row in table.rows],
                }
                for name, table in tables.items()
            },
        },
        ensure_ascii=False,
    ).encode()
    return b"%s%d %s %d\n%s" % (_MAGIC, FORMAT, sha256(body).hexdigest().encode(), len(body), body)


def read_export(blob: bytes) -> ExportedState:
    """Check an export in itself; touches no device.

    Raises ExportError for bytes that are no export, damaged, cut off, too large, or made by a
    newer simulator.
    """
    if len(blob) > SIZE_LIMIT:
        raise ExportError(f"the export has {len(blob)} bytes, the limit is {SIZE_LIMIT}")
    if not blob.startswith(_MAGIC):
        raise ExportError("this is no export of a device; make one with `aicore-sim ctl export`")
    header = _HEADER.match(blob[:_HEADER_LIMIT])
    if header is None:
        raise ExportError("the export is damaged: its first line cannot be read")
    version, digest, length = int(header[1]), header[2].decode(), int(header[3])
    if version > FORMAT:
        raise ExportError(
            f"a newer simulator made this export (format {version}, known is {FORMAT}); import it "
            "with that one"
        )
    body = blob[header.end() :]
    if len(body) < length:
        raise ExportError(f"the export is cut off: {len(body)} of {length} bytes are there")
    if len(body) > length or sha256(body).hexdigest() != digest:
        raise ExportError("the export is damaged: its checksum is another")
    try:
        return _parse(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        if isinstance(error, ExportError):
            raise
        raise ExportError(f"the export cannot be read: {type(error).__name__}: {error}") from None


def import_state(database_path: Path, state: ExportedState) -> None:
    """Replace the state in the database, all of it or nothing.

    A table that the export has not got becomes empty. Launch tokens stay where their package is
    still installed, so that running apps and the host keep their identity. For any thread: it has
    a connection of its own, which also tells `PackageStore` of the change; whatever else holds
    state of the database in memory must read it again.

    Raises ExportError for a state that this device has no room for.
    """
    with _opened(database_path) as connection:
        try:
            with _transaction(connection, "IMMEDIATE"):
                connection.execute("PRAGMA defer_foreign_keys = ON")
                _replace(connection, state)
        except (sqlite3.Error, OverflowError) as error:
            raise ExportError(f"the export does not fit this device: {error}") from None


def _replace(connection: sqlite3.Connection, state: ExportedState) -> None:
    launched = connection.execute("SELECT * FROM tokens WHERE pid IS NOT NULL").fetchall()
    for name in sorted(set(state.tables) - _tables(connection)):
        connection.execute(state.tables[name].sql)
    present = _tables(connection)
    for name in sorted(present):
        connection.execute(f'DELETE FROM "{name}"')
    for name, table in state.tables.items():
        found = _columns(connection, name) if name in present else ()
        if set(found) != set(table.columns):
            raise ExportError(
                f"the table {name!r} has the columns {', '.join(table.columns)} in the export and "
                f"{', '.join(found) or 'none'} on this device"
            )
        columns = ", ".join(f'"{column}"' for column in table.columns)
        marks = ", ".join("?" * len(table.columns))
        connection.executemany(f'INSERT INTO "{name}" ({columns}) VALUES ({marks})', table.rows)
    connection.executemany(
        "INSERT OR IGNORE INTO tokens SELECT ?1, ?2, ?3, ?4 "
        "WHERE ?2 IN (SELECT package_name FROM packages)",
        launched,
    )
    broken = connection.execute("PRAGMA foreign_key_check").fetchone()
    if broken is not None:
        raise ExportError(f"a row of the table {broken[0]!r} names something that is not there")


def _parse(found: Any) -> ExportedState:
    if found["schema"] != SCHEMA_VERSION:
        raise ExportError(
            f"the export has database schema {found['schema']!r}, this simulator {SCHEMA_VERSION}"
        )
    try:
        clock = ClockState.from_json(json.dumps(found["clock"]))
    except ClockError as error:
        raise ExportError(f"clock.{error}") from None
    tables = {name: _parse_table(name, table) for name, table in found["tables"].items()}
    for name in ("packages", "tokens"):
        if name not in tables:
            raise ExportError(f"the export has no table {name!r}")
    return ExportedState(clock=clock, tables=tables)


def _parse_table(name: str, table: Any) -> TableState:
    columns = tuple(table["columns"])
    for text in (name, *columns):
        if not _NAME.fullmatch(text) or text.startswith("sqlite_"):
            raise ExportError(f"{text!r} is no name of a table or column")
    sql = str(table["sql"])
    if not re.match(rf'CREATE TABLE "?{name}"? ?\(', sql):
        raise ExportError(f"the table {name!r} is made by another statement")
    rows = tuple(tuple(_from_json(value) for value in row) for row in table["rows"])
    if any(len(row) != len(columns) for row in rows):
        raise ExportError(f"a row of the table {name!r} has not {len(columns)} values")
    return TableState(sql=sql, columns=columns, rows=rows)


def _read(connection: sqlite3.Connection, name: str) -> TableState:
    columns = _columns(connection, name)
    chosen = ", ".join(f'"{column}"' for column in columns)
    only = " WHERE pid IS NULL" if name == "tokens" else ""
    sql = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
    rows = connection.execute(f'SELECT {chosen} FROM "{name}"{only} ORDER BY rowid')
    return TableState(sql=sql, columns=columns, rows=tuple(rows.fetchall()))


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' "
        "ESCAPE '\\'"
    )
    return {row[0] for row in rows} - _NOT_KEPT


def _columns(connection: sqlite3.Connection, name: str) -> tuple[str, ...]:
    return tuple(row[1] for row in connection.execute(f'PRAGMA table_info("{name}")'))


def _to_json(value: _Value) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value


def _from_json(value: Any) -> _Value:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    if value is None or (isinstance(value, int | float | str) and not isinstance(value, bool)):
        return value
    raise ExportError(f"{value!r} is no value of a row")


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(path, create=False)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
