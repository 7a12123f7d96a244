"""The classes of androidx.appfunctions. Import them from here: some have the platform's names."""

from __future__ import annotations

from aicore_client.app_function_requests import AppFunctionActivityState, AppFunctionSearchSpec
from aicore_client.jetpack.data import AppFunctionData
from aicore_client.jetpack.exceptions import (
    AppFunctionAppException,
    AppFunctionAppUnknownException,
    AppFunctionCancelledException,
    AppFunctionDeniedException,
    AppFunctionDisabledException,
    AppFunctionElementAlreadyExistsException,
    AppFunctionElementNotFoundException,
    AppFunctionException,
    AppFunctionFunctionNotFoundException,
    AppFunctionInvalidArgumentException,
    AppFunctionLimitExceededException,
    AppFunctionNotSupportedException,
    AppFunctionPermissionRequiredException,
    AppFunctionRequestException,
    AppFunctionSystemException,
    AppFunctionSystemUnknownException,
    AppFunctionUnknownException,
)
from aicore_client.jetpack.manager import AppFunctionManager
from aicore_client.jetpack.requests import (
    Error,
    ExecuteAppFunctionRequest,
    ExecuteAppFunctionResponse,
    HandleAppFunctionRequest,
    RegisterAppFunctionRequest,
    Success,
    SuspendingAppFunction,
)
from aicore_client.metadata import AppFunctionMetadata, AppFunctionName, AppFunctionState
from aicore_client.observation import AppFunctionsChangeEvent
from aicore_client.registration import Activity, AppFunctionRegistration

__all__ = [
    "Activity",
    "AppFunctionActivityState",
    "AppFunctionAppException",
    "AppFunctionAppUnknownException",
    "AppFunctionCancelledException",
    "AppFunctionData",
    "AppFunctionDeniedException",
    "AppFunctionDisabledException",
    "AppFunctionElementAlreadyExistsException",
    "AppFunctionElementNotFoundException",
    "AppFunctionException",
    "AppFunctionFunctionNotFoundException",
    "AppFunctionInvalidArgumentException",
    "AppFunctionLimitExceededException",
    "AppFunctionManager",
    "AppFunctionMetadata",
    "AppFunctionName",
    "AppFunctionNotSupportedException",
    "AppFunctionPermissionRequiredException",
    "AppFunctionRegistration",
    "AppFunctionRequestException",
    "AppFunctionSearchSpec",
    "AppFunctionState",
    "AppFunctionSystemException",
    "AppFunctionSystemUnknownException",
    "AppFunctionUnknownException",
    "AppFunctionsChangeEvent",
    "Error",
    "ExecuteAppFunctionRequest",
    "ExecuteAppFunctionResponse",
    "HandleAppFunctionRequest",
    "RegisterAppFunctionRequest",
    "Success",
    "SuspendingAppFunction",
]
