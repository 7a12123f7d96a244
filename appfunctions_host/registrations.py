"""Functions that apps registered at run time, and the activities that did.

Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionManager#registerAppFunctions(java.util.List%3Candroid.app.appfunctions.RegisterAppFunctionRequest%3E)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.errors import FaultKind, SimulatorFault
from appfunctions_host.registry import DeclaredFunction, Key, Provider, Registry


@dataclass(frozen=True, kw_only=True)
class Registered:
    """One function of one registration."""

    provider: Provider
    registration_id: int
    activity_id: str


class Registrations:
    """Live registrations of one device. For one event loop."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._live: dict[Key, dict[str, Registered]] = {}
        self._on_change: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after registrations came or went."""
        self._on_change.append(listener)

    def register(
        self,
        package_name: str,
        provider: Provider,
        registration_id: int,
        wanted: Sequence[pb.ProviderMessage.Registration],
    ) -> None:
        """Register all of them or none.

        Raises SimulatorFault with Android's texts: ILLEGAL_ARGUMENT for an empty list, an id that
        is not declared for it, and an activity that does not fit the scope; ILLEGAL_STATE for a
        function that is registered already.
        """
        if not wanted:
            raise _illegal("The list of functions to register is empty")
        added: dict[tuple[Key, str], Registered] = {}
        for one in wanted:
            key = (package_name, one.function_identifier)
            self._check(key, one)
            if (key, one.activity_id) in added or one.activity_id in self._live.get(key, {}):
                raise SimulatorFault(
                    FaultKind.ILLEGAL_STATE,
                    f"App function already registered for ID: {one.function_identifier}",
                )
            added[key, one.activity_id] = Registered(
                provider=provider, registration_id=registration_id, activity_id=one.activity_id
            )
        for (key, activity_id), registered in added.items():
            self._live.setdefault(key, {})[activity_id] = registered
        self._tell()

    def unregister(self, provider: Provider, registration_id: int | None = None) -> None:
        """End one registration of the provider, or all. A stale one is ignored."""
        before = sum(map(len, self._live.values()))
        for key, held in list(self._live.items()):
            left = {
                activity_id: one
                for activity_id, one in held.items()
                if one.provider is not provider
                or registration_id not in (None, one.registration_id)
            }
            if left:
                self._live[key] = left
            else:
                del self._live[key]
        if sum(map(len, self._live.values())) != before:
            self._tell()

    def find(self, key: Key, activity_id: str = "") -> Registered | None:
        return self._current(key).get(activity_id)

    def is_registered(self, key: Key) -> bool:
        """Whether anybody runs the function now."""
        return bool(self._current(key))

    def activity_ids(self, key: Key) -> tuple[str, ...]:
        """Activities in which it is registered."""
        return tuple(sorted(name for name in self._current(key) if name))

    def of_activity(self, activity_id: str) -> tuple[Key, ...]:
        """Functions that are registered in an activity, by package and identifier."""
        if not activity_id:
            return ()
        return tuple(sorted(key for key in self._live if activity_id in self._current(key)))

    def _current(self, key: Key) -> dict[str, Registered]:
        held = self._live.get(key, {})
        return {name: one for name, one in held.items() if one.provider.is_current()}

    def _check(self, key: Key, wanted: pb.ProviderMessage.Registration) -> None:
        function: DeclaredFunction | None = self._registry.find(*key)
        if function is None or not function.is_runtime or not function.is_current():
            raise _illegal(
                f"Unable to register AppFunction {key[1]!r}. Ensure this function is declared in "
                "the XML resource of the application, for registration at run time"
            )
        if function.metadata.scope == pb.SCOPE_ACTIVITY and not wanted.activity_id:
            raise _illegal(f"{key[1]!r} has the scope of an activity and needs one to register it")
        if function.metadata.scope == pb.SCOPE_GLOBAL and wanted.activity_id:
            raise _illegal(f"{key[1]!r} has the global scope and is registered by no activity")

    def _tell(self) -> None:
        for listener in self._on_change:
            listener()


def _illegal(message: str) -> SimulatorFault:
    return SimulatorFault(FaultKind.ILLEGAL_ARGUMENT, message)
