"""A provider serves only as long as the app that its token was issued for is there."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import errors_pb2
from aicore_sim.device.database import open_database
from aicore_sim.rpc.values import to_value
from appfunctions_host.local import LocalProvider
from appfunctions_host.wire_errors import error_detail
from tests.host.rig import WAIT, Device, name_of, raw_provider, soon, trusted
from tests.host.shop import FETCH, OFF, PACKAGE, OrderTools

Kind = errors_pb2.SimulatorError
OTHER_CERTIFICATE = "ab" * 32
F = "T#f"


@pytest.mark.requirement(
    "appfunctions.access.uninstalled",
    "appfunctions.provider.ends-with-its-package",
)
@pytest.mark.parametrize("certificate", ["", OTHER_CERTIFICATE])
async def test_the_provider_of_an_uninstalled_app_never_serves_the_app_installed_anew(
    device: Device, certificate: str
) -> None:
    device.install(PACKAGE)
    async with raw_provider(device, trusted(F)) as old:
        device.packages.uninstall(PACKAGE)
        _, token = device.packages.install(PACKAGE, signing_digest=certificate)
        shop = device.caller(token)

        # Decided at the call, before the host has noticed anything by itself.
        assert (await shop.code(F), await shop.discovered()) == (1003, [])
        ended = await old.failure()
        async with raw_provider(device, trusted(F), token=token) as new:
            call = asyncio.create_task(shop.execute(F))
            await new.answer((await new.next_call()).call.call_id, "new")

            assert (await soon(call)).return_value == to_value("new")

    assert ended.simulator.kind == Kind.UNAUTHENTICATED
    assert "has ended" in ended.simulator.message


@pytest.mark.requirement("appfunctions.provider.ends-with-its-package")
async def test_calls_that_run_when_the_app_is_uninstalled_fail_with_3000(device: Device) -> None:
    device.install(PACKAGE)
    surface = device.install("com.system.home", "EXECUTE_APP_FUNCTIONS_SYSTEM")
    async with raw_provider(device, trusted(F)) as provider:
        call = asyncio.create_task(surface.code(F))
        await provider.next_call()
        device.packages.uninstall(PACKAGE)

        assert await soon(call) == 3000


@asynccontextmanager
async def _process() -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await soon(process.wait())


@pytest.mark.requirement("appfunctions.provider.ends-with-its-process")
async def test_a_stream_whose_launch_token_ended_with_its_process_is_closed(
    device: Device,
) -> None:
    shop = device.install(PACKAGE)
    async with _process() as process:
        token = device.packages.issue_launch_token(PACKAGE, process.pid)
        async with raw_provider(device, trusted(F), token=token) as provider:
            before = await shop.discovered()
            process.kill()
            await soon(process.wait())

            assert (before, await shop.discovered(), await shop.code(F)) == ([F], [F], 2000)
            assert (await provider.failure()).simulator.kind == Kind.UNAUTHENTICATED

        async with raw_provider(device, trusted(F)):
            assert await shop.discovered() == [F]


async def test_the_shell_provides_no_functions(device: Device) -> None:
    device.install(PACKAGE)
    shell = "com.android.shell"
    control = device.home.read_control_token()
    connecting = raw_provider(
        device, trusted(F, name=name_of(F, shell)), token=control, package_name=shell
    )
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await connecting.__aenter__()

    detail = error_detail(refused.value)
    assert detail is not None
    assert detail.simulator.kind == Kind.FORBIDDEN
    assert await device.shell().discovered() == []


@pytest.mark.requirement("appfunctions.provider.in-host")
async def test_an_app_inside_the_host_does_not_serve_another_certificate(device: Device) -> None:
    provider = await asyncio.to_thread(LocalProvider, PACKAGE, [OrderTools])
    try:
        device.host.add_local(provider)
        shop = device.install(PACKAGE)
        first = await shop.code(FETCH, orderId="1")
        device.packages.uninstall(PACKAGE)
        again = await device.install(PACKAGE).code(FETCH, orderId="1")
        device.packages.uninstall(PACKAGE)
        _, token = device.packages.install(PACKAGE, signing_digest=OTHER_CERTIFICATE)
        foreign = device.caller(token)

        assert (first, again) == (0, 0)
        assert (await foreign.code(FETCH, orderId="1"), await foreign.discovered()) == (1003, [])
    finally:
        await asyncio.to_thread(provider.close)


async def _enabled(device: Device, token: str) -> bool:
    caller = device.caller(token)
    request = pb.IsEnabledRequest(name=name_of(OFF))
    return bool((await caller.call("IsEnabled", request)).is_enabled)


@pytest.mark.requirement("appfunctions.state.uninstall-clears")
async def test_a_state_goes_with_the_package_even_when_another_process_uninstalls_it(
    device: Device,
) -> None:
    shop = device.install(PACKAGE)
    off = trusted(OFF, is_enabled_by_default=False)
    async with raw_provider(device, off):
        enable = pb.SetEnabledRequest(name=name_of(OFF), state=pb.APP_FUNCTION_STATE_ENABLED)
        await shop.call("SetEnabled", enable)
        before = await _enabled(device, device.tokens[PACKAGE])
        other = open_database(device.home.database_path, create=False)
        other.execute("DELETE FROM packages WHERE package_name = ?", (PACKAGE,))
        other.close()
        await device.host.registry.wait_free(PACKAGE, [OFF], WAIT)
    device.install(PACKAGE)
    async with raw_provider(device, off):
        assert (before, await _enabled(device, device.tokens[PACKAGE])) == (True, False)


@pytest.mark.requirement("appfunctions.state.package-clear")
@pytest.mark.parametrize(("default", "state"), [(True, 2), (False, 1)])
async def test_clearing_a_packages_data_brings_its_states_back_to_the_default(
    device: Device, default: bool, state: pb.EnabledState
) -> None:
    shop = device.install(PACKAGE)
    async with raw_provider(device, trusted(OFF, is_enabled_by_default=default)):
        await shop.call("SetEnabled", pb.SetEnabledRequest(name=name_of(OFF), state=state))
        switched = await _enabled(device, device.tokens[PACKAGE])
        other = open_database(device.home.database_path, create=False)
        other.execute("DELETE FROM app_function_states WHERE package_name = ?", (PACKAGE,))
        other.close()

        assert (switched, await _enabled(device, device.tokens[PACKAGE])) == (not default, default)
