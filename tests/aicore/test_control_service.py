"""The control service and the clock, over a real socket."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from aicore_protos import aicore_pb2, device_pb2, errors_pb2
from aicore_sim import __version__
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import TIMEOUT, prompt
from tests.aicore.conftest import StartDaemon

SHOP = "com.example.shop"
DIGEST = "ab" * 32
CONTROL = device_pb2.DESCRIPTOR.services_by_name["DeviceControl"]


def request_of(method: Any) -> Any:
    return getattr(device_pb2, method.input_type.name)()


async def test_the_device_describes_itself(start_daemon: StartDaemon) -> None:
    async with start_daemon() as daemon:
        await daemon.server.wait_ready()
        device = await daemon.shell.device()
    assert device == device_pb2.Device(
        version=__version__,
        device_dir=str(daemon.home.path),
        profile="pixel-10",
        platform="android-17.2",
        model=daemon.server.options.model,
        seed=7,
        pid=os.getpid(),
        slots=1,
        places=8,
        model_state=device_pb2.LOADED,
        unload_at=device.unload_at,
        clock=device.clock,
        pace="host",
        quota_model="token-bucket",
        base_model_name="nano-v3",
    )
    assert device.unload_at.seconds - device.clock.now.seconds in (299, 300)


@pytest.mark.requirement("simulator.identity.shell")
async def test_every_call_needs_the_control_token(start_daemon: StartDaemon) -> None:
    async with start_daemon() as daemon:
        kinds = {
            method.name: (
                await daemon.app.fault(
                    method.name, request_of(method), stream=method.server_streaming
                )
            ).kind
            for method in CONTROL.methods
        }
    assert len(kinds) == len(CONTROL.methods) > 25
    assert set(kinds.values()) == {errors_pb2.SimulatorError.FORBIDDEN}


async def test_packages_are_installed_changed_listed_and_removed(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon() as daemon:
        shell = daemon.shell
        installed = await shell.call(
            "InstallPackage",
            device_pb2.InstallPackageRequest(
                package_name=SHOP,
                permissions=["EXECUTE_APP_FUNCTIONS"],
                signing_digest=DIGEST,
                allowlist_targets=["com.example.a"],
            ),
        )
        shop = device_pb2.Package(
            package_name=SHOP,
            uid=10001,
            permissions=["android.permission.EXECUTE_APP_FUNCTIONS"],
            signing_digest=DIGEST,
            allowlist_targets=["com.example.a"],
        )
        assert installed.package == shop
        granted = await shell.call(
            "GrantPermission",
            device_pb2.GrantPermissionRequest(
                package_name=SHOP, permission="DISCOVER_APP_FUNCTIONS"
            ),
        )
        assert list(granted.permissions) == [
            "android.permission.DISCOVER_APP_FUNCTIONS",
            "android.permission.EXECUTE_APP_FUNCTIONS",
        ]
        revoked = await shell.call(
            "RevokePermission",
            device_pb2.RevokePermissionRequest(
                package_name=SHOP, permission="android.permission.DISCOVER_APP_FUNCTIONS"
            ),
        )
        assert revoked == shop
        shop.allowlist_targets[:] = ["*", "com.example.b"]
        allowed = await shell.call(
            "SetAllowlist",
            device_pb2.SetAllowlistRequest(package_name=SHOP, targets=["com.example.b", "*"]),
        )
        assert allowed == shop
        listed = await shell.call("ListPackages", device_pb2.ListPackagesRequest())
        assert [package.package_name for package in listed.packages] == ["com.example.app", SHOP]
        owner = daemon.caller(installed.token)
        assert (await owner.call("CheckStatus", aicore_pb2.CheckStatusRequest())).status == 3
        await shell.call("UninstallPackage", device_pb2.UninstallPackageRequest(package_name=SHOP))
        fault = await owner.fault("CheckStatus", aicore_pb2.CheckStatusRequest())
        assert fault.kind == errors_pb2.SimulatorError.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("name", "request_", "kind", "named"),
    [
        (
            "InstallPackage",
            device_pb2.InstallPackageRequest(package_name="shop"),
            "INVALID_REQUEST",
            "'shop' is not a package name",
        ),
        (
            "InstallPackage",
            device_pb2.InstallPackageRequest(package_name=SHOP, permissions=["FLY"]),
            "INVALID_REQUEST",
            "unknown permission 'FLY'",
        ),
        (
            "GrantPermission",
            device_pb2.GrantPermissionRequest(package_name="com.example.app", permission="FLY"),
            "INVALID_REQUEST",
            "unknown permission 'FLY'",
        ),
        (
            "UninstallPackage",
            device_pb2.UninstallPackageRequest(package_name=SHOP),
            "NOT_FOUND",
            f"package '{SHOP}' is not installed",
        ),
        (
            "RevokePermission",
            device_pb2.RevokePermissionRequest(
                package_name=SHOP, permission="EXECUTE_APP_FUNCTIONS"
            ),
            "NOT_FOUND",
            f"package '{SHOP}' is not installed",
        ),
        (
            "SetAllowlist",
            device_pb2.SetAllowlistRequest(package_name=SHOP),
            "NOT_FOUND",
            f"package '{SHOP}' is not installed",
        ),
        (
            "IssueLaunchToken",
            device_pb2.IssueLaunchTokenRequest(package_name=SHOP, pid=1),
            "NOT_FOUND",
            f"package '{SHOP}' is not installed",
        ),
        (
            "IssueLaunchToken",
            device_pb2.IssueLaunchTokenRequest(package_name="com.example.app", pid=2**31 - 1),
            "INVALID_REQUEST",
            "no process with pid 2147483647",
        ),
        (
            "LoadScript",
            device_pb2.LoadScriptRequest(yaml="- text: a\n- txt: b"),
            "INVALID_REQUEST",
            "script 'LoadScript', step 2, key 'txt': unknown key",
        ),
    ],
)
async def test_a_wrong_control_request_says_what_is_wrong(
    start_daemon: StartDaemon, name: str, request_: object, kind: str, named: str
) -> None:
    async with start_daemon() as daemon:
        fault = await daemon.shell.fault(name, request_)
    assert fault.kind == errors_pb2.SimulatorError.Kind.Value(kind)
    assert named in fault.message


@pytest.mark.requirement("simulator.identity.launch-token")
async def test_a_launch_token_ends_with_its_process(start_daemon: StartDaemon) -> None:
    async with start_daemon() as daemon:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
        )
        try:
            request = device_pb2.IssueLaunchTokenRequest(
                package_name="com.example.app", pid=process.pid
            )
            token = (await daemon.shell.call("IssueLaunchToken", request)).token
            launched = daemon.caller(token)
            check = aicore_pb2.CheckStatusRequest()
            assert (await launched.call("CheckStatus", check)).status == aicore_pb2.AVAILABLE
        finally:
            process.kill()
            await asyncio.wait_for(process.wait(), TIMEOUT)
        fault = await launched.fault("CheckStatus", check)
    assert fault.kind == errors_pb2.SimulatorError.UNAUTHENTICATED


@pytest.mark.requirement("simulator.script.left-over")
async def test_a_script_is_loaded_and_followed(
    start_daemon: StartDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    async with start_daemon(script="- text: old") as daemon:
        loading = device_pb2.LoadScriptRequest(yaml="- text: new\n- error: {code: 9}")
        state = await daemon.shell.call("LoadScript", loading)
        assert state == device_pb2.ScriptState(
            steps=2, consumed=0, remaining=["step 1: text 'new'", "step 2: error 9"]
        )
        assert "the script has 1 steps left over: step 1: text 'old'" in caplog.text
        assert (await daemon.app.generate())[0].text == "new"
        state = await daemon.shell.call("GetScript", device_pb2.GetScriptRequest())
        assert state == device_pb2.ScriptState(steps=2, consumed=1, remaining=["step 2: error 9"])
        caplog.clear()
    assert "the script has 1 steps left over: step 2: error 9" in caplog.text


async def test_a_refused_script_leaves_the_old_one(start_daemon: StartDaemon) -> None:
    async with start_daemon(script="- text: old") as daemon:
        await daemon.shell.fault("LoadScript", device_pb2.LoadScriptRequest(yaml="- {}"))
        assert (await daemon.app.generate())[0].text == "old"


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("LoadScript", device_pb2.LoadScriptRequest(yaml="- text: a")),
        ("GetScript", device_pb2.GetScriptRequest()),
    ],
)
async def test_only_a_scripted_model_has_a_script(
    start_daemon: StartDaemon, name: str, request_: object
) -> None:
    async with start_daemon(backend=HandDrivenBackend()) as daemon:
        fault = await daemon.shell.fault(name, request_)
    assert fault.kind == errors_pb2.SimulatorError.INVALID_REQUEST
    assert "follows no script" in fault.message


@pytest.mark.requirement("simulator.clock.real")
async def test_the_clock_is_the_hosts_and_every_app_may_read_it(start_daemon: StartDaemon) -> None:
    async with start_daemon() as daemon:
        before = time.time_ns()
        state = await daemon.app.call("GetTime", device_pb2.GetTimeRequest())
        assert before - 10**9 <= state.now.ToNanoseconds() <= time.time_ns() + 10**9
        assert state.mode == device_pb2.SetClockRequest.REAL


@pytest.mark.requirement("simulator.clock.real")
async def test_sleeping_ends_when_the_time_has_come(start_daemon: StartDaemon) -> None:
    async with start_daemon() as daemon:
        until = Timestamp()
        until.FromNanoseconds(time.time_ns() + 50_000_000)
        later, past = (
            device_pb2.SleepUntilRequest(time=until),
            device_pb2.SleepUntilRequest(time=Timestamp(seconds=1)),
        )
        state = await daemon.app.call("SleepUntil", later)
        assert state.now.ToNanoseconds() >= until.ToNanoseconds() - 1000
        await daemon.app.call("SleepUntil", past)
        fault = await daemon.app.fault("SleepUntil", device_pb2.SleepUntilRequest())
    assert fault.kind == errors_pb2.SimulatorError.INVALID_REQUEST
    assert fault.message == "time: name the time to sleep until"


async def test_a_sleeper_does_not_hold_up_the_stop(start_daemon: StartDaemon) -> None:
    async with start_daemon() as daemon:
        far = device_pb2.SleepUntilRequest(time=Timestamp(seconds=2**35))
        sleeper = asyncio.ensure_future(daemon.app.fault("SleepUntil", far))
        await daemon.app.call("CheckStatus", aicore_pb2.CheckStatusRequest())
        async with asyncio.timeout(TIMEOUT):
            await daemon.server.stop()
        sleeper.cancel()
        await asyncio.wait({sleeper}, timeout=TIMEOUT)


@pytest.mark.requirement("simulator.identity.unauthenticated")
async def test_a_missing_and_a_wrong_token_are_refused(start_daemon: StartDaemon) -> None:
    async with start_daemon(script="- text: never") as daemon:
        for token in (None, "", "app_wrong", daemon.app_token + "x"):
            caller = daemon.caller(token)
            fault = await caller.fault("GenerateContent", prompt("hi"), stream=True)
            assert fault.kind == errors_pb2.SimulatorError.UNAUTHENTICATED
            assert "aicore-sim exec --as PACKAGE" in fault.message
