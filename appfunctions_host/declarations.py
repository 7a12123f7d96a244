"""What apps declare, kept as a phone keeps an app's manifest: until the app is uninstalled.

A table of the device's database holds what app processes declared, by the uid of the installation;
a package that is installed anew has another uid, and its old declarations count no more. What is
named on the host's command line is declared anew with each start and not kept.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from aicore_protos import appfunctions_pb2 as pb

# Uninstalling the package deletes its rows, in whichever process that happens.
_TABLE = """
CREATE TABLE IF NOT EXISTS app_function_declarations (
    package_name TEXT NOT NULL REFERENCES packages ON DELETE CASCADE,
    uid INTEGER NOT NULL,
    function_identifier TEXT NOT NULL,
    metadata BLOB NOT NULL,
    PRIMARY KEY (package_name, function_identifier)
) STRICT
"""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One kept declaration."""

    uid: int
    metadata: pb.AppFunctionMetadata


class DeclarationStore:
    """The kept declarations of one device."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(_TABLE)

    def load(self) -> Iterator[Declared]:
        """All of them, by package and identifier. A row that cannot be read is left out."""
        rows = self._connection.execute(
            "SELECT uid, metadata FROM app_function_declarations "
            "ORDER BY package_name, function_identifier"
        )
        for uid, blob in rows.fetchall():
            try:
                yield Declared(uid=uid, metadata=pb.AppFunctionMetadata.FromString(blob))
            except DecodeError:
                continue

    def summary(self) -> tuple[tuple[str, int, int], ...]:
        """Package, uid and number of declarations: what tells that somebody else changed them."""
        return tuple(
            self._connection.execute(
                "SELECT package_name, uid, count(*) FROM app_function_declarations "
                "GROUP BY package_name, uid ORDER BY package_name, uid"
            ).fetchall()
        )

    def replace(
        self,
        package_name: str,
        uid: int,
        *,
        removed: Iterable[str],
        added: Iterable[pb.AppFunctionMetadata],
    ) -> None:
        """Drop some of a package's declarations, put others in their place, all at once."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(
                "DELETE FROM app_function_declarations "
                "WHERE package_name = ? AND function_identifier = ?",
                [(package_name, identifier) for identifier in removed],
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO app_function_declarations VALUES (?, ?, ?, ?)",
                [
                    (
                        package_name,
                        uid,
                        metadata.name.function_identifier,
                        metadata.SerializeToString(deterministic=True),
                    )
                    for metadata in added
                ],
            )
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
