"""What the device answers when a call fails.

Three roots, because users act on them differently: what AICore reports, what the AppFunction
service reports, and what no phone would ever report.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class GenAiCode(IntEnum):
    """`GenAiException.ErrorCode` and the AICore codes outside it that the daemon uses.

    Source: https://developers.google.com/android/reference/com/google/mlkit/genai/common/GenAiException.ErrorCode
    """

    UNKNOWN = 0
    REQUEST_PROCESSING_ERROR = 4
    CANCELLED = 7
    NOT_AVAILABLE = 8
    BUSY = 9
    RESPONSE_PROCESSING_ERROR = 11
    REQUEST_TOO_LARGE = 12
    RESPONSE_GENERATION_ERROR = 15
    NOT_SUPPORTED = 16
    PER_APP_BATTERY_USE_QUOTA_EXCEEDED = 27
    INTERNAL_ERROR = 29
    BACKGROUND_USE_BLOCKED = 30
    NOT_ENOUGH_DISK_SPACE = 501
    BINDING_FAILURE = 601
    NEEDS_SYSTEM_UPDATE = 604
    FEATURE_NOT_FOUND = 606
    REQUEST_TOO_SMALL = -100
    AICORE_INCOMPATIBLE = -101
    CACHE_PROCESSING_ERROR = -103


class AppFunctionCode(IntEnum):
    """`AppFunctionException.ERROR_*`.

    Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionException
    """

    DENIED = 1000
    INVALID_ARGUMENT = 1001
    DISABLED = 1002
    FUNCTION_NOT_FOUND = 1003
    SYSTEM_ERROR = 2000
    CANCELLED = 2001
    ENTERPRISE_POLICY_DISALLOWED = 2002
    APP_UNKNOWN_ERROR = 3000


class FaultKind(IntEnum):
    """Members and numbers of `SimulatorError.Kind` in errors.proto."""

    UNAUTHENTICATED = 1
    FORBIDDEN = 2
    INVALID_REQUEST = 3
    UNIMPLEMENTED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    INTERNAL = 7
    MESSAGE_TOO_LARGE = 8
    SCRIPT_DRIFT = 9
    NO_SUCH_METHOD = 10
    ILLEGAL_ARGUMENT = 11
    ILLEGAL_STATE = 12
    OPERATION_CANCELED = 13
    REPLAY_DRIFT = 14


class DeviceError(Exception):
    """Root of everything that a call on the device may fail with."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class GenAiError(DeviceError):
    """A failure that AICore reports; the client raises it as `GenAiException`.

    `retry_delay` is in seconds and only above zero for quota errors.
    """

    def __init__(
        self, error_code: int, message: str, *, retry_delay: float = 0.0, error_type: int = 0
    ) -> None:
        super().__init__(message)
        self.error_code = int(error_code)
        self.retry_delay = retry_delay
        self.error_type = error_type


class AppFunctionError(DeviceError):
    """A failure that the AppFunction service or a function reports."""

    def __init__(
        self, error_code: int, message: str, *, extras: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.error_code = int(error_code)
        self.extras = extras


class SimulatorFault(DeviceError):
    """A failure of set-up or use of the simulator, with no counterpart on a phone."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
