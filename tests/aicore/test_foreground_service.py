"""The foreground rule as apps meet it."""

from __future__ import annotations

import asyncio

import pytest

from aicore_protos import aicore_pb2, device_pb2
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import TIMEOUT, prompt
from tests.aicore.conftest import StartDaemon
from tests.aicore.device_calls import (
    APP,
    OK,
    ended,
    failure,
    install,
    journal,
    outcome,
    set_importance,
    status,
    until,
)

BLOCKED = 30
OTHER = "com.example.other"


@pytest.mark.requirement(
    "aicore.foreground.background-blocked",
    "aicore.foreground.only-top-counts",
)
@pytest.mark.parametrize("importance", ["VISIBLE", "FOREGROUND_SERVICE", "OVERLAY", "BACKGROUND"])
async def test_only_the_top_app_may_infer_and_everything_else_works(
    start_daemon: StartDaemon, importance: str
) -> None:
    async with start_daemon(script="- text: top again") as daemon:
        other = await install(daemon, OTHER)
        await daemon.shell.call("SetImportance", set_importance(importance))
        refused = await failure(daemon.app)
        assert refused.message.startswith(
            "AICore failed with error type 2-INFERENCE_ERROR and error code "
            "30-BACKGROUND_USE_BLOCKED: "
        )
        assert (refused.error_code, refused.HasField("retry_delay")) == (BLOCKED, False)
        assert (await journal(daemon))[-1].decision == "foreground"
        assert await status(daemon.app) == aicore_pb2.AVAILABLE
        counting = aicore_pb2.CountTokensRequest(request=prompt("two words"))
        assert (await daemon.app.call("CountTokens", counting)).total_tokens == 2
        await daemon.app.call("Warmup", aicore_pb2.WarmupRequest())
        # The rule is for each app, and may change at any time.
        assert await outcome(other) == OK
        await daemon.shell.call("SetImportance", set_importance("TOP"))
        await daemon.shell.call("LoadScript", device_pb2.LoadScriptRequest(yaml="- text: ok"))
        assert await outcome(daemon.app) == OK


@pytest.mark.requirement("aicore.foreground.background-blocked", "aicore.foreground.mid-stream")
async def test_going_to_the_background_ends_the_stream_and_frees_the_slot(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        other = await install(daemon, OTHER)
        stream = daemon.app.start("GenerateContent", prompt("hi"))
        queued = daemon.app.start("GenerateContent", prompt("queued"))
        waiting = other.start("GenerateContent", prompt("other"))
        backend.release(3)
        for _ in range(3):
            assert (await asyncio.wait_for(stream.read(), TIMEOUT)).text == "token "
        await until(daemon, lambda device: (device.running, device.waiting) == (1, 2))
        async with asyncio.timeout(1.0):
            await daemon.shell.call("SetImportance", set_importance("BACKGROUND"))
            assert (await ended(stream)).error_code == BLOCKED
            assert (await ended(queued)).error_code == BLOCKED
        # Only the stream of the app that left has ended; the one in line goes on.
        backend.release()
        assert (await asyncio.wait_for(waiting.read(), TIMEOUT)).text == "token "
        assert not any("queued" in str(asked) for asked in backend.requests)
        waiting.cancel()
        await until(daemon, lambda device: not device.running)
        await daemon.shell.call("SetImportance", set_importance("TOP"))
        backend.finish()
        assert await outcome(daemon.app) == OK
        entries = await journal(daemon, package_name=APP, rpc="GenerateContent")
    assert [entry.decision for entry in entries] == ["foreground", "foreground", "ok"]
    assert {entry.figures.get("output_tokens", 0) for entry in entries[:2]} == {0, 3}


async def test_an_exclusive_foreground_has_one_app_on_top(start_daemon: StartDaemon) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        other = await install(daemon, OTHER)
        await daemon.shell.call("SetImportance", set_importance("TOP", OTHER))
        await daemon.shell.call("SetImportance", set_importance("TOP", APP))
        stream = other.start("GenerateContent", prompt("hi"))
        backend.release()
        await asyncio.wait_for(stream.read(), TIMEOUT)
        only_one = device_pb2.SetImportanceRequest(exclusive=True)
        shown = await daemon.shell.call("SetImportance", only_one)
        assert (await ended(stream)).error_code == BLOCKED
        assert shown.exclusive
        assert {app.package_name: app.importance for app in shown.apps} == {
            APP: device_pb2.TOP,
            OTHER: device_pb2.BACKGROUND,
            "com.android.shell": device_pb2.BACKGROUND,
        }
        backend.finish()
        assert await outcome(daemon.app) == OK
        await daemon.shell.call("SetImportance", set_importance("TOP", OTHER))
        assert await outcome(daemon.app) == BLOCKED
        shared = device_pb2.SetImportanceRequest(exclusive=False)
        await daemon.shell.call("SetImportance", shared)
        shown = await daemon.shell.call("GetImportance", device_pb2.GetImportanceRequest())
    assert not shown.exclusive
    assert {app.package_name: app.importance for app in shown.apps} == {
        APP: device_pb2.BACKGROUND,
        OTHER: device_pb2.TOP,
        "com.android.shell": device_pb2.TOP,
    }


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (device_pb2.SetImportanceRequest(), "importance: "),
        (device_pb2.SetImportanceRequest(package_name=APP), "importance: 0 is none of TOP"),
        (set_importance("TOP", "no.such"), "package_name: 'no.such' is not installed"),
    ],
)
async def test_a_wrong_importance_names_the_field_and_changes_nothing(
    start_daemon: StartDaemon, request_: device_pb2.SetImportanceRequest, named: str
) -> None:
    async with start_daemon() as daemon:
        asked = device_pb2.GetImportanceRequest()
        before = await daemon.shell.call("GetImportance", asked)
        request_.exclusive = bool(request_.package_name or request_.importance)
        if not request_.exclusive:
            request_.ClearField("exclusive")
        fault = await daemon.shell.fault("SetImportance", request_)
        assert fault.message.startswith(named)
        assert await daemon.shell.call("GetImportance", asked) == before


async def test_clearing_and_uninstalling_an_app_end_its_generations(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        for name, request in (
            ("ClearPackage", device_pb2.ClearPackageRequest(package_name=APP)),
            ("UninstallPackage", device_pb2.UninstallPackageRequest(package_name=APP)),
        ):
            stream = daemon.app.start("GenerateContent", prompt("hi"))
            await until(daemon, lambda device: device.running == 1)
            await daemon.shell.call(name, request)
            assert (await ended(stream)).error_code == 7
            await until(daemon, lambda device: not device.running)
