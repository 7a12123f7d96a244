"""Fault rules that AICore hands over, as callers of the host meet them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.clock import ClockMode
from aicore_sim.device.database import open_database
from aicore_sim.device.fault_rules import HOST_RPCS
from aicore_sim.device.faults import FaultError, FaultPlan
from aicore_sim.device.shared_clock import save_clock
from aicore_sim.device.shared_faults import SharedFaults
from aicore_sim.device.virtual_clock import DeviceClock
from appfunctions_host.wire_errors import error_detail
from tests.host.rig import Device, name_of, raw_provider, running_device, soon, trusted
from tests.host.shop import PACKAGE

F, G = "com.example.T#f", "com.example.T#g"


@contextlib.contextmanager
def aicore(device: Device) -> Iterator[tuple[FaultPlan, DeviceClock]]:
    """What AICore does for faults, in the same database and without AICore."""
    clock = DeviceClock(ClockMode.VIRTUAL)
    database = open_database(device.home.database_path, create=False)
    with contextlib.closing(database) as connection:
        save_clock(connection, clock.state)
        clock.on_change(lambda state: save_clock(connection, state))
        yield FaultPlan(rpcs=HOST_RPCS, clock=clock, host=SharedFaults(connection)), clock


def hits(plan: FaultPlan) -> list[int]:
    return [listed.hits for listed in plan.list()]


@pytest.mark.requirement("simulator.faults")
async def test_a_rule_hits_the_calls_of_its_function_and_app_and_the_device_lists_how_often(
    tmp_path: Path,
) -> None:
    async with running_device(tmp_path) as device:
        shop = device.install(PACKAGE)
        agent = device.install("com.agent", "EXECUTE_APP_FUNCTIONS", targets=["*"])
        with aicore(device) as (plan, _):
            async with raw_provider(device, trusted(F), trusted(G)) as provider:
                rule: dict[str, Any] = {
                    "match": {
                        "rpc": "Execute",
                        "package_name": "com.agent",
                        "function_identifier": "f",
                    },
                    "action": {"error_code": 2000},
                    "times": 2,
                }
                plan.add(rule)
                assert [await agent.code(F) for _ in range(2)] == [2000, 2000]
                # Neither reached the provider: the first call that it sees is one without a fault.
                calls = [asyncio.ensure_future(agent.code(F)), asyncio.ensure_future(shop.code(F))]
                for call in calls:
                    message = (await provider.next_call()).call
                    await provider.answer(message.call_id, None)
                    assert await soon(call) == 0
                assert hits(plan) == [2]
                plan.add({"match": {"function_identifier": G}, "action": {"error_code": 3000}})
                assert await agent.code(G) == 3000
                assert hits(plan) == [2, 1]
                plan.clear()
                assert plan.list() == ()
                plan.add(rule)
                assert hits(plan) == [0]
                assert await agent.code(F) == 2000


@pytest.mark.requirement("simulator.faults")
async def test_a_dropped_call_looks_like_a_host_that_died(tmp_path: Path) -> None:
    async with running_device(tmp_path) as device:
        shop = device.install(PACKAGE)
        with aicore(device) as (plan, _):
            plan.add({"match": {"rpc": "Search"}, "action": {"drop_after_tokens": 0}, "times": 1})
            with pytest.raises(grpc.aio.AioRpcError) as broken:
                await shop.call("Search", pb.SearchRequest())
            assert broken.value.code() is grpc.StatusCode.UNAVAILABLE
            assert error_detail(broken.value) is None
            assert await shop.discovered() == []


async def test_a_delay_passes_in_device_time(tmp_path: Path) -> None:
    async with running_device(tmp_path) as device:
        shop = device.install(PACKAGE)
        with aicore(device) as (plan, clock):
            plan.add({"match": {"rpc": "IsEnabled"}, "action": {"delay": 3600}, "times": 1})
            async with raw_provider(device, trusted(F)):
                call = asyncio.ensure_future(
                    shop.call("IsEnabled", pb.IsEnabledRequest(name=name_of(F)))
                )
                async with asyncio.timeout(5):
                    while hits(plan) != [1]:  # noqa: ASYNC110 - another connection counts
                        await asyncio.sleep(0.005)
                assert not call.done()
                await clock.advance(3600)
                assert (await soon(call)).is_enabled


async def test_counts_survive_the_host_and_a_rule_of_before_ends_with_aicore(
    tmp_path: Path,
) -> None:
    rule = {"match": {"rpc": "Search"}, "action": {"error_code": 2000}, "times": 2}
    async with running_device(tmp_path) as device:
        with aicore(device) as (plan, _):
            plan.add(rule)
            assert (await failing(device)) == 2000
    async with running_device(tmp_path) as device:
        assert (await failing(device)) == 2000
        assert (await failing(device)) == 0
    async with running_device(tmp_path) as device:
        with aicore(device) as (plan, _):
            assert (await failing(device)) == 0
            assert plan.list() == ()


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"match": {"rpc": "Execute"}, "action": {"kill_worker": {}}}, "not kill_worker"),
        (
            {"match": {"function_identifier": "f"}, "action": {"malformed": "EMPTY_OUTPUT"}},
            "not malformed",
        ),
        ({"match": {"rpc": "Execute"}, "action": {"error_code": 1}, "seed": 3}, "a probability"),
        (
            {"match": {"rpc": "Execute"}, "action": {"error_code": 1}, "probability": 1.5},
            "probability: ",
        ),
    ],
)
async def test_what_a_call_of_the_host_cannot_meet_is_refused(
    rule: dict[str, Any], text: str
) -> None:
    plan = FaultPlan(rpcs=HOST_RPCS, clock=DeviceClock())
    with pytest.raises(FaultError, match=text):
        plan.add(rule)
    assert plan.list() == ()


async def failing(device: Device) -> int:
    caller = device.install("com.caller")
    try:
        await caller.call("Search", pb.SearchRequest())
    except grpc.aio.AioRpcError as error:
        found = error_detail(error)
        assert found is not None
        return found.app_function.error_code
    return 0
