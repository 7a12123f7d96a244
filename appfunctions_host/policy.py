"""The enterprise policy of the device, as an execution asks for it."""

from __future__ import annotations

import sqlite3

from aicore_sim.device.app_functions_policy import AppFunctionsPolicy, get_policy

POLICY_TEXT = "Cannot run on a user with a restricted enterprise policy"


class PolicySetting:
    """The policy as it is now."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def allows_execution(self) -> bool:
        """Cross-profile calls do not exist on a device with one user."""
        return get_policy(self._connection) is not AppFunctionsPolicy.DISABLED
