"""One execution, in the order in which Android checks it.

Every check comes before the provider hears of the call, and the caller's right before the
existence of the function: a caller without it gets one answer for existing and missing packages.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError
from aicore_sim.device.packages import Identity
from aicore_sim.device.permissions import EXECUTE_APP_FUNCTIONS_SYSTEM
from appfunctions_host.access import (
    NOT_FOUND_TEXT,
    AccessRules,
    Decision,
    Rule,
    allow,
    deny,
    may_claim,
)
from appfunctions_host.audit import AuditJournal
from appfunctions_host.catalog import Catalog
from appfunctions_host.limits import arguments_problem_async
from appfunctions_host.policy import POLICY_TEXT, PolicySetting
from appfunctions_host.registry import ProviderCall, RegisteredFunction
from appfunctions_host.state import EnabledStates
from appfunctions_host.wire_errors import NEAR_MATCHES_EXTRA

logger = logging.getLogger(__name__)

EXECUTION_TIMEOUT = 60.0
"""Seconds that a function may run (ours: Android has no limit, its agents do)."""
_ONLY_USER = 0
_BINDER_TOKEN_BYTES = 64
_COMPAT_REFUSAL = "Execution denied: "


@dataclass(frozen=True, kw_only=True)
class Execution:
    """`ExecuteAppFunctionRequest` with what the system adds to it."""

    package_name: str
    function_identifier: str
    parameters: types_pb2.ObjectValue
    claimed_package: str = ""
    target_user: int = _ONLY_USER
    activity_id: str = ""
    verification: pb.CallerVerification = field(default_factory=pb.CallerVerification)


class Dispatcher:
    """Decides over executions and hands the allowed ones to their providers."""

    def __init__(
        self,
        catalog: Catalog,
        states: EnabledStates,
        rules: AccessRules,
        policy: PolicySetting,
        journal: AuditJournal,
        *,
        execution_timeout: float = EXECUTION_TIMEOUT,
    ) -> None:
        self._catalog = catalog
        self._states = states
        self._rules = rules
        self._policy = policy
        self._journal = journal
        self._timeout = execution_timeout

    async def execute(self, caller: Identity, execution: Execution) -> types_pb2.Value:
        """Run a function and return its result; null for Unit.

        Raises AppFunctionError with Android's code and text. Cancelling cancels the function, and
        whatever that still answers reaches nobody.
        """
        decision, function = self.decide(caller, execution)
        if function is not None:
            problem = await arguments_problem_async(execution.parameters)
            if problem is not None:
                decision = deny(
                    Rule.BAD_ARGUMENTS,
                    AppFunctionCode.INVALID_ARGUMENT,
                    f"{execution.function_identifier}: {problem}",
                )
        self._record("execute", caller, execution, decision)
        if function is None or not decision.allowed:
            raise self._refusal(caller, execution, decision)
        end = allow(Rule.RETURNED)
        try:
            return await self._call(caller, execution, function)
        except AppFunctionError as error:
            end = deny(self._failure_rule(error), error.error_code, error.message)
            raise
        except asyncio.CancelledError:
            end = deny(Rule.CALLER_CANCELLED, 0, "")
            raise
        except TimeoutError:
            limit = self._limit(function)
            text = f"The app function did not finish within {limit:g} s"
            end = deny(Rule.TIMED_OUT, AppFunctionCode.APP_UNKNOWN_ERROR, text)
            raise AppFunctionError(end.error_code, text) from None
        finally:
            self._record("result", caller, execution, end)

    def decide(
        self, caller: Identity, execution: Execution
    ) -> tuple[Decision, RegisteredFunction | None]:
        """The decision, and the function when it may run."""
        claim = may_claim(caller, execution.claimed_package)
        if not claim.allowed:
            return claim, None
        if execution.target_user != _ONLY_USER:
            return deny(Rule.OTHER_USER, message="Cross user interaction is not allowed"), None
        if not self._policy.allows_execution():
            code = AppFunctionCode.ENTERPRISE_POLICY_DISALLOWED
            return deny(Rule.POLICY, code, POLICY_TEXT), None
        if not execution.package_name:
            text = "Target package name cannot be empty."
            return deny(Rule.NO_TARGET, AppFunctionCode.INVALID_ARGUMENT, text), None
        right = self._rules.may_call_package(caller, execution.package_name)
        if not right.allowed:
            return right, None
        function = self._catalog.find(execution.package_name, execution.function_identifier)
        if function is None:
            return _missing(Rule.NOT_REGISTERED), None
        level = self._rules.may_execute_level(
            caller, execution.package_name, function.metadata.access_level
        )
        if not level.allowed:
            return level, None
        if execution.activity_id:  # Functions of a service belong to no activity.
            return _missing(Rule.ACTIVITY_ID), None
        if not self._states.is_enabled(function.metadata):
            text = "The app function is disabled"
            return deny(Rule.DISABLED, AppFunctionCode.DISABLED, text), None
        return right, function

    def vouched(self, caller: Identity, given: pb.CallerVerification) -> pb.CallerVerification:
        """What the caller attached, with the creator of its PendingIntent as the system knows it.

        Empty from Android 17.2 on, where no library looks at it.
        """
        made = pb.CallerVerification()
        if self._rules.levels_are_native:
            return made
        if len(given.binder_token) <= _BINDER_TOKEN_BYTES:
            made.binder_token = given.binder_token
        if given.HasField("pending_intent"):
            made.pending_intent.creator_package = caller.package_name
            made.pending_intent.creator_uid = caller.uid
            made.pending_intent.creator_holds_execute_system = (
                EXECUTE_APP_FUNCTIONS_SYSTEM in self._rules.permissions(caller)
            )
        return made

    async def _call(
        self, caller: Identity, execution: Execution, function: RegisteredFunction
    ) -> types_pb2.Value:
        """Raises TimeoutError only when the time is over."""
        call = ProviderCall(
            function_identifier=execution.function_identifier,
            parameters=execution.parameters,
            calling_package=caller.package_name,
            verification=self.vouched(caller, execution.verification),
        )
        async with asyncio.timeout(self._limit(function)):
            return await function.provider.call(call)

    def _limit(self, function: RegisteredFunction) -> float:
        return function.metadata.timeout_seconds or self._timeout

    def _failure_rule(self, error: AppFunctionError) -> Rule:
        refused = (
            not self._rules.levels_are_native
            and error.error_code == AppFunctionCode.DENIED
            and error.message.startswith(_COMPAT_REFUSAL)
        )
        return Rule.COMPAT_REFUSES if refused else Rule.FAILED

    def _refusal(
        self, caller: Identity, execution: Execution, decision: Decision
    ) -> AppFunctionError:
        """With near matches for what is missing, or looks so to this caller."""
        near: tuple[str, ...] = ()
        if decision.error_code == AppFunctionCode.FUNCTION_NOT_FOUND:
            name = (execution.package_name, execution.function_identifier)
            near = self._catalog.near_matches(caller, name)
        extras = {NEAR_MATCHES_EXTRA: list(near)} if near else None
        return AppFunctionError(decision.error_code, decision.message, extras=extras)

    def _record(
        self, operation: str, caller: Identity, execution: Execution, decision: Decision
    ) -> None:
        self._journal.record(
            operation,
            caller=caller.package_name,
            decision=decision,
            package_name=execution.package_name,
            function_identifier=execution.function_identifier,
        )
        if operation == "execute" and not decision.allowed:
            logger.info(
                "refused %s of %s to %s: %s",
                execution.function_identifier,
                execution.package_name,
                caller.package_name,
                decision.rule,
            )


def _missing(rule: Rule) -> Decision:
    return deny(rule, AppFunctionCode.FUNCTION_NOT_FOUND, NOT_FOUND_TEXT)
