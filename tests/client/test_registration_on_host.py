"""Functions that an app registers, called by another app through a real host."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aicore_client import (
    Activity,
    AppFunctionActivityState,
    AppFunctionException,
    AppFunctionMetadata,
    AppFunctionName,
    AppFunctionsChangeEvent,
    AppFunctionState,
    CancellationSignal,
    ExecuteAppFunctionRequest,
    NoSuchMethodError,
    OperationCanceledException,
    RegisterAppFunctionRequest,
    jetpack,
)
from aicore_sim.device.profile import PlatformName
from tests.client.rig import App, app_of
from tests.host.grid import AGENT
from tests.host.rig import (
    ROOT,
    START,
    WAIT,
    Device,
    next_line,
    provider_process,
    raw_provider,
    running_device,
    trusted,
)
from tests.host.shop import HANG, PACKAGE

ADD, LIST, EDIT, OWN = "Notes#add", "Notes#list", "Editor#edit", "Notes#own"
RUNTIME = {"service_name": "@null"}
DECLARED = (
    trusted(ADD, **RUNTIME),
    trusted(LIST, **RUNTIME),
    trusted(EDIT, scope=AppFunctionMetadata.SCOPE_ACTIVITY, **RUNTIME),
    trusted(OWN, access_level=AppFunctionMetadata.ACCESS_LEVEL_SELF, **RUNTIME),
)
NOT_REGISTERED = (1002, f"Function with ID: {ADD} is disabled")


@dataclass(frozen=True, kw_only=True)
class Apps:
    """The app that registers, and the agent that calls."""

    device: Device
    notes: App
    agent: App


@contextlib.asynccontextmanager
async def _apps(folder: Path, platform: PlatformName = "android-17.2") -> AsyncIterator[Apps]:
    async with running_device(folder, platform=platform) as device:
        device.install(PACKAGE)
        device.install(AGENT, "EXECUTE_APP_FUNCTIONS", targets=["*"])
        # Once declared they stay, as what a manifest declares.
        async with raw_provider(device, *DECLARED):
            pass
        async with app_of(device, PACKAGE) as notes, app_of(device, AGENT) as agent:
            yield Apps(device=device, notes=notes, agent=agent)


@pytest.fixture
async def apps(tmp_path: Path) -> AsyncIterator[Apps]:
    async with _apps(tmp_path) as running:
        yield running


async def _ok(request: ExecuteAppFunctionRequest) -> object:
    return "ok"


async def _both(
    agent: App, identifier: str, activity_id: str | None = None
) -> list[tuple[int, str | None]]:
    return [
        await agent.through_platform(identifier, activity_id=activity_id),
        await agent.through_jetpack(identifier, activity_id=activity_id),
    ]


@pytest.mark.requirement("appfunctions.client.registration")
@pytest.mark.parametrize("platform", ["android-17.0", "android-17.2"])
async def test_another_app_runs_what_is_registered_and_gets_1002_otherwise(
    platform: PlatformName, tmp_path: Path
) -> None:
    names = [AppFunctionName(PACKAGE, ADD), AppFunctionName(PACKAGE, LIST)]
    async with (
        _apps(tmp_path, platform) as apps,
        apps.agent.platform.observe_app_functions() as changes,
    ):
        answers = await _both(apps.agent, ADD)
        with await apps.notes.platform.register_app_function(ADD, _ok):
            answers += await _both(apps.agent, ADD)
            states = await apps.agent.platform.get_app_function_states(names)
        seen = [await asyncio.wait_for(anext(changes), WAIT) for _ in range(2)]
        answers += await _both(apps.agent, ADD)

    flip = AppFunctionsChangeEvent.StatesChanged(frozenset(names[:1]))
    assert answers == [NOT_REGISTERED] * 2 + [(0, None)] * 2 + [NOT_REGISTERED] * 2
    assert [state.is_enabled for state in states] == [True, False]
    assert seen == [flip, flip]


@pytest.mark.requirement("appfunctions.client.registration-refused")
async def test_the_host_refuses_in_androids_words_and_registers_nothing_of_the_batch(
    apps: Apps,
) -> None:
    manager = apps.notes.platform
    with pytest.raises(ValueError, match="Unable to register AppFunction"):
        await manager.register_app_functions(
            [RegisterAppFunctionRequest(ADD, _ok), RegisterAppFunctionRequest("Notes#no", _ok)]
        )
    assert await apps.agent.through_platform(ADD) == NOT_REGISTERED
    with pytest.raises(ValueError, match="activity"):
        await manager.register_app_function(EDIT, _ok)
    with await manager.register_app_function(ADD, _ok):
        for again in (apps.notes.platform, apps.notes.jetpack):
            with pytest.raises(RuntimeError, match=f"already registered for ID: {ADD}"):
                await again.register_app_function(ADD, _ok)  # type: ignore[arg-type]
        # The refused ones took nothing from the first.
        assert await apps.agent.through_platform(ADD) == (0, None)


@pytest.mark.requirement("appfunctions.client.registration-activity")
async def test_an_activitys_function_is_called_by_its_activity_alone(apps: Apps) -> None:
    name = AppFunctionName(PACKAGE, EDIT)
    with Activity() as first, Activity() as second:
        for activity in (first, second):
            await apps.notes.platform.register_app_functions(
                [RegisterAppFunctionRequest(EDIT, _ok, activity)]
            )
        await apps.notes.platform.register_app_function(ADD, _ok, activity=first)
        right = await _both(apps.agent, EDIT, first.activity_id)
        wrong = [
            answer
            for activity_id in (None, "elsewhere")
            for answer in await _both(apps.agent, EDIT, activity_id)
        ]
        wrong += await _both(apps.agent, ADD, first.activity_id)
        states = await apps.agent.platform.get_app_function_states([name])
        activities = await apps.agent.jetpack.get_app_function_activity_states(
            [second.activity_id, "elsewhere"]
        )
        async with apps.agent.platform.observe_app_functions() as changes:
            first.close()
            # ADD has gone with its activity; EDIT is still in the other one.
            gone = await asyncio.wait_for(anext(changes), WAIT)
        closed = await apps.agent.through_platform(EDIT, activity_id=first.activity_id)
        open_ = await apps.agent.through_platform(EDIT, activity_id=second.activity_id)

    both = frozenset({first.activity_id, second.activity_id})
    assert right == [(0, None)] * 2
    assert wrong == [(1003, "App function not found.")] * 6
    assert states == [AppFunctionState(name=name, is_enabled=True, activity_ids=both)]
    assert activities == [
        AppFunctionActivityState(activity_id=second.activity_id, function_names=frozenset({name}))
    ]
    assert gone == AppFunctionsChangeEvent.StatesChanged(frozenset({AppFunctionName(PACKAGE, ADD)}))
    assert (closed, open_) == ((1003, "App function not found."), (0, None))


@pytest.mark.requirement("appfunctions.client.registration-ends")
async def test_a_registration_dies_with_its_process(apps: Apps) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.client.notes_app",
        ADD,
        stdout=PIPE,
        cwd=ROOT,
        env={
            **apps.device.environment(PACKAGE),
            "AICORE_SIM_ADDRESS": "unix:/nowhere/aicore.sock",
        },
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), START)
        assert line == b"REGISTERED\n"
        request = ExecuteAppFunctionRequest(PACKAGE, ADD)
        response = await apps.agent.platform.execute_app_function(request)
        async with apps.agent.platform.observe_app_functions() as changes:
            process.kill()
            await asyncio.wait_for(anext(changes), WAIT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.wait_for(process.communicate(), WAIT)

    assert response.return_value == "from another process"
    assert await apps.agent.through_platform(ADD) == NOT_REGISTERED
    # Another process of the app may now register it.
    with await apps.notes.platform.register_app_function(ADD, _ok):
        assert await apps.agent.through_platform(ADD) == (0, None)


@pytest.mark.requirement(
    "appfunctions.client.cancellation-signal", "appfunctions.client.registered-function-cancelled"
)
async def test_a_registered_function_answers_its_cancellation_and_fifty_leave_nothing(
    apps: Apps,
) -> None:
    entered = asyncio.Semaphore(0)
    ended: list[str] = []

    async def hang(request: ExecuteAppFunctionRequest) -> object:
        entered.release()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")
        return None

    request = ExecuteAppFunctionRequest(PACKAGE, ADD)
    signals = [CancellationSignal() for _ in range(50)]
    with await apps.notes.platform.register_app_function(ADD, hang):
        calls = [
            asyncio.create_task(apps.agent.platform.execute_app_function(request, signal))
            for signal in signals
        ]
        for _ in calls:
            await asyncio.wait_for(entered.acquire(), WAIT)
        for signal in signals:
            signal.cancel()
        answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), WAIT)

    codes = [one.error_code for one in answers if isinstance(one, AppFunctionException)]
    assert codes == [AppFunctionException.ERROR_CANCELLED] * 50
    assert ended == ["ended"] * 50


@pytest.mark.requirement("appfunctions.client.cancellation-signal")
async def test_a_services_function_is_told_of_the_cancellation_and_its_caller_waits_no_longer(
    apps: Apps,
) -> None:
    signal = CancellationSignal()
    async with provider_process(apps.device, "OrderTools", "TroubleTools") as process:
        call = asyncio.create_task(
            apps.agent.platform.execute_app_function(
                ExecuteAppFunctionRequest(PACKAGE, HANG), signal
            )
        )
        lines = [await next_line(process)]
        signal.cancel()
        with pytest.raises(OperationCanceledException):
            await asyncio.wait_for(call, WAIT)
        lines.append(await next_line(process))

    assert lines == ["ENTERED", "CANCELLED"]


@pytest.mark.requirement("jetpack.registration.verifies-caller")
async def test_below_17_2_jetpack_verifies_the_caller_of_a_registered_self_function(
    tmp_path: Path,
) -> None:
    async def own(request: jetpack.ExecuteAppFunctionRequest) -> jetpack.ExecuteAppFunctionResponse:
        return jetpack.Success(jetpack.AppFunctionData.EMPTY)

    async with _apps(tmp_path, "android-17.0") as apps:
        await apps.notes.jetpack.register_app_function(OWN, own)
        answers = [
            await apps.notes.through_jetpack(OWN),
            await apps.notes.through_platform(OWN),
            *await _both(apps.agent, OWN),
        ]

    missing = (1000, "Execution denied: Missing caller verification token.")
    other = (1000, "Execution denied: Caller UID does not match host application UID.")
    assert answers == [(0, None), missing, missing, other]


@pytest.mark.requirement("appfunctions.platform.android-16")
async def test_on_android_16_nothing_is_registered(tmp_path: Path) -> None:
    async with _apps(tmp_path, "android-16") as apps:
        for manager in (apps.notes.platform, apps.notes.jetpack):
            with pytest.raises(NoSuchMethodError, match="registerAppFunction"):
                await manager.register_app_function(ADD, _ok)  # type: ignore[arg-type]
        with pytest.raises(NoSuchMethodError):
            await apps.notes.platform.get_app_function_activity_states(["x"])
