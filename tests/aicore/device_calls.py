"""What tests ask of the control service of a daemon, in short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc.aio
from google.protobuf.duration_pb2 import Duration

from aicore_protos import aicore_pb2, device_pb2, errors_pb2
from tests.aicore.calls import TIMEOUT, App, detail_of, only_member, prompt
from tests.aicore.conftest import Daemon

APP = "com.example.app"
OK = 0


async def advance(daemon: Daemon, seconds: float) -> device_pb2.ClockState:
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    state: device_pb2.ClockState = await daemon.shell.call(
        "AdvanceClock", device_pb2.AdvanceClockRequest(duration=duration)
    )
    return state


async def outcome(app: App, request: aicore_pb2.GenerateContentRequest | None = None) -> int:
    """0 for an answer, else the error code."""
    return (await failure(app, request)).error_code


async def failure(
    app: App, request: aicore_pb2.GenerateContentRequest | None = None
) -> errors_pb2.GenAiError:
    """How a generation failed; code 0 when it did not."""
    try:
        await app.generate(request or prompt("hi"))
    except grpc.aio.AioRpcError as error:
        found = only_member(detail_of(error))
        assert isinstance(found, errors_pb2.GenAiError), found
        return found
    return errors_pb2.GenAiError()


async def ended(stream: Any) -> errors_pb2.GenAiError:
    """The error of a running stream, once it has ended."""
    try:
        await rest_of(stream)
    except grpc.aio.AioRpcError as error:
        found = only_member(detail_of(error))
        assert isinstance(found, errors_pb2.GenAiError), found
        return found
    return errors_pb2.GenAiError()


async def rest_of(stream: Any) -> list[Any]:
    """What a stream has yet to say."""
    items = []
    async with asyncio.timeout(TIMEOUT):
        while (item := await stream.read()) is not grpc.aio.EOF:
            items.append(item)
    return items


async def until(daemon: Daemon, condition: Callable[[device_pb2.Device], bool]) -> Any:
    """The device, once it is as it should be."""
    async with asyncio.timeout(TIMEOUT):
        while not condition(device := await daemon.shell.device()):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    return device


async def install(daemon: Daemon, package_name: str) -> App:
    request = device_pb2.InstallPackageRequest(package_name=package_name)
    return daemon.caller((await daemon.shell.call("InstallPackage", request)).token)


async def add_fault(daemon: Daemon, **fields: Any) -> device_pb2.Fault:
    fault = device_pb2.Fault(**fields)
    added: device_pb2.Fault = await daemon.shell.call(
        "AddFault", device_pb2.AddFaultRequest(fault=fault)
    )
    return added


async def journal(daemon: Daemon, **fields: Any) -> list[device_pb2.JournalEntry]:
    request = device_pb2.ReadJournalRequest(**fields)
    return [entry async for entry in daemon.shell.start("ReadJournal", request)]


async def status(app: App) -> int:
    answer = await app.call("CheckStatus", aicore_pb2.CheckStatusRequest())
    found: int = answer.status
    return found


async def downloaded(app: App) -> list[str]:
    """The kinds of items of a whole download."""
    stream = app.start("Download", aicore_pb2.DownloadRequest())
    return [item.WhichOneof("status") async for item in stream]


def set_importance(name: str, package_name: str = APP) -> device_pb2.SetImportanceRequest:
    return device_pb2.SetImportanceRequest(package_name=package_name, importance=name)
