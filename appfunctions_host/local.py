"""Providers inside the host process, for `serve --app`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Sequence

from aicore_protos import types_pb2
from appfunctions_host.annotations import AppFunctionService
from appfunctions_host.invoke import Invoker

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
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)),
            name=f"app {package_name}",
            daemon=True,
        )
        self._thread.start()
        started.result(_START_SECONDS)

    async def call(
        self, function_identifier: str, parameters: types_pb2.ObjectValue, *, calling_package: str
    ) -> types_pb2.Value:
        running = asyncio.run_coroutine_threadsafe(
            self.invoker.invoke(function_identifier, parameters), self._loop
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
