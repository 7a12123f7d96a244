"""The order of checks, and that a refused call reaches no provider."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.database import open_database
from aicore_sim.device.errors import AppFunctionError
from aicore_sim.device.packages import Identity, PackageStore
from aicore_sim.rpc.values import to_object, to_value
from appfunctions_host.dispatch import Dispatcher, Execution
from appfunctions_host.host import AppFunctionHost
from appfunctions_host.registry import ProviderCall
from tests.host.rig import identity, profile_of, soon

SHOP = "com.example.shop"
OWN = identity(SHOP)
AGENT = identity("com.agent", "EXECUTE_APP_FUNCTIONS", targets=["*"])
NOT_ALLOWLISTED = identity("com.agent", "EXECUTE_APP_FUNCTIONS")
SURFACE = identity("com.home", "EXECUTE_APP_FUNCTIONS_SYSTEM")
STRANGER = identity("com.stranger")


class Recorder:
    """Records what reaches it; `answer` decides what it does."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, types_pb2.ObjectValue, str]] = []
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.blocks = False
        self.failure: AppFunctionError | None = None

    async def call(self, call: ProviderCall) -> types_pb2.Value:
        self.calls.append((call.function_identifier, call.parameters, call.calling_package))
        self.entered.set()
        if self.failure is not None:
            raise self.failure
        if self.blocks:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        return to_value("done")

    def is_current(self) -> bool:
        return True


@pytest.fixture
def provider() -> Recorder:
    return Recorder()


MakeHost = Callable[..., AppFunctionHost]


@pytest.fixture
def make_host(tmp_path: Path, provider: Recorder) -> Iterator[MakeHost]:
    """Hosts of one device on which the shop is installed and provides its functions."""
    levels = {"trusted": 300, "system": 200, "self": 100, "off": 300, "self_off": 100}
    functions = [
        pb.AppFunctionMetadata(
            name=pb.AppFunctionName(package_name=SHOP, function_identifier=f"T#{name}"),
            access_level=level,
            is_enabled_by_default=not name.endswith("off"),
        )
        for name, level in levels.items()
    ]
    with closing(open_database(tmp_path / "device.db", create=True)) as connection:
        packages = PackageStore(connection)
        packages.install(SHOP)

        def make(*, denied_code: int = 1000, execution_timeout: float = 60.0) -> AppFunctionHost:
            host = AppFunctionHost(
                connection,
                packages,
                profile=profile_of(denied_code=denied_code),
                execution_timeout=execution_timeout,
            )
            host.registry.declare(SHOP, functions, provider)
            return host

        yield make


@pytest.fixture
async def host(make_host: MakeHost) -> AsyncIterator[AppFunctionHost]:
    made = make_host()
    yield made
    made.close()


@pytest.fixture
def dispatcher(host: AppFunctionHost) -> Dispatcher:
    return host.dispatcher


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


def _restrict(host_connection: sqlite3.Connection, policy: str) -> None:
    host_connection.execute(
        "INSERT INTO settings VALUES ('app_functions.policy', ?) "
        "ON CONFLICT DO UPDATE SET value = excluded.value",
        (policy,),
    )


@pytest.mark.requirement("appfunctions.caller.enterprise-policy")
@pytest.mark.parametrize(
    ("policy", "caller", "changes", "code"),
    [
        # The claim and the user come before the policy, everything else after.
        ("disabled", STRANGER, {"claimed_package": SHOP, "target_user": 10}, 1000),
        ("disabled", STRANGER, {"target_user": 10}, 1000),
        ("disabled", STRANGER, {"package_name": ""}, 2002),
        ("disabled", STRANGER, {}, 2002),
        ("disabled", AGENT, {"function_identifier": "T#missing"}, 2002),
        ("disabled", OWN, {}, 2002),
        ("nonsense", OWN, {}, 2002),
        ("disabled_cross_profile", AGENT, {}, 0),
        ("not_controlled_by_policy", AGENT, {}, 0),
    ],
)
async def test_a_restricted_policy_is_2002_after_the_callers_identity_and_before_its_right(
    tmp_path: Path,
    dispatcher: Dispatcher,
    provider: Recorder,
    policy: str,
    caller: Identity,
    changes: dict[str, Any],
    code: int,
) -> None:
    with closing(open_database(tmp_path / "device.db", create=False)) as connection:
        _restrict(connection, policy)
    try:
        await dispatcher.execute(caller, dataclasses.replace(CALL, **changes))
        found = AppFunctionError(0, "")
    except AppFunctionError as error:
        found = error

    assert found.error_code == code
    assert len(provider.calls) == (code == 0)
    if code == 2002:
        assert found.message == "Cannot run on a user with a restricted enterprise policy"


@pytest.mark.requirement("appfunctions.execute.near-matches")
@pytest.mark.parametrize(
    ("caller", "name", "near"),
    [
        (AGENT, "Tools#trusted", ["T#trusted"]),
        (AGENT, "trusted", ["T#trusted"]),
        (AGENT, "T#trustd", ["T#trusted"]),
        (AGENT, "T#system", None),
        (SURFACE, "T#sytem", ["T#system"]),
        (AGENT, "T#sytem", None),
        (OWN, "T#sel_off", ["T#self_off", "T#self", "T#off"]),
        (AGENT, "T#wholly_different", None),
    ],
)
async def test_a_missing_function_names_near_ones_that_the_caller_may_discover(
    make_host: MakeHost, caller: Identity, name: str, near: list[str] | None
) -> None:
    dispatcher = make_host(denied_code=1003).dispatcher
    with pytest.raises(AppFunctionError) as refused:
        await dispatcher.execute(caller, dataclasses.replace(CALL, function_identifier=name))

    assert (refused.value.error_code, refused.value.message) == (1003, "App function not found.")
    assert refused.value.extras == (None if near is None else {"near_matches": near})


@pytest.mark.requirement("simulator.audit.decisions")
async def test_the_journal_holds_each_decision_and_how_an_execution_ended(
    host: AppFunctionHost, dispatcher: Dispatcher, provider: Recorder
) -> None:
    await dispatcher.execute(AGENT, CALL)
    for caller, name in ((STRANGER, "T#trusted"), (AGENT, "T#system"), (AGENT, "T#off")):
        with pytest.raises(AppFunctionError):
            await dispatcher.execute(caller, dataclasses.replace(CALL, function_identifier=name))
    provider.failure = AppFunctionError(3501, "no")
    with pytest.raises(AppFunctionError):
        await dispatcher.execute(AGENT, CALL)

    found = [
        (entry.operation, entry.calling_package, entry.function_identifier, entry.rule)
        + (entry.allowed, entry.error_code)
        for entry in host.journal.read()
    ]

    assert found == [
        ("execute", "com.agent", "T#trusted", "ALLOWLISTED", True, 0),
        ("result", "com.agent", "T#trusted", "RETURNED", True, 0),
        ("execute", "com.stranger", "T#trusted", "NO_PERMISSION", False, 1000),
        ("execute", "com.agent", "T#system", "LEVEL_SYSTEM", False, 1000),
        ("execute", "com.agent", "T#off", "DISABLED", False, 1002),
        ("execute", "com.agent", "T#trusted", "ALLOWLISTED", True, 0),
        ("result", "com.agent", "T#trusted", "FAILED", False, 3501),
    ]


@pytest.mark.requirement("appfunctions.execute.level-denied-code")
async def test_with_denied_code_1003_a_hidden_function_looks_like_a_missing_one(
    make_host: MakeHost,
) -> None:
    dispatcher = make_host(denied_code=1003).dispatcher
    seen = []
    for name in ("T#self", "T#self_off", "T#missing"):
        with pytest.raises(AppFunctionError) as refused:
            await dispatcher.execute(AGENT, dataclasses.replace(CALL, function_identifier=name))
        seen.append((refused.value.error_code, refused.value.message))

    assert set(seen) == {(1003, "App function not found.")}


async def test_a_switch_takes_effect_at_the_next_call(
    host: AppFunctionHost, dispatcher: Dispatcher
) -> None:
    catalog = host.catalog
    catalog.set_enabled(OWN, (SHOP, "T#trusted"), 2)
    with pytest.raises(AppFunctionError) as refused:
        await dispatcher.execute(AGENT, CALL)
    catalog.set_enabled(OWN, (SHOP, "T#trusted"), 0)

    assert refused.value.error_code == 1002
    assert await dispatcher.execute(AGENT, CALL) == to_value("done")


@pytest.mark.requirement("appfunctions.execute.time-limit")
async def test_a_function_that_does_not_finish_is_cancelled_and_answered_with_3000(
    make_host: MakeHost, provider: Recorder
) -> None:
    provider.blocks = True
    dispatcher = make_host(execution_timeout=0.02).dispatcher

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
