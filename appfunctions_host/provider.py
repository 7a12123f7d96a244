"""Runs an app's functions in a process of its own and connects them to the device.

From a program: ``await serve_app("com.example.shop", [OrderTools], address, token)``. From the
command line: ``python -m appfunctions_host.provider com.example.shop=module:Class`` with
`APPFUNCTIONS_ADDRESS` and `AICORE_SIM_TOKEN` set; it prints a line ``READY {json}`` once the device
knows the functions, and ends with SIGTERM or with the host.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence

import grpc.aio

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_pb2_grpc, errors_pb2, types_pb2
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError, SimulatorFault
from aicore_sim.rpc.server import MAX_MESSAGE_BYTES, stop_event
from aicore_sim.rpc.status import to_detail
from appfunctions_host.annotations import AppFunctionService
from appfunctions_host.apps import AppSpecError, load_apps
from appfunctions_host.codec import ArgumentRules
from appfunctions_host.compat import ProviderEnvironment
from appfunctions_host.data_types import DefinitionError
from appfunctions_host.invoke import Invoker
from appfunctions_host.process_exit import exit_after
from appfunctions_host.wire_errors import error_text

logger = logging.getLogger(__name__)

ADDRESS_VARIABLE = "APPFUNCTIONS_ADDRESS"
TOKEN_VARIABLE = "AICORE_SIM_TOKEN"
CONNECT_SECONDS = 10.0
_STOP_SECONDS = 2.0
_EXIT_SECONDS = 3.0


class ProviderError(RuntimeError):
    """The host cannot be reached, refused the provider, or went away without saying so."""


async def serve_app(
    package_name: str,
    services: Sequence[type[AppFunctionService]],
    address: str,
    token: str,
    *,
    on_ready: Callable[[Sequence[str]], None] | None = None,
    connect_timeout: float = CONNECT_SECONDS,
) -> None:
    """Provide the functions of `services` until the host closes the connection.

    Args:
        package_name: The app; `token` must be one of its tokens.
        address: gRPC target of the host, for example `unix:/path/appfunctions.sock`.
        on_ready: Called with the function ids once callers can reach them.
        connect_timeout: Seconds to wait for a host that is still starting.

    Raises:
        DefinitionError: A function that Android's compiler would refuse.
        ProviderError: See there.
    """
    invoker = Invoker(package_name, services)
    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        try:
            await asyncio.wait_for(channel.channel_ready(), connect_timeout)
        except TimeoutError:
            raise ProviderError(
                f"no AppFunction host answers at {address!r}; start a device with "
                f"`aicore-sim up`, or correct {ADDRESS_VARIABLE}"
            ) from None
        stub = appfunctions_pb2_grpc.AppFunctionProviderStub(channel)
        connection = _Connection(
            stub.Connect(metadata=(("authorization", f"Bearer {token}"),)), invoker
        )
        try:
            await connection.run(package_name, on_ready)
        except grpc.aio.AioRpcError as error:
            raise ProviderError(error_text(error)) from error


class _Connection:
    """One stream to the host. Calls run as tasks of their own."""

    def __init__(self, stream: grpc.aio.StreamStreamCall, invoker: Invoker) -> None:
        self._stream = stream
        self._invoker = invoker
        self._running: dict[int, asyncio.Task[None]] = {}
        self._cancelled: set[int] = set()
        self._writing = asyncio.Lock()  # A stream takes one write at a time.

    async def run(
        self, package_name: str, on_ready: Callable[[Sequence[str]], None] | None
    ) -> None:
        register = pb.ProviderMessage.Register(
            functions=self._invoker.metadata, package_name=package_name
        )
        try:
            await self._write(pb.ProviderMessage(register=register))
            while (message := await self._stream.read()) is not grpc.aio.EOF:
                if message is None:  # what gRPC gives for a message that it cannot read
                    raise ProviderError("the host sent a message that this library cannot read")
                self._handle(message, on_ready)
            if await self._stream.code() != grpc.StatusCode.OK:
                raise ProviderError(
                    f"the host ended the connection: {await self._stream.details()}"
                )
        finally:
            self._stream.cancel()
            tasks = list(self._running.values())
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=_STOP_SECONDS)

    def _handle(
        self, message: pb.HostMessage, on_ready: Callable[[Sequence[str]], None] | None
    ) -> None:
        match message.WhichOneof("message"):
            case "registered":
                registered = message.registered
                self._invoker.environment = ProviderEnvironment(
                    sdk_int_full=registered.sdk_int_full,
                    uid=registered.uid,
                    rules=ArgumentRules(
                        ignore_unknown=registered.ignore_unknown_arguments,
                        enforce_constraints=not registered.ignore_constraints,
                    ),
                )
                if on_ready is not None:
                    on_ready(list(message.registered.function_identifiers))
            case "call":
                number = message.call.call_id
                task = asyncio.create_task(self._call(message.call))
                self._running[number] = task
                task.add_done_callback(lambda _: self._running.pop(number, None))
            case "cancel":
                task_or_none = self._running.get(message.cancel.call_id)
                if task_or_none is not None:
                    self._cancelled.add(message.cancel.call_id)
                    task_or_none.cancel()
            case kind:
                logger.warning("ignored a message of the host of the unknown kind %s", kind)

    async def _call(self, call: pb.HostMessage.Call) -> None:
        try:
            outcome = await _outcome(self._invoker, call)
        except asyncio.CancelledError:
            if call.call_id not in self._cancelled:
                raise  # The connection ends.
            # The host waits to hear that the function has ended.
            outcome = errors_pb2.AppFunctionError(
                error_code=AppFunctionCode.CANCELLED,
                error_message=f"{call.function_identifier} was cancelled",
            )
        finally:
            self._cancelled.discard(call.call_id)
        result = pb.ProviderMessage.CallResult(call_id=call.call_id)
        if isinstance(outcome, types_pb2.Value):
            result.return_value.CopyFrom(outcome)
        else:
            result.error.CopyFrom(outcome)
        # A host that went away meanwhile is noticed by the reader.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._write(pb.ProviderMessage(result=result))

    async def _write(self, message: pb.ProviderMessage) -> None:
        async with self._writing:
            await self._stream.write(message)


async def _outcome(
    invoker: Invoker, call: pb.HostMessage.Call
) -> types_pb2.Value | errors_pb2.AppFunctionError:
    try:
        return await invoker.invoke(call.function_identifier, call.parameters, call.verification)
    except AppFunctionError as error:
        return to_detail(error).app_function
    except Exception:
        # Top of the task: a caller must not wait for an answer that never comes.
        logger.exception("%s failed in the provider's library", call.function_identifier)
        return errors_pb2.AppFunctionError(
            error_code=AppFunctionCode.APP_UNKNOWN_ERROR,
            error_message=f"{call.function_identifier} failed in the provider's library",
        )


async def _serve_until_stopped(
    package_name: str,
    services: Sequence[type[AppFunctionService]],
    address: str,
    token: str,
    *,
    declare_only: bool,
) -> threading.Timer:
    """Returns the timer that ends the process if leaving the event loop takes too long."""
    stopping = stop_event()
    stop = asyncio.create_task(stopping.wait())

    def ready(identifiers: Sequence[str]) -> None:
        facts = {"package": package_name, "pid": os.getpid(), "functions": list(identifiers)}
        print("READY", json.dumps(facts), flush=True)
        if declare_only:
            stopping.set()

    serving = asyncio.create_task(serve_app(package_name, services, address, token, on_ready=ready))
    await asyncio.wait({stop, serving}, return_when=asyncio.FIRST_COMPLETED)
    for task in (stop, serving):
        task.cancel()
    limit = exit_after(_EXIT_SECONDS)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    return limit


def run_provider(
    package_name: str,
    services: Sequence[type[AppFunctionService]],
    *,
    address: str | None = None,
    token: str | None = None,
    declare_only: bool = False,
) -> int:
    """Provide functions until SIGTERM, SIGINT, or the end of the host; returns the exit code.

    With `declare_only` until the host knows them: what an app declares stays.

    `address` and `token` default to `APPFUNCTIONS_ADDRESS` and `AICORE_SIM_TOKEN`. Prints
    ``READY {json}`` on standard output. The code is 0 after a signal or an orderly end of the
    host, else 1 with the reason on standard error.
    """
    address = address or os.environ.get(ADDRESS_VARIABLE, "")
    token = token or os.environ.get(TOKEN_VARIABLE, "")
    if not address or not token:
        missing = ADDRESS_VARIABLE if not address else TOKEN_VARIABLE
        return _fail(
            f"{missing} is not set; run the provider with "
            f"`aicore-sim exec --as {package_name} -- CMD`"
        )
    try:
        asyncio.run(
            _serve_until_stopped(package_name, services, address, token, declare_only=declare_only)
        ).cancel()
    except (ProviderError, DefinitionError, SimulatorFault, ValueError) as error:
        return _fail(str(error))
    return 0


def main(arguments: Sequence[str]) -> int:
    """`python -m appfunctions_host.provider PACKAGE=MODULE:CLASS…`, all of one package."""
    parser = argparse.ArgumentParser(
        prog="python -m appfunctions_host.provider",
        description="Run the app functions of one package, in a process of the app: "
        "`aicore-sim exec --as PACKAGE -- python -m appfunctions_host.provider …`.",
    )
    parser.add_argument(
        "services",
        nargs="+",
        metavar="PACKAGE=MODULE:CLASS",
        help="an AppFunctionService; several of one package may be given",
    )
    parser.add_argument(
        "--declare",
        action="store_true",
        help="declare the functions, as installing an app does, and end",
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        apps = load_apps(options.services)
    except AppSpecError as error:
        return _fail(str(error))
    if len(apps) != 1:
        return _fail(f"{', '.join(apps)}: one package a process")
    ((package_name, services),) = apps.items()
    return run_provider(package_name, services, declare_only=options.declare)


def _fail(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
