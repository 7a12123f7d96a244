"""What a caller can read about functions: search, states, and switching its own on and off."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.packages import Identity
from appfunctions_host.access import (
    NOT_FOUND_TEXT,
    AccessRules,
    Decision,
    Rule,
    allow,
    deny,
)
from appfunctions_host.registrations import Registrations
from appfunctions_host.registry import DeclaredFunction, Registry
from appfunctions_host.state import EnabledStates

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200
PAGE_BYTES = 2 * 1024 * 1024
"""With one more function this stays below the 4 MiB that gRPC clients take by default."""
NEAR_MATCHES = 3
NEAR_MATCH_CANDIDATES = 500

FunctionName = tuple[str, str]
"""Package name and function identifier."""


@dataclass(frozen=True, kw_only=True)
class SearchSpec:
    """`AppFunctionSearchSpec`; absent filters match everything, given ones all must match."""

    package_names: frozenset[str] | None = None
    function_names: frozenset[FunctionName] | None = None
    schema_category: str = ""
    schema_name: str = ""
    min_schema_version: int = 0
    scopes: frozenset[int] | None = None

    def matches(self, metadata: pb.AppFunctionMetadata) -> bool:
        name, schema = metadata.name, metadata.schema
        return (
            (self.package_names is None or name.package_name in self.package_names)
            and (
                self.function_names is None
                or (name.package_name, name.function_identifier) in self.function_names
            )
            and self.schema_category in ("", schema.category)
            and self.schema_name in ("", schema.name)
            and self.min_schema_version <= schema.version
            and (self.scopes is None or metadata.scope in self.scopes)
        )


@dataclass(frozen=True, kw_only=True)
class FunctionState:
    """`AppFunctionState`."""

    name: FunctionName
    is_enabled: bool
    activity_ids: tuple[str, ...] = ()


class Catalog:
    """The functions as each caller sees them. Hidden and missing ones look the same."""

    def __init__(
        self,
        registry: Registry,
        states: EnabledStates,
        rules: AccessRules,
        registrations: Registrations,
        *,
        page_size: Callable[[], int] = lambda: 0,
    ) -> None:
        """`page_size` is what the shell set for tests of paging, or 0."""
        self._page_size = page_size
        self._registry = registry
        self._registrations = registrations
        self._states = states
        self._rules = rules

    def find(self, package_name: str, function_identifier: str) -> DeclaredFunction | None:
        """The function whoever asks, or None; functions of an uninstalled package are gone."""
        function = self._registry.find(package_name, function_identifier)
        if function is None or not function.is_current():
            return None
        return function

    def search(
        self, caller: Identity, spec: SearchSpec, *, page_size: int = 0, page_token: str = ""
    ) -> tuple[tuple[pb.AppFunctionMetadata, ...], str]:
        """A page of what the caller may discover, and the token of the next, empty at the end.

        Pages follow the order of names, so a function that comes or goes between two pages moves
        no other; a page is also full with PAGE_BYTES of metadata. Raises SimulatorFault
        (INVALID_REQUEST) for a bad size or token.
        """
        if page_size < 0:
            raise _invalid(f"page_size={page_size}; give 0 or more")
        size = min(page_size or self._page_size() or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
        package_name, slash, identifier = page_token.partition("/")
        if page_token and not slash:
            raise _invalid(f"page_token={page_token!r} is not from a previous answer")
        page: list[pb.AppFunctionMetadata] = []
        last = ("", "")
        total = 0
        for function in self.visible(caller, spec.package_names):
            if function.key <= (package_name, identifier) or not spec.matches(function.metadata):
                continue
            total += function.metadata.ByteSize()
            if len(page) == size or (page and total > PAGE_BYTES):
                return tuple(page), "/".join(last)
            page.append(function.metadata)
            last = function.key
        return tuple(page), ""

    def states(
        self, caller: Identity, names: Iterable[FunctionName], *, through_jetpack: bool = False
    ) -> tuple[FunctionState, ...]:
        """The effective states of those of `names` that the caller may discover, in that order.

        Below Android 17.2 Jetpack also hides by access level.
        """
        found = (self.find_visible(caller, *name) for name in dict.fromkeys(names))
        return tuple(
            FunctionState(
                name=function.key,
                is_enabled=self._enabled(function),
                activity_ids=self._registrations.activity_ids(function.key),
            )
            for function in found
            if function is not None
            and (
                not through_jetpack
                or caller.is_shell
                or self._rules.may_see_state(caller, function.metadata).allowed
            )
        )

    def is_enabled(self, caller: Identity, name: FunctionName) -> bool:
        """Raises SimulatorFault (ILLEGAL_ARGUMENT) for a missing or hidden function."""
        function = self.find_visible(caller, *name)
        if function is None:
            raise SimulatorFault(FaultKind.ILLEGAL_ARGUMENT, NOT_FOUND_TEXT)
        return self._enabled(function)

    def activity_states(
        self, caller: Identity, activity_ids: Iterable[str]
    ) -> tuple[tuple[str, tuple[FunctionName, ...]], ...]:
        """The functions that are registered in each activity and that the caller may discover.

        Activities without any are left out.
        """
        found = []
        for activity_id in dict.fromkeys(activity_ids):
            names = tuple(
                name
                for name in self._registrations.of_activity(activity_id)
                if self.find_visible(caller, *name) is not None
            )
            if names:
                found.append((activity_id, names))
        return tuple(found)

    def may_see(self, caller: Identity, name: FunctionName) -> Decision:
        """Whether the caller may discover the function."""
        function = self.find(*name)
        if function is None:
            return deny(Rule.NOT_REGISTERED, 0, NOT_FOUND_TEXT)
        return self._rules.may_discover(caller, name[0], function.metadata.access_level)

    def may_set_enabled(self, caller: Identity, name: FunctionName, state: int) -> Decision:
        """Whether the caller may switch the function: one of its own; the shell may switch any."""
        package_name, identifier = name
        own = caller.is_shell or caller.package_name == package_name
        if not own or self.find(package_name, identifier) is None:
            return deny(Rule.NOT_OWN, 0, f"Function {identifier} does not exist")
        if state not in pb.EnabledState.values():
            return deny(Rule.BAD_STATE, 0, f"Invalid state: {state}")
        return allow(Rule.SHELL_LISTS_ALL if caller.is_shell else Rule.SAME_PACKAGE)

    def set_enabled(self, caller: Identity, name: FunctionName, state: int) -> None:
        """Switch a function. Raises SimulatorFault (ILLEGAL_ARGUMENT) where it may not."""
        decision = self.may_set_enabled(caller, name, state)
        if not decision.allowed:
            raise SimulatorFault(FaultKind.ILLEGAL_ARGUMENT, decision.message)
        self._states.set(*name, state)

    def near_matches(self, caller: Identity, name: FunctionName) -> tuple[str, ...]:
        """Identifiers like the missing one that the caller may discover in the package.

        First those of the same method, then those spelled similarly.
        """
        package_name, identifier = name
        method = identifier.rpartition("#")[2]
        candidates = [
            function.key[1]
            for function in itertools.islice(
                self.visible(caller, {package_name}), NEAR_MATCH_CANDIDATES
            )
        ]
        same = [one for one in candidates if one.rpartition("#")[2] == method]
        by_method = {one.rpartition("#")[2]: one for one in reversed(candidates)}
        alike = [by_method[one] for one in difflib.get_close_matches(method, by_method)]
        return tuple(dict.fromkeys((*same, *alike)))[:NEAR_MATCHES]

    def visible(
        self, caller: Identity, package_names: Collection[str] | None = None
    ) -> Iterator[DeclaredFunction]:
        """What the caller may discover, by package and identifier."""
        current: dict[int, bool] = {}
        for function in self._registry.functions(package_names):
            key = id(function.is_current)
            if key not in current:
                current[key] = function.is_current()
            if current[key] and self._discovers(caller, function):
                yield function

    def find_visible(
        self, caller: Identity, package_name: str, identifier: str
    ) -> DeclaredFunction | None:
        """The function, if the caller may discover it."""
        function = self.find(package_name, identifier)
        if function is None or not self._discovers(caller, function):
            return None
        return function

    def _enabled(self, function: DeclaredFunction) -> bool:
        """What only a registration runs is enabled only while it is registered."""
        return self._states.is_enabled(function.metadata) and (
            not function.is_runtime or self._registrations.is_registered(function.key)
        )

    def _discovers(self, caller: Identity, function: DeclaredFunction) -> bool:
        level = function.metadata.access_level
        return self._rules.may_discover(caller, function.key[0], level).allowed


def _invalid(message: str) -> SimulatorFault:
    return SimulatorFault(FaultKind.INVALID_REQUEST, message)
