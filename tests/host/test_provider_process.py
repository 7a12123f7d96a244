"""Providers as processes of their own, killed and started again."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterable

import pytest

from aicore_protos import appfunctions_pb2 as pb
from tests.host.rig import ROOT, START, Caller, Device, name_of, next_line, provider_process, soon
from tests.host.shop import (
    CANCEL,
    EXITS,
    FETCH,
    HANG,
    HANG_IN_THREAD,
    HANG_SYNCHRONOUSLY,
    IMPATIENT,
    OFF,
    PACKAGE,
    RESET,
    START_PROGRAMS,
)


@pytest.mark.requirement(
    "appfunctions.error.provider-died",
    "appfunctions.provider.death-unbinds-functions",
)
async def test_a_call_to_a_provider_that_is_killed_fails_with_3000_and_a_restart_brings_it_back(
    device: Device,
) -> None:
    shop = device.install(PACKAGE)
    async with provider_process(device, "OrderTools", "TroubleTools") as process:
        hanging = asyncio.create_task(
            shop.failure("Execute", pb.ExecuteRequest(name=name_of(HANG)))
        )
        assert await next_line(process) == "ENTERED"
        process.kill()
        detail = await asyncio.wait_for(hanging, 2)

    assert detail.app_function.error_code == 3000
    assert detail.app_function.error_message == "Failed to connect to AppFunctionService"
    # The app is still installed, and so is what it declared.
    declared = await shop.discovered()
    assert {CANCEL, FETCH, RESET, OFF} < set(declared)
    assert await shop.code(FETCH, orderId="1") == 2000

    async with provider_process(device, "OrderTools"):
        assert await shop.discovered() == declared
        assert await shop.code(FETCH, orderId="1") == 0


@pytest.mark.requirement("appfunctions.error.provider-died")
async def test_a_function_that_ends_its_process_is_3000(device: Device) -> None:
    shop = device.install(PACKAGE)
    async with provider_process(device, "TroubleTools") as process:
        assert await shop.code(EXITS) == 3000
        assert await soon(process.wait()) == 7


@pytest.mark.requirement("appfunctions.execute.cancellation")
async def test_a_caller_who_cancels_cancels_the_function_in_the_other_process(
    device: Device,
) -> None:
    shop = device.install(PACKAGE)
    async with provider_process(device, "TroubleTools") as process:
        call = shop.stub.Execute(
            pb.ExecuteRequest(name=name_of(HANG)), metadata=shop.metadata, timeout=30
        )
        assert await next_line(process) == "ENTERED"

        call.cancel()

        assert await next_line(process) == "CANCELLED"


async def test_a_provider_that_starts_before_the_host_sees_the_end_of_its_predecessor_takes_over(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = device.install(PACKAGE)
    waiting = asyncio.Event()
    wait_free = device.host.registry.wait_free

    async def watched(package_name: str, names: Iterable[str], timeout: float) -> None:
        waiting.set()
        await wait_free(package_name, names, timeout)

    async with provider_process(device, "OrderTools") as old:
        monkeypatch.setattr(device.host.registry, "wait_free", watched)
        starting = asyncio.create_task(_start_and_fetch(device, shop))
        await asyncio.wait_for(waiting.wait(), START)
        old.kill()

        assert await asyncio.wait_for(starting, START) == 0


async def _start_and_fetch(device: Device, shop: Caller) -> int:
    async with provider_process(device, "OrderTools"):
        return await shop.code(FETCH, orderId="1")


@pytest.mark.requirement("appfunctions.provider.death-unbinds-functions")
async def test_sigterm_ends_a_provider_with_zero_and_unbinds_its_functions(
    device: Device,
) -> None:
    shop = device.install(PACKAGE)
    async with provider_process(device, "OrderTools") as process:
        process.send_signal(signal.SIGTERM)
        assert await soon(process.wait()) == 0
        await soon(device.host.registry.wait_free(PACKAGE, [FETCH], 5))

        assert await shop.discovered() == [CANCEL, FETCH, RESET, OFF]
        assert await shop.code(FETCH, orderId="1") == 2000


@pytest.mark.parametrize(
    ("function", "code"),
    # A thread of asyncio's own executor can only be left by ending the process hard.
    [(HANG, 0), (HANG_SYNCHRONOUSLY, 0), (HANG_IN_THREAD, 1)],
)
async def test_a_function_that_never_returns_does_not_keep_its_process_alive(
    device: Device, function: str, code: int
) -> None:
    shop = device.install(PACKAGE)
    async with provider_process(device, "TroubleTools") as process:
        call = asyncio.create_task(shop.code(function))
        assert await next_line(process) == "ENTERED"
        process.send_signal(signal.SIGTERM)

        assert await soon(process.wait()) == code
        assert await soon(call) == 3000


@pytest.mark.requirement("appfunctions.execute.time-limit-per-function")
async def test_a_function_over_its_own_time_is_3000_and_the_connection_stays(
    device: Device,
) -> None:
    shop = device.install(PACKAGE)
    async with provider_process(device, "OrderTools", "TroubleTools"):
        detail = await shop.failure("Execute", pb.ExecuteRequest(name=name_of(IMPATIENT)))

        assert detail.app_function.error_code == 3000
        assert detail.app_function.error_message == (
            "The app function did not finish within 0.05 s"
        )
        assert await shop.code(FETCH, orderId="1") == 0


@pytest.mark.requirement("appfunctions.provider.subprocesses")
async def test_functions_may_start_programs_by_the_hundred_while_others_run(
    device: Device,
) -> None:
    shop = device.install(PACKAGE)
    async with provider_process(device, "OrderTools", "TroubleTools"):
        starting = [asyncio.create_task(shop.execute(START_PROGRAMS, count=50)) for _ in range(4)]
        quick = await shop.code(FETCH, orderId="1")
        started = [await call for call in starting]

    assert quick == 0
    assert [response.return_value.int_value for response in started] == [100] * 4


@pytest.mark.requirement("appfunctions.service.started-on-demand")
async def test_a_provider_that_only_declares_ends_and_the_functions_stay(device: Device) -> None:
    shop = device.install(PACKAGE)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "appfunctions_host.provider", "--declare", f"{PACKAGE}=tests.host.shop:OrderTools"),
        stdout=PIPE,
        cwd=ROOT,
        env=device.environment(PACKAGE),
    )
    out, _ = await asyncio.wait_for(process.communicate(), START)
    assert (process.returncode, out[:6]) == (0, b"READY ")
    assert FETCH in await shop.discovered()
    assert await shop.code(FETCH, orderId="1") == 2000


@pytest.mark.parametrize(
    ("arguments", "drop", "message"),
    [
        (["com.example.shop"], "", "'com.example.shop' is not PACKAGE=MODULE:CLASS"),
        (["com.a=tests.host.missing:X"], "", "cannot import 'tests.host.missing'"),
        (["com.a=tests.host.shop:OrderDetails"], "", "is no AppFunctionService class"),
        (["com.a=tests.host.shop:OrderTools"], "AICORE_SIM_TOKEN", "AICORE_SIM_TOKEN is not set"),
        (["com.a=tests.host.shop:OrderTools"], "", "the token of 'com.example.shop' may not"),
    ],
)
async def test_a_provider_that_cannot_start_says_why_and_exits_with_one(
    device: Device, arguments: list[str], drop: str, message: str
) -> None:
    device.install(PACKAGE)
    environment = device.environment(PACKAGE)
    environment.pop(drop, None)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "appfunctions_host.provider",
        *arguments,
        stdout=PIPE,
        stderr=PIPE,
        cwd=ROOT,
        env=environment,
    )

    out, err = await asyncio.wait_for(process.communicate(), START)

    assert (process.returncode, out) == (1, b"")
    assert message in err.decode()
    assert "Traceback" not in err.decode()
