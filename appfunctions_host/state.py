"""The enabled state of functions, which survives a restart of the device."""

from __future__ import annotations

import sqlite3

from aicore_protos import appfunctions_pb2 as pb

_TABLE = """
CREATE TABLE IF NOT EXISTS app_function_states (
    package_name TEXT NOT NULL,
    function_identifier TEXT NOT NULL,
    state INTEGER NOT NULL CHECK (state IN (1, 2)),
    PRIMARY KEY (package_name, function_identifier)
) STRICT
"""


class EnabledStates:
    """`AppFunctionManager.APP_FUNCTION_STATE_*` by function; no row means DEFAULT.

    Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionManager#setAppFunctionEnabled
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(_TABLE)

    def get(self, package_name: str, function_identifier: str) -> int:
        """The runtime state: 0 default, 1 enabled, 2 disabled."""
        row = self._connection.execute(
            "SELECT state FROM app_function_states "
            "WHERE package_name = ? AND function_identifier = ?",
            (package_name, function_identifier),
        ).fetchone()
        return int(row[0]) if row else int(pb.APP_FUNCTION_STATE_DEFAULT)

    def set(self, package_name: str, function_identifier: str, state: int) -> None:
        """Raises ValueError for a number that is none of the three states."""
        if state not in pb.EnabledState.values():
            raise ValueError(f"Invalid state: {state}")
        if state == pb.APP_FUNCTION_STATE_DEFAULT:
            self._connection.execute(
                "DELETE FROM app_function_states "
                "WHERE package_name = ? AND function_identifier = ?",
                (package_name, function_identifier),
            )
            return
        self._connection.execute(
            "INSERT INTO app_function_states VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET state = excluded.state",
            (package_name, function_identifier, state),
        )

    def is_enabled(self, metadata: pb.AppFunctionMetadata) -> bool:
        """The effective state: the runtime state, else the declared default."""
        state = self.get(metadata.name.package_name, metadata.name.function_identifier)
        if state == pb.APP_FUNCTION_STATE_DEFAULT:
            return metadata.is_enabled_by_default
        return state == pb.APP_FUNCTION_STATE_ENABLED
