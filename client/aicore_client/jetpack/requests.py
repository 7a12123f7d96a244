"""What an app asks of Jetpack's manager, and what it gets.

https://developer.android.com/reference/kotlin/androidx/appfunctions/ExecuteAppFunctionResponse
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ClassVar

from aicore_client.jetpack.data import AppFunctionData
from aicore_client.jetpack.exceptions import AppFunctionException
from aicore_client.jetpack.spec import RETURN_VALUE
from aicore_client.registration import Activity


@dataclass(frozen=True)
class ExecuteAppFunctionRequest:
    """`activity_id` only for a function that an activity registered."""

    target_package_name: str
    function_identifier: str
    function_parameters: AppFunctionData = field(default_factory=AppFunctionData)
    activity_id: str | None = None


class ExecuteAppFunctionResponse:
    """Either a :class:`Success` or an :class:`Error`: `match` on them."""

    Success: ClassVar[type[Success]]
    Error: ClassVar[type[Error]]


@dataclass(frozen=True)
class Success(ExecuteAppFunctionResponse):
    """The value is in `return_value` under PROPERTY_RETURN_VALUE; EMPTY when there is none."""

    PROPERTY_RETURN_VALUE: ClassVar[str] = RETURN_VALUE

    return_value: AppFunctionData


@dataclass(frozen=True)
class Error(ExecuteAppFunctionResponse):
    error: AppFunctionException


ExecuteAppFunctionResponse.Success = Success
ExecuteAppFunctionResponse.Error = Error

SuspendingAppFunction = Callable[
    [ExecuteAppFunctionRequest], Awaitable["ExecuteAppFunctionResponse"]
]
"""Runs one call of a registered function.

A coroutine function that returns Success or Error, or raises an AppFunctionException of this
package; any other exception, ValueError too, is 3000 for the caller, with its text. A cancelled
call cancels the coroutine, and letting the cancellation pass is the answer 2001.
"""


@dataclass(frozen=True)
class RegisterAppFunctionRequest:
    """A declared function and what runs it."""

    function_identifier: str
    app_function: SuspendingAppFunction
    activity: Activity | None = None


HandleAppFunctionRequest = RegisterAppFunctionRequest
