"""The enterprise policy for app functions, one switch for all users.

AICore writes it into the device's settings; the AppFunction host reads it at every call.

Source: https://developer.android.com/reference/android/app/admin/DevicePolicyManager#setAppFunctionsPolicy(int)
"""

from __future__ import annotations

import sqlite3
from enum import StrEnum

SETTING = "app_functions.policy"
"""Key in the table `settings`; the value is one of `AppFunctionsPolicy`."""


class AppFunctionsPolicy(StrEnum):
    """`DevicePolicyManager.APP_FUNCTIONS_*`."""

    NOT_CONTROLLED_BY_POLICY = "not_controlled_by_policy"
    DISABLED_CROSS_PROFILE = "disabled_cross_profile"
    """Allows calls inside one user, and so all of a device with one user."""
    DISABLED = "disabled"


def get_policy(connection: sqlite3.Connection) -> AppFunctionsPolicy:
    """An unknown value restricts, since somebody meant to set a restriction."""
    row = connection.execute("SELECT value FROM settings WHERE key = ?", (SETTING,)).fetchone()
    if row is None:
        return AppFunctionsPolicy.NOT_CONTROLLED_BY_POLICY
    try:
        return AppFunctionsPolicy(row[0])
    except ValueError:
        return AppFunctionsPolicy.DISABLED


def set_policy(connection: sqlite3.Connection, policy: AppFunctionsPolicy) -> None:
    connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (SETTING, policy))
