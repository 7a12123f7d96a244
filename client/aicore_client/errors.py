"""The exceptions that an app sees.

:class:`GenAiException` and :class:`AppFunctionException` are what a phone throws, with the phone's
integers. Everything under :class:`SimulatorError` is a fault of the simulated device's set-up that
no phone would report; it has its own root so that app code never handles it by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aicore_client.partial_run import PartialRun

BINDING_FAILURE: Final = 601
"""Raw AICore code: the AICore service cannot be reached. It has no `ErrorCode` constant."""

_DEVICE_BATTERY_QUOTA: Final = 28


class GenAiException(Exception):
    """An ML Kit GenAI call failed.

    `error_code` is an :class:`ErrorCode` number or, as on a phone, a raw AICore code outside that
    table (601 and 606, for example). AICore's 28, the quota of the whole device, shows as BUSY.
    `retry_delay` is the time to wait after a quota error and zero otherwise. `run` (ours) is what
    an agent's turn had done before it failed; None for an error outside of a turn.

    https://developers.google.com/android/reference/com/google/mlkit/genai/common/GenAiException
    """

    class ErrorCode(IntEnum):
        """https://developers.google.com/android/reference/com/google/mlkit/genai/common/GenAiException.ErrorCode"""

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
        BACKGROUND_USE_BLOCKED = 30
        NOT_ENOUGH_DISK_SPACE = 501
        NEEDS_SYSTEM_UPDATE = 604
        REQUEST_TOO_SMALL = -100
        AICORE_INCOMPATIBLE = -101
        INVALID_INPUT_IMAGE = -102
        CACHE_PROCESSING_ERROR = -103
        STRUCTURED_OUTPUT_REQUEST_ERROR = -104
        STRUCTURED_OUTPUT_RESPONSE_ERROR = -105
        STRUCTURED_OUTPUT_MAX_TOKENS_ERROR = -106
        AUDIO_BUFFER_OVERFLOW = -107
        MAX_TURNS_EXCEEDED = -112

    def __init__(
        self, message: str, error_code: int, retry_delay: timedelta = timedelta(0)
    ) -> None:
        super().__init__(message, error_code, retry_delay)
        shown = self.ErrorCode.BUSY if error_code == _DEVICE_BATTERY_QUOTA else error_code
        self.message = message
        self.error_code: int = _known(int(shown))
        self.retry_delay = retry_delay
        self.run: PartialRun | None = None

    def __str__(self) -> str:
        return f"[ErrorCode {int(self.error_code)}] {self.message}"


def _known(code: int) -> int:
    """The member of `ErrorCode` where there is one: an app shows its name, and a code of a later
    library stays the number it is."""
    try:
        return GenAiException.ErrorCode(code)
    except ValueError:
        return code


class AppFunctionException(Exception):
    """An AppFunction call failed.

    `error_category` follows from the range of `error_code`. `extras` is what the function gave
    along, empty otherwise.

    https://developer.android.com/reference/android/app/appfunctions/AppFunctionException
    """

    ERROR_DENIED: Final = 1000
    ERROR_INVALID_ARGUMENT: Final = 1001
    ERROR_DISABLED: Final = 1002
    ERROR_FUNCTION_NOT_FOUND: Final = 1003
    ERROR_SYSTEM_ERROR: Final = 2000
    ERROR_CANCELLED: Final = 2001
    ERROR_ENTERPRISE_POLICY_DISALLOWED: Final = 2002
    ERROR_APP_UNKNOWN_ERROR: Final = 3000

    ERROR_CATEGORY_UNKNOWN: Final = 0
    ERROR_CATEGORY_REQUEST_ERROR: Final = 1
    ERROR_CATEGORY_SYSTEM: Final = 2
    ERROR_CATEGORY_APP: Final = 3

    def __init__(
        self,
        error_code: int,
        error_message: str | None = None,
        extras: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(error_code, error_message, extras)
        self.error_code = error_code
        self.error_message = error_message
        self.extras: Mapping[str, object] = dict(extras or {})

    @property
    def error_category(self) -> int:
        thousands = self.error_code // 1000
        return thousands if thousands in (1, 2, 3) else self.ERROR_CATEGORY_UNKNOWN

    def __str__(self) -> str:
        return f"[{self.error_code}] {self.error_message or ''}".rstrip()


class OperationCanceledException(Exception):
    """A call ended because its CancellationSignal was cancelled, without an answer of the function.

    https://developer.android.com/reference/android/os/OperationCanceledException
    """

    def __init__(self, message: str = "The operation has been canceled.") -> None:
        super().__init__(message)


class SimulatorError(Exception):
    """The simulated device, or the way it is used, is at fault. The message says what to change."""


class DeviceNotConfiguredError(SimulatorError):
    """The environment names no simulated device."""


class UnauthenticatedError(SimulatorError):
    """The app's token is missing, unknown, or no longer valid."""


class ForbiddenError(SimulatorError):
    """The token is valid, but the service is for another kind of token."""


class InvalidRequestError(SimulatorError):
    """The request breaks a rule that Android's typed API makes impossible to break."""


class UnimplementedError(SimulatorError):
    """This version of the simulator declares the call and does not answer it."""


class NotFoundError(SimulatorError):
    """What the call names does not exist on the device."""


class AlreadyExistsError(SimulatorError):
    """What the call would create exists already."""


class InternalError(SimulatorError):
    """A fault inside the simulator. `aicore-sim logs` has the trace."""


class MessageTooLargeError(SimulatorError):
    """A request or an answer is larger than the transport allows."""


class ScriptDriftError(SimulatorError):
    """The scripted model has no step for the call, or has steps left over."""


class ReplayDriftError(SimulatorError):
    """The request is not the one that the recorded run has next."""


class NoSuchMethodError(SimulatorError):
    """The Android version of this device has no such call."""
