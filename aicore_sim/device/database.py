"""The device's SQLite database.

The AICore daemon owns it. The host reads packages and grants from it, so that it goes on working
while AICore is dead, and writes only tables of its own.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS packages (
    package_name TEXT PRIMARY KEY,
    uid INTEGER NOT NULL UNIQUE,
    signing_digest TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS grants (
    package_name TEXT NOT NULL REFERENCES packages ON DELETE CASCADE,
    permission TEXT NOT NULL,
    PRIMARY KEY (package_name, permission)
) STRICT;
CREATE TABLE IF NOT EXISTS allowlist (
    agent_package TEXT NOT NULL,
    agent_digest TEXT NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (agent_package, agent_digest, target)
) STRICT;
CREATE TABLE IF NOT EXISTS tokens (
    token_hash TEXT PRIMARY KEY,
    package_name TEXT NOT NULL REFERENCES packages ON DELETE CASCADE,
    pid INTEGER,
    process_start TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
"""


def open_database(path: Path, *, create: bool) -> sqlite3.Connection:
    """Open the database in write-ahead mode; the file is 0600.

    Raises FileNotFoundError without `create` when there is none, and ValueError for a database
    that is damaged or that a newer simulator wrote.
    """
    try:
        return _open(path, create=create)
    except sqlite3.DatabaseError as error:
        raise ValueError(
            f"the device database {str(path)!r} cannot be used ({error}); "
            "remove the device directory to start afresh, or use another --device-dir"
        ) from None


def _open(path: Path, *, create: bool) -> sqlite3.Connection:
    if not path.exists():
        if not create:
            raise FileNotFoundError(
                f"no device database at {str(path)!r}; start AICore first with `aicore-sim up`"
            )
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, timeout=5.0, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > SCHEMA_VERSION:
        connection.close()
        raise ValueError(
            f"{str(path)!r} has schema version {found}, this simulator knows {SCHEMA_VERSION}; "
            "use a newer simulator or another --device-dir"
        )
    if create:
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return connection
