"""The one place where a gRPC failure becomes an exception of this package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from enum import Enum
from typing import Any

import grpc
from google.rpc import status_pb2

from aicore_client._values import from_object
from aicore_client.errors import (
    BINDING_FAILURE,
    AlreadyExistsError,
    AppFunctionException,
    ForbiddenError,
    GenAiException,
    InternalError,
    InvalidRequestError,
    MessageTooLargeError,
    NoSuchMethodError,
    NotFoundError,
    OperationCanceledException,
    ReplayDriftError,
    ScriptDriftError,
    SimulatorError,
    UnauthenticatedError,
    UnimplementedError,
)
from aicore_protos import errors_pb2

_STATUS_DETAILS = "grpc-status-details-bin"
_START_HINT = (
    "Start the device with `aicore-sim up`, or run the program with `aicore-sim exec -- …`."
)
_TOKEN_HINT = (
    "Run the program with `aicore-sim exec --as PACKAGE -- …`, which sets AICORE_SIM_TOKEN; "
    "`aicore-sim pm install PACKAGE` issues a new token."
)

_Kind = errors_pb2.SimulatorError
_SIMULATOR_ERRORS: dict[int, type[Exception]] = {
    _Kind.UNAUTHENTICATED: UnauthenticatedError,
    _Kind.FORBIDDEN: ForbiddenError,
    _Kind.INVALID_REQUEST: InvalidRequestError,
    _Kind.UNIMPLEMENTED: UnimplementedError,
    _Kind.NOT_FOUND: NotFoundError,
    _Kind.ALREADY_EXISTS: AlreadyExistsError,
    _Kind.INTERNAL: InternalError,
    _Kind.MESSAGE_TOO_LARGE: MessageTooLargeError,
    _Kind.SCRIPT_DRIFT: ScriptDriftError,
    _Kind.REPLAY_DRIFT: ReplayDriftError,
    _Kind.NO_SUCH_METHOD: NoSuchMethodError,
    _Kind.OPERATION_CANCELED: OperationCanceledException,
    # Kotlin's IllegalArgumentException and IllegalStateException are Python's own classes.
    _Kind.ILLEGAL_ARGUMENT: ValueError,
    _Kind.ILLEGAL_STATE: RuntimeError,
}


class Service(Enum):
    """Whose silence it is when the transport fails."""

    AICORE = "AICore"
    APP_FUNCTIONS = "The AppFunction host"


async def unary(call: Any, service: Service) -> Any:
    """The answer of a grpc.aio unary call, or the exception that the failure stands for."""
    try:
        return await call
    except grpc.RpcError as error:
        raise translate(error, service) from None
    except asyncio.CancelledError:
        require_own_cancellation(service)
        raise


async def stream(call: Any, service: Service) -> AsyncGenerator[Any]:
    """The messages of a grpc.aio stream. Closing the generator cancels the call."""
    try:
        async for message in call:
            yield message
    except grpc.RpcError as error:
        raise translate(error, service) from None
    except asyncio.CancelledError:
        require_own_cancellation(service)
        raise
    finally:
        call.cancel()


def require_own_cancellation(service: Service) -> None:
    """gRPC reports a call whose channel was closed as a cancellation, although nobody cancelled
    the task that waits for it; raises what that stands for."""
    task = asyncio.current_task()
    if task is not None and not task.cancelling():
        text = "the connection was closed while the call was running"
        if service is Service.APP_FUNCTIONS:
            raise AppFunctionException(AppFunctionException.ERROR_CANCELLED, text)
        raise GenAiException(text, GenAiException.ErrorCode.CANCELLED)


def translate(error: Any, service: Service) -> Exception:
    """Reads the typed detail; without one, the transport itself has failed."""
    detail = _detail(error)
    if detail is not None:
        translated = from_detail(detail)
        if translated is not None:
            return translated
    code = error.code()
    text = error.details() or code.name
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return MessageTooLargeError(f"{service.value}: {text}. Send less in one call.")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return UnimplementedError(
            f"{service.value} does not know this call ({text}); client and device are of "
            "different versions."
        )
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return UnauthenticatedError(f"{text}. {_TOKEN_HINT}")
    return _unreachable(service, f"{code.name}: {text}")


def _unreachable(service: Service, why: str) -> Exception:
    message = f"{service.value} cannot be reached ({why}). {_START_HINT}"
    if service is Service.APP_FUNCTIONS:
        return AppFunctionException(AppFunctionException.ERROR_SYSTEM_ERROR, message)
    return GenAiException(
        f"AICore failed with error type 4-CONNECTION_ERROR and error code 601-BINDING_FAILURE: "
        f"{message}",
        BINDING_FAILURE,
    )


def _detail(error: Any) -> errors_pb2.ErrorDetail | None:
    for key, value in error.trailing_metadata() or ():
        if key == _STATUS_DETAILS:
            for packed in status_pb2.Status.FromString(value).details:
                detail = errors_pb2.ErrorDetail()
                if packed.Unpack(detail):
                    return detail
    return None


def from_detail(detail: errors_pb2.ErrorDetail) -> Exception | None:
    """The exception that a typed detail stands for; None for one of a later version."""
    match detail.WhichOneof("error"):
        case "gen_ai":
            return gen_ai_exception(detail.gen_ai)
        case "app_function":
            fault = detail.app_function
            return AppFunctionException(
                fault.error_code, fault.error_message or None, from_object(fault.extras)
            )
        case "simulator":
            return simulator_exception(detail.simulator)
        case _:
            return None


def simulator_exception(error: errors_pb2.SimulatorError) -> Exception:
    kind = _SIMULATOR_ERRORS.get(error.kind, SimulatorError)
    if kind is UnauthenticatedError and "aicore-sim" not in error.message:
        return kind(f"{error.message} {_TOKEN_HINT}")
    return kind(error.message)


def gen_ai_exception(error: errors_pb2.GenAiError) -> GenAiException:
    return GenAiException(error.message, error.error_code, error.retry_delay.ToTimedelta())
