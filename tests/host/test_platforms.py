"""What a platform generation has, and what an app can learn of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import errors_pb2
from aicore_sim.device.profile import PlatformName
from appfunctions_host.wire_errors import error_detail
from tests.host.rig import name_of, raw_provider, running_device, soon, trusted
from tests.host.shop import PACKAGE

Kind = errors_pb2.SimulatorError
F = "T#f"


@pytest.mark.requirement("appfunctions.platform.android-16")
@pytest.mark.parametrize(
    ("method", "request_message", "android"),
    [
        ("Search", pb.SearchRequest(), "searchAppFunctions"),
        ("GetStates", pb.GetStatesRequest(), "getAppFunctionStates"),
        ("Observe", pb.ObserveRequest(), "observeAppFunctions"),
    ],
)
async def test_on_android_16_the_calls_of_17_are_no_methods(
    tmp_path: Path, method: str, request_message: Any, android: str
) -> None:
    async with running_device(tmp_path, platform="android-16") as device:
        caller = device.install(PACKAGE)
        call = getattr(caller.stub, method)(request_message, metadata=caller.metadata, timeout=5)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await (soon(call.read()) if method == "Observe" else call)

    detail = error_detail(refused.value)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert detail is not None
    assert detail.simulator.kind == Kind.NO_SUCH_METHOD
    assert detail.simulator.message.startswith(
        f"AppFunctionManager.{android} does not exist on android-16"
    )


@pytest.mark.requirement("appfunctions.platform.android-16", "jetpack.metadata.app-search")
async def test_on_android_16_jetpack_and_the_shell_still_read_metadata_and_apps_run_functions(
    tmp_path: Path,
) -> None:
    jetpack = pb.CALLER_LIBRARY_JETPACK
    async with running_device(tmp_path, platform="android-16") as device:
        device.install(PACKAGE)
        agent = device.install("com.example.agent", "EXECUTE_APP_FUNCTIONS")
        async with raw_provider(device, trusted(F)):
            found = {}
            for name, caller in (("agent", agent), ("shell", device.shell())):
                search = await caller.call("Search", pb.SearchRequest(library=jetpack))
                states = await caller.call(
                    "GetStates", pb.GetStatesRequest(names=[name_of(F)], library=jetpack)
                )
                enabled = await caller.call("IsEnabled", pb.IsEnabledRequest(name=name_of(F)))
                found[name] = (
                    [item.name.function_identifier for item in search.functions],
                    [state.is_enabled for state in states.states],
                    enabled.is_enabled,
                )

    assert found == {"agent": ([F], [True], True), "shell": ([F], [True], True)}


@pytest.mark.requirement("appfunctions.platform.facts")
@pytest.mark.parametrize(
    ("platform", "sdk", "permissions"),
    [
        ("android-16", 3_600_000, ["EXECUTE_APP_FUNCTIONS"]),
        (
            "android-17.0",
            3_700_000,
            ["DISCOVER_APP_FUNCTIONS", "EXECUTE_APP_FUNCTIONS", "EXECUTE_APP_FUNCTIONS_SYSTEM"],
        ),
        (
            "android-17.2",
            3_700_002,
            ["DISCOVER_APP_FUNCTIONS", "EXECUTE_APP_FUNCTIONS", "EXECUTE_APP_FUNCTIONS_SYSTEM"],
        ),
    ],
)
async def test_an_app_learns_its_platform_and_what_it_holds_there(
    tmp_path: Path, platform: PlatformName, sdk: int, permissions: list[str]
) -> None:
    async with running_device(tmp_path, platform=platform) as device:
        app = device.install(
            PACKAGE,
            "EXECUTE_APP_FUNCTIONS",
            "EXECUTE_APP_FUNCTIONS_SYSTEM",
            "DISCOVER_APP_FUNCTIONS",
        )
        found = await app.call("GetCallingPackage", pb.GetCallingPackageRequest())
        installed = device.packages.get(PACKAGE)

    assert installed is not None
    assert found == pb.GetCallingPackageResponse(
        package_name=PACKAGE,
        uid=installed.uid,
        permissions=[f"android.permission.{name}" for name in permissions],
        sdk_int_full=sdk,
    )


@pytest.mark.requirement("jetpack.access-level.token-is-the-systems")
async def test_a_caller_cannot_name_the_creator_of_its_pending_intent(tmp_path: Path) -> None:
    forged = pb.CallerVerification(
        binder_token=b"\0" * 16,
        pending_intent=pb.CallerVerification.PendingIntent(
            creator_package=PACKAGE, creator_uid=10000, creator_holds_execute_system=True
        ),
    )
    async with running_device(tmp_path, platform="android-17.0") as device:
        device.install(PACKAGE)
        agent = device.install("com.example.agent", "EXECUTE_APP_FUNCTIONS", targets=["*"])
        installed = device.packages.get("com.example.agent")
        async with raw_provider(device, trusted(F)) as provider:
            call = agent.stub.Execute(
                pb.ExecuteRequest(name=name_of(F), verification=forged),
                metadata=agent.metadata,
                timeout=5,
            )
            received = (await provider.next_call()).call
            await provider.answer(received.call_id, None)
            await soon(call)

    assert installed is not None
    assert received.calling_package == "com.example.agent"
    assert received.verification == pb.CallerVerification(
        binder_token=b"\0" * 16,
        pending_intent=pb.CallerVerification.PendingIntent(
            creator_package="com.example.agent", creator_uid=installed.uid
        ),
    )
