"""The stream over which the host runs what an app has registered."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from aicore_client._boundary import Service, from_detail, translate
from aicore_client._values import to_object, to_value
from aicore_client.errors import AppFunctionException
from aicore_protos import appfunctions_pb2, errors_pb2, types_pb2

logger = logging.getLogger(__name__)

Handler = Callable[[appfunctions_pb2.HostMessage.Call], Awaitable[object]]
"""Runs one call. Raises AppFunctionException for the caller; anything else becomes 3000."""

Key = tuple[str, str]
"""Function identifier, and id of the activity or empty."""

Connect = Callable[[AsyncIterator[appfunctions_pb2.ProviderMessage]], Any]
"""Opens AppFunctionProvider.Connect with these messages."""

_STOP_SECONDS: Final = 2.0
_MAX_RESULT_BYTES: Final = 63 * 1024 * 1024
"""One byte more than the host reads would end the stream, and with it every call on it."""


@dataclass(eq=False, kw_only=True)
class LiveRegistration:
    """`ended` is set when the host no longer runs the functions."""

    stream: ProviderStream
    registration_id: int
    handlers: Mapping[Key, Handler]
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class ProviderStream:
    """One stream to the host. Calls run as tasks of their own; the end of the stream ends them."""

    def __init__(self, connect: Connect, timeout: float) -> None:
        self._timeout = timeout
        self._outbound: asyncio.Queue[appfunctions_pb2.ProviderMessage | None] = asyncio.Queue()
        self._numbers = itertools.count(1)
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._begun.add_done_callback(_retrieve)
        self._pending: dict[int, tuple[LiveRegistration, asyncio.Future[None]]] = {}
        self._live: dict[int, LiveRegistration] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._cancelled: set[int] = set()
        self._failure: Exception | None = None
        self._call = connect(self._outgoing())
        self._send(
            appfunctions_pb2.ProviderMessage(register=appfunctions_pb2.ProviderMessage.Register())
        )
        self._reader = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        return self._failure is None

    async def register(
        self,
        registrations: Sequence[appfunctions_pb2.ProviderMessage.Registration],
        handlers: Mapping[Key, Handler],
    ) -> LiveRegistration:
        """Raises what the host refuses with, and AppFunctionException 2000 without an answer."""
        number = next(self._numbers)
        live = LiveRegistration(stream=self, registration_id=number, handlers=handlers)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_retrieve)
        asked = registered = False
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.shield(self._begun)
                if self._failure is not None:
                    raise self._failure
                self._pending[number] = live, answer
                asked = True
                message = appfunctions_pb2.ProviderMessage.RegisterAppFunctions(
                    registration_id=number, registrations=registrations
                )
                self._send(appfunctions_pb2.ProviderMessage(register_app_functions=message))
                await answer
            registered = True
        except TimeoutError:
            raise AppFunctionException(
                AppFunctionException.ERROR_SYSTEM_ERROR,
                f"The AppFunction host did not answer a registration within {self._timeout:g} s.",
            ) from None
        finally:
            self._pending.pop(number, None)
            if asked and not registered:
                # Also when the answer came in the moment in which the task was cancelled.
                self.unregister(live)
        return live

    def unregister(self, live: LiveRegistration) -> None:
        """Without effect when it has ended already."""
        if live.ended.is_set():
            return
        live.ended.set()
        self._live.pop(live.registration_id, None)
        message = appfunctions_pb2.ProviderMessage.UnregisterAppFunctions(
            registration_id=live.registration_id
        )
        self._send(appfunctions_pb2.ProviderMessage(unregister_app_functions=message))

    async def close(self) -> None:
        """Takes a few seconds at most, whatever host and functions do. Idempotent."""
        self._outbound.put_nowait(None)
        await self._end_calls()
        await asyncio.wait([self._reader], timeout=_STOP_SECONDS)
        self._call.cancel()
        await asyncio.wait([self._reader], timeout=_STOP_SECONDS)

    async def _outgoing(self) -> AsyncIterator[appfunctions_pb2.ProviderMessage]:
        while (message := await self._outbound.get()) is not None:
            yield message

    def _send(self, message: appfunctions_pb2.ProviderMessage) -> None:
        self._outbound.put_nowait(message)

    async def _read(self) -> None:
        failure: Exception = AppFunctionException(
            AppFunctionException.ERROR_SYSTEM_ERROR, "The AppFunction host ended the connection."
        )
        try:
            async for message in self._call:
                self._handle(message)
        except grpc.RpcError as error:
            failure = translate(error, Service.APP_FUNCTIONS)
        except asyncio.CancelledError:
            # gRPC's word for a call that this side has ended.
            logger.debug("The stream of registrations was closed.")
        except Exception:
            # Top of the task: whoever waits is told by what follows.
            logger.exception("The stream of registrations failed.")
        finally:
            self._end(failure)
            self._call.cancel()
            await self._end_calls()

    def _handle(self, message: appfunctions_pb2.HostMessage) -> None:
        match message.WhichOneof("message"):
            case "registered":
                if not self._begun.done():
                    self._begun.set_result(None)
            case "registration_result":
                self._answered(message.registration_result)
            case "call":
                number = message.call.call_id
                task = asyncio.create_task(self._run(message.call))
                self._running[number] = task
                task.add_done_callback(lambda _: self._running.pop(number, None))
            case "cancel":
                number = message.cancel.call_id
                running = self._running.get(number)
                # Once: what the function does to end must not be cancelled, too.
                if running is not None and number not in self._cancelled:
                    self._cancelled.add(number)
                    running.cancel()
            case kind:
                logger.warning("Ignored a message of the host of the unknown kind %s.", kind)

    def _answered(self, result: appfunctions_pb2.HostMessage.RegistrationResult) -> None:
        live, answer = self._pending.pop(result.registration_id, (None, None))
        if live is None or answer is None or answer.done():
            return  # Given up meanwhile, and taken back.
        if result.HasField("error"):
            live.ended.set()
            answer.set_exception(_refusal(result.error))
        else:
            # Here and not where it is awaited: a call may be the very next message.
            self._live[live.registration_id] = live
            answer.set_result(None)

    async def _run(self, call: appfunctions_pb2.HostMessage.Call) -> None:
        result = appfunctions_pb2.ProviderMessage.CallResult(call_id=call.call_id)
        try:
            outcome = await self._outcome(call)
        finally:
            self._cancelled.discard(call.call_id)
        if isinstance(outcome, types_pb2.Value):
            result.return_value.CopyFrom(outcome)
        else:
            result.error.CopyFrom(outcome)
        self._send(appfunctions_pb2.ProviderMessage(result=result))

    async def _outcome(
        self, call: appfunctions_pb2.HostMessage.Call
    ) -> types_pb2.Value | errors_pb2.AppFunctionError:
        identifier = call.function_identifier
        handler = self._handler(identifier, call.activity_id)
        if handler is None:
            text = f"Function with ID: {identifier} is disabled"
            return _error(AppFunctionException(AppFunctionException.ERROR_DISABLED, text))
        try:
            value = to_value(await handler(call))
            if value.ByteSize() > _MAX_RESULT_BYTES:
                raise ValueError(f"a result of {value.ByteSize()} bytes is too large to be sent")
            return value
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling() and call.call_id not in self._cancelled:
                raise  # The stream ends, and nobody waits for an answer.
            text = f"{identifier} was cancelled"
            return _error(AppFunctionException(AppFunctionException.ERROR_CANCELLED, text))
        except AppFunctionException as error:
            logger.info("%s failed with %s", identifier, error.error_code)
            return _error(error)
        except Exception as error:
            # Top of the task: a caller must not wait for an answer that never comes.
            logger.warning("%s raised %s", identifier, type(error).__name__)
            logger.debug("%s raised", identifier, exc_info=True)
            return _unknown(str(error) or type(error).__name__)

    def _handler(self, identifier: str, activity_id: str) -> Handler | None:
        for live in self._live.values():
            handler = live.handlers.get((identifier, activity_id))
            if handler is not None:
                return handler
        return None

    def _end(self, failure: Exception) -> None:
        self._failure = failure
        if not self._begun.done():
            self._begun.set_exception(failure)
        for live, answer in self._pending.values():
            live.ended.set()
            if not answer.done():
                answer.set_exception(failure)
        for live in self._live.values():
            live.ended.set()
        self._pending.clear()
        self._live.clear()

    async def _end_calls(self) -> None:
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)


class Registrations:
    """What one app has registered over one connection, in one event loop.

    There is at most one stream, opened by the first registration. When the host ends it, what was
    registered has ended, and the next registration opens another.
    """

    def __init__(self, connect: Connect, timeout: float) -> None:
        self._connect = connect
        self._timeout = timeout
        self._stream: ProviderStream | None = None

    async def register(
        self,
        registrations: Sequence[appfunctions_pb2.ProviderMessage.Registration],
        handlers: Mapping[Key, Handler],
    ) -> LiveRegistration:
        """See :meth:`ProviderStream.register`."""
        if self._stream is None or not self._stream.is_open:
            self._stream = ProviderStream(self._connect, self._timeout)
        return await self._stream.register(registrations, handlers)

    async def close(self) -> None:
        """Idempotent and bounded."""
        if self._stream is not None:
            await self._stream.close()


def _refusal(detail: errors_pb2.ErrorDetail) -> Exception:
    return from_detail(detail) or AppFunctionException(
        AppFunctionException.ERROR_SYSTEM_ERROR, "The AppFunction host refused a registration."
    )


def _error(error: AppFunctionException) -> errors_pb2.AppFunctionError:
    try:
        return errors_pb2.AppFunctionError(
            error_code=error.error_code,
            error_message=error.error_message or "",
            extras=to_object(error.extras) if error.extras else None,
        )
    except (TypeError, ValueError) as problem:
        return _unknown(f"the function's exception cannot be sent: {problem}")


def _unknown(text: str) -> errors_pb2.AppFunctionError:
    return errors_pb2.AppFunctionError(
        error_code=AppFunctionException.ERROR_APP_UNKNOWN_ERROR, error_message=text
    )


def _retrieve(answer: asyncio.Future[None]) -> None:
    """Whoever waited may have gone."""
    if not answer.cancelled():
        answer.exception()
