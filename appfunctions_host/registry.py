"""Which functions exist, and who runs them now.

What an app *declares* lasts while it is installed (see `declarations`). Who *runs* a function comes
and goes: a process is bound to the functions of its services while it is connected, and a function
that is declared for registration at run time has a provider while it is registered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import FaultKind, SimulatorFault
from appfunctions_host.annotations import ACCESS_LEVELS
from appfunctions_host.cancellation import Cancellation
from appfunctions_host.declarations import DeclarationStore, Declared
from appfunctions_host.limits import metadata_problem

RUNTIME_SERVICE = "@null"
"""Android's marker in `serviceName` of a function that no service runs."""

Key = tuple[str, str]
"""Package name and function identifier."""


@dataclass(frozen=True, kw_only=True)
class ProviderCall:
    """One call that every check of the platform let through."""

    function_identifier: str
    parameters: types_pb2.ObjectValue
    calling_package: str
    """The verified caller."""
    verification: pb.CallerVerification = field(default_factory=pb.CallerVerification)
    activity_id: str = ""
    cancellation: Cancellation | None = None
    """A provider that is given one hears of it and may still answer."""


class Provider(Protocol):
    """Runs functions of one app."""

    async def call(self, call: ProviderCall) -> types_pb2.Value:
        """Run a function. Raises AppFunctionError; cancelling the caller cancels the function."""

    def is_current(self) -> bool:
        """Whether the app is installed, and still the one that registered."""


@dataclass(frozen=True, kw_only=True)
class DeclaredFunction:
    metadata: pb.AppFunctionMetadata
    is_current: Callable[[], bool]
    """Whether the app that declared it is still installed."""

    @property
    def key(self) -> Key:
        return self.metadata.name.package_name, self.metadata.name.function_identifier

    @property
    def is_runtime(self) -> bool:
        """Whether the app registers it at run time."""
        return self.metadata.service_name == RUNTIME_SERVICE


class Registry:
    """Functions by package and identifier. For one event loop."""

    def __init__(
        self,
        store: DeclarationStore | None = None,
        uid_of: Callable[[str], int | None] = lambda package_name: None,
    ) -> None:
        """`uid_of` gives the uid of an installed package."""
        self._store = store
        self._uid_of = uid_of
        self._summary: object = None
        self._packages: dict[str, dict[str, DeclaredFunction]] = {}
        self._bound: dict[Key, Provider] = {}
        self._checks: dict[tuple[str, int], Callable[[], bool]] = {}
        self._moved = asyncio.Event()
        self._on_change: list[Callable[[], None]] = []
        self.reload()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after declarations came, went or changed."""
        self._on_change.append(listener)

    def reload(self) -> None:
        """Take over what another process made of the kept declarations."""
        if self._store is None or (found := self._store.summary()) == self._summary:
            return
        self._summary = found
        kept: dict[str, dict[str, DeclaredFunction]] = {}
        for package_name, functions in self._packages.items():
            for identifier, function in functions.items():
                if not isinstance(function, _Kept):
                    kept.setdefault(package_name, {})[identifier] = function
        for declared in self._store.load():
            function = self._kept(declared)
            package_name, identifier = function.key
            kept.setdefault(package_name, {}).setdefault(identifier, function)
        self._packages = {name: dict(sorted(found.items())) for name, found in kept.items()}
        self._tell()

    def declare(
        self,
        package_name: str,
        functions: Sequence[pb.AppFunctionMetadata],
        provider: Provider,
        *,
        uid: int | None = None,
    ) -> None:
        """Add what an app declares in place of what it declared of the same services, and bind
        `provider` to the functions of services among it. All of it or nothing.

        With `uid` the declarations are kept. Raises SimulatorFault: INVALID_REQUEST for metadata
        that no service can have, ALREADY_EXISTS for a function that another provider runs.
        """
        present = self._packages.get(package_name, {})
        added: dict[str, DeclaredFunction] = {}
        for metadata in functions:
            _check(package_name, metadata)
            identifier = metadata.name.function_identifier
            if identifier in added or (package_name, identifier) in self._bound:
                raise SimulatorFault(
                    FaultKind.ALREADY_EXISTS,
                    "App function already registered for ID: "
                    f"{identifier} of {package_name}; "
                    "stop the process that provides it",
                )
            added[identifier] = self._declared(metadata, provider, uid, present.get(identifier))
        services = {service_of(metadata) for metadata in functions} - {RUNTIME_SERVICE}
        removed = [
            identifier
            for identifier, function in present.items()
            if service_of(function.metadata) in services
            and identifier not in added
            and (package_name, identifier) not in self._bound
        ]
        if all(present.get(name) is function for name, function in added.items()) and not removed:
            changed = False
        else:
            changed = True
            if uid is not None and self._store is not None:
                self._store.replace(package_name, uid, removed=removed, added=functions)
                self._summary = self._store.summary()
            left = {name: one for name, one in present.items() if name not in removed}
            # Sorted here, once, for the searches.
            self._packages[package_name] = dict(sorted({**left, **added}.items()))
        for identifier, function in added.items():
            if not function.is_runtime:
                self._bound[package_name, identifier] = provider
        self._move()
        if changed:
            self._tell()

    def withdraw(self, provider: Provider, function_identifiers: Iterable[str]) -> None:
        """The app no longer declares these functions, which the provider runs."""
        names = set(function_identifiers)
        for key in [key for key, bound in self._bound.items() if bound is provider]:
            if key[1] in names:
                self._drop(key)
        self._move()
        self._tell()

    def unbind(self, provider: Provider) -> tuple[Key, ...]:
        """The provider is gone; returns what it ran. What it declared stays, unless it was named
        on the command line."""
        gone = tuple(key for key, bound in self._bound.items() if bound is provider)
        for key in gone:
            del self._bound[key]
        self._move()
        return gone

    def provider_of(self, key: Key) -> Provider | None:
        """Who runs a function of a service now."""
        provider = self._bound.get(key)
        return provider if provider is not None and provider.is_current() else None

    def find(self, package_name: str, function_identifier: str) -> DeclaredFunction | None:
        return self._packages.get(package_name, {}).get(function_identifier)

    def functions(self, package_names: Collection[str] | None = None) -> Iterator[DeclaredFunction]:
        """Those of the packages, or all, by package and identifier."""
        names = self._packages.keys() if package_names is None else set(package_names)
        for package_name in sorted(names & self._packages.keys()):
            yield from tuple(self._packages[package_name].values())

    async def wait_free(
        self, package_name: str, function_identifiers: Iterable[str], timeout: float
    ) -> None:
        """Wait until nobody runs the functions, at most `timeout` seconds.

        An app that was killed and started again may connect before the host has seen the end of
        the old process.
        """
        wanted = {(package_name, identifier) for identifier in function_identifiers}
        await self._wait(lambda: wanted.isdisjoint(self._bound), timeout)

    async def wait_bound(self, key: Key, timeout: float) -> Provider | None:
        """Who runs the function, once somebody does; None after `timeout` seconds."""
        await self._wait(lambda: self.provider_of(key) is not None, timeout)
        return self.provider_of(key)

    async def _wait(self, condition: Callable[[], bool], timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    await self._moved.wait()
        except TimeoutError:
            return

    def _declared(
        self,
        metadata: pb.AppFunctionMetadata,
        provider: Provider,
        uid: int | None,
        present: DeclaredFunction | None,
    ) -> DeclaredFunction:
        if uid is None:
            return DeclaredFunction(metadata=metadata, is_current=provider.is_current)
        if isinstance(present, _Kept) and present.uid == uid and present.metadata == metadata:
            return present
        return self._kept(Declared(uid=uid, metadata=metadata))

    def _kept(self, declared: Declared) -> DeclaredFunction:
        uid, package_name = declared.uid, declared.metadata.name.package_name
        # One check for all functions of an installation, so that a search asks once.
        check = self._checks.setdefault(
            (package_name, uid), lambda: self._uid_of(package_name) == uid
        )
        return _Kept(metadata=declared.metadata, uid=uid, is_current=check)

    def _drop(self, key: Key) -> None:
        package_name, identifier = key
        del self._bound[key]
        functions = self._packages.get(package_name, {})
        function = functions.pop(identifier, None)
        if not functions:
            self._packages.pop(package_name, None)
        if isinstance(function, _Kept) and self._store is not None:
            self._store.replace(package_name, function.uid, removed=[identifier], added=())
            self._summary = self._store.summary()

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def _tell(self) -> None:
        for listener in self._on_change:
            listener()


@dataclass(frozen=True, kw_only=True)
class _Kept(DeclaredFunction):
    uid: int


def service_of(metadata: pb.AppFunctionMetadata) -> str:
    """The service that runs the function: the class part of its id unless it says another."""
    return metadata.service_name or metadata.name.function_identifier.rpartition("#")[0]


def _check(package_name: str, metadata: pb.AppFunctionMetadata) -> None:
    name = metadata.name
    if (problem := metadata_problem(metadata)) is not None:
        shown = repr(name.function_identifier[:80]) if name.function_identifier else "a function"
        raise _invalid(f"{shown} of {package_name} {problem}")
    if name.package_name != package_name:
        raise _invalid(
            f"{name.function_identifier} names the package {name.package_name!r}, "
            f"but the provider is of {package_name!r}"
        )
    if metadata.access_level not in ACCESS_LEVELS:
        raise _invalid(
            f"{name.function_identifier} has the unknown access level {metadata.access_level}; "
            f"use one of {sorted(ACCESS_LEVELS)}"
        )
    if metadata.scope == pb.SCOPE_ACTIVITY and metadata.service_name != RUNTIME_SERVICE:
        raise _invalid(
            f"{name.function_identifier} has the scope of an activity, but a service runs it; "
            f"only a function that is registered at run time ({RUNTIME_SERVICE!r}) may have it"
        )


def _invalid(message: str) -> SimulatorFault:
    return SimulatorFault(FaultKind.INVALID_REQUEST, message)
