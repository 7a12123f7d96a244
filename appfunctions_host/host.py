"""The AppFunction host without its network: registry, states, policy and dispatch together."""

from __future__ import annotations

import sqlite3
from typing import Literal

from aicore_sim.device.packages import PackageStore
from appfunctions_host.catalog import Catalog
from appfunctions_host.dispatch import EXECUTION_TIMEOUT, Dispatcher
from appfunctions_host.local import LocalProvider
from appfunctions_host.registry import Registry
from appfunctions_host.state import EnabledStates


class AppFunctionHost:
    """What the services of one device share. For one event loop."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        packages: PackageStore,
        *,
        denied_code: Literal[1000, 1003] = 1000,
        execution_timeout: float = EXECUTION_TIMEOUT,
    ) -> None:
        self.registry = Registry()
        self._states = EnabledStates(connection)
        self.catalog = Catalog(
            self.registry, self._states, lambda name: packages.get(name) is not None
        )
        self.dispatcher = Dispatcher(
            self.catalog,
            self._states,
            denied_code=denied_code,
            execution_timeout=execution_timeout,
        )

    def add_local(self, provider: LocalProvider) -> None:
        """Serve an app inside this process. Raises SimulatorFault as `Registry.register`."""
        self.registry.register(provider.package_name, provider.invoker.metadata, provider)
