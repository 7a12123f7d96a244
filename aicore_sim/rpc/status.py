"""Domain errors to google.rpc.Status: the one error boundary of both daemons."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from aicore_protos import errors_pb2
from aicore_sim.device.errors import (
    AppFunctionCode,
    AppFunctionError,
    DeviceError,
    FaultKind,
    GenAiCode,
    GenAiError,
    SimulatorFault,
)
from aicore_sim.rpc.values import to_object

# What tools such as grpcurl see; our clients read only the typed detail. UNAVAILABLE is left to
# the transport, so that a client can tell a dead daemon from an answer.
_GEN_AI: Mapping[int, grpc.StatusCode] = {
    GenAiCode.BUSY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    GenAiCode.PER_APP_BATTERY_USE_QUOTA_EXCEEDED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    28: grpc.StatusCode.RESOURCE_EXHAUSTED,
    GenAiCode.CANCELLED: grpc.StatusCode.ABORTED,
    GenAiCode.NOT_AVAILABLE: grpc.StatusCode.FAILED_PRECONDITION,
    GenAiCode.FEATURE_NOT_FOUND: grpc.StatusCode.FAILED_PRECONDITION,
    GenAiCode.BACKGROUND_USE_BLOCKED: grpc.StatusCode.FAILED_PRECONDITION,
    GenAiCode.NOT_SUPPORTED: grpc.StatusCode.FAILED_PRECONDITION,
    GenAiCode.REQUEST_TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    GenAiCode.REQUEST_TOO_SMALL: grpc.StatusCode.INVALID_ARGUMENT,
}
_APP_FUNCTION: Mapping[int, grpc.StatusCode] = {
    AppFunctionCode.DENIED: grpc.StatusCode.PERMISSION_DENIED,
    AppFunctionCode.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    AppFunctionCode.DISABLED: grpc.StatusCode.FAILED_PRECONDITION,
    AppFunctionCode.FUNCTION_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    AppFunctionCode.ENTERPRISE_POLICY_DISALLOWED: grpc.StatusCode.PERMISSION_DENIED,
}
_SIMULATOR = {
    FaultKind.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    FaultKind.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    FaultKind.INVALID_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    FaultKind.UNIMPLEMENTED: grpc.StatusCode.UNIMPLEMENTED,
    FaultKind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    FaultKind.ALREADY_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    FaultKind.NO_SUCH_METHOD: grpc.StatusCode.UNIMPLEMENTED,
    FaultKind.ILLEGAL_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    FaultKind.ILLEGAL_STATE: grpc.StatusCode.FAILED_PRECONDITION,
    FaultKind.OPERATION_CANCELED: grpc.StatusCode.ABORTED,
}


# gRPC clients take 8 KiB of trailers and drop the whole answer beyond, the typed detail included.
# The status message travels twice (in its own trailer, where each byte may become three, and inside
# google.rpc.Status), and the status is sent in Base64.
SUMMARY_BYTES = 400
TEXT_BYTES = 2000
EXTRAS_BYTES = 1000


def to_detail(error: DeviceError) -> errors_pb2.ErrorDetail:
    """The typed detail of a domain error."""
    detail = errors_pb2.ErrorDetail()
    match error:
        case GenAiError():
            detail.gen_ai.CopyFrom(to_gen_ai(error))
        case AppFunctionError():
            detail.app_function.error_code = error.error_code
            detail.app_function.error_message = cut(error.message, TEXT_BYTES)
            if error.extras:
                detail.app_function.extras.CopyFrom(to_object(error.extras))
        case SimulatorFault():
            detail.simulator.kind = int(error.kind)  # type: ignore[assignment]
            detail.simulator.message = cut(error.message, TEXT_BYTES)
        case _:
            raise TypeError(f"{type(error).__name__} has no place on the wire")
    return detail


def to_gen_ai(error: GenAiError) -> errors_pb2.GenAiError:
    """The message that a failed download carries as an item of its stream, too."""
    made = errors_pb2.GenAiError(
        error_code=error.error_code,
        message=cut(error.message, TEXT_BYTES),
        error_type=error.error_type,
    )
    if error.retry_delay > 0:
        made.retry_delay.CopyFrom(_duration(error.retry_delay))
    return made


def to_status(error: DeviceError) -> tuple[grpc.StatusCode, status_pb2.Status]:
    """The gRPC code and the rich status of a domain error, small enough for the trailers.

    The text stands in full only in the detail, cut where it is too long. Extras that are too large
    are left out, and the text says so.
    """
    code = _status_code(error)
    detail = to_detail(error)
    size = detail.app_function.extras.ByteSize()
    if size > EXTRAS_BYTES:
        note = f" (extras of {size} bytes left out)"
        detail.app_function.ClearField("extras")
        detail.app_function.error_message = cut(error.message, TEXT_BYTES - len(note)) + note
    status = status_pb2.Status(code=code.value[0], message=cut(error.message, SUMMARY_BYTES))
    status.details.append(_packed(detail))
    if isinstance(error, GenAiError) and error.retry_delay > 0:
        retry = error_details_pb2.RetryInfo(retry_delay=_duration(error.retry_delay))
        status.details.append(_packed(retry))
    return code, status


def cut(text: str, limit: int) -> str:
    """`text`, or as much of it as fits `limit` bytes of UTF-8 with a note of what was cut."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    note = f" … ({len(encoded)} bytes in all)"
    return encoded[: limit - len(note.encode())].decode(errors="ignore") + note


def _status_code(error: DeviceError) -> grpc.StatusCode:
    match error:
        case GenAiError():
            return _lookup(_GEN_AI, error.error_code)
        case AppFunctionError():
            return _lookup(_APP_FUNCTION, error.error_code)
        case SimulatorFault():
            return _SIMULATOR.get(error.kind, grpc.StatusCode.INTERNAL)
        case _:
            return grpc.StatusCode.INTERNAL


def _lookup(table: Mapping[int, grpc.StatusCode], code: int) -> grpc.StatusCode:
    return table.get(code, grpc.StatusCode.INTERNAL)


def _packed(message: errors_pb2.ErrorDetail | error_details_pb2.RetryInfo) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed


def _duration(seconds: float) -> Duration:
    made = Duration()
    made.FromNanoseconds(round(seconds * 1e9))
    return made
