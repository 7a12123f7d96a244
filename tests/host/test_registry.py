"""Which functions exist, and who runs them."""

from __future__ import annotations

import asyncio

import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import FaultKind, SimulatorFault
from appfunctions_host.registry import ProviderCall, Registry
from tests.host.rig import soon


class Idle:
    async def call(self, call: ProviderCall) -> types_pb2.Value:
        raise AssertionError("not called here")

    def is_current(self) -> bool:
        return True


def _function(identifier: str, package: str = "com.a", level: int = 300) -> pb.AppFunctionMetadata:
    name = pb.AppFunctionName(package_name=package, function_identifier=identifier)
    return pb.AppFunctionMetadata(name=name, access_level=level)


def _keys(registry: Registry) -> list[tuple[str, str]]:
    return [function.key for function in registry.functions()]


async def test_functions_are_listed_by_package_and_identifier_and_stay_without_a_provider() -> None:
    registry, one, two = Registry(), Idle(), Idle()
    registry.declare("com.b", [_function("T#x", "com.b")], one)
    registry.declare("com.a", [_function("T#z"), _function("T#y")], two)

    assert _keys(registry) == [("com.a", "T#y"), ("com.a", "T#z"), ("com.b", "T#x")]

    registry.withdraw(two, ["T#z", "T#x"])
    assert _keys(registry) == [("com.a", "T#y"), ("com.b", "T#x")]

    assert registry.unbind(two) == (("com.a", "T#y"),)
    assert registry.provider_of(("com.a", "T#y")) is None
    assert registry.provider_of(("com.b", "T#x")) is one
    assert _keys(registry) == [("com.a", "T#y"), ("com.b", "T#x")]


@pytest.mark.requirement("appfunctions.provider.duplicate-refused")
async def test_a_function_of_another_live_provider_is_refused_and_nothing_of_the_batch_stays() -> (
    None
):
    registry, one, two = Registry(), Idle(), Idle()
    registry.declare("com.a", [_function("T#x")], one)

    with pytest.raises(SimulatorFault) as refused:
        registry.declare("com.a", [_function("T#new"), _function("T#x")], two)

    assert refused.value.kind is FaultKind.ALREADY_EXISTS
    assert refused.value.message.startswith("App function already registered for ID: T#x of com.a")
    assert _keys(registry) == [("com.a", "T#x")]
    assert registry.provider_of(("com.a", "T#x")) is one


async def test_two_apps_may_have_functions_of_the_same_identifier() -> None:
    registry = Registry()
    registry.declare("com.a", [_function("T#x")], Idle())
    registry.declare("com.b", [_function("T#x", "com.b")], Idle())

    assert len(_keys(registry)) == 2


@pytest.mark.parametrize(
    ("functions", "kind"),
    [
        ([_function("")], FaultKind.INVALID_REQUEST),
        ([_function("T#x", "com.other")], FaultKind.INVALID_REQUEST),
        ([_function("T#x", level=0)], FaultKind.INVALID_REQUEST),
        ([_function("T#x"), _function("T#x")], FaultKind.ALREADY_EXISTS),
    ],
)
async def test_metadata_that_no_service_can_have_is_refused(
    functions: list[pb.AppFunctionMetadata], kind: FaultKind
) -> None:
    registry = Registry()

    with pytest.raises(SimulatorFault) as refused:
        registry.declare("com.a", functions, Idle())

    assert refused.value.kind is kind
    assert _keys(registry) == []


@pytest.mark.parametrize(
    ("timeout", "leave", "free"),
    [(5.0, True, True), (0.01, False, False)],
)
async def test_a_restarted_provider_waits_for_the_end_of_its_predecessor_but_not_for_ever(
    timeout: float, leave: bool, free: bool
) -> None:
    registry, old = Registry(), Idle()
    registry.declare("com.a", [_function("T#x")], old)
    waiting = asyncio.create_task(registry.wait_free("com.a", ["T#x"], timeout))
    await asyncio.sleep(0)

    if leave:
        registry.unbind(old)
    await soon(waiting)

    assert (registry.provider_of(("com.a", "T#x")) is None) is free
