"""Providers inside the host process, for `serve --app`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from aicore_protos import types_pb2
from appfunctions_host.annotations import AppFunctionService
from appfunctions_host.invoke import Invoker

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
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"app {package_name}", daemon=True)
        self._thread.start()

    async def call(
        self, function_identifier: str, parameters: types_pb2.ObjectValue, *, calling_package: str
    ) -> types_pb2.Value:
        running = asyncio.run_coroutine_threadsafe(
            self.invoker.invoke(function_identifier, parameters), self._loop
        )
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        """End the loop; a function that blocks it is left to the end of the process."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()
