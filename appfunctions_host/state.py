"""The enabled state of functions, which survives a restart of the device."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from aicore_protos import appfunctions_pb2 as pb

# The state goes with the package, in whichever process that is uninstalled.
_TABLE = """
CREATE TABLE IF NOT EXISTS app_function_states (
    package_name TEXT NOT NULL REFERENCES packages ON DELETE CASCADE,
    function_identifier TEXT NOT NULL,
    state INTEGER NOT NULL CHECK (state IN (1, 2)),
    PRIMARY KEY (package_name, function_identifier)
) STRICT
"""


class EnabledStates:
    """`AppFunctionManager.APP_FUNCTION_STATE_*` by function; no row means DEFAULT.

    Clearing a package's data deletes its rows.

    Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionManager#setAppFunctionEnabled
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._on_change: list[Callable[[], None]] = []
        columns = connection.execute("PRAGMA table_info(app_function_states)").fetchall()
        keys = connection.execute("PRAGMA foreign_key_list(app_function_states)").fetchall()
        if columns and not keys:  # made by an older simulator
            connection.execute("DROP TABLE app_function_states")
        connection.execute(_TABLE)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after `set`."""
        self._on_change.append(listener)

    def get(self, package_name: str, function_identifier: str) -> int:
        """The runtime state: 0 default, 1 enabled, 2 disabled."""
        row = self._connection.execute(
            "SELECT state FROM app_function_states "
            "WHERE package_name = ? AND function_identifier = ?",
            (package_name, function_identifier),
        ).fetchone()
        return int(row[0]) if row else int(pb.APP_FUNCTION_STATE_DEFAULT)

    def all(self) -> dict[tuple[str, str], int]:
        """Every state that is not DEFAULT."""
        rows = self._connection.execute("SELECT * FROM app_function_states")
        return {(package_name, identifier): state for package_name, identifier, state in rows}

    def set(self, package_name: str, function_identifier: str, state: int) -> None:
        """Raises ValueError for a number that is none of the three states.

        The package must be installed.
        """
        if state not in pb.EnabledState.values():
            raise ValueError(f"Invalid state: {state}")
        if state == pb.APP_FUNCTION_STATE_DEFAULT:
            self._connection.execute(
                "DELETE FROM app_function_states "
                "WHERE package_name = ? AND function_identifier = ?",
                (package_name, function_identifier),
            )
        else:
            self._connection.execute(
                "INSERT INTO app_function_states VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET state = excluded.state",
                (package_name, function_identifier, state),
            )
        for listener in self._on_change:
            listener()

    def is_enabled(self, metadata: pb.AppFunctionMetadata) -> bool:
        """The effective state: the runtime state, else the declared default."""
        state = self.get(metadata.name.package_name, metadata.name.function_identifier)
        return effective(metadata, state)


def effective(metadata: pb.AppFunctionMetadata, state: int) -> bool:
    """What a runtime state means for a function."""
    if state == pb.APP_FUNCTION_STATE_DEFAULT:
        return metadata.is_enabled_by_default
    return state == pb.APP_FUNCTION_STATE_ENABLED
