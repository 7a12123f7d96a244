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
from aicore_sim.device.errors import (
    AppFunctionCode,
    AppFunctionError,
    FaultKind,
    SimulatorFault,
)
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
from appfunctions_host.cancellation import Cancellation
from appfunctions_host.catalog import Catalog
from appfunctions_host.limits import arguments_problem_async
from appfunctions_host.policy import POLICY_TEXT, PolicySetting
from appfunctions_host.registrations import Registrations
from appfunctions_host.registry import DeclaredFunction, Provider, ProviderCall
from appfunctions_host.services import NO_SERVICE_TEXT, NOT_BOUND_TEXT, ServiceStarter
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
        registrations: Registrations,
        starter: ServiceStarter,
        *,
        execution_timeout: float = EXECUTION_TIMEOUT,
    ) -> None:
        self._catalog = catalog
        self._states = states
        self._rules = rules
        self._policy = policy
        self._journal = journal
        self._registrations = registrations
        self._starter = starter
        self._timeout = execution_timeout

    async def execute(
        self, caller: Identity, execution: Execution, cancellation: Cancellation | None = None
    ) -> types_pb2.Value:
        """Run a function and return its result; null for Unit.

        Raises AppFunctionError with Android's code and text. Cancelling the task cancels the
        function, and whatever that still answers reaches nobody. `cancellation` is Android's
        signal: a function of a service is told, and SimulatorFault (OPERATION_CANCELED) is raised
        at once; one that was registered at run time is told and may still answer.
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
            return await self._call(caller, execution, function, cancellation)
        except AppFunctionError as error:
            end = deny(self._failure_rule(error), error.error_code, error.message)
            raise
        except SimulatorFault:
            end = deny(Rule.CALLER_CANCELLED, 0, "")
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
    ) -> tuple[Decision, DeclaredFunction | None]:
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
        if execution.activity_id and function.metadata.scope != pb.SCOPE_ACTIVITY:
            return _missing(Rule.ACTIVITY_ID), None
        if not self._states.is_enabled(function.metadata):
            text = "The app function is disabled"
            return deny(Rule.DISABLED, AppFunctionCode.DISABLED, text), None
        runnable = self._runnable(function, execution.activity_id)
        return (runnable, None) if runnable is not None else (right, function)

    def _runnable(self, function: DeclaredFunction, activity_id: str) -> Decision | None:
        """Why nobody can run the function now, or None."""
        if not function.is_runtime:
            if self._starter.can_bind(function):
                return None
            return deny(Rule.NO_SERVICE, AppFunctionCode.SYSTEM_ERROR, NO_SERVICE_TEXT)
        if not self._registrations.is_registered(function.key):
            text = f"Function with ID: {function.key[1]} is disabled"
            return deny(Rule.NO_REGISTRATION, AppFunctionCode.DISABLED, text)
        if self._registrations.find(function.key, activity_id) is None:
            return _missing(Rule.ACTIVITY_ID)
        return None

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
        self,
        caller: Identity,
        execution: Execution,
        function: DeclaredFunction,
        cancellation: Cancellation | None,
    ) -> types_pb2.Value:
        """Raises TimeoutError only when the function's time is over."""
        call = ProviderCall(
            function_identifier=execution.function_identifier,
            parameters=execution.parameters,
            calling_package=caller.package_name,
            verification=self.vouched(caller, execution.verification),
            activity_id=execution.activity_id,
            cancellation=cancellation if function.is_runtime else None,
        )
        if function.is_runtime:
            registered = self._registrations.find(function.key, execution.activity_id)
            if registered is None:
                raise AppFunctionError(
                    AppFunctionCode.DISABLED, f"Function with ID: {function.key[1]} is disabled"
                )
            return await self._within_limit(function, registered.provider, call)
        if cancellation is None:
            return await self._bound_call(function, call)
        running = asyncio.ensure_future(self._bound_call(function, call))
        cancelled = asyncio.ensure_future(cancellation.wait())
        try:
            await asyncio.wait({running, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
        finally:
            cancelled.cancel()
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
        raise SimulatorFault(
            FaultKind.OPERATION_CANCELED,
            f"{execution.function_identifier} was cancelled; on a phone its caller hears nothing",
        )

    async def _bound_call(self, function: DeclaredFunction, call: ProviderCall) -> types_pb2.Value:
        # The time that a start takes is not the function's.
        provider = await self._starter.bind(function)
        with self._starter.using(function.key[0]):
            return await self._within_limit(function, provider, call)

    async def _within_limit(
        self, function: DeclaredFunction, provider: Provider, call: ProviderCall
    ) -> types_pb2.Value:
        async with asyncio.timeout(self._limit(function)):
            return await provider.call(call)

    def _limit(self, function: DeclaredFunction) -> float:
        return function.metadata.timeout_seconds or self._timeout

    def _failure_rule(self, error: AppFunctionError) -> Rule:
        refused = (
            not self._rules.levels_are_native
            and error.error_code == AppFunctionCode.DENIED
            and error.message.startswith(_COMPAT_REFUSAL)
        )
        if error.error_code == AppFunctionCode.SYSTEM_ERROR and error.message in (
            NO_SERVICE_TEXT,
            NOT_BOUND_TEXT,
        ):
            return Rule.NOT_BOUND
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
