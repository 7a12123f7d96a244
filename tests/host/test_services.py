"""Services that are started for a call, as Android binds them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_pb2_grpc
from aicore_sim.device.process import is_alive
from aicore_sim.rpc.values import to_object
from appfunctions_host.wire_errors import error_detail
from tests.host.cli_rig import prepared, read_line, start
from tests.host.rig import (
    ROOT,
    START,
    Caller,
    Device,
    name_of,
    raw_provider,
    running_device,
    soon,
    trusted,
)
from tests.host.shop import CANCEL, EXITS, FETCH, OFF, PACKAGE, RESET

AGENT = "com.agent"
PROVIDE = [sys.executable, "-m", "appfunctions_host.provider"]
SHOP_COMMAND = [*PROVIDE, f"{PACKAGE}=tests.host.shop:OrderTools"]


async def register(device: Device, command: Sequence[str], package_name: str = PACKAGE) -> None:
    service = pb.ServiceCommand(package_name=package_name, command=command, directory=str(ROOT))
    await device.shell().call("SetServiceCommand", pb.SetServiceCommandRequest(service=service))


async def running(device: Device) -> list[tuple[str, bool]]:
    response = await device.shell().call("ListServiceCommands", pb.ListServiceCommandsRequest())
    return [(one.package_name, one.is_running) for one in response.services]


async def last_failure(device: Device) -> str:
    response = await device.shell().call("ListServiceCommands", pb.ListServiceCommandsRequest())
    return str(response.services[0].last_failure)


@contextlib.asynccontextmanager
async def declared(folder: Path, **more: float) -> AsyncIterator[tuple[Device, Caller]]:
    """A device on which the shop has declared its functions in an earlier process."""
    async with running_device(folder, **more) as device:  # type: ignore[arg-type]
        shop = device.install(PACKAGE)
        functions = [trusted(name) for name in (FETCH, CANCEL, RESET, OFF)]
        async with raw_provider(device, *functions):
            pass
        await soon(device.host.registry.wait_free(PACKAGE, [FETCH], 5))
        yield device, shop


@pytest.mark.requirement("appfunctions.service.started-on-demand")
async def test_a_call_starts_the_service_once_for_all_that_wait_and_it_is_kept(
    tmp_path: Path,
) -> None:
    async with declared(tmp_path) as (device, shop):
        assert await shop.code(FETCH, orderId="1") == 2000
        await register(device, SHOP_COMMAND)
        calls = [asyncio.create_task(slow(shop)) for _ in range(5)]
        assert await asyncio.gather(*calls) == [0] * 5
        assert await running(device) == [(PACKAGE, True)]
        assert await shop.code(FETCH, orderId="1") == 0
        rules = [entry.rule for entry in device.host.journal.read()]
        assert rules.count("PROVIDER_JOINED") == 2


async def slow(caller: Caller) -> int:
    """As `Caller.code`, with the time that a new Python process takes."""
    request = pb.ExecuteRequest(name=name_of(FETCH), parameters=to_object({"orderId": "1"}))
    call = caller.stub.Execute(request, metadata=caller.metadata, timeout=START)
    if await call.code() is grpc.StatusCode.OK:
        return 0
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    detail = error_detail(failed.value)
    assert detail is not None
    return detail.app_function.error_code


@pytest.mark.requirement("appfunctions.service.cannot-be-bound")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["/nowhere/no-such-program"], "ended with exit code 127"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "ended with exit code 3"),
        ([sys.executable, "-c", ""], "ended without providing "),
        # never connects
        ([sys.executable, "-c", "import time; time.sleep(60)"], "did not provide "),
        # another service of the app
        ([*PROVIDE, f"{PACKAGE}=tests.host.shop:TroubleTools"], "did not provide "),
    ],
    ids=["missing", "fails", "ends", "hangs", "other"],
)
async def test_a_service_that_does_not_come_is_2000_says_why_and_leaves_no_process(
    tmp_path: Path, command: list[str], why: str
) -> None:
    async with declared(tmp_path, bind_seconds=2.0) as (device, shop):
        await register(device, command)
        assert await slow(shop) == 2000
        async with asyncio.timeout(START):
            while device.host.starter.running:  # noqa: ASYNC110 - the process is ending
                await asyncio.sleep(0.01)
        rule = device.host.journal.read()[-1].rule
        assert rule in ("NOT_BOUND", "PROVIDER_LEFT"), rule
        assert (await last_failure(device)).startswith(why)


@pytest.mark.requirement("appfunctions.service.cannot-be-bound")
async def test_a_service_that_comes_at_last_has_no_failure_any_more(tmp_path: Path) -> None:
    async with declared(tmp_path) as (device, shop):
        await register(device, [sys.executable, "-c", "raise SystemExit(3)"])
        assert await slow(shop) == 2000
        assert await last_failure(device) == "ended with exit code 3"
        await register(device, SHOP_COMMAND)
        assert await slow(shop) == 0
        assert await last_failure(device) == ""


@pytest.mark.requirement("appfunctions.service.refused-never-starts")
async def test_a_refused_call_never_starts_the_service(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    script = f"import pathlib; pathlib.Path({str(marker)!r}).touch()"
    async with declared(tmp_path, bind_seconds=2.0) as (device, shop):
        await register(device, [sys.executable, "-c", script])
        stranger = device.install("com.stranger")
        unlisted = device.install(AGENT, "EXECUTE_APP_FUNCTIONS")
        assert await stranger.code(FETCH) == 1000
        assert await unlisted.code(FETCH) == 1000
        assert await shop.code("com.example.shop.OrderTools#no_such") == 1003
        request = pb.SetEnabledRequest(name=name_of(FETCH), state=pb.APP_FUNCTION_STATE_DISABLED)
        await shop.call("SetEnabled", request)
        assert await shop.code(FETCH) == 1002
        assert device.host.starter.running == ()
        assert not marker.exists()
        request.state = pb.APP_FUNCTION_STATE_DEFAULT
        await shop.call("SetEnabled", request)
        assert await slow(shop) == 2000
        assert marker.exists()


async def test_a_service_that_dies_in_a_call_is_3000_and_the_next_call_starts_it_again(
    tmp_path: Path,
) -> None:
    async with running_device(tmp_path) as device:
        shop = device.install(PACKAGE)
        async with raw_provider(device, trusted(EXITS), trusted(FETCH)):
            pass
        await soon(device.host.registry.wait_free(PACKAGE, [EXITS], 5))
        both = [f"{PACKAGE}=tests.host.shop:{name}" for name in ("OrderTools", "TroubleTools")]
        await register(device, [*PROVIDE, *both])
        assert await slow(shop) == 0
        assert await shop.code(EXITS) == 3000
        assert await slow(shop) == 0


@pytest.mark.requirement("appfunctions.service.started-on-demand")
async def test_an_idle_service_is_ended_and_an_ended_host_ends_all(tmp_path: Path) -> None:
    async with declared(tmp_path, idle_seconds=0.05) as (device, shop):
        await register(device, SHOP_COMMAND)
        assert await slow(shop) == 0
        async with asyncio.timeout(START):
            while device.host.starter.running:  # noqa: ASYNC110 - the process is ending
                await asyncio.sleep(0.01)
        assert await running(device) == [(PACKAGE, False)]
    async with running_device(tmp_path) as device:
        # What was declared and registered is still there after the host has been.
        assert await slow(device.install(PACKAGE)) == 0
        [pid] = [int(token[2]) for token in tokens(device) if token[2]]
        assert is_alive(pid)
    assert not is_alive(pid)


@pytest.mark.requirement("appfunctions.service.cannot-be-bound")
@pytest.mark.parametrize("connects", [True, False])
async def test_a_service_whose_callers_left_while_it_started_is_ended_as_any_idle_one(
    tmp_path: Path, connects: bool
) -> None:
    marker = tmp_path / "started"
    hang = f"import pathlib, time; pathlib.Path({str(marker)!r}).touch(); time.sleep(60)"
    async with declared(tmp_path, idle_seconds=0.05) as (device, shop):
        await register(device, SHOP_COMMAND if connects else [sys.executable, "-c", hang])
        request = pb.ExecuteRequest(name=name_of(FETCH), parameters=to_object({"orderId": "1"}))
        calls = [shop.stub.Execute(request, metadata=shop.metadata, timeout=START) for _ in "ab"]
        async with asyncio.timeout(START):
            while not (device.host.starter.running if connects else marker.exists()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            calls[0].cancel()
            if connects:
                # Who still waits keeps it from being idle.
                assert (await calls[1]).return_value.WhichOneof("kind") is not None
            calls[1].cancel()
            while device.host.starter.running:  # noqa: ASYNC110 - the process is ending
                await asyncio.sleep(0.01)


def tokens(device: Device) -> list[tuple[str, str, int | None]]:
    rows = device.host._connection.execute("SELECT token_hash, package_name, pid FROM tokens")
    return rows.fetchall()


@pytest.mark.requirement("appfunctions.declaration.kept")
async def test_killing_the_host_ends_what_it_started_and_loses_no_declaration(
    tmp_path: Path,
) -> None:
    marker = tmp_path / "pid"
    script = (
        f"import os, pathlib, time; pathlib.Path({str(marker)!r}).write_text(str(os.getpid())); "
        "time.sleep(60)"
    )
    with prepared(tmp_path) as (home, packages):
        process = start(home)
        try:
            read_line(process)
            _, token = packages.install(PACKAGE)
            async with grpc.aio.insecure_channel(
                f"unix:{home.socket_path('appfunctions')}"
            ) as channel:
                manager = appfunctions_pb2_grpc.AppFunctionManagerStub(channel)
                provider: Any = appfunctions_pb2_grpc.AppFunctionProviderStub(channel)
                shop = Caller(stub=manager, metadata=(("authorization", f"Bearer {token}"),))
                control = home.read_control_token()
                shell = Caller(stub=manager, metadata=(("authorization", f"Bearer {control}"),))
                stream = provider.Connect(metadata=shop.metadata)
                declared_ = pb.ProviderMessage.Register(functions=[trusted(FETCH)])
                await soon(stream.write(pb.ProviderMessage(register=declared_)))
                await soon(stream.read())
                stream.cancel()
                command = [sys.executable, "-c", script]
                service = pb.ServiceCommand(package_name=PACKAGE, command=command)
                await shell.call("SetServiceCommand", pb.SetServiceCommandRequest(service=service))
                call = asyncio.ensure_future(slow(shop))
                async with asyncio.timeout(START):
                    while not (marker.exists() and marker.read_text()):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                pid = int(marker.read_text())
                assert is_alive(pid)
                process.kill()
                call.cancel()
        finally:
            process.kill()
            process.communicate(timeout=5)
        async with asyncio.timeout(5):
            while is_alive(pid):  # noqa: ASYNC110 - the kernel ends it
                await asyncio.sleep(0.01)
    async with running_device(tmp_path) as device:
        assert await device.install(PACKAGE).discovered() == [FETCH]
        assert await running(device) == [(PACKAGE, False)]
