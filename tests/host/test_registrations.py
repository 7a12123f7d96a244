"""Registration at run time: what is refused, and what a registration means for a function."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import errors_pb2, types_pb2
from aicore_sim.device.errors import FaultKind, SimulatorFault
from appfunctions_host.registrations import Registrations
from appfunctions_host.registry import RUNTIME_SERVICE, ProviderCall, Registry
from tests.host.rig import Device, name_of, raw_provider, running_device, soon, trusted
from tests.host.shop import PACKAGE

GLOBAL, SCREEN, SERVICE = "T#global", "T#screen", "S#service"
Registration = pb.ProviderMessage.Registration


class App:
    def __init__(self) -> None:
        self.current = True

    async def call(self, call: ProviderCall) -> types_pb2.Value:
        raise AssertionError("not called here")

    def is_current(self) -> bool:
        return self.current


def runtime(identifier: str, scope: pb.Scope = pb.SCOPE_GLOBAL) -> pb.AppFunctionMetadata:
    return trusted(identifier, service_name=RUNTIME_SERVICE, scope=scope)


def registered(identifier: str, activity_id: str = "") -> Registration:
    return Registration(function_identifier=identifier, activity_id=activity_id)


@pytest.fixture
def registrations() -> Registrations:
    registry = Registry()
    functions = [runtime(GLOBAL), runtime(SCREEN, pb.SCOPE_ACTIVITY), trusted(SERVICE)]
    registry.declare(PACKAGE, functions, App())
    return Registrations(registry)


@pytest.mark.requirement("appfunctions.registration.rules")
@pytest.mark.parametrize(
    ("wanted", "kind", "text"),
    [
        ([], FaultKind.ILLEGAL_ARGUMENT, "is empty"),
        ([("T#other", "")], FaultKind.ILLEGAL_ARGUMENT, "Unable to register AppFunction 'T#other'"),
        ([(SERVICE, "")], FaultKind.ILLEGAL_ARGUMENT, "declared in the XML resource"),
        ([(SCREEN, "")], FaultKind.ILLEGAL_ARGUMENT, "needs one"),
        ([(GLOBAL, "a1")], FaultKind.ILLEGAL_ARGUMENT, "registered by no activity"),
        (
            [(GLOBAL, ""), (GLOBAL, "")],
            FaultKind.ILLEGAL_STATE,
            f"App function already registered for ID: {GLOBAL}",
        ),
        ([(GLOBAL, ""), ("T#other", "")], FaultKind.ILLEGAL_ARGUMENT, "T#other"),
    ],
)
def test_a_registration_that_breaks_a_rule_registers_nothing(
    registrations: Registrations, wanted: list[tuple[str, str]], kind: FaultKind, text: str
) -> None:
    with pytest.raises(SimulatorFault, match=text) as refused:
        registrations.register(PACKAGE, App(), 1, [registered(*one) for one in wanted])
    assert refused.value.kind is kind
    assert not any(registrations.is_registered((PACKAGE, name)) for name in (GLOBAL, SCREEN))


@pytest.mark.requirement("appfunctions.registration.rules", "appfunctions.registration.activity")
def test_a_function_belongs_to_whom_registered_it_until_the_last_one_leaves(
    registrations: Registrations,
) -> None:
    one, two = App(), App()
    changes: list[bool] = []
    screen = (PACKAGE, SCREEN)
    registrations.on_change(lambda: changes.append(registrations.is_registered(screen)))
    registrations.register(PACKAGE, one, 1, [registered(SCREEN, "a1"), registered(GLOBAL)])
    registrations.register(PACKAGE, two, 1, [registered(SCREEN, "a2")])
    with pytest.raises(SimulatorFault, match="already registered"):
        registrations.register(PACKAGE, two, 2, [registered(GLOBAL)])

    assert registrations.activity_ids(screen) == ("a1", "a2")
    assert registrations.of_activity("a1") == (screen,)
    assert registrations.find(screen, "a3") is None
    registrations.unregister(two, 7)  # a stale handle
    registrations.unregister(one, 1)
    assert registrations.activity_ids(screen) == ("a2",)
    assert not registrations.is_registered((PACKAGE, GLOBAL))
    two.current = False
    assert registrations.activity_ids(screen) == ()
    registrations.unregister(two)
    assert changes == [True, True, True, False]


async def register(provider: Any, number: int, *wanted: Registration) -> errors_pb2.ErrorDetail:
    message = pb.ProviderMessage.RegisterAppFunctions(registration_id=number, registrations=wanted)
    await soon(provider.stream.write(pb.ProviderMessage(register_app_functions=message)))
    answer = (await provider.next_call()).registration_result
    assert answer.registration_id == number
    error: errors_pb2.ErrorDetail = answer.error
    return error


@pytest.mark.requirement("appfunctions.registration.runtime", "appfunctions.registration.activity")
async def test_a_runtime_function_runs_while_it_is_registered_and_where(tmp_path: Path) -> None:
    async with running_device(tmp_path) as device:
        shop = device.install(PACKAGE)
        functions = [runtime(GLOBAL), runtime(SCREEN, pb.SCOPE_ACTIVITY)]
        async with raw_provider(device, *functions) as provider:
            assert await shop.discovered() == [GLOBAL, SCREEN]
            assert await states(device) == [(GLOBAL, False, []), (SCREEN, False, [])]
            assert await codes(device, GLOBAL, SCREEN) == [1002, 1002]
            refused = await register(provider, 1, registered(GLOBAL), registered("T#none"))
            assert refused.simulator.kind == errors_pb2.SimulatorError.ILLEGAL_ARGUMENT
            await register(provider, 2, registered(GLOBAL), registered(SCREEN, "a1"))
            assert await states(device) == [(GLOBAL, True, []), (SCREEN, True, ["a1"])]
            assert await codes(device, SCREEN) == [1003]
            assert await code(device, SCREEN, "a2") == 1003
            assert await code(device, GLOBAL, "a1") == 1003
            call = device.caller(device.tokens[PACKAGE])
            running = call.call(
                "Execute", pb.ExecuteRequest(name=name_of(SCREEN), activity_id="a1")
            )
            task = asyncio.ensure_future(running)
            message = (await provider.next_call()).call
            assert message.activity_id == "a1"
            await provider.answer(message.call_id, "there")
            assert (await soon(task)).return_value.string_value == "there"
            request = pb.GetActivityStatesRequest(activity_ids=["a1", "a9"])
            found = await shop.call("GetActivityStates", request)
            assert [
                (one.activity_id, [name.function_identifier for name in one.names])
                for one in found.states
            ] == [("a1", [SCREEN])]
            ended = pb.ProviderMessage.UnregisterAppFunctions(registration_id=2)
            await soon(provider.stream.write(pb.ProviderMessage(unregister_app_functions=ended)))
            await register(provider, 3, registered(GLOBAL))  # read after what was written before
            assert await codes(device, SCREEN) == [1002]
        await soon(gone(device))
        assert await codes(device, GLOBAL) == [1002]
        assert await shop.discovered() == [GLOBAL, SCREEN]


async def gone(device: Device) -> None:
    while device.host.registrations.is_registered((PACKAGE, GLOBAL)):  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def code(device: Device, identifier: str, activity_id: str) -> int:
    detail = await device.caller(device.tokens[PACKAGE]).failure(
        "Execute", pb.ExecuteRequest(name=name_of(identifier), activity_id=activity_id)
    )
    return detail.app_function.error_code


async def codes(device: Device, *identifiers: str) -> list[int]:
    caller = device.caller(device.tokens[PACKAGE])
    return [await caller.code(identifier) for identifier in identifiers]


async def states(device: Device) -> list[tuple[str, bool, list[str]]]:
    request = pb.GetStatesRequest(names=[name_of(GLOBAL), name_of(SCREEN)])
    found = await device.caller(device.tokens[PACKAGE]).call("GetStates", request)
    return [
        (one.name.function_identifier, one.is_enabled, list(one.activity_ids))
        for one in found.states
    ]


@pytest.mark.requirement("appfunctions.observe.effective-only", "appfunctions.declaration.kept")
async def test_observers_hear_of_the_first_and_the_last_registration_and_of_no_process(
    tmp_path: Path,
) -> None:
    functions = [runtime(GLOBAL), runtime(SCREEN, pb.SCOPE_ACTIVITY), trusted(SERVICE)]
    async with running_device(tmp_path) as device:
        shop = device.install(PACKAGE)
        events = shop.stub.Observe(pb.ObserveRequest(), metadata=shop.metadata)
        await soon(events.read())  # it has begun
        async with raw_provider(device, *functions) as provider:
            await register(provider, 1, registered(SCREEN, "a1"))
            await register(provider, 2, registered(SCREEN, "a2"))
            await register(provider, 3, registered(GLOBAL))
            await register(provider, 4, registered("T#none"))
            ended = pb.ProviderMessage.UnregisterAppFunctions(registration_id=1)
            await soon(provider.stream.write(pb.ProviderMessage(unregister_app_functions=ended)))
        await soon(gone(device))
        async with raw_provider(device, *functions):  # declares the same again
            pass
        async with raw_provider(device, trusted(SERVICE, description="new")):
            off = pb.SetEnabledRequest(name=name_of(SERVICE), state=pb.APP_FUNCTION_STATE_DISABLED)
            await shop.call("SetEnabled", off)
            heard = [changed(await soon(events.read())) for _ in range(6)]
        events.cancel()
    assert heard == [[PACKAGE], [SCREEN], [GLOBAL], [GLOBAL, SCREEN], [PACKAGE], [SERVICE]]


def changed(event: pb.ObserveResponse) -> list[str]:
    if event.WhichOneof("event") == "metadata_changed":
        return list(event.metadata_changed.package_names)
    return [name.function_identifier for name in event.states_changed.names]


@pytest.mark.requirement("appfunctions.explain")
async def test_what_nobody_runs_is_explained_and_recorded_by_its_rule(tmp_path: Path) -> None:
    functions = [runtime(GLOBAL), runtime(SCREEN, pb.SCOPE_ACTIVITY), trusted(SERVICE)]
    async with running_device(tmp_path) as device:
        device.install(PACKAGE)
        async with raw_provider(device, *functions) as provider:
            await register(provider, 1, registered(SCREEN, "a1"))
            found = [await rule(device, name) for name in (GLOBAL, SCREEN, SERVICE)]
            assert found == ["NO_REGISTRATION", "ACTIVITY_ID", "SAME_PACKAGE"]
        await soon(device.host.registry.wait_free(PACKAGE, [SERVICE], 5))
        assert await rule(device, SERVICE) == "NO_SERVICE"
        assert await codes(device, SERVICE, GLOBAL) == [2000, 1002]
        kept = [entry for entry in device.host.journal.read() if entry.operation == "execute"]
        assert [(one.rule, one.error_code) for one in kept] == [
            ("NO_SERVICE", 2000),
            ("NO_REGISTRATION", 1002),
        ]


async def rule(device: Device, identifier: str) -> str:
    request = pb.ExplainRequest(package_name=PACKAGE, function=name_of(identifier))
    found: pb.ExplainResponse = await device.shell().call("Explain", request)
    return found.execute_rule


@pytest.mark.requirement("appfunctions.declaration.kept")
async def test_declarations_outlive_the_host_and_end_with_the_installation(
    tmp_path: Path,
) -> None:
    async with running_device(tmp_path) as device:
        device.install(PACKAGE)
        async with raw_provider(device, trusted(SERVICE), trusted("S#old"), runtime(GLOBAL)):
            pass
    async with running_device(tmp_path) as device:
        shop = device.install(PACKAGE)
        assert await shop.discovered() == ["S#old", SERVICE, GLOBAL]
        # A new version of the service declares what it has, and nothing else of the app changes.
        async with raw_provider(device, trusted(SERVICE), trusted("S#new")):
            assert await shop.discovered() == ["S#new", SERVICE, GLOBAL]
        device.packages.uninstall(PACKAGE)
        again = device.install(PACKAGE)
        assert await again.discovered() == []
    async with running_device(tmp_path) as device:
        assert await device.install(PACKAGE).discovered() == []


@pytest.mark.requirement("appfunctions.registration.platform")
async def test_android_16_registers_nothing_at_run_time(tmp_path: Path) -> None:
    async with running_device(tmp_path, platform="android-16") as device:
        device.install(PACKAGE)
        async with raw_provider(device, runtime(GLOBAL)) as provider:
            refused = await register(provider, 1, registered(GLOBAL))
    assert refused.simulator.kind == errors_pb2.SimulatorError.NO_SUCH_METHOD
