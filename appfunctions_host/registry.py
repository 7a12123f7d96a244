"""Which functions exist now, and who runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import FaultKind, SimulatorFault
from appfunctions_host.annotations import ACCESS_LEVELS
from appfunctions_host.limits import metadata_problem


@dataclass(frozen=True, kw_only=True)
class ProviderCall:
    """One call that every check of the platform let through."""

    function_identifier: str
    parameters: types_pb2.ObjectValue
    calling_package: str
    """The verified caller."""
    verification: pb.CallerVerification = field(default_factory=pb.CallerVerification)


class Provider(Protocol):
    """Runs the functions of one app."""

    async def call(self, call: ProviderCall) -> types_pb2.Value:
        """Run a function. Raises AppFunctionError; cancelling the caller cancels the function."""

    def is_current(self) -> bool:
        """Whether the app is installed, and still the one that registered."""


@dataclass(frozen=True, kw_only=True)
class RegisteredFunction:
    metadata: pb.AppFunctionMetadata
    provider: Provider

    @property
    def key(self) -> tuple[str, str]:
        return self.metadata.name.package_name, self.metadata.name.function_identifier


class Registry:
    """Functions by package and identifier. For one event loop."""

    def __init__(self) -> None:
        self._packages: dict[str, dict[str, RegisteredFunction]] = {}
        self._released = asyncio.Event()
        self._on_change: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after functions came or went."""
        self._on_change.append(listener)

    def register(
        self, package_name: str, functions: Sequence[pb.AppFunctionMetadata], provider: Provider
    ) -> None:
        """Add all functions or none.

        Raises SimulatorFault: INVALID_REQUEST for metadata that no service can have,
        ALREADY_EXISTS for a function that another provider runs.
        """
        present = self._packages.get(package_name, {})
        added: dict[str, RegisteredFunction] = {}
        for metadata in functions:
            _check(package_name, metadata)
            identifier = metadata.name.function_identifier
            if identifier in added or identifier in present:
                raise SimulatorFault(
                    FaultKind.ALREADY_EXISTS,
                    "App function already registered for ID: "
                    f"{identifier} of {package_name}; "
                    "stop the process that provides it",
                )
            added[identifier] = RegisteredFunction(metadata=metadata, provider=provider)
        # Sorted here, once, for the searches.
        self._packages[package_name] = dict(sorted({**present, **added}.items()))
        self._tell()

    def unregister(
        self, provider: Provider, function_identifiers: Iterable[str] | None = None
    ) -> tuple[RegisteredFunction, ...]:
        """Drop the provider's functions, or the named ones of them; returns what was dropped."""
        names = None if function_identifiers is None else set(function_identifiers)
        dropped = tuple(
            function
            for functions in self._packages.values()
            for identifier, function in functions.items()
            if function.provider is provider and (names is None or identifier in names)
        )
        for function in dropped:
            package_name, identifier = function.key
            del self._packages[package_name][identifier]
            if not self._packages[package_name]:
                del self._packages[package_name]
        self._released.set()
        self._released = asyncio.Event()
        if dropped:
            self._tell()
        return dropped

    def find(self, package_name: str, function_identifier: str) -> RegisteredFunction | None:
        return self._packages.get(package_name, {}).get(function_identifier)

    def functions(
        self, package_names: Collection[str] | None = None
    ) -> Iterator[RegisteredFunction]:
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
        wanted = set(function_identifiers)
        try:
            async with asyncio.timeout(timeout):
                while not wanted.isdisjoint(self._packages.get(package_name, {})):
                    await self._released.wait()
        except TimeoutError:
            return

    def _tell(self) -> None:
        for listener in self._on_change:
            listener()


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


def _invalid(message: str) -> SimulatorFault:
    return SimulatorFault(FaultKind.INVALID_REQUEST, message)
