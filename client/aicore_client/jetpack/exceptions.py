"""How Jetpack reports that a function did not run.

https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionException
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from aicore_client.errors import AppFunctionException as PlatformAppFunctionException


class AppFunctionException(Exception):
    """Base of the classes of this module; no subclass of the platform's AppFunctionException.

    `error_code` is Android's number. `extras` is what the function gave along, empty otherwise.
    """

    ERROR_DENIED: Final = 1000
    ERROR_INVALID_ARGUMENT: Final = 1001
    ERROR_DISABLED: Final = 1002
    ERROR_FUNCTION_NOT_FOUND: Final = 1003
    ERROR_RESOURCE_NOT_FOUND: Final = 1500
    ERROR_LIMIT_EXCEEDED: Final = 1501
    ERROR_RESOURCE_ALREADY_EXISTS: Final = 1502
    ERROR_SYSTEM_ERROR: Final = 2000
    ERROR_CANCELLED: Final = 2001
    ERROR_APP_UNKNOWN_ERROR: Final = 3000
    ERROR_PERMISSION_REQUIRED: Final = 3500
    ERROR_NOT_SUPPORTED: Final = 3501

    _code: ClassVar[int] = 0

    def __init__(
        self, error_message: str | None = None, extras: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(error_message)
        self.error_code = self._code
        self.error_message = error_message
        self.extras: Mapping[str, object] = dict(extras or {})

    def __str__(self) -> str:
        return f"[{self.error_code}] {self.error_message or ''}".rstrip()


class AppFunctionRequestException(AppFunctionException):
    """The request is at fault."""


class AppFunctionDeniedException(AppFunctionRequestException):
    """The caller may not run the function."""

    _code = AppFunctionException.ERROR_DENIED


class AppFunctionInvalidArgumentException(AppFunctionRequestException):
    """An argument is missing or not what the function takes."""

    _code = AppFunctionException.ERROR_INVALID_ARGUMENT


class AppFunctionDisabledException(AppFunctionRequestException):
    """The function is disabled, or its app has not registered it."""

    _code = AppFunctionException.ERROR_DISABLED


class AppFunctionFunctionNotFoundException(AppFunctionRequestException):
    """There is no such function, or none that the caller may discover."""

    _code = AppFunctionException.ERROR_FUNCTION_NOT_FOUND


class AppFunctionElementNotFoundException(AppFunctionRequestException):
    """What the call is about does not exist."""

    _code = AppFunctionException.ERROR_RESOURCE_NOT_FOUND


class AppFunctionLimitExceededException(AppFunctionRequestException):
    """The app limits how often it may be asked."""

    _code = AppFunctionException.ERROR_LIMIT_EXCEEDED


class AppFunctionElementAlreadyExistsException(AppFunctionRequestException):
    """What the call would create exists already."""

    _code = AppFunctionException.ERROR_RESOURCE_ALREADY_EXISTS


class AppFunctionSystemException(AppFunctionException):
    """The system is at fault."""


class AppFunctionSystemUnknownException(AppFunctionSystemException):
    """An internal error, or a service that cannot be reached."""

    _code = AppFunctionException.ERROR_SYSTEM_ERROR


class AppFunctionCancelledException(AppFunctionSystemException):
    """The call was cancelled."""

    _code = AppFunctionException.ERROR_CANCELLED


class AppFunctionAppException(AppFunctionException):
    """The app that provides the function is at fault."""


class AppFunctionAppUnknownException(AppFunctionAppException):
    """The function failed, or its process died."""

    _code = AppFunctionException.ERROR_APP_UNKNOWN_ERROR


class AppFunctionPermissionRequiredException(AppFunctionAppException):
    """The app itself lacks a permission that the user can grant."""

    _code = AppFunctionException.ERROR_PERMISSION_REQUIRED


class AppFunctionNotSupportedException(AppFunctionAppException):
    """The app does not support what is asked for."""

    _code = AppFunctionException.ERROR_NOT_SUPPORTED


class AppFunctionUnknownException(AppFunctionException):
    """A code without a class: 2002, which only the platform names, and those of later versions."""

    def __init__(
        self,
        error_code: int,
        error_message: str | None = None,
        extras: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(error_message, extras)
        self.error_code = error_code


_CLASSES: Final[Mapping[int, type[AppFunctionException]]] = {
    AppFunctionException.ERROR_DENIED: AppFunctionDeniedException,
    AppFunctionException.ERROR_INVALID_ARGUMENT: AppFunctionInvalidArgumentException,
    AppFunctionException.ERROR_DISABLED: AppFunctionDisabledException,
    AppFunctionException.ERROR_FUNCTION_NOT_FOUND: AppFunctionFunctionNotFoundException,
    AppFunctionException.ERROR_RESOURCE_NOT_FOUND: AppFunctionElementNotFoundException,
    AppFunctionException.ERROR_LIMIT_EXCEEDED: AppFunctionLimitExceededException,
    AppFunctionException.ERROR_RESOURCE_ALREADY_EXISTS: AppFunctionElementAlreadyExistsException,
    AppFunctionException.ERROR_SYSTEM_ERROR: AppFunctionSystemUnknownException,
    AppFunctionException.ERROR_CANCELLED: AppFunctionCancelledException,
    AppFunctionException.ERROR_APP_UNKNOWN_ERROR: AppFunctionAppUnknownException,
    AppFunctionException.ERROR_PERMISSION_REQUIRED: AppFunctionPermissionRequiredException,
    AppFunctionException.ERROR_NOT_SUPPORTED: AppFunctionNotSupportedException,
}


def from_platform(error: PlatformAppFunctionException) -> AppFunctionException:
    """The exception with the class for the code."""
    found = _CLASSES.get(error.error_code)
    if found is None:
        return AppFunctionUnknownException(error.error_code, error.error_message, error.extras)
    return found(error.error_message, error.extras)


def to_platform(error: AppFunctionException) -> PlatformAppFunctionException:
    return PlatformAppFunctionException(error.error_code, error.error_message, error.extras)
