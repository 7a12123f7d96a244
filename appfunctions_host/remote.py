"""Providers in processes of their own, as the host sees them."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import errors_pb2, types_pb2
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError, DeviceError
from aicore_sim.rpc.values import from_object
from appfunctions_host.limits import foreign_result_problem
from appfunctions_host.registry import ProviderCall

logger = logging.getLogger(__name__)

GONE_TEXT = "Failed to connect to AppFunctionService"
CANCELLATION_TIMEOUT = 5.0
"""Seconds; `execute_app_function_cancellation_timeout_millis` of Android."""


class RemoteProvider:
    """One connected provider process: calls out, results back, matched by number.

    When the process goes, its running calls fail at once with 3000, as on Android. A cancelled
    call stays bound until the function has ended, or for `cancellation_timeout` seconds; whatever
    it still answers reaches nobody.
    """

    def __init__(
        self,
        package_name: str,
        *,
        is_current: Callable[[], bool] = lambda: True,
        cancellation_timeout: float = CANCELLATION_TIMEOUT,
    ) -> None:
        self.package_name = package_name
        self._is_current = is_current
        self._cancellation_timeout = cancellation_timeout
        self._outbound: asyncio.Queue[pb.HostMessage | None] = asyncio.Queue()
        self._running: dict[int, asyncio.Future[types_pb2.Value]] = {}
        self._cancelled: dict[int, asyncio.TimerHandle] = {}
        self._numbers = itertools.count(1)
        self._closed = False
        self._failure: DeviceError | None = None

    @property
    def bound_calls(self) -> int:
        """Calls that run, and cancelled ones whose function has not ended."""
        return len(self._running) + len(self._cancelled)

    def is_current(self) -> bool:
        return not self._closed and self._is_current()

    async def call(self, call: ProviderCall) -> types_pb2.Value:
        if self._closed:
            raise _gone()
        number = next(self._numbers)
        answer: asyncio.Future[types_pb2.Value] = asyncio.get_running_loop().create_future()
        self._running[number] = answer
        message = pb.HostMessage.Call(
            call_id=number,
            function_identifier=call.function_identifier,
            parameters=call.parameters,
            activity_id=call.activity_id,
            calling_package=call.calling_package,
            verification=call.verification,
        )
        self._outbound.put_nowait(pb.HostMessage(call=message))
        try:
            if call.cancellation is None:
                value = await answer
            else:
                with call.cancellation.listening(lambda: self._ask_to_end(number, call)):
                    value = await answer
        except asyncio.CancelledError:
            if answer.cancelled():
                self._cancel(number)
            else:
                answer.exception()  # Nobody will ask for it any more.
            raise
        finally:
            del self._running[number]
        if (problem := await foreign_result_problem(value)) is not None:
            raise AppFunctionError(
                AppFunctionCode.APP_UNKNOWN_ERROR, f"{call.function_identifier}: {problem}"
            )
        return value

    def deliver(self, result: pb.ProviderMessage.CallResult) -> None:
        """Take a result from the process; one for a call that was cancelled is dropped."""
        timer = self._cancelled.pop(result.call_id, None)
        if timer is not None:
            timer.cancel()
        answer = self._running.get(result.call_id)
        if answer is None or answer.done():
            logger.debug("dropped the late result of call %s", result.call_id)
        elif result.WhichOneof("outcome") == "return_value":
            answer.set_result(result.return_value)
        else:
            answer.set_exception(_reported(result))

    def registration_result(
        self, registration_id: int, error: errors_pb2.ErrorDetail | None
    ) -> None:
        """Tell the process what became of its registration."""
        result = pb.HostMessage.RegistrationResult(registration_id=registration_id, error=error)
        self._outbound.put_nowait(pb.HostMessage(registration_result=result))

    def _ask_to_end(self, number: int, call: ProviderCall) -> None:
        """The caller cancelled and waits for what the function makes of it, not for ever."""
        self._outbound.put_nowait(pb.HostMessage(cancel=pb.HostMessage.Cancel(call_id=number)))
        asyncio.get_running_loop().call_later(
            self._cancellation_timeout, self._give_up, number, call.function_identifier
        )

    def _give_up(self, number: int, function_identifier: str) -> None:
        answer = self._running.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(
                AppFunctionError(
                    AppFunctionCode.CANCELLED,
                    f"{function_identifier} did not end within {self._cancellation_timeout:g} s "
                    "of its cancellation",
                )
            )

    def _cancel(self, number: int) -> None:
        self._outbound.put_nowait(pb.HostMessage(cancel=pb.HostMessage.Cancel(call_id=number)))
        self._cancelled[number] = asyncio.get_running_loop().call_later(
            self._cancellation_timeout, self._unbind, number
        )

    def _unbind(self, number: int) -> None:
        self._cancelled.pop(number, None)
        logger.info(
            "a function of %s did not end within %g s of its cancellation",
            self.package_name,
            self._cancellation_timeout,
        )

    async def messages(self) -> AsyncIterator[pb.HostMessage]:
        """What to send, until `close`. Raises the failure that `close` was given."""
        while (message := await self._outbound.get()) is not None:
            yield message
        if self._failure is not None:
            raise self._failure

    def close(self, failure: DeviceError | None = None) -> None:
        """End the connection and fail what runs. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._failure = failure
        self._outbound.put_nowait(None)
        for answer in self._running.values():
            if not answer.done():
                answer.set_exception(_gone())
        for timer in self._cancelled.values():
            timer.cancel()
        self._cancelled.clear()


def _reported(result: pb.ProviderMessage.CallResult) -> AppFunctionError:
    if result.WhichOneof("outcome") is None:
        return AppFunctionError(
            AppFunctionCode.APP_UNKNOWN_ERROR, "the provider answered without an outcome"
        )
    error = result.error
    extras = None
    if error.HasField("extras"):
        try:
            extras = from_object(error.extras)
        except ValueError as problem:
            logger.warning("dropped the extras of a provider's error: %s", problem)
    code = error.error_code or AppFunctionCode.APP_UNKNOWN_ERROR
    return AppFunctionError(code, error.error_message, extras=extras)


def _gone() -> AppFunctionError:
    return AppFunctionError(AppFunctionCode.APP_UNKNOWN_ERROR, GONE_TEXT)
