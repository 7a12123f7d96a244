"""A host on a real socket, with real tokens, inside the test's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_pb2_grpc, errors_pb2
from aicore_sim.device.database import open_database
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.packages import Identity, PackageStore
from aicore_sim.device.permissions import full_name
from aicore_sim.device.profile import DeviceProfile, PlatformName, load_profile
from aicore_sim.rpc.server import MAX_MESSAGE_BYTES
from aicore_sim.rpc.values import to_object, to_value
from appfunctions_host.access import AccessRules
from appfunctions_host.host import AppFunctionHost
from appfunctions_host.server import RunningHost, start_host
from appfunctions_host.wire_errors import error_detail
from tests.host.shop import PACKAGE

ROOT = Path(__file__).resolve().parents[2]
WAIT = 5.0
START = 20.0
"""For a new Python process on a busy machine."""

_Result = TypeVar("_Result")


def identity(
    package_name: str, *permissions: str, targets: Iterable[str] = (), is_shell: bool = False
) -> Identity:
    """A caller, with permissions by their short names."""
    return Identity(
        package_name=package_name,
        uid=10001,
        permissions=frozenset(full_name(name) for name in permissions),
        signing_digest="",
        allowlist_targets=frozenset(targets),
        is_shell=is_shell,
    )


def profile_of(
    platform: PlatformName = "android-17.2", *, denied_code: int = 1000
) -> DeviceProfile:
    profile = load_profile(platform=platform)
    functions = profile.app_functions.model_copy(update={"denied_code": denied_code})
    return profile.model_copy(update={"app_functions": functions})


def rules_of(platform: PlatformName = "android-17.2", *, denied_code: int = 1000) -> AccessRules:
    return AccessRules(profile_of(platform, denied_code=denied_code).app_functions)


def name_of(function_identifier: str, package_name: str = PACKAGE) -> pb.AppFunctionName:
    return pb.AppFunctionName(package_name=package_name, function_identifier=function_identifier)


async def soon(awaitable: Awaitable[_Result]) -> _Result:
    return await asyncio.wait_for(awaitable, WAIT)


def _detail(error: grpc.aio.AioRpcError) -> errors_pb2.ErrorDetail:
    found = error_detail(error)
    assert found is not None, error
    return found


@dataclass(kw_only=True)
class Caller:
    """AppFunctionManager as one app sees it; failures come as their typed detail."""

    stub: Any
    metadata: tuple[tuple[str, str], ...]

    async def call(self, method: str, request: Any) -> Any:
        return await getattr(self.stub, method)(request, metadata=self.metadata, timeout=WAIT)

    async def failure(self, method: str, request: Any) -> errors_pb2.ErrorDetail:
        try:
            answer = await self.call(method, request)
        except grpc.aio.AioRpcError as error:
            return _detail(error)
        raise AssertionError(f"{method} answered {answer}")

    async def execute(self, function_identifier: str, **arguments: object) -> pb.ExecuteResponse:
        response: pb.ExecuteResponse = await self.call(
            "Execute",
            pb.ExecuteRequest(name=name_of(function_identifier), parameters=to_object(arguments)),
        )
        return response

    async def code(self, function_identifier: str, **arguments: object) -> int:
        """The error code of an execution; 0 when it works."""
        try:
            await self.execute(function_identifier, **arguments)
        except grpc.aio.AioRpcError as error:
            return _detail(error).app_function.error_code
        return 0

    async def discovered(self) -> list[str]:
        response = await self.call("Search", pb.SearchRequest())
        return [item.name.function_identifier for item in response.functions]


@dataclass(kw_only=True)
class Device:
    home: DeviceHome
    packages: PackageStore
    host: AppFunctionHost
    address: str
    channel: grpc.aio.Channel
    running: RunningHost
    tokens: dict[str, str] = field(default_factory=dict)

    def install(self, package_name: str, *permissions: str, targets: Sequence[str] = ()) -> Caller:
        _, token = self.packages.install(package_name, permissions, allowlist_targets=targets)
        self.tokens[package_name] = token
        return self.caller(token)

    def caller(self, token: str) -> Caller:
        return Caller(
            stub=appfunctions_pb2_grpc.AppFunctionManagerStub(self.channel),
            metadata=(("authorization", f"Bearer {token}"),),
        )

    def shell(self) -> Caller:
        return self.caller(self.home.read_control_token())

    def environment(self, package_name: str) -> dict[str, str]:
        return {
            **os.environ,
            "APPFUNCTIONS_ADDRESS": self.address,
            "AICORE_SIM_TOKEN": self.tokens[package_name],
        }


@contextlib.asynccontextmanager
async def running_device(
    folder: Path,
    *,
    platform: PlatformName = "android-17.2",
    denied_code: int = 1000,
    execution_timeout: float = 60.0,
    cancellation_timeout: float = 5.0,
    bind_seconds: float = 10.0,
    idle_seconds: float = 60.0,
) -> AsyncIterator[Device]:
    home = DeviceHome(folder / "device")
    home.prepare()
    with contextlib.closing(open_database(home.database_path, create=True)) as connection:
        packages = PackageStore(connection, control_token=home.read_control_token())
        host = AppFunctionHost(
            connection,
            packages,
            profile=profile_of(platform, denied_code=denied_code),
            execution_timeout=execution_timeout,
            cancellation_timeout=cancellation_timeout,
            bind_seconds=bind_seconds,
            idle_seconds=idle_seconds,
        )
        running = await start_host(host, packages, f"unix:{home.socket_path('appfunctions')}")
        try:
            options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
            async with grpc.aio.insecure_channel(
                running.server.address, options=options
            ) as channel:
                yield Device(
                    home=home,
                    packages=packages,
                    host=host,
                    address=running.server.address,
                    channel=channel,
                    running=running,
                )
        finally:
            await running.stop(grace=0.5)


@contextlib.asynccontextmanager
async def provider_process(
    device: Device,
    *services: str,
    package_name: str = PACKAGE,
    module: str = "tests.host.shop",
) -> AsyncIterator[Process]:
    """A provider of its own process that has printed READY."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "appfunctions_host.provider",
        *(f"{package_name}={module}:{service}" for service in services),
        stdout=PIPE,
        cwd=ROOT,
        env=device.environment(package_name),
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), START)
        assert line.startswith(b"READY {"), line
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await soon(process.wait())
        # The transport of the pipe closes one loop turn after the process has ended.
        await soon(process.communicate())


async def next_line(process: Process) -> str:
    assert process.stdout is not None
    return (await soon(process.stdout.readline())).decode().strip()


@dataclass(kw_only=True)
class RawProvider:
    """A provider's stream without the library, so that a test decides when and what it answers."""

    stream: Any

    async def next_call(self) -> pb.HostMessage:
        message: pb.HostMessage = await soon(self.stream.read())
        assert isinstance(message, pb.HostMessage), await self.failure()
        return message

    async def answer(self, call_id: int, value: object) -> None:
        result = pb.ProviderMessage.CallResult(call_id=call_id, return_value=to_value(value))
        await soon(self.stream.write(pb.ProviderMessage(result=result)))

    async def failure(self) -> errors_pb2.ErrorDetail:
        """How the host ended the stream."""
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await soon(self._drain())
        return _detail(refused.value)

    async def _drain(self) -> None:
        while await self.stream.read() is not grpc.aio.EOF:
            pass


@contextlib.asynccontextmanager
async def raw_provider(
    device: Device,
    *functions: pb.AppFunctionMetadata,
    token: str | None = None,
    package_name: str = PACKAGE,
) -> AsyncIterator[RawProvider]:
    stub: Any = appfunctions_pb2_grpc.AppFunctionProviderStub(device.channel)
    bearer = token or device.tokens[package_name]
    stream = stub.Connect(metadata=(("authorization", f"Bearer {bearer}"),))
    try:
        register = pb.ProviderMessage.Register(functions=functions, package_name=package_name)
        await soon(stream.write(pb.ProviderMessage(register=register)))
        registered = await soon(stream.read())
        assert registered.WhichOneof("message") == "registered", registered
        yield RawProvider(stream=stream)
    finally:
        stream.cancel()


def trusted(identifier: str, **fields: Any) -> pb.AppFunctionMetadata:
    """Metadata of a function; TRUSTED and enabled unless `fields` say otherwise."""
    return pb.AppFunctionMetadata(
        **{
            "name": name_of(identifier),
            "access_level": 300,
            "is_enabled_by_default": True,
            "is_compat_enforcement_enabled": True,
            **fields,
        }
    )
