"""What a caller can read about functions: search, states, and switching its own on and off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.packages import Identity
from appfunctions_host.access import may_discover
from appfunctions_host.registry import RegisteredFunction, Registry
from appfunctions_host.state import EnabledStates

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200

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


class Catalog:
    """The functions as each caller sees them. Hidden and missing ones look the same."""

    def __init__(
        self,
        registry: Registry,
        states: EnabledStates,
        is_installed: Callable[[str], bool],
    ) -> None:
        self._registry = registry
        self._states = states
        self._is_installed = is_installed

    def find(self, package_name: str, function_identifier: str) -> RegisteredFunction | None:
        """The function whoever asks, or None; functions of an uninstalled package are gone."""
        if not self._is_installed(package_name):
            return None
        return self._registry.find(package_name, function_identifier)

    def search(
        self, caller: Identity, spec: SearchSpec, *, page_size: int = 0, page_token: str = ""
    ) -> tuple[tuple[pb.AppFunctionMetadata, ...], str]:
        """A page of what the caller may discover, and the token of the next, empty at the end.

        Pages follow the order of names, so a function that comes or goes between two pages moves
        no other. Raises SimulatorFault (INVALID_REQUEST) for a bad size or token.
        """
        if page_size < 0:
            raise _invalid(f"page_size={page_size}; give 0 or more")
        size = min(page_size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
        package_name, slash, identifier = page_token.partition("/")
        if page_token and not slash:
            raise _invalid(f"page_token={page_token!r} is not from a previous answer")
        found = [
            function
            for function in self._visible(caller)
            if function.key > (package_name, identifier) and spec.matches(function.metadata)
        ]
        page = tuple(function.metadata for function in found[:size])
        return page, "/".join(found[size - 1].key) if len(found) > size else ""

    def states(
        self, caller: Identity, names: Iterable[FunctionName]
    ) -> tuple[tuple[FunctionName, bool], ...]:
        """The effective states of those of `names` that the caller may discover, in that order."""
        found = (self._find_visible(caller, *name) for name in dict.fromkeys(names))
        return tuple(
            (function.key, self._states.is_enabled(function.metadata))
            for function in found
            if function is not None
        )

    def is_enabled(self, caller: Identity, name: FunctionName) -> bool:
        """Raises SimulatorFault (ILLEGAL_ARGUMENT) for a missing or hidden function."""
        function = self._find_visible(caller, *name)
        if function is None:
            raise SimulatorFault(FaultKind.ILLEGAL_ARGUMENT, "App function not found.")
        return self._states.is_enabled(function.metadata)

    def set_enabled(self, caller: Identity, name: FunctionName, state: int) -> None:
        """Switch a function of the caller's own package; the shell may switch any.

        Raises SimulatorFault (ILLEGAL_ARGUMENT) for every other function and for a bad state.
        """
        package_name, identifier = name
        own = caller.is_shell or caller.package_name == package_name
        if not own or self.find(package_name, identifier) is None:
            raise SimulatorFault(
                FaultKind.ILLEGAL_ARGUMENT, f"Function {identifier} does not exist"
            )
        try:
            self._states.set(package_name, identifier, state)
        except ValueError as error:
            raise SimulatorFault(FaultKind.ILLEGAL_ARGUMENT, str(error)) from None

    def _find_visible(
        self, caller: Identity, package_name: str, identifier: str
    ) -> RegisteredFunction | None:
        function = self.find(package_name, identifier)
        if function is None or not _discovers(caller, function):
            return None
        return function

    def _visible(self, caller: Identity) -> Iterator[RegisteredFunction]:
        installed: dict[str, bool] = {}
        for function in self._registry.functions():
            package_name = function.key[0]
            if package_name not in installed:
                installed[package_name] = self._is_installed(package_name)
            if installed[package_name] and _discovers(caller, function):
                yield function


def _discovers(caller: Identity, function: RegisteredFunction) -> bool:
    level = function.metadata.access_level
    return may_discover(caller, function.key[0], level).allowed


def _invalid(message: str) -> SimulatorFault:
    return SimulatorFault(FaultKind.INVALID_REQUEST, message)
