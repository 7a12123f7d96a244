"""The order of checks, and that a refused call reaches no provider."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.database import open_database
from aicore_sim.device.errors import AppFunctionError
from aicore_sim.device.packages import Identity
from aicore_sim.rpc.values import to_object, to_value
from appfunctions_host.catalog import Catalog
from appfunctions_host.dispatch import Dispatcher, Execution
from appfunctions_host.registry import Registry
from appfunctions_host.state import EnabledStates
from tests.host.rig import identity, soon

SHOP = "com.example.shop"
OWN = identity(SHOP)
AGENT = identity("com.agent", "EXECUTE_APP_FUNCTIONS", targets=["*"])
NOT_ALLOWLISTED = identity("com.agent", "EXECUTE_APP_FUNCTIONS")
STRANGER = identity("com.stranger")


class Recorder:
    """Records what reaches it; `answer` decides what it does."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, types_pb2.ObjectValue, str]] = []
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.blocks = False

    async def call(
        self, function_identifier: str, parameters: types_pb2.ObjectValue, *, calling_package: str
    ) -> types_pb2.Value:
        self.calls.append((function_identifier, parameters, calling_package))
        self.entered.set()
        if self.blocks:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        return to_value("done")


@pytest.fixture
def provider() -> Recorder:
    return Recorder()


@pytest.fixture
def catalog_and_states(
    tmp_path: Path, provider: Recorder
) -> Iterator[tuple[Catalog, EnabledStates]]:
    registry = Registry()
    levels = {"trusted": 300, "system": 200, "self": 100, "off": 300, "self_off": 100}
    functions = [
        pb.AppFunctionMetadata(
            name=pb.AppFunctionName(package_name=SHOP, function_identifier=f"T#{name}"),
            access_level=level,
            is_enabled_by_default=not name.endswith("off"),
        )
        for name, level in levels.items()
    ]
    registry.register(SHOP, functions, provider)
    with closing(open_database(tmp_path / "device.db", create=True)) as connection:
        states = EnabledStates(connection)
        yield Catalog(registry, states, lambda package: package == SHOP), states


@pytest.fixture
def dispatcher(catalog_and_states: tuple[Catalog, EnabledStates]) -> Dispatcher:
    return Dispatcher(*catalog_and_states)


CALL = Execution(package_name=SHOP, function_identifier="T#trusted", parameters=to_object({"a": 1}))


@pytest.mark.requirement("appfunctions.execute.success")
async def test_an_allowed_call_reaches_the_provider_with_the_verified_caller(
    dispatcher: Dispatcher, provider: Recorder
) -> None:
    claimed = dataclasses.replace(CALL, claimed_package="com.agent")

    assert await dispatcher.execute(AGENT, claimed) == to_value("done")
    assert provider.calls == [("T#trusted", to_object({"a": 1}), "com.agent")]


NO_RIGHT = "Caller does not have permission to execute the appfunction"


@pytest.mark.requirement(
    "appfunctions.caller.claimed-package-checked",
    "appfunctions.caller.cross-user-denied",
    "appfunctions.caller.permission-without-allowlist",
    "appfunctions.execute.activity-id-on-global",
    "appfunctions.execute.denied-never-starts-provider",
    "appfunctions.execute.denied-text",
    "appfunctions.execute.disabled",
    "appfunctions.execute.empty-package",
    "appfunctions.execute.not-found",
    "appfunctions.execute.order-caller-first",
    "appfunctions.execute.order-level",
)
@pytest.mark.parametrize(
    ("caller", "changes", "code", "message"),
    [
        # Each row breaks the rule it is about and, where it can, every later one.
        (
            STRANGER,
            {"claimed_package": SHOP, "target_user": 10, "package_name": ""},
            1000,
            f"Specified calling package [{SHOP}] does not match the calling uid 10001",
        ),
        (
            STRANGER,
            {"target_user": 10, "package_name": ""},
            1000,
            "Cross user interaction is not allowed",
        ),
        (STRANGER, {"package_name": ""}, 1001, "Target package name cannot be empty."),
        (STRANGER, {"package_name": "com.missing"}, 1000, NO_RIGHT),
        (STRANGER, {"function_identifier": "T#missing"}, 1000, NO_RIGHT),
        (STRANGER, {}, 1000, NO_RIGHT),
        (NOT_ALLOWLISTED, {"package_name": "com.missing"}, 1000, NO_RIGHT),
        (NOT_ALLOWLISTED, {}, 1000, NO_RIGHT),
        (AGENT, {"package_name": "com.missing"}, 1003, "App function not found."),
        (AGENT, {"function_identifier": "T#missing"}, 1003, "App function not found."),
        (AGENT, {"function_identifier": "T#self_off", "activity_id": "a"}, 1000, NO_RIGHT),
        (AGENT, {"function_identifier": "T#system"}, 1000, NO_RIGHT),
        (
            AGENT,
            {"function_identifier": "T#off", "activity_id": "a"},
            1003,
            "App function not found.",
        ),
        (AGENT, {"function_identifier": "T#off"}, 1002, "The app function is disabled"),
        (OWN, {"function_identifier": "T#self_off"}, 1002, "The app function is disabled"),
    ],
)
async def test_checks_come_in_androids_order_and_a_refused_call_reaches_no_provider(
    dispatcher: Dispatcher,
    provider: Recorder,
    caller: Identity,
    changes: dict[str, Any],
    code: int,
    message: str,
) -> None:
    with pytest.raises(AppFunctionError) as refused:
        await dispatcher.execute(caller, dataclasses.replace(CALL, **changes))

    assert (refused.value.error_code, refused.value.message) == (code, message)
    assert provider.calls == []


@pytest.mark.requirement("appfunctions.execute.level-denied-code")
async def test_with_denied_code_1003_a_hidden_function_looks_like_a_missing_one(
    catalog_and_states: tuple[Catalog, EnabledStates],
) -> None:
    dispatcher = Dispatcher(*catalog_and_states, denied_code=1003)
    seen = []
    for name in ("T#self", "T#self_off", "T#missing"):
        with pytest.raises(AppFunctionError) as refused:
            await dispatcher.execute(AGENT, dataclasses.replace(CALL, function_identifier=name))
        seen.append((refused.value.error_code, refused.value.message))

    assert set(seen) == {(1003, "App function not found.")}


async def test_a_switch_takes_effect_at_the_next_call(
    dispatcher: Dispatcher, catalog_and_states: tuple[Catalog, EnabledStates]
) -> None:
    catalog, _ = catalog_and_states
    catalog.set_enabled(OWN, (SHOP, "T#trusted"), 2)
    with pytest.raises(AppFunctionError) as refused:
        await dispatcher.execute(AGENT, CALL)
    catalog.set_enabled(OWN, (SHOP, "T#trusted"), 0)

    assert refused.value.error_code == 1002
    assert await dispatcher.execute(AGENT, CALL) == to_value("done")


@pytest.mark.requirement("appfunctions.execute.time-limit")
async def test_a_function_that_does_not_finish_is_cancelled_and_answered_with_3000(
    catalog_and_states: tuple[Catalog, EnabledStates], provider: Recorder
) -> None:
    provider.blocks = True
    dispatcher = Dispatcher(*catalog_and_states, execution_timeout=0.02)

    with pytest.raises(AppFunctionError) as refused:
        await soon(dispatcher.execute(AGENT, CALL))

    assert refused.value.error_code == 3000
    assert refused.value.message == "The app function did not finish within 0.02 s"
    await soon(provider.cancelled.wait())


@pytest.mark.requirement("appfunctions.execute.cancellation")
async def test_cancelling_the_call_cancels_the_function(
    dispatcher: Dispatcher, provider: Recorder
) -> None:
    provider.blocks = True
    call = asyncio.create_task(dispatcher.execute(AGENT, CALL))
    await soon(provider.entered.wait())

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await soon(call)
    assert provider.cancelled.is_set()
