"""Jetpack's exceptions by name, each with its code, for functions to raise.

Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/package-summary
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from appfunctions_host.annotations import AppFunctionException


class _Coded(AppFunctionException):
    CODE: ClassVar[int]

    def __init__(self, error_message: str = "", extras: Mapping[str, Any] | None = None) -> None:
        super().__init__(self.CODE, error_message, extras)


class AppFunctionRequestException(_Coded):
    """Category 1: what the caller asked for cannot be."""


class AppFunctionDeniedException(AppFunctionRequestException):
    CODE = 1000


class AppFunctionInvalidArgumentException(AppFunctionRequestException):
    CODE = 1001


class AppFunctionDisabledException(AppFunctionRequestException):
    CODE = 1002


class AppFunctionFunctionNotFoundException(AppFunctionRequestException):
    CODE = 1003


class AppFunctionElementNotFoundException(AppFunctionRequestException):
    CODE = 1500


class AppFunctionLimitExceededException(AppFunctionRequestException):
    CODE = 1501


class AppFunctionElementAlreadyExistsException(AppFunctionRequestException):
    CODE = 1502


class AppFunctionSystemException(_Coded):
    """Category 2: the system failed."""


class AppFunctionSystemUnknownException(AppFunctionSystemException):
    CODE = 2000


class AppFunctionCancelledException(AppFunctionSystemException):
    CODE = 2001


class AppFunctionAppException(_Coded):
    """Category 3: the app failed."""


class AppFunctionAppUnknownException(AppFunctionAppException):
    CODE = 3000


class AppFunctionPermissionRequiredException(AppFunctionAppException):
    CODE = 3500


class AppFunctionNotSupportedException(AppFunctionAppException):
    CODE = 3501


class AppFunctionUnknownException(AppFunctionException):
    """Any code that has no class, for example 2002. The code stands first."""
