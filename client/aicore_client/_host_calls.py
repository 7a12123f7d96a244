"""The calls to the AppFunction host that both façades share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

from aicore_client._boundary import Service, unary
from aicore_client._values import from_value, to_object
from aicore_client.app_function_requests import AppFunctionActivityState, AppFunctionSearchSpec
from aicore_client.cancellation import CancellationSignal
from aicore_client.connection import DeviceConnection, default_connection
from aicore_client.errors import AppFunctionException, SimulatorError
from aicore_client.metadata import (
    AppFunctionMetadata,
    AppFunctionName,
    AppFunctionState,
    function_from_wire,
    name_from_wire,
    name_to_wire,
    state_from_wire,
)
from aicore_client.observation import AppFunctionObservation
from aicore_protos import appfunctions_pb2

logger = logging.getLogger(__name__)

_CANCEL_AGAIN_SECONDS = (0.1, 0.5, 2.0)
"""A cancellation that overtakes its execution finds nothing to cancel, so it is sent again."""


class HostCalls:
    """AppFunctionManager on the wire, for one app and one of the two libraries."""

    def __init__(
        self,
        connection: DeviceConnection | None,
        calling_package: str,
        library: appfunctions_pb2.CallerLibrary,
    ) -> None:
        self._given_connection = connection
        self._calling_package = calling_package
        self._library = library

    @property
    def connection(self) -> DeviceConnection:
        """Raises DeviceNotConfiguredError."""
        return self._given_connection or default_connection()

    async def search(self, spec: AppFunctionSearchSpec) -> list[AppFunctionMetadata]:
        """Every page."""
        packages = None if spec.package_names is None else list(spec.package_names)
        names = None if spec.function_names is None else list(spec.function_names)
        scopes = None if spec.scopes is None else list(spec.scopes)
        if [] in (packages, names, scopes):
            return []
        request = appfunctions_pb2.SearchRequest(
            package_names=packages or (),
            function_names=[name_to_wire(name) for name in names or ()],
            schema_category=spec.schema_category or "",
            schema_name=spec.schema_name or "",
            min_schema_version=spec.min_schema_version,
            scopes=[appfunctions_pb2.Scope.Name(scope) for scope in scopes or ()],
            calling_package=self._calling_package,
            library=self._library,
        )
        found: list[AppFunctionMetadata] = []
        while True:
            response = await self._call("Search", request)
            found.extend(function_from_wire(function) for function in response.functions)
            if not response.next_page_token:
                return found
            request.page_token = response.next_page_token

    async def states(self, names: Iterable[AppFunctionName]) -> list[AppFunctionState]:
        request = appfunctions_pb2.GetStatesRequest(
            names=[name_to_wire(name) for name in names],
            calling_package=self._calling_package,
            library=self._library,
        )
        response = await self._call("GetStates", request)
        return [state_from_wire(state) for state in response.states]

    async def activity_states(self, activity_ids: Iterable[str]) -> list[AppFunctionActivityState]:
        request = appfunctions_pb2.GetActivityStatesRequest(
            activity_ids=list(activity_ids),
            calling_package=self._calling_package,
            library=self._library,
        )
        response = await self._call("GetActivityStates", request)
        return [
            AppFunctionActivityState(
                activity_id=state.activity_id,
                function_names=frozenset(name_from_wire(name) for name in state.names),
            )
            for state in response.states
        ]

    async def is_enabled(self, name: AppFunctionName) -> bool:
        request = appfunctions_pb2.IsEnabledRequest(
            name=name_to_wire(name), calling_package=self._calling_package
        )
        return bool((await self._call("IsEnabled", request)).is_enabled)

    async def set_enabled(self, name: AppFunctionName, state: int) -> None:
        request = appfunctions_pb2.SetEnabledRequest(
            name=name_to_wire(name),
            state=appfunctions_pb2.EnabledState.Name(state),
            calling_package=self._calling_package,
        )
        await self._call("SetEnabled", request)

    async def caller(self) -> appfunctions_pb2.GetCallingPackageResponse:
        """What the app knows of itself and its device."""
        request = appfunctions_pb2.GetCallingPackageRequest()
        response: appfunctions_pb2.GetCallingPackageResponse = await self._call(
            "GetCallingPackage", request
        )
        return response

    async def execute(
        self,
        name: AppFunctionName,
        parameters: Mapping[str, object],
        *,
        activity_id: str | None = None,
        verification: appfunctions_pb2.CallerVerification | None = None,
        cancellation_signal: CancellationSignal | None = None,
    ) -> object:
        """The return value. Leaving the call cancels the function and its answer."""
        message = appfunctions_pb2.ExecuteRequest(
            name=name_to_wire(name),
            parameters=to_object(parameters),
            activity_id=activity_id or "",
            calling_package=self._calling_package,
            verification=verification,
        )
        if cancellation_signal is None:
            response = await self._execute(message)
        else:
            cancellation_signal.throw_if_canceled()
            message.cancellation_id = os.urandom(16).hex()
            response = await self._cancellable(message, cancellation_signal)
        return from_value(response.return_value)

    def observe(self) -> AppFunctionObservation:
        request = appfunctions_pb2.ObserveRequest(
            calling_package=self._calling_package, library=self._library
        )
        return AppFunctionObservation(self.connection, request)

    async def _cancellable(self, message: Any, signal: CancellationSignal) -> Any:
        loop = asyncio.get_running_loop()
        canceled = asyncio.Event()
        with signal.listening(lambda: _set_from_any_thread(loop, canceled)):
            canceller = asyncio.create_task(self._cancel_when(canceled, message.cancellation_id))
            try:
                return await self._execute(message)
            finally:
                canceller.cancel()
                await asyncio.wait([canceller])

    async def _cancel_when(self, canceled: asyncio.Event, cancellation_id: str) -> None:
        await canceled.wait()
        request = appfunctions_pb2.CancelExecutionRequest(cancellation_id=cancellation_id)
        try:
            for pause in _CANCEL_AGAIN_SECONDS:
                await self._call("CancelExecution", request)
                await asyncio.sleep(pause)
        except (AppFunctionException, SimulatorError) as error:
            logger.warning("A cancellation did not reach the AppFunction host: %s", error)

    async def _execute(self, message: appfunctions_pb2.ExecuteRequest) -> Any:
        return await self._call("Execute", message, timeout=self.connection.long_call_timeout)

    async def _call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        connection = self.connection
        call = getattr(connection.app_functions(), method)(
            request, metadata=connection.metadata, timeout=timeout or connection.call_timeout
        )
        return await unary(call, Service.APP_FUNCTIONS)


def _set_from_any_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # The loop is closed, and nobody waits.
        loop.call_soon_threadsafe(event.set)
