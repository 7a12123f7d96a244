"""The enterprise policy of the device, one switch for all users.

The AICore daemon writes it into the device's settings; the host reads it at every call.

Source: https://developer.android.com/reference/android/app/admin/DevicePolicyManager#setAppFunctionsPolicy(int)
"""

from __future__ import annotations

import sqlite3
from enum import StrEnum

SETTING = "app_functions.policy"
"""Key in the table `settings`; the value is one of `AppFunctionsPolicy`."""
POLICY_TEXT = "Cannot run on a user with a restricted enterprise policy"


class AppFunctionsPolicy(StrEnum):
    """`DevicePolicyManager.APP_FUNCTIONS_*`."""

    NOT_CONTROLLED_BY_POLICY = "not_controlled_by_policy"
    DISABLED_CROSS_PROFILE = "disabled_cross_profile"
    """Allows calls inside one user, and so all of a device with one user."""
    DISABLED = "disabled"


class PolicySetting:
    """The policy as it is now."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def allows_execution(self) -> bool:
        """An unknown value restricts, since somebody meant to set a restriction."""
        row = self._connection.execute(
            "SELECT value FROM settings WHERE key = ?", (SETTING,)
        ).fetchone()
        return row is None or row[0] in (
            AppFunctionsPolicy.NOT_CONTROLLED_BY_POLICY,
            AppFunctionsPolicy.DISABLED_CROSS_PROFILE,
        )
