"""Runs an app's functions inside its own process: the library half of a provider."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError
from aicore_sim.rpc.values import to_object
from appfunctions_host.access import NOT_FOUND_TEXT
from appfunctions_host.annotations import AppFunctionException, AppFunctionService
from appfunctions_host.codec import decode_arguments, encode_result
from appfunctions_host.schema import FunctionDefinition, define_service

logger = logging.getLogger(__name__)

MAX_THREADS = 16
"""Synchronous functions that run at once in one process; more wait for a thread."""


class Invoker:
    """The functions of one app, each bound to one instance of its service class.

    Asynchronous functions run on the event loop, synchronous ones in threads. Any exception
    becomes an AppFunctionError, so that one broken function never takes the provider down.
    """

    def __init__(self, package_name: str, services: Sequence[type[AppFunctionService]]) -> None:
        """Raises DefinitionError for a service that cannot be registered."""
        self._methods: dict[str, tuple[FunctionDefinition, Callable[..., Any]]] = {}
        for service in services:
            definitions = define_service(service, package_name)
            instance = service()
            for definition in definitions:
                if definition.identifier in self._methods:
                    raise ValueError(
                        f"{definition.identifier} is declared twice; give one service another "
                        "class_name in @app_function_service_entry_point"
                    )
                method = getattr(instance, definition.method_name)
                self._methods[definition.identifier] = (definition, method)
        self._threads = _Threads(MAX_THREADS)

    @property
    def metadata(self) -> tuple[pb.AppFunctionMetadata, ...]:
        return tuple(definition.metadata for definition, _ in self._methods.values())

    async def invoke(
        self, function_identifier: str, parameters: types_pb2.ObjectValue
    ) -> types_pb2.Value:
        """Run a function. Raises AppFunctionError, and CancelledError only when cancelled."""
        if function_identifier not in self._methods:
            raise AppFunctionError(AppFunctionCode.FUNCTION_NOT_FOUND, NOT_FOUND_TEXT)
        definition, method = self._methods[function_identifier]
        try:
            arguments = decode_arguments(definition, parameters)
            if definition.is_async:
                result = await method(**arguments)
            else:
                result = await self._threads.run(method, arguments)
            return encode_result(definition, result)
        except AppFunctionError:
            raise
        except AppFunctionException as error:
            raise _reported(function_identifier, error) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise AppFunctionError(
                AppFunctionCode.CANCELLED, f"{function_identifier} was cancelled"
            ) from None
        except (Exception, SystemExit) as error:
            logger.warning("%s raised", function_identifier, exc_info=True)
            text = _printable(str(error)) or type(error).__name__
            raise AppFunctionError(AppFunctionCode.APP_UNKNOWN_ERROR, text) from error


class _Threads:
    """At most `limit` daemon threads, one a call.

    `ThreadPoolExecutor` would make the process wait at exit for a function that never returns.
    """

    def __init__(self, limit: int) -> None:
        self._free = asyncio.Semaphore(limit)

    async def run(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        context = contextvars.copy_context()

        def finish(result: Any, error: BaseException | None) -> None:
            # The thread is free only now: a cancelled call does not stop its function.
            self._free.release()
            if not done.done():
                done.set_result((result, error))

        def work() -> None:
            result, failure = None, None
            try:
                result = context.run(lambda: function(**arguments))
            except BaseException as error:  # raised again in the event loop
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop closed meanwhile
                loop.call_soon_threadsafe(finish, result, failure)

        threading.Thread(target=work, name="app-function", daemon=True).start()
        result, failure = await done
        if failure is not None:
            raise failure
        return result


def _reported(identifier: str, error: AppFunctionException) -> AppFunctionError:
    try:
        to_object(error.extras or {})
    except ValueError as problem:
        return AppFunctionError(
            AppFunctionCode.APP_UNKNOWN_ERROR,
            f"{identifier}: the extras of its exception cannot be sent: {problem}",
        )
    return AppFunctionError(error.error_code, _printable(error.error_message), extras=error.extras)


def _printable(text: str) -> str:
    """Protobuf strings hold no lone surrogates."""
    return text.encode(errors="replace").decode()
