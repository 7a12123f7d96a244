"""Jetpack's manager: metadata first, errors returned.

https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionManager
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Final, Self, TypeVar

from aicore_client._host_calls import HostCalls
from aicore_client._registrations import Handler
from aicore_client._values import from_object
from aicore_client.app_function_requests import AppFunctionActivityState, AppFunctionSearchSpec
from aicore_client.connection import DeviceConnection
from aicore_client.errors import AppFunctionException as PlatformAppFunctionException
from aicore_client.jetpack.data import AppFunctionData
from aicore_client.jetpack.exceptions import (
    AppFunctionException,
    AppFunctionFunctionNotFoundException,
    AppFunctionSystemUnknownException,
    from_platform,
    to_platform,
)
from aicore_client.jetpack.requests import (
    Error,
    ExecuteAppFunctionRequest,
    ExecuteAppFunctionResponse,
    RegisterAppFunctionRequest,
    Success,
    SuspendingAppFunction,
)
from aicore_client.jetpack.spec import RETURN_VALUE, DataSpec
from aicore_client.jetpack.verification import attached_verification, verify_caller
from aicore_client.metadata import (
    AppFunctionMetadata,
    AppFunctionName,
    AppFunctionState,
    DataType,
)
from aicore_client.observation import AppFunctionObservation
from aicore_client.registration import Activity, AppFunctionRegistration, register_handlers
from aicore_protos import appfunctions_pb2

_MIN_SDK_INT_FULL: Final = 3_600_000
_Result = TypeVar("_Result")


class AppFunctionManager:
    """Made by `get_instance`.

    `execute_app_function` returns its errors; the other calls raise the exceptions of
    `aicore_client.jetpack`, and ValueError where Kotlin has IllegalArgumentException. Search,
    states and execution also work below Android 17, where Jetpack reads AppSearch; observation,
    activities and registration do not, and raise NoSuchMethodError.
    """

    APP_FUNCTION_STATE_DEFAULT: Final = 0
    APP_FUNCTION_STATE_ENABLED: Final = 1
    APP_FUNCTION_STATE_DISABLED: Final = 2

    def __init__(self, host: HostCalls, caller: appfunctions_pb2.GetCallingPackageResponse) -> None:
        self._host = host
        self._caller = caller

    @classmethod
    async def get_instance(cls, connection: DeviceConnection | None = None) -> Self | None:
        """None where the device is below Android 16 (API level 36).

        Ours: asks the device, so it raises AppFunctionSystemUnknownException when the host cannot
        be reached. Make a new one when the device is started with another platform.
        """
        host = HostCalls(connection, "", appfunctions_pb2.CALLER_LIBRARY_JETPACK)
        caller = await _translated(host.caller())
        if caller.sdk_int_full < _MIN_SDK_INT_FULL:
            return None
        return cls(host, caller)

    async def execute_app_function(
        self, request: ExecuteAppFunctionRequest
    ) -> ExecuteAppFunctionResponse:
        """Success, or Error with an exception of `aicore_client.jetpack`.

        A function that the app may not discover does not exist (1003), whatever the platform would
        say. Cancelling the task cancels the function. Raises ValueError or TypeError for
        parameters that cannot be sent, and SimulatorError for a fault of the set-up.
        """
        name = AppFunctionName(request.target_package_name, request.function_identifier)
        try:
            function = await self._metadata(name)
        except PlatformAppFunctionException as error:
            return Error(
                AppFunctionSystemUnknownException(
                    f"The metadata of the app function could not be read: {error.error_message}"
                )
            )
        if function is None:
            return Error(_not_found(name))
        try:
            value = await self._host.execute(
                name,
                request.function_parameters.as_mapping(),
                activity_id=request.activity_id,
                verification=attached_verification(function, self._caller),
            )
        except PlatformAppFunctionException as error:
            return Error(from_platform(error))
        return Success(_returned(value, function))

    async def search_app_functions(
        self, search_spec: AppFunctionSearchSpec | None = None
    ) -> list[AppFunctionMetadata]:
        """Functions that the app may discover; hidden ones are left out without an error.

        Below Android 17.2 the access level hides none.
        """
        return await _translated(self._host.search(search_spec or AppFunctionSearchSpec()))

    async def get_app_function_states(
        self, app_function_names: Iterable[AppFunctionName]
    ) -> list[AppFunctionState]:
        """States of the named functions; missing and hidden ones are left out.

        Below Android 17.2 Jetpack hides by access level what the platform shows, unless the
        function has compat enforcement off.
        """
        return await _translated(self._host.states(app_function_names))

    async def get_app_function_activity_states(
        self, activity_ids: Iterable[str]
    ) -> list[AppFunctionActivityState]:
        """Which visible functions are registered in these activities."""
        return await _translated(self._host.activity_states(activity_ids))

    def observe_app_functions(self) -> AppFunctionObservation:
        """Kotlin's cold Flow of AppFunctionsChangeEvent; it raises as the platform's does."""
        return self._host.observe()

    async def is_app_function_enabled(
        self, function_id: str, package_name: str | None = None
    ) -> bool:
        """ValueError when there is no such function, or none that the app may see.

        Without `package_name` the function is one of the app's own. Releases since 1.0.0-alpha10
        have the states in its place.
        """
        package = self._caller.package_name if package_name is None else package_name
        return await _translated(self._host.is_enabled(AppFunctionName(package, function_id)))

    async def set_app_function_enabled(self, function_id: str, new_enabled_state: int) -> None:
        """Sets the state of one of the app's own functions to an APP_FUNCTION_STATE_*.

        ValueError for an unknown function or state.
        """
        if new_enabled_state not in appfunctions_pb2.EnabledState.values():
            raise ValueError(f"Invalid state: {new_enabled_state}")
        name = AppFunctionName(self._caller.package_name, function_id)
        await _translated(self._host.set_enabled(name, new_enabled_state))

    async def register_app_function(
        self,
        function_identifier: str,
        app_function: SuspendingAppFunction,
        *,
        activity: Activity | None = None,
    ) -> AppFunctionRegistration:
        """As `register_app_functions` with one request."""
        request = RegisterAppFunctionRequest(function_identifier, app_function, activity)
        return await self.register_app_functions([request])

    async def register_app_functions(
        self, requests: Sequence[RegisterAppFunctionRequest]
    ) -> AppFunctionRegistration:
        """Runs declared functions in this process, all or none; see the platform's manager.

        Raises ValueError without requests, for a function that is not declared, and for an
        activity's function without activity; RuntimeError for one that is registered already.
        """
        handlers = [(one.function_identifier, self._handler(one), one) for one in requests]
        return await _translated(register_handlers(self._host, handlers))

    async def handle_app_function(
        self,
        function_identifier: str,
        app_function: SuspendingAppFunction,
        *,
        activity: Activity | None = None,
    ) -> None:
        """As `handle_app_functions` with one request."""
        request = RegisterAppFunctionRequest(function_identifier, app_function, activity)
        await self.handle_app_functions([request])

    async def handle_app_functions(self, requests: Sequence[RegisterAppFunctionRequest]) -> None:
        """Registers, and unregisters when the task is cancelled; raises as registering does.

        On a phone it never returns. Here it does when the registration ends otherwise, with the
        host for instance.
        """
        with await self.register_app_functions(requests) as registration:
            await registration.wait_unregistered()

    async def _metadata(self, name: AppFunctionName) -> AppFunctionMetadata | None:
        spec = AppFunctionSearchSpec(package_names=[name.package_name], function_names=[name])
        return next(iter(await self._host.search(spec)), None)

    def _handler(self, request: RegisterAppFunctionRequest) -> Handler:
        async def handle(call: appfunctions_pb2.HostMessage.Call) -> object:
            try:
                return await self._run(request, call)
            except AppFunctionException as error:
                raise to_platform(error) from error

        return handle

    async def _run(
        self, request: RegisterAppFunctionRequest, call: appfunctions_pb2.HostMessage.Call
    ) -> object:
        name = AppFunctionName(self._caller.package_name, call.function_identifier)
        function = await self._metadata(name)
        if function is None:
            raise _not_found(name)
        verify_caller(function, call.verification, self._caller)
        response = await request.app_function(
            ExecuteAppFunctionRequest(
                target_package_name=name.package_name,
                function_identifier=name.function_identifier,
                function_parameters=AppFunctionData(
                    from_object(call.parameters),
                    spec=DataSpec.of(function.parameters, function.components),
                ),
                activity_id=call.activity_id or None,
            )
        )
        match response:
            case Success(return_value=value):
                return value.as_mapping().get(RETURN_VALUE)
            case Error(error=error):
                raise error
            case _:
                raise TypeError(
                    f"{name.function_identifier} must return Success or Error, "
                    f"not {type(response).__name__}"
                )


def _returned(value: object, function: AppFunctionMetadata) -> AppFunctionData:
    if function.response.value_type.type is DataType.TYPE_UNIT and value is None:
        return AppFunctionData.EMPTY
    spec = DataSpec.of(function.response, function.components)
    return AppFunctionData({} if value is None else {RETURN_VALUE: value}, spec=spec)


def _not_found(name: AppFunctionName) -> AppFunctionFunctionNotFoundException:
    return AppFunctionFunctionNotFoundException(
        f"App function not found with identifier: {name.function_identifier} "
        f"under package: {name.package_name}"
    )


async def _translated(call: Awaitable[_Result]) -> _Result:
    """With the platform's exceptions as Jetpack's."""
    try:
        return await call
    except PlatformAppFunctionException as error:
        raise from_platform(error) from error
