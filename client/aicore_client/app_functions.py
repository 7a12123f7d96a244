"""AppFunctions of other apps and of one's own, through the platform's manager.

https://developer.android.com/reference/android/app/appfunctions/AppFunctionManager
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aicore_client._boundary import Service, unary
from aicore_client._values import from_value, to_object
from aicore_client.connection import DeviceConnection, default_connection
from aicore_client.metadata import (
    AppFunctionMetadata,
    AppFunctionName,
    AppFunctionState,
    function_from_wire,
    name_to_wire,
    state_from_wire,
)
from aicore_protos import appfunctions_pb2


@dataclass(frozen=True, kw_only=True)
class AppFunctionSearchSpec:
    """Filters that all have to match; None matches everything, an empty collection nothing."""

    package_names: Iterable[str] | None = None
    function_names: Iterable[AppFunctionName] | None = None
    schema_category: str | None = None
    schema_name: str | None = None
    min_schema_version: int = 0
    scopes: Iterable[int] | None = None


@dataclass(frozen=True)
class ExecuteAppFunctionRequest:
    """Package and function as in the constructor of Android's builder; `activity_id` only for a
    function that an activity registered."""

    target_package_name: str
    function_identifier: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    activity_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExecuteAppFunctionResponse:
    """`return_value` is None for a function that returns nothing."""

    PROPERTY_RETURN_VALUE: Final = "androidAppfunctionsReturnValue"

    return_value: object


class AppFunctionManager:
    """The platform's view: refusals are :class:`AppFunctionException` (1000 and so on).

    `calling_package` is a claim that the host checks against the app's token; None claims what
    the token says. Every call raises AppFunctionException, with 2000 when the host is not there.
    """

    APP_FUNCTION_STATE_DEFAULT: Final = 0
    APP_FUNCTION_STATE_ENABLED: Final = 1
    APP_FUNCTION_STATE_DISABLED: Final = 2

    def __init__(
        self, connection: DeviceConnection | None = None, *, calling_package: str | None = None
    ) -> None:
        self._given_connection = connection
        self._calling_package = calling_package or ""

    async def search_app_functions(
        self, spec: AppFunctionSearchSpec | None = None
    ) -> list[AppFunctionMetadata]:
        """Functions that the app may discover; hidden ones are left out without an error."""
        spec = spec or AppFunctionSearchSpec()
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
        )
        found: list[AppFunctionMetadata] = []
        while True:
            response = await self._call("Search", request)
            found.extend(function_from_wire(function) for function in response.functions)
            if not response.next_page_token:
                return found
            request.page_token = response.next_page_token

    async def execute_app_function(
        self, request: ExecuteAppFunctionRequest
    ) -> ExecuteAppFunctionResponse:
        """Runs one function. ValueError or TypeError for parameters that cannot be sent."""
        message = appfunctions_pb2.ExecuteRequest(
            name=appfunctions_pb2.AppFunctionName(
                package_name=request.target_package_name,
                function_identifier=request.function_identifier,
            ),
            parameters=to_object(request.parameters),
            activity_id=request.activity_id or "",
            calling_package=self._calling_package,
        )
        timeout = self._connection.long_call_timeout
        response = await self._call("Execute", message, timeout=timeout)
        return ExecuteAppFunctionResponse(return_value=from_value(response.return_value))

    async def get_app_function_states(
        self, names: Iterable[AppFunctionName]
    ) -> list[AppFunctionState]:
        """States of the named functions; missing and hidden ones are left out."""
        request = appfunctions_pb2.GetStatesRequest(
            names=[name_to_wire(name) for name in names], calling_package=self._calling_package
        )
        response = await self._call("GetStates", request)
        return [state_from_wire(state) for state in response.states]

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
        request = appfunctions_pb2.IsEnabledRequest(
            name=name_to_wire(name),
            calling_package=self._calling_package,
        )
        response = await self._call("IsEnabled", request)
        return bool(response.is_enabled)

    async def set_app_function_enabled(self, function_identifier: str, state: int) -> None:
        """Sets the state of one of the app's own functions to an APP_FUNCTION_STATE_*.

        ValueError for an unknown function or state.
        """
        if state not in appfunctions_pb2.EnabledState.values():
            raise ValueError(f"Invalid state: {state}")
        request = appfunctions_pb2.SetEnabledRequest(
            name=name_to_wire(await self._own_name(function_identifier)),
            state=appfunctions_pb2.EnabledState.Name(state),
            calling_package=self._calling_package,
        )
        await self._call("SetEnabled", request)

    async def own_package_name(self) -> str:
        """Ours: the app's own package, which on a phone its Context knows."""
        request = appfunctions_pb2.GetCallingPackageRequest()
        response = await self._call("GetCallingPackage", request)
        return str(response.package_name)

    async def own_functions(self) -> list[AppFunctionMetadata]:
        """Ours: the functions of the app's own package."""
        own = await self.own_package_name()
        return await self.search_app_functions(AppFunctionSearchSpec(package_names=[own]))

    async def _own_name(self, function_identifier: str) -> AppFunctionName:
        for function in await self.own_functions():
            if function.name.function_identifier == function_identifier:
                return function.name
        raise ValueError(f"Function {function_identifier} does not exist")

    @property
    def _connection(self) -> DeviceConnection:
        return self._given_connection or default_connection()

    async def _call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        connection = self._connection
        call = getattr(connection.app_functions(), method)(
            request, metadata=connection.metadata, timeout=timeout or connection.call_timeout
        )
        return await unary(call, Service.APP_FUNCTIONS)
