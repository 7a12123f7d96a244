"""Which functions exist now, and who runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import FaultKind, SimulatorFault
from appfunctions_host.annotations import ACCESS_LEVELS


class Provider(Protocol):
    """Runs the functions of one app."""

    async def call(
        self, function_identifier: str, parameters: types_pb2.ObjectValue, *, calling_package: str
    ) -> types_pb2.Value:
        """Run a function. Raises AppFunctionError; cancelling the caller cancels the function."""


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
        self._functions: dict[tuple[str, str], RegisteredFunction] = {}
        self._released = asyncio.Event()

    def register(
        self, package_name: str, functions: Sequence[pb.AppFunctionMetadata], provider: Provider
    ) -> None:
        """Add all functions or none.

        Raises SimulatorFault: INVALID_REQUEST for metadata that no service can have,
        ALREADY_EXISTS for a function that another provider runs.
        """
        added: dict[tuple[str, str], RegisteredFunction] = {}
        for metadata in functions:
            _check(package_name, metadata)
            function = RegisteredFunction(metadata=metadata, provider=provider)
            if function.key in added or function.key in self._functions:
                raise SimulatorFault(
                    FaultKind.ALREADY_EXISTS,
                    "App function already registered for ID: "
                    f"{metadata.name.function_identifier} of {package_name}; "
                    "stop the process that provides it",
                )
            added[function.key] = function
        self._functions.update(added)

    def unregister(
        self, provider: Provider, function_identifiers: Iterable[str] | None = None
    ) -> tuple[RegisteredFunction, ...]:
        """Drop the provider's functions, or the named ones of them; returns what was dropped."""
        names = None if function_identifiers is None else set(function_identifiers)
        dropped = tuple(
            function
            for (_, identifier), function in self._functions.items()
            if function.provider is provider and (names is None or identifier in names)
        )
        for function in dropped:
            del self._functions[function.key]
        self._released.set()
        self._released = asyncio.Event()
        return dropped

    def find(self, package_name: str, function_identifier: str) -> RegisteredFunction | None:
        return self._functions.get((package_name, function_identifier))

    def functions(self) -> tuple[RegisteredFunction, ...]:
        """All, by package and identifier."""
        return tuple(self._functions[key] for key in sorted(self._functions))

    async def wait_free(
        self, package_name: str, function_identifiers: Iterable[str], timeout: float
    ) -> None:
        """Wait until nobody runs the functions, at most `timeout` seconds.

        An app that was killed and started again may connect before the host has seen the end of
        the old process.
        """
        keys = {(package_name, identifier) for identifier in function_identifiers}
        try:
            async with asyncio.timeout(timeout):
                while not keys.isdisjoint(self._functions):
                    await self._released.wait()
        except TimeoutError:
            return


def _check(package_name: str, metadata: pb.AppFunctionMetadata) -> None:
    name = metadata.name
    if not name.function_identifier:
        raise _invalid(f"a function of {package_name} has no identifier")
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
