"""One execution, in the order in which Android checks it.

Every check comes before the provider hears of the call, and the caller's right before the
existence of the function: a caller without it gets one answer for existing and missing packages.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Literal

from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError
from aicore_sim.device.packages import Identity
from appfunctions_host.access import (
    NOT_FOUND_TEXT,
    Decision,
    may_call_package,
    may_claim,
    may_execute_level,
)
from appfunctions_host.catalog import Catalog
from appfunctions_host.registry import RegisteredFunction
from appfunctions_host.state import EnabledStates

logger = logging.getLogger(__name__)

EXECUTION_TIMEOUT = 60.0
"""Seconds that a function may run (ours: Android has no limit, its agents do)."""
_ONLY_USER = 0


@dataclass(frozen=True, kw_only=True)
class Execution:
    """`ExecuteAppFunctionRequest` with what the system adds to it."""

    package_name: str
    function_identifier: str
    parameters: types_pb2.ObjectValue
    claimed_package: str = ""
    target_user: int = _ONLY_USER
    activity_id: str = ""


class Dispatcher:
    """Decides over executions and hands the allowed ones to their providers."""

    def __init__(
        self,
        catalog: Catalog,
        states: EnabledStates,
        *,
        denied_code: Literal[1000, 1003] = 1000,
        execution_timeout: float = EXECUTION_TIMEOUT,
    ) -> None:
        self._catalog = catalog
        self._states = states
        self._denied_code = denied_code
        self._timeout = execution_timeout

    async def execute(self, caller: Identity, execution: Execution) -> types_pb2.Value:
        """Run a function and return its result; null for Unit.

        Raises AppFunctionError with Android's code and text. Cancelling cancels the function.
        """
        function = self.admit(caller, execution)
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await function.provider.call(
                    execution.function_identifier,
                    execution.parameters,
                    calling_package=caller.package_name,
                )
        except TimeoutError:
            if not limit.expired():
                raise
            raise AppFunctionError(
                AppFunctionCode.APP_UNKNOWN_ERROR,
                f"The app function did not finish within {self._timeout:g} s",
            ) from None

    def admit(self, caller: Identity, execution: Execution) -> RegisteredFunction:
        """The function to run. Raises AppFunctionError for a call that the platform refuses."""
        self._require(caller, execution, may_claim(caller, execution.claimed_package))
        if execution.target_user != _ONLY_USER:
            raise AppFunctionError(AppFunctionCode.DENIED, "Cross user interaction is not allowed")
        if not execution.package_name:
            raise AppFunctionError(
                AppFunctionCode.INVALID_ARGUMENT, "Target package name cannot be empty."
            )
        self._require(caller, execution, may_call_package(caller, execution.package_name))
        function = self._catalog.find(execution.package_name, execution.function_identifier)
        if function is None:
            raise AppFunctionError(AppFunctionCode.FUNCTION_NOT_FOUND, NOT_FOUND_TEXT)
        level = function.metadata.access_level
        self._require(
            caller,
            execution,
            may_execute_level(caller, execution.package_name, level, denied_code=self._denied_code),
        )
        if execution.activity_id:  # Functions of a service belong to no activity.
            raise AppFunctionError(AppFunctionCode.FUNCTION_NOT_FOUND, NOT_FOUND_TEXT)
        if not self._states.is_enabled(function.metadata):
            raise AppFunctionError(AppFunctionCode.DISABLED, "The app function is disabled")
        return function

    def _require(self, caller: Identity, execution: Execution, decision: Decision) -> None:
        logger.debug(
            "%s executes %s of %s: %s",
            caller.package_name,
            execution.function_identifier,
            execution.package_name,
            decision.rule,
        )
        if not decision.allowed:
            logger.info(
                "refused %s of %s to %s: %s",
                execution.function_identifier,
                execution.package_name,
                caller.package_name,
                decision.rule,
            )
            raise AppFunctionError(decision.error_code, decision.message)
