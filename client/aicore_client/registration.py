"""Functions that an app registers while it runs.

https://developer.android.com/reference/android/app/appfunctions/AppFunctionRegistration
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from aicore_client._host_calls import HostCalls
from aicore_client._registrations import Handler, LiveRegistration
from aicore_client._values import from_object
from aicore_client.app_function_requests import (
    AppFunctionSearchSpec,
    ExecuteAppFunctionRequest,
    ExecuteAppFunctionResponse,
)
from aicore_client.errors import AppFunctionException
from aicore_client.metadata import AppFunctionMetadata
from aicore_protos import appfunctions_pb2

AppFunction = Callable[[ExecuteAppFunctionRequest], Awaitable[object]]
"""Runs one call: a coroutine function of the request.

It returns the value, or an ExecuteAppFunctionResponse with it. AppFunctionException reaches the
caller with code and text; ValueError, Kotlin's IllegalArgumentException, is 1001 with its text;
every other exception is 3000 with its text. A cancelled call cancels the coroutine, and letting
the cancellation pass is the answer 2001.
"""


class Activity:
    """Stands for an activity of the app, whose end is the end of what it registered.

    `activity_id` is Android's AppFunctionActivityId: a caller of an activity's function names it.
    Use it as a context manager, or call `close`.
    """

    def __init__(self) -> None:
        self.activity_id = os.urandom(16).hex()
        self.is_closed = False
        self._registrations: list[AppFunctionRegistration] = []

    def close(self) -> None:
        """Unregisters what the activity registered. Idempotent."""
        self.is_closed = True
        registrations, self._registrations = self._registrations, []
        for registration in registrations:
            registration.unregister()

    def require_open(self) -> None:
        """Raises RuntimeError, as Android throws an IllegalStateException, after `close`."""
        if self.is_closed:
            raise RuntimeError(f"The activity {self.activity_id} is closed and registers nothing.")

    def keep(self, registration: AppFunctionRegistration) -> None:
        """Ends `registration` with the activity, at once when that has ended meanwhile."""
        if self.is_closed:
            registration.unregister()
        self._registrations.append(registration)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Activity(activity_id={self.activity_id!r})"


@dataclass(frozen=True)
class RegisterAppFunctionRequest:
    """A declared function and what runs it."""

    function_identifier: str
    app_function: AppFunction
    activity: Activity | None = None


class HasActivity(Protocol):
    """A request of either façade."""

    @property
    def activity(self) -> Activity | None: ...


class AppFunctionRegistration:
    """One registration of one or more functions. Also a context manager that unregisters."""

    def __init__(self, live: LiveRegistration) -> None:
        self._live = live

    @property
    def is_registered(self) -> bool:
        """False after `unregister`, and after the end of the connection or of the host."""
        return not self._live.ended.is_set()

    def unregister(self) -> None:
        """Idempotent, and without effect on a later registration of the same functions. Calls
        that run already may end; one that is on its way gets 1002."""
        self._live.stream.unregister(self._live)

    async def wait_unregistered(self) -> None:
        """Ours: returns when the functions are registered no longer, for whatever reason."""
        await self._live.ended.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.unregister()


async def register(
    host: HostCalls, requests: Sequence[RegisterAppFunctionRequest]
) -> AppFunctionRegistration:
    """Registers for the platform's façade; see AppFunctionManager."""
    package_name = (await host.caller()).package_name if requests else ""
    return await register_handlers(
        host, [(one.function_identifier, _handler(one, package_name), one) for one in requests]
    )


async def register_handlers(
    host: HostCalls, requests: Sequence[tuple[str, Handler, HasActivity]]
) -> AppFunctionRegistration:
    """Registers handlers for function identifiers, all of them or none."""
    if not requests:
        raise ValueError("At least one AppFunction must be registered.")
    activities = list(dict.fromkeys(one.activity for *_, one in requests if one.activity))
    for activity in activities:
        activity.require_open()
    of_activity = await _functions_of_activities(host) if activities else frozenset()
    sent = []
    handlers = {}
    for identifier, handler, request in requests:
        made = appfunctions_pb2.ProviderMessage.Registration(function_identifier=identifier)
        if request.activity is not None and identifier in of_activity:
            made.activity_id = request.activity.activity_id
        sent.append(made)
        handlers[identifier, made.activity_id] = handler
    live = await host.connection.registrations().register(sent, handlers)
    registration = AppFunctionRegistration(live)
    for activity in activities:
        activity.keep(registration)
    return registration


async def _functions_of_activities(host: HostCalls) -> frozenset[str]:
    """Android takes a global function from an activity, too, and ends it with the activity; only
    an activity's function carries the id."""
    package_name = (await host.caller()).package_name
    own = await host.search(AppFunctionSearchSpec(package_names=[package_name]))
    return frozenset(
        function.name.function_identifier
        for function in own
        if function.scope == AppFunctionMetadata.SCOPE_ACTIVITY
    )


def _handler(request: RegisterAppFunctionRequest, package_name: str) -> Handler:
    async def handle(call: appfunctions_pb2.HostMessage.Call) -> object:
        asked = ExecuteAppFunctionRequest(
            target_package_name=package_name,
            function_identifier=call.function_identifier,
            parameters=from_object(call.parameters),
            activity_id=call.activity_id or None,
        )
        try:
            result = await request.app_function(asked)
        except ValueError as error:
            code = AppFunctionException.ERROR_INVALID_ARGUMENT
            raise AppFunctionException(code, str(error)) from error
        if isinstance(result, ExecuteAppFunctionResponse):
            return result.return_value
        return result

    return handle
