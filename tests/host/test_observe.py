"""What observers hear: effective changes of what they may discover, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import errors_pb2
from aicore_sim.device.database import open_database
from appfunctions_host.observe import BUFFERED_CHANGES
from appfunctions_host.wire_errors import error_detail
from tests.host.rig import (
    WAIT,
    Caller,
    Device,
    name_of,
    raw_provider,
    running_device,
    soon,
    trusted,
)
from tests.host.shop import PACKAGE

F, G, OWN = "T#f", "T#g", "T#own"
METADATA = ("metadata", [PACKAGE])
DEFAULT, ENABLED, DISABLED = (
    pb.APP_FUNCTION_STATE_DEFAULT,
    pb.APP_FUNCTION_STATE_ENABLED,
    pb.APP_FUNCTION_STATE_DISABLED,
)


class Observer:
    """Events as plain values: what changed, and the packages or identifiers."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    async def next(self) -> tuple[str, list[str]]:
        event = await soon(self.stream.read())
        assert isinstance(event, pb.ObserveResponse), event
        if event.WhichOneof("event") == "metadata_changed":
            return "metadata", list(event.metadata_changed.package_names)
        return "states", [name.function_identifier for name in event.states_changed.names]


@asynccontextmanager
async def _observing(caller: Caller) -> AsyncIterator[Observer]:
    stream = caller.stub.Observe(pb.ObserveRequest(), metadata=caller.metadata)
    try:
        begun = await soon(stream.read())
        assert begun.WhichOneof("event") is None
        yield Observer(stream)
    finally:
        stream.cancel()


async def _switch(caller: Caller, identifier: str, state: pb.EnabledState) -> None:
    await caller.call("SetEnabled", pb.SetEnabledRequest(name=name_of(identifier), state=state))


def _agent(device: Device) -> Caller:
    return device.install("com.example.agent", "EXECUTE_APP_FUNCTIONS", targets=["*"])


@pytest.mark.requirement("appfunctions.observe", "appfunctions.observe.effective-only")
async def test_only_changes_of_the_effective_state_are_reported_in_the_order_they_happened(
    device: Device,
) -> None:
    shop = device.install(PACKAGE)
    async with raw_provider(device, trusted(F), trusted(G)), _observing(_agent(device)) as events:
        await _switch(shop, F, ENABLED)  # enabled by default already
        await _switch(shop, F, DISABLED)
        await _switch(shop, F, DISABLED)
        await _switch(shop, G, DISABLED)
        await _switch(shop, F, DEFAULT)
        await _switch(shop, G, DISABLED)
        await _switch(shop, G, ENABLED)

        found = [await events.next() for _ in range(4)]

    assert found == [("states", [F]), ("states", [G]), ("states", [F]), ("states", [G])]


@pytest.mark.requirement("appfunctions.observe.visible-only")
async def test_an_observer_hears_of_nothing_that_it_may_not_discover(device: Device) -> None:
    shop = device.install(PACKAGE)
    stranger = device.install("com.example.ordinary")
    functions = (trusted(F), trusted(OWN, access_level=100))
    async with (
        _observing(_agent(device)) as agent,
        _observing(stranger) as nobody,
        _observing(shop) as own,
        raw_provider(device, *functions),
    ):
        await _switch(shop, OWN, DISABLED)
        await _switch(shop, F, DISABLED)

        assert [await agent.next() for _ in range(2)] == [METADATA, ("states", [F])]
        assert [await own.next() for _ in range(3)] == [
            METADATA,
            ("states", [OWN]),
            ("states", [F]),
        ]
        async with raw_provider(
            device,
            trusted("T#x", name=name_of("T#x", "com.example.ordinary")),
            package_name="com.example.ordinary",
        ):
            # The stranger's own function is the first that it hears of.
            assert await nobody.next() == ("metadata", ["com.example.ordinary"])


@pytest.mark.requirement("appfunctions.observe.uninstall")
async def test_an_uninstall_is_one_change_of_the_package_and_none_of_states(
    device: Device,
) -> None:
    shop = device.install(PACKAGE)
    agent = _agent(device)
    async with raw_provider(device, trusted(F), trusted(G)), _observing(agent) as events:
        await _switch(shop, F, DISABLED)
        first = await events.next()
        with closing(open_database(device.home.database_path, create=False)) as other:
            other.execute("DELETE FROM packages WHERE package_name = ?", (PACKAGE,))
        gone = await events.next()
        device.install(PACKAGE)
        async with raw_provider(device, trusted(F)):
            back = await events.next()

    assert (first, gone, back) == (("states", [F]), METADATA, METADATA)


@pytest.mark.requirement("appfunctions.state.package-clear", "appfunctions.observe")
async def test_a_package_cleared_by_another_process_is_reported(device: Device) -> None:
    shop = device.install(PACKAGE)
    async with raw_provider(device, trusted(F)), _observing(_agent(device)) as events:
        await _switch(shop, F, DISABLED)
        with closing(open_database(device.home.database_path, create=False)) as other:
            other.execute("DELETE FROM app_function_states WHERE package_name = ?", (PACKAGE,))

        assert [await events.next() for _ in range(2)] == [("states", [F])] * 2


@pytest.mark.requirement("appfunctions.observe.ordered")
async def test_one_change_of_both_kinds_is_told_as_metadata_first(device: Device) -> None:
    """A grant that goes and comes changes what is visible; the state has changed meanwhile."""
    shop = device.install(PACKAGE)
    agent = _agent(device)
    async with raw_provider(device, trusted(F)), _observing(agent) as events:
        device.packages.revoke("com.example.agent", "EXECUTE_APP_FUNCTIONS")
        await _switch(shop, F, DISABLED)
        device.packages.grant("com.example.agent", "EXECUTE_APP_FUNCTIONS")
        await _switch(shop, F, DEFAULT)
        await _switch(shop, F, DISABLED)

        found = [await events.next() for _ in range(3)]

    assert found == [METADATA, METADATA, ("states", [F])]


@pytest.mark.requirement("appfunctions.observe.bounded")
async def test_a_slow_observer_gets_the_oldest_changes_merged(device: Device) -> None:
    device.install(PACKAGE)
    own = device.packages.resolve(device.tokens[PACKAGE])
    assert own is not None
    async with raw_provider(device, *(trusted(f"T#f{n}") for n in range(3))):
        observation = device.host.observers.open(lambda: own)
        flips = BUFFERED_CHANGES + 2
        for number in range(flips):
            state = 2 if number // 3 % 2 == 0 else 1
            device.host.catalog.set_enabled(own, (PACKAGE, f"T#f{number % 3}"), state)
        changes = observation.changes()
        found = [await soon(anext(changes)) for _ in range(2)]
        device.host.observers.end()
        rest = [change async for change in changes]
        device.host.observers.close(observation)

    assert {identifier for _, identifier in found[0].functions} == {"T#f0", "T#f1", "T#f2"}
    assert len(found[1].functions) == 1
    assert rest == []


async def test_an_observer_whose_package_is_uninstalled_is_told_that_its_token_ended(
    device: Device,
) -> None:
    agent = _agent(device)
    async with _observing(agent) as events:
        device.packages.uninstall("com.example.agent")
        device.host.observers.poke()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await soon(events.stream.read())

    detail = error_detail(refused.value)
    assert detail is not None
    assert detail.simulator.kind == errors_pb2.SimulatorError.UNAUTHENTICATED


async def test_observers_end_with_the_host_and_leave_nothing_behind(tmp_path: Path) -> None:
    async with running_device(tmp_path) as device:
        agent = _agent(device)
        stream = agent.stub.Observe(pb.ObserveRequest(), metadata=agent.metadata)
        await soon(stream.read())
        ending = asyncio.create_task(stream.read())
        await soon(device.running.stop(grace=WAIT))

        assert await soon(ending) is grpc.aio.EOF
