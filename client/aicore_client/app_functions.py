"""AppFunctions of other apps and of one's own, through the platform's manager.

https://developer.android.com/reference/android/app/appfunctions/AppFunctionManager
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from aicore_client._host_calls import HostCalls
from aicore_client.app_function_requests import (
    AppFunctionActivityState,
    AppFunctionSearchSpec,
    ExecuteAppFunctionRequest,
    ExecuteAppFunctionResponse,
)
from aicore_client.cancellation import CancellationSignal
from aicore_client.connection import DeviceConnection
from aicore_client.metadata import AppFunctionMetadata, AppFunctionName, AppFunctionState
from aicore_client.observation import AppFunctionObservation
from aicore_client.registration import (
    Activity,
    AppFunction,
    AppFunctionRegistration,
    RegisterAppFunctionRequest,
    register,
)
from aicore_protos import appfunctions_pb2

__all__ = ["AppFunctionManager", "ExecuteAppFunctionRequest"]


class AppFunctionManager:
    """The platform's view: refusals are :class:`AppFunctionException` (1000 and so on).

    `calling_package` is a claim that the host checks against the app's token; None claims what
    the token says. Every call raises AppFunctionException, with 2000 when the host is not there.
    Below Android 17 there is no search, no states, no observation and no registration: such a
    call raises NoSuchMethodError. Jetpack's manager is `aicore_client.jetpack.AppFunctionManager`.
    """

    APP_FUNCTION_STATE_DEFAULT: Final = 0
    APP_FUNCTION_STATE_ENABLED: Final = 1
    APP_FUNCTION_STATE_DISABLED: Final = 2

    def __init__(
        self, connection: DeviceConnection | None = None, *, calling_package: str | None = None
    ) -> None:
        claimed = calling_package or ""
        self._host = HostCalls(connection, claimed, appfunctions_pb2.CALLER_LIBRARY_PLATFORM)
        self._reader = HostCalls(connection, claimed, appfunctions_pb2.CALLER_LIBRARY_JETPACK)

    async def search_app_functions(
        self, spec: AppFunctionSearchSpec | None = None
    ) -> list[AppFunctionMetadata]:
        """Functions that the app may discover; hidden ones are left out without an error."""
        return await self._host.search(spec or AppFunctionSearchSpec())

    async def execute_app_function(
        self,
        request: ExecuteAppFunctionRequest,
        cancellation_signal: CancellationSignal | None = None,
    ) -> ExecuteAppFunctionResponse:
        """Runs one function. ValueError or TypeError for parameters that cannot be sent.

        After `cancellation_signal.cancel()` a function of a service is told and answers nobody:
        Android calls nobody back then, and here OperationCanceledException ends the waiting. A
        function that its app registered may still answer, as a rule with 2001. Cancelling the
        task cancels the function, too. A signal that was cancelled before sends nothing.
        """
        value = await self._host.execute(
            AppFunctionName(request.target_package_name, request.function_identifier),
            request.parameters,
            activity_id=request.activity_id,
            cancellation_signal=cancellation_signal,
        )
        return ExecuteAppFunctionResponse(return_value=value)

    async def get_app_function_states(
        self, names: Iterable[AppFunctionName]
    ) -> list[AppFunctionState]:
        """States of the named functions; missing and hidden ones are left out."""
        return await self._host.states(names)

    async def get_app_function_activity_states(
        self, activity_ids: Iterable[str]
    ) -> list[AppFunctionActivityState]:
        """Which visible functions are registered in these activities; those without are left out.

        The ids are those of :class:`AppFunctionState` and :class:`Activity`.
        """
        return await self._host.activity_states(activity_ids)

    def observe_app_functions(self) -> AppFunctionObservation:
        """Changes from now on; see :class:`AppFunctionObservation`. Nothing happens before it is
        entered or iterated."""
        return self._host.observe()

    async def is_app_function_enabled(
        self, function_identifier: str, target_package: str | None = None
    ) -> bool:
        """ValueError when there is no such function, or none that the app may see.

        Without `target_package` the function is one of the app's own.
        """
        if target_package is None:
            name = await self._own_name(function_identifier)
        else:
            name = AppFunctionName(target_package, function_identifier)
        return await self._host.is_enabled(name)

    async def set_app_function_enabled(self, function_identifier: str, state: int) -> None:
        """Sets the state of one of the app's own functions to an APP_FUNCTION_STATE_*.

        ValueError for an unknown function or state.
        """
        if state not in appfunctions_pb2.EnabledState.values():
            raise ValueError(f"Invalid state: {state}")
        await self._host.set_enabled(await self._own_name(function_identifier), state)

    async def register_app_function(
        self,
        function_identifier: str,
        app_function: AppFunction,
        *,
        activity: Activity | None = None,
    ) -> AppFunctionRegistration:
        """As `register_app_functions` with one request."""
        request = RegisterAppFunctionRequest(function_identifier, app_function, activity)
        return await self.register_app_functions([request])

    async def register_app_functions(
        self, requests: Sequence[RegisterAppFunctionRequest]
    ) -> AppFunctionRegistration:
        """Runs functions that the app has declared for that, all of them or none.

        A registration ends with `unregister`, with its activity, with the connection, with the
        process and with the host; nothing registers again by itself.

        Raises ValueError without requests, for a function that is not declared, and for an
        activity's function without activity; RuntimeError for one that is registered already.
        """
        return await register(self._reader, requests)

    async def own_package_name(self) -> str:
        """Ours: the app's own package, which on a phone its Context knows."""
        return (await self._host.caller()).package_name

    async def own_functions(self) -> list[AppFunctionMetadata]:
        """Ours: the functions of the app's own package, on every platform."""
        own = await self.own_package_name()
        return await self._reader.search(AppFunctionSearchSpec(package_names=[own]))

    async def _own_name(self, function_identifier: str) -> AppFunctionName:
        for function in await self.own_functions():
            if function.name.function_identifier == function_identifier:
                return function.name
        raise ValueError(f"Function {function_identifier} does not exist")
