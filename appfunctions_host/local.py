"""Providers inside the host process, for `serve --app`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Sequence

from aicore_protos import types_pb2
from aicore_sim.device.packages import PackageStore
from appfunctions_host.annotations import AppFunctionService
from appfunctions_host.codec import STRICT, ArgumentRules
from appfunctions_host.compat import ProviderEnvironment
from appfunctions_host.invoke import Invoker
from appfunctions_host.registry import ProviderCall

logger = logging.getLogger(__name__)

_START_SECONDS = 10.0
_STOP_SECONDS = 2.0


class LocalProvider:
    """Runs an app's functions on an event loop of its own, in a daemon thread.

    A function that blocks its loop so blocks its own app, as in a process of its own, and never
    the host.
    """

    def __init__(self, package_name: str, services: Sequence[type[AppFunctionService]]) -> None:
        """Raises DefinitionError for a service that cannot be registered."""
        self.package_name = package_name
        self.invoker = Invoker(package_name, services)
        self._packages: PackageStore | None = None
        self._sdk_int_full = 0
        self._rules = STRICT
        self._digest: str | None = None
        self._replaced = False
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)),
            name=f"app {package_name}",
            daemon=True,
        )
        self._thread.start()
        started.result(_START_SECONDS)

    def attach(
        self, packages: PackageStore, sdk_int_full: int, rules: ArgumentRules = STRICT
    ) -> None:
        """Tell the app which device it runs on. Before the first call."""
        self._packages = packages
        self._sdk_int_full = sdk_int_full
        self._rules = rules

    def is_current(self) -> bool:
        """False while the app is not installed, and once another certificate's app is.

        The code belongs to the app that was installed first.
        """
        package = self._packages.get(self.package_name) if self._packages else None
        if package is None:
            return False
        if self._digest is None:
            self._digest = package.signing_digest
        if package.signing_digest != self._digest:
            if not self._replaced:
                self._replaced = True
                logger.warning(
                    "%s is installed with another certificate now; restart the device to serve "
                    "its functions again",
                    self.package_name,
                )
            return False
        if package.uid != self.invoker.environment.uid:
            self.invoker.environment = ProviderEnvironment(
                sdk_int_full=self._sdk_int_full, uid=package.uid, rules=self._rules
            )
        return True

    async def call(self, call: ProviderCall) -> types_pb2.Value:
        running = asyncio.run_coroutine_threadsafe(
            self.invoker.invoke(call.function_identifier, call.parameters, call.verification),
            self._loop,
        )
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        """End the loop; a function that blocks it is left to the end of the process."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STOP_SECONDS)

    async def _serve(self, started: concurrent.futures.Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        started.set_result(None)
        await self._stop.wait()
