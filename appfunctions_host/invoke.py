"""Runs an app's functions inside its own process: the library half of a provider."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError
from aicore_sim.rpc.status import TEXT_BYTES, cut
from aicore_sim.rpc.values import to_object
from appfunctions_host.access import NOT_FOUND_TEXT
from appfunctions_host.annotations import (
    AppFunctionException,
    AppFunctionService,
    PlatformAppFunctionService,
)
from appfunctions_host.codec import decode_arguments, encode_result
from appfunctions_host.compat import ProviderEnvironment, verify_caller
from appfunctions_host.limits import MAX_DEPTH, mapping_too_deep, result_problem
from appfunctions_host.schema import FunctionDefinition, define_service

logger = logging.getLogger(__name__)

MAX_THREADS = 16
"""Synchronous functions that run at once in one process; more wait for a thread."""
MAX_ABANDONED_THREADS = 48
"""Threads beside those, whose calls were cancelled while the function ran on."""
_DECODE_IN_LOOP_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class _Method:
    definition: FunctionDefinition
    bound: Callable[..., Any]
    is_jetpack: bool


class Invoker:
    """The functions of one app, each bound to one instance of its service class.

    Asynchronous functions run on the event loop, synchronous ones in threads. Whatever a function
    raises becomes an AppFunctionError, so that one broken function never takes the provider down.
    """

    def __init__(self, package_name: str, services: Sequence[type[AppFunctionService]]) -> None:
        """Raises DefinitionError for a service that cannot be registered."""
        self.environment = ProviderEnvironment()
        self._methods: dict[str, _Method] = {}
        for service in services:
            definitions = define_service(service, package_name)
            instance = service()
            for definition in definitions:
                if definition.identifier in self._methods:
                    raise ValueError(
                        f"{definition.identifier} is declared twice; give one service another "
                        "class_name in @app_function_service_entry_point"
                    )
                self._methods[definition.identifier] = _Method(
                    definition=definition,
                    bound=getattr(instance, definition.method_name),
                    is_jetpack=not issubclass(service, PlatformAppFunctionService),
                )
        self._threads = _Threads(MAX_THREADS, MAX_ABANDONED_THREADS)

    @property
    def metadata(self) -> tuple[pb.AppFunctionMetadata, ...]:
        return tuple(method.definition.metadata for method in self._methods.values())

    async def invoke(
        self,
        function_identifier: str,
        parameters: types_pb2.ObjectValue,
        verification: pb.CallerVerification | None = None,
    ) -> types_pb2.Value:
        """Run a function. Raises AppFunctionError, and CancelledError only when cancelled."""
        method = self._methods.get(function_identifier)
        if method is None:
            raise AppFunctionError(AppFunctionCode.FUNCTION_NOT_FOUND, NOT_FOUND_TEXT)
        if method.is_jetpack:
            verify_caller(
                method.definition.metadata,
                verification or pb.CallerVerification(),
                self.environment,
            )
        try:
            arguments = await self._arguments(method.definition, parameters)
            if method.definition.is_async:
                value = _encoded(method.definition, await method.bound(**arguments))
            else:
                value = await self._threads.run(
                    lambda: _encoded(method.definition, method.bound(**arguments))
                )
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise AppFunctionError(
                AppFunctionCode.CANCELLED, f"{function_identifier} was cancelled"
            ) from None
        except BaseException as error:
            # SystemExit and its like, too: they would end the app's event loop, and on a phone an
            # exception of a function does not end the app either.
            raise _failure(method, error) from error
        return value

    async def _arguments(
        self, definition: FunctionDefinition, parameters: types_pb2.ObjectValue
    ) -> dict[str, Any]:
        """Large ones are read beside the event loop."""
        rules = self.environment.rules
        if parameters.ByteSize() <= _DECODE_IN_LOOP_BYTES:
            return decode_arguments(definition, parameters, rules)
        return await asyncio.to_thread(decode_arguments, definition, parameters, rules)


def _encoded(definition: FunctionDefinition, result: object) -> types_pb2.Value:
    value = encode_result(definition, result)
    if (problem := result_problem(value)) is not None:
        raise AppFunctionError(
            AppFunctionCode.APP_UNKNOWN_ERROR, f"{definition.identifier}: {problem}"
        )
    return value


class _Threads:
    """At most `limit` daemon threads whose callers wait, one a call.

    A cancelled call does not stop its function, so its thread goes on without a place, and at most
    `abandoned` threads do; beyond, they keep theirs. `ThreadPoolExecutor` would make the process
    wait at exit for a function that never returns.
    """

    def __init__(self, limit: int, abandoned: int) -> None:
        self._free = asyncio.Semaphore(limit)
        self._may_abandon = abandoned

    async def run(self, function: Callable[[], types_pb2.Value]) -> types_pb2.Value:
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[types_pb2.Value | None, BaseException | None]] = (
            loop.create_future()
        )
        context = contextvars.copy_context()
        has_place = True

        def finish(result: types_pb2.Value | None, error: BaseException | None) -> None:
            if has_place:
                self._free.release()
            else:
                self._may_abandon += 1
            if not done.done():
                done.set_result((result, error))

        def work() -> None:
            result: types_pb2.Value | None = None
            failure: BaseException | None = None
            try:
                result = context.run(function)
            except BaseException as error:  # raised again in the event loop
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop closed meanwhile
                loop.call_soon_threadsafe(finish, result, failure)

        try:
            threading.Thread(target=work, name="app-function", daemon=True).start()
        except RuntimeError:
            self._free.release()
            raise
        try:
            result, failure = await done
        except asyncio.CancelledError:
            if done.cancelled() and self._may_abandon > 0:
                self._may_abandon -= 1
                has_place = False
                self._free.release()
            raise
        if failure is not None:
            raise failure
        assert result is not None
        return result


def _failure(method: _Method, error: BaseException) -> AppFunctionError:
    identifier = method.definition.identifier
    match error:
        case AppFunctionError():
            return error
        case AppFunctionException():
            return _reported(identifier, error)
        case _:
            logger.warning("%s raised", identifier, exc_info=error)
            illegal_argument = isinstance(error, ValueError) and not method.is_jetpack
            code = (
                AppFunctionCode.INVALID_ARGUMENT
                if illegal_argument
                else AppFunctionCode.APP_UNKNOWN_ERROR
            )
            return AppFunctionError(code, _text(error, fallback=type(error).__name__))


def _reported(identifier: str, error: AppFunctionException) -> AppFunctionError:
    problem = ""
    code = error.error_code
    if not isinstance(code, int) or not -(2**31) <= code < 2**31:
        problem = f"{identifier}: the error code {code!r} is no 32-bit integer"
    elif mapping_too_deep(error.extras):
        problem = (
            f"{identifier}: the extras of its exception cannot be sent: "
            f"they nest deeper than {MAX_DEPTH} levels"
        )
    else:
        try:
            to_object(error.extras or {})
        except (ValueError, TypeError, AttributeError) as reason:
            problem = f"{identifier}: the extras of its exception cannot be sent: {reason}"
    if problem:
        return AppFunctionError(AppFunctionCode.APP_UNKNOWN_ERROR, cut(problem, TEXT_BYTES))
    return AppFunctionError(code, _text(error.error_message, fallback=""), extras=error.extras)


def _text(source: object, *, fallback: str) -> str:
    """The text of an exception, whatever its `__str__` does, short enough to be sent."""
    try:
        return cut(str(source), TEXT_BYTES) or fallback
    except Exception:
        return fallback
