"""The texts of AICore's failures.

AICore writes `AICore failed with error type <T>-<TYPE> and error code <C>-<NAME>: <detail>`, for
example in https://github.com/googlesamples/mlkit/issues/1061. Which type belongs to which code is
published only for the codes of `_TYPE_OF`; every other failure of a call is an inference error.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from aicore_sim.device.errors import GenAiCode, GenAiError


class ErrorType(IntEnum):
    """AICore's error types."""

    NONE = 0
    DOWNLOAD_ERROR = 1
    INFERENCE_ERROR = 2
    PREPARATION_ERROR = 3
    CONNECTION_ERROR = 4


IPC_ERROR = 6
"""The service was disconnected."""
DEVICE_BATTERY_QUOTA_EXCEEDED = 28
"""The budget of the whole device; the library shows it as BUSY (9)."""

_TYPE_OF: Mapping[int, ErrorType] = {
    GenAiCode.NOT_ENOUGH_DISK_SPACE: ErrorType.DOWNLOAD_ERROR,
    GenAiCode.NOT_AVAILABLE: ErrorType.PREPARATION_ERROR,
    GenAiCode.NEEDS_SYSTEM_UPDATE: ErrorType.PREPARATION_ERROR,
    GenAiCode.FEATURE_NOT_FOUND: ErrorType.PREPARATION_ERROR,
    GenAiCode.BINDING_FAILURE: ErrorType.CONNECTION_ERROR,
}
# AICore codes that GenAiException.ErrorCode does not name.
# The name of 28 is ours: only its number was seen.
_OTHER_NAMES: Mapping[int, str] = {
    IPC_ERROR: "IPC_ERROR",
    DEVICE_BATTERY_QUOTA_EXCEEDED: "DEVICE_BATTERY_USE_QUOTA_EXCEEDED",
}


def aicore_failure(
    error_code: int,
    detail: str,
    *,
    retry_delay: float = 0.0,
    error_type: ErrorType | None = None,
) -> GenAiError:
    """The error that an app sees, in AICore's own words around `detail`.

    `error_type` is the code's usual one when absent. Codes below zero are ML Kit's, raised above
    AICore: they carry `detail` alone and no type.
    """
    if error_code < 0:
        return GenAiError(error_code, detail, retry_delay=retry_delay)
    if error_type is None:
        error_type = _TYPE_OF.get(error_code, ErrorType.INFERENCE_ERROR)
    message = (
        f"AICore failed with error type {error_type.value}-{error_type.name} "
        f"and error code {error_code}-{_name(error_code)}: {detail}"
    )
    return GenAiError(error_code, message, retry_delay=retry_delay, error_type=error_type)


def _name(error_code: int) -> str:
    try:
        return GenAiCode(error_code).name
    except ValueError:
        return _OTHER_NAMES.get(error_code, GenAiCode.UNKNOWN.name)
