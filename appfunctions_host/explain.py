"""Why a caller can or cannot see and run a function: the rules, asked without acting."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError
from aicore_sim.device.packages import Identity, PackageStore, UnknownPackage
from appfunctions_host.access import AccessRules, Decision, Rule, deny
from appfunctions_host.catalog import Catalog, FunctionName
from appfunctions_host.compat import ProviderEnvironment, attached_by_jetpack, verify_caller
from appfunctions_host.dispatch import Dispatcher, Execution


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Both decisions about one function, and whether an agent's id filter drops it."""

    discovery: Decision
    execution: Decision
    filtered_out: bool


class Explainer:
    """Answers for callers other than the one who asks."""

    def __init__(
        self,
        packages: PackageStore,
        catalog: Catalog,
        dispatcher: Dispatcher,
        rules: AccessRules,
        sdk_int_full: int,
    ) -> None:
        self._packages = packages
        self._catalog = catalog
        self._dispatcher = dispatcher
        self._rules = rules
        self._sdk_int_full = sdk_int_full

    def explain(
        self, calling_package: str, name: FunctionName, id_filter: Collection[str] = ()
    ) -> Explanation:
        """For a caller that uses Jetpack. Raises UnknownPackage for one that is not installed."""
        package = self._packages.get(calling_package)
        if package is None:
            raise UnknownPackage(calling_package)
        caller = Identity(
            package_name=package.package_name,
            uid=package.uid,
            permissions=package.permissions,
            signing_digest=package.signing_digest,
            allowlist_targets=package.allowlist_targets,
        )
        identifier = name[1]
        bare = identifier.rpartition("#")[2]
        return Explanation(
            discovery=self._discovery(caller, name),
            execution=self._execution(caller, name),
            filtered_out=bool(id_filter) and not {identifier, bare} & set(id_filter),
        )

    def _discovery(self, caller: Identity, name: FunctionName) -> Decision:
        package_name, identifier = name
        function = self._catalog.find(package_name, identifier)
        if function is None:
            return deny(self._absence(package_name))
        return self._rules.may_discover(caller, package_name, function.metadata.access_level)

    def _execution(self, caller: Identity, name: FunctionName) -> Decision:
        package_name, identifier = name
        execution = Execution(
            package_name=package_name,
            function_identifier=identifier,
            parameters=types_pb2.ObjectValue(),
        )
        decision, function = self._dispatcher.decide(caller, execution)
        if decision.rule is Rule.NOT_REGISTERED:
            return deny(self._absence(package_name), decision.error_code, decision.message)
        target = self._packages.get(package_name)
        if function is None or target is None or self._rules.levels_are_native:
            return decision
        given = attached_by_jetpack(function.metadata, self._sdk_int_full)
        try:
            verify_caller(
                function.metadata,
                self._dispatcher.vouched(caller, given),
                ProviderEnvironment(sdk_int_full=self._sdk_int_full, uid=target.uid),
            )
        except AppFunctionError as refusal:
            return deny(Rule.COMPAT_REFUSES, AppFunctionCode.DENIED, refusal.message)
        return decision

    def _absence(self, package_name: str) -> Rule:
        installed = self._packages.get(package_name) is not None
        return Rule.NOT_REGISTERED if installed else Rule.NOT_INSTALLED
