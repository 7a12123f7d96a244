"""Authentication and error mapping around every call of both daemons."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_status import rpc_status

from aicore_sim.device.errors import DeviceError, FaultKind, SimulatorFault
from aicore_sim.device.packages import Identity
from aicore_sim.rpc.identity import set_caller
from aicore_sim.rpc.status import to_status
from aicore_sim.rpc.version import VERSION_METADATA, check_version

logger = logging.getLogger(__name__)

# Health and reflection tell nothing about the device, and tools ask them before they have a token.
_OPEN_SERVICES = ("/grpc.health.v1.", "/grpc.reflection.")


class BoundaryInterceptor(grpc.aio.ServerInterceptor):
    """Checks version and bearer token before a servicer runs; turns domain errors into statuses.

    A servicer raises `DeviceError`s; anything else it lets escape is logged and answered as an
    internal fault without its text, since that may hold prompt content.
    """

    def __init__(self, resolve: Callable[[str], Identity | None]) -> None:
        self._resolve = resolve

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        handler = await continuation(handler_call_details)
        method: str = handler_call_details.method
        if handler is None or method.startswith(_OPEN_SERVICES):
            return handler
        inner = (
            handler.unary_unary
            or handler.unary_stream
            or handler.stream_unary
            or handler.stream_stream
        )
        if handler.response_streaming:
            # A coroutine writes its messages itself, a generator hands them out.
            writes = inspect.iscoroutinefunction(inner)
            around: Any = self._around_unary if writes else self._around_stream
            wrapped: Any = around(method, inner)
            make = (
                grpc.stream_stream_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_stream_rpc_method_handler
            )
        else:
            wrapped = self._around_unary(method, inner)
            make = (
                grpc.stream_unary_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_unary_rpc_method_handler
            )
        return make(wrapped, handler.request_deserializer, handler.response_serializer)

    def _around_unary(
        self, method: str, inner: Callable[[Any, Any], Awaitable[Any]]
    ) -> Callable[[Any, grpc.aio.ServicerContext], Awaitable[Any]]:
        async def call(request: Any, context: grpc.aio.ServicerContext) -> Any:
            try:
                self._authenticate(method, context)
                return await inner(request, context)
            except DeviceError as error:
                await _abort(context, error)
            except grpc.aio.AbortError:
                raise
            except Exception:
                logger.exception("%s failed", method)
                await _abort(context, _internal(method))

        return call

    def _around_stream(
        self, method: str, inner: Callable[[Any, Any], AsyncGenerator[Any, None]]
    ) -> Callable[[Any, grpc.aio.ServicerContext], AsyncIterator[Any]]:
        async def call(request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
            try:
                self._authenticate(method, context)
                # Closed here and now when the caller leaves, not when it is collected.
                async with contextlib.aclosing(inner(request, context)) as items:
                    async for item in items:
                        yield item
            except DeviceError as error:
                await _abort(context, error)
            except grpc.aio.AbortError:
                raise
            except Exception:
                logger.exception("%s failed", method)
                await _abort(context, _internal(method))

        return call

    def _authenticate(self, method: str, context: grpc.aio.ServicerContext) -> None:
        token = ""
        for key, value in context.invocation_metadata() or ():
            if key == "authorization":
                scheme, _, token = str(value).partition(" ")
                if scheme.lower() != "bearer":
                    token = ""
            elif key == VERSION_METADATA:
                check_version(str(value))
        if not token:
            raise SimulatorFault(
                FaultKind.UNAUTHENTICATED,
                f"{method} came without a token; run the app with "
                "`aicore-sim exec --as PACKAGE -- CMD`, or set AICORE_SIM_TOKEN",
            )
        identity = self._resolve(token)
        if identity is None:
            raise SimulatorFault(
                FaultKind.UNAUTHENTICATED,
                f"{method} came with a token that this device did not issue, or that ended with "
                "its process or package; get a new one with `aicore-sim exec --as PACKAGE -- CMD`",
            )
        set_caller(identity)


def _internal(method: str) -> SimulatorFault:
    return SimulatorFault(
        FaultKind.INTERNAL, f"{method} failed inside the simulator; the daemon's log has the trace"
    )


async def _abort(context: grpc.aio.ServicerContext, error: DeviceError) -> NoReturn:
    try:
        _, status = to_status(error)
    except (ValueError, TypeError, DecodeError):
        # A code beyond 32 bits, or text that is no Unicode: the failure must still have a type.
        logger.exception("an error cannot be sent")
        _, status = to_status(
            SimulatorFault(FaultKind.INTERNAL, "a failure could not be put into words for the wire")
        )
    made = rpc_status.to_status(status)
    await context.abort(made.code, made.details, made.trailing_metadata)
    raise AssertionError("abort returned")
