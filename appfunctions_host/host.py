"""The AppFunction host without its network: registry, states, policy and dispatch together."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable

from aicore_sim.device.clock import Clock
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.packages import PackageStore
from aicore_sim.device.profile import DeviceProfile, load_profile
from aicore_sim.device.shared_clock import SharedClock
from appfunctions_host.access import AccessRules
from appfunctions_host.audit import AuditJournal
from appfunctions_host.cancellation import Cancellations
from appfunctions_host.catalog import Catalog
from appfunctions_host.codec import ArgumentRules
from appfunctions_host.declarations import DeclarationStore
from appfunctions_host.dispatch import EXECUTION_TIMEOUT, Dispatcher
from appfunctions_host.explain import Explainer
from appfunctions_host.faults import HostFaults
from appfunctions_host.local import LocalProvider
from appfunctions_host.observe import Observers
from appfunctions_host.policy import PolicySetting
from appfunctions_host.registrations import Registrations
from appfunctions_host.registry import Registry
from appfunctions_host.remote import CANCELLATION_TIMEOUT
from appfunctions_host.services import (
    BIND_SECONDS,
    IDLE_SECONDS,
    ServiceCommands,
    ServiceStarter,
)
from appfunctions_host.shell_settings import ShellSettings
from appfunctions_host.state import EnabledStates

logger = logging.getLogger(__name__)

DEVICE_POLL_SECONDS = 0.25
"""How soon the host sees what another process did: an uninstall, a cleared package, a process that
ended. Decisions about calls do not wait for it."""


class AppFunctionHost:
    """What the services of one device share. For one event loop."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        packages: PackageStore,
        *,
        profile: DeviceProfile | None = None,
        clock: Clock | None = None,
        execution_timeout: float = EXECUTION_TIMEOUT,
        cancellation_timeout: float = CANCELLATION_TIMEOUT,
        bind_seconds: float = BIND_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        chosen = profile or load_profile()
        self._platform_name = chosen.platform
        self._platform = chosen.app_functions
        self._connection = connection
        self.sdk_int_full = chosen.sdk_int_full
        self.cancellation_timeout = cancellation_timeout
        self.argument_rules = ArgumentRules(
            ignore_unknown=chosen.app_functions.unknown_arguments == "ignore",
            enforce_constraints=chosen.app_functions.enforce_constraints,
        )
        self.packages = packages
        self.registry = Registry(DeclarationStore(connection), self._uid_of)
        self.registrations = Registrations(self.registry)
        self.cancellations = Cancellations()
        self.service_commands = ServiceCommands(connection, packages)
        self.starter = ServiceStarter(
            self.service_commands,
            packages,
            self.registry,
            bind_seconds=bind_seconds,
            idle_seconds=idle_seconds,
        )
        self.clock = clock or SharedClock(connection)
        self.journal = AuditJournal(connection, self.clock)
        self.faults = HostFaults(connection, self.clock)
        self.settings = ShellSettings(connection, packages, self.registry)
        self.rules = AccessRules(
            chosen.app_functions,
            is_allowlisted=self.settings.is_allowlisted,
            queries=self.settings.queries,
        )
        self._states = EnabledStates(connection)
        self.catalog = Catalog(
            self.registry,
            self._states,
            self.rules,
            self.registrations,
            page_size=lambda: self.settings.test_page_size,
        )
        self.dispatcher = Dispatcher(
            self.catalog,
            self._states,
            self.rules,
            PolicySetting(connection),
            self.journal,
            self.registrations,
            self.starter,
            execution_timeout=execution_timeout,
        )
        self.explainer = Explainer(
            packages, self.catalog, self.dispatcher, self.rules, chosen.sdk_int_full
        )
        self.observers = Observers(self.catalog, self._states, self.registrations)
        self.registry.on_change(self.observers.poke)
        self.registrations.on_change(self.observers.poke)
        self._states.on_change(self.observers.poke)
        self.app_descriptions: dict[str, str] = {}
        """Of apps that are known by their XML, by package."""
        self._on_device_change: list[Callable[[], None]] = []

    def add_local(self, provider: LocalProvider) -> None:
        """Serve an app inside this process. Raises SimulatorFault as `Registry.register`."""
        provider.attach(self.packages, self.sdk_int_full, self.argument_rules)
        self.registry.declare(provider.package_name, provider.invoker.metadata, provider)

    def on_device_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` from time to time: packages, tokens or processes may have changed."""
        self._on_device_change.append(listener)

    def require_search(self, method: str) -> None:
        """Raises SimulatorFault (NO_SUCH_METHOD) where the platform has no such method."""
        self._require(self._platform.search, method)

    def require_observe(self) -> None:
        """As `require_search`."""
        self._require(self._platform.observe, "observeAppFunctions")

    @property
    def has_registration(self) -> bool:
        """Whether apps register functions at run time on this platform."""
        return self._platform.runtime_registration

    def require_registration(self) -> None:
        """As `require_search`."""
        self._require(self.has_registration, "registerAppFunctions")

    async def follow_device(self) -> None:
        """Notice what other processes change in the device's database. Runs until cancelled."""
        seen = self._data_version()
        while True:
            await asyncio.sleep(DEVICE_POLL_SECONDS)
            try:
                for listener in self._on_device_change:
                    listener()
                if (version := self._data_version()) != seen:
                    seen = version
                    self.registry.reload()
                    self.observers.poke()
            except sqlite3.Error:
                logger.exception("the device database cannot be read; trying again")

    def close(self) -> None:
        """End the observers and the journal's followers, and write what waits. Idempotent."""
        self.observers.end()
        self.journal.close()

    def _uid_of(self, package_name: str) -> int | None:
        package = self.packages.get(package_name)
        return None if package is None else package.uid

    def _data_version(self) -> int:
        """Changes with each commit of another connection."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _require(self, exists: bool, method: str) -> None:
        if not exists:
            raise SimulatorFault(
                FaultKind.NO_SUCH_METHOD,
                f"AppFunctionManager.{method} does not exist on {self._platform_name}; "
                "start the device with --platform android-17.0 or later",
            )
