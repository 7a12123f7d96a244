"""The host over real gRPC, with tokens that the device issued."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_pb2_grpc, errors_pb2
from aicore_sim.rpc.values import from_value, to_object
from appfunctions_host import AppFunctionService
from appfunctions_host.data_types import DefinitionError
from appfunctions_host.local import LocalProvider
from appfunctions_host.provider import ProviderError, serve_app
from appfunctions_host.wire_errors import error_detail
from tests.host.rig import Caller, Device, name_of, running_device, soon
from tests.host.shop import (
    BLOCKS_LOOP,
    CANCEL,
    ECHO,
    FETCH,
    NOTHING,
    OFF,
    PACKAGE,
    RAISES,
    REPORTS,
    RESET,
    OrderTools,
    TroubleTools,
    released,
)

Kind = errors_pb2.SimulatorError


@contextlib.asynccontextmanager
async def _shop(device: Device) -> AsyncIterator[Caller]:
    """The shop is installed and its provider connected; yields the shop as a caller."""
    shop = device.install(PACKAGE)
    ready = asyncio.Event()
    serving = asyncio.create_task(
        serve_app(
            PACKAGE,
            [OrderTools, TroubleTools],
            device.address,
            device.tokens[PACKAGE],
            on_ready=lambda _: ready.set(),
        )
    )
    try:
        await soon(ready.wait())
        yield shop
    finally:
        serving.cancel()
        await asyncio.wait([serving], timeout=5)


@pytest.fixture
async def shop(device: Device) -> AsyncIterator[Caller]:
    async with _shop(device) as caller:
        yield caller


def _callers(device: Device, shop: Caller) -> dict[str, Caller]:
    return {
        "shop": shop,
        "surface": device.install("com.system.home", "EXECUTE_APP_FUNCTIONS_SYSTEM"),
        "assistant": device.install("com.assistant", "EXECUTE_APP_FUNCTIONS", targets=[PACKAGE]),
        "ordinary": device.install("com.ordinary"),
    }


@pytest.mark.requirement(
    "appfunctions.access.self.allowlisted-agent-denied",
    "appfunctions.access.self.ordinary-app-denied",
    "appfunctions.access.self.own-app-allowed",
    "appfunctions.access.self.system-surface-denied",
    "appfunctions.access.system.allowlisted-agent-denied",
    "appfunctions.access.system.ordinary-app-denied",
    "appfunctions.access.system.own-app-allowed",
    "appfunctions.access.system.system-surface-allowed",
    "appfunctions.access.trusted.allowlisted-agent-allowed",
    "appfunctions.access.trusted.ordinary-app-denied",
    "appfunctions.access.trusted.own-app-allowed",
    "appfunctions.access.trusted.system-surface-allowed",
    "appfunctions.execute.success",
)
async def test_four_apps_and_three_levels_have_the_twelve_documented_outcomes(
    device: Device, shop: Caller
) -> None:
    found = {}
    for name, caller in _callers(device, shop).items():
        visible = await caller.discovered()
        found[name] = [
            (FETCH in visible, await caller.code(FETCH, orderId="ORD-1")),
            (RESET in visible, await caller.code(RESET)),
            (CANCEL in visible, await caller.code(CANCEL, orderId="ORD-1")),
        ]

    assert found == {
        "shop": [(True, 0), (True, 0), (True, 0)],
        "surface": [(True, 0), (True, 0), (False, 1000)],
        "assistant": [(True, 0), (False, 1000), (False, 1000)],
        "ordinary": [(False, 1000), (False, 1000), (False, 1000)],
    }


@pytest.mark.requirement("appfunctions.execute.return-value")
async def test_results_arrive_typed_and_unit_is_null(shop: Caller) -> None:
    fetched = await shop.execute(FETCH, orderId="ORD-8492")
    nothing = await shop.execute(NOTHING)

    assert from_value(fetched.return_value) == {
        "orderId": "ORD-8492",
        "status": "Out for delivery",
        "itemCount": 2,
        "eta": None,
    }
    assert nothing.return_value.WhichOneof("kind") == "null_value"


@pytest.mark.requirement("appfunctions.execute.large-payload")
async def test_five_mebibytes_pass_in_both_directions(shop: Caller) -> None:
    data = bytes(range(256)) * 20480

    assert (await shop.execute(ECHO, data=data)).return_value.bytes_value == data


@pytest.mark.requirement(
    "appfunctions.error.app-exception-passes",
    "appfunctions.error.app-unknown",
    "jetpack.errors.extra-codes",
)
async def test_a_function_that_raises_is_3000_and_one_that_reports_keeps_its_code(
    shop: Caller,
) -> None:
    raised = await shop.failure("Execute", pb.ExecuteRequest(name=name_of(RAISES)))
    reported = await shop.failure("Execute", pb.ExecuteRequest(name=name_of(REPORTS)))

    assert raised == errors_pb2.ErrorDetail(
        app_function=errors_pb2.AppFunctionError(error_code=3000, error_message="'no such order'")
    )
    assert reported == errors_pb2.ErrorDetail(
        app_function=errors_pb2.AppFunctionError(
            error_code=3501,
            error_message="not in this country",
            extras=to_object({"country": "XX"}),
        )
    )


@pytest.mark.requirement("appfunctions.error.invalid-argument")
async def test_wrong_arguments_are_1001_naming_function_and_parameter(shop: Caller) -> None:
    detail = await shop.failure(
        "Execute", pb.ExecuteRequest(name=name_of(FETCH), parameters=to_object({"orderId": 7}))
    )

    assert detail.app_function == errors_pb2.AppFunctionError(
        error_code=1001,
        error_message=f"{FETCH}: Parameter 'orderId' should be the type of String, but was Int",
    )


@pytest.mark.requirement("appfunctions.execute.denied-text")
async def test_a_stranger_cannot_tell_an_installed_app_from_a_missing_one(
    device: Device, shop: Caller
) -> None:
    stranger = device.install("com.ordinary")
    answers = [
        await stranger.failure("Execute", pb.ExecuteRequest(name=name))
        for name in (
            name_of(FETCH),
            name_of("T#missing"),
            name_of(FETCH, "com.not.installed"),
        )
    ]

    assert answers[0].app_function.error_code == 1000
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.requirement(
    "appfunctions.caller.claimed-package-checked",
    "simulator.identity.token-not-claim",
)
@pytest.mark.parametrize(
    ("method", "request_type"),
    [
        ("Search", pb.SearchRequest),
        ("GetStates", pb.GetStatesRequest),
        ("Execute", pb.ExecuteRequest),
        ("IsEnabled", pb.IsEnabledRequest),
        ("SetEnabled", pb.SetEnabledRequest),
    ],
)
async def test_no_call_may_claim_to_come_from_another_package(
    device: Device, method: str, request_type: type[Any]
) -> None:
    stranger = device.install("com.ordinary")
    installed = device.packages.get("com.ordinary")
    assert installed is not None

    detail = await stranger.failure(method, request_type(calling_package=PACKAGE))

    assert detail.app_function == errors_pb2.AppFunctionError(
        error_code=1000,
        error_message=f"Specified calling package [{PACKAGE}] does not match the calling uid "
        f"{installed.uid}",
    )


async def test_a_caller_learns_the_package_of_its_own_token(device: Device) -> None:
    app = await device.install("com.ordinary").call(
        "GetCallingPackage", pb.GetCallingPackageRequest()
    )
    shell = await device.shell().call("GetCallingPackage", pb.GetCallingPackageRequest())

    assert (app.package_name, shell.package_name) == ("com.ordinary", "com.android.shell")


@pytest.mark.requirement("simulator.identity.unauthenticated")
async def test_a_token_that_the_device_did_not_issue_is_unauthenticated(device: Device) -> None:
    detail = await device.caller("app_guessed").failure("Search", pb.SearchRequest())

    assert detail.simulator.kind == Kind.UNAUTHENTICATED


@pytest.mark.requirement(
    "appfunctions.execute.disabled",
    "appfunctions.state.is-enabled-own",
    "jetpack.declaration.disabled",
)
async def test_states_switch_over_the_wire_and_disabled_functions_are_1002(shop: Caller) -> None:
    async def switch(identifier: str, state: pb.EnabledState) -> None:
        await shop.call("SetEnabled", pb.SetEnabledRequest(name=name_of(identifier), state=state))

    before = [await shop.code(OFF), await shop.code(FETCH, orderId="1")]
    await switch(OFF, pb.APP_FUNCTION_STATE_ENABLED)
    await switch(FETCH, pb.APP_FUNCTION_STATE_DISABLED)
    after = [await shop.code(OFF), await shop.code(FETCH, orderId="1")]
    states = await shop.call("GetStates", pb.GetStatesRequest(names=[name_of(OFF), name_of(FETCH)]))
    enabled = await shop.call("IsEnabled", pb.IsEnabledRequest(name=name_of(FETCH)))

    assert (before, after) == ([1002, 0], [0, 1002])
    assert [state.is_enabled for state in states.states] == [True, False]
    assert not enabled.is_enabled


@pytest.mark.requirement("appfunctions.access.revoked")
async def test_a_revoked_permission_ends_the_right_at_the_next_call(
    device: Device, shop: Caller
) -> None:
    assistant = device.install("com.assistant", "EXECUTE_APP_FUNCTIONS", targets=[PACKAGE])
    before = await assistant.code(FETCH, orderId="1")
    device.packages.revoke("com.assistant", "EXECUTE_APP_FUNCTIONS")

    assert (before, await assistant.code(FETCH, orderId="1")) == (0, 1000)


@pytest.mark.requirement("appfunctions.access.uninstalled")
async def test_functions_of_an_uninstalled_app_are_gone_though_its_process_lives(
    device: Device, shop: Caller
) -> None:
    surface = device.install("com.system.home", "EXECUTE_APP_FUNCTIONS_SYSTEM")
    before = (await surface.discovered(), await surface.code(RESET))
    device.packages.uninstall(PACKAGE)

    assert RESET in before[0]
    assert before[1] == 0
    assert (await surface.discovered(), await surface.code(RESET)) == ([], 1003)


@pytest.mark.requirement("appfunctions.search.paged")
async def test_a_search_is_paged_by_the_size_that_the_caller_asks_for(shop: Caller) -> None:
    first = await shop.call("Search", pb.SearchRequest(page_size=2))
    rest = await shop.call("Search", pb.SearchRequest(page_token=first.next_page_token))
    found = [item.name.function_identifier for item in (*first.functions, *rest.functions)]

    assert len(first.functions) == 2
    assert rest.next_page_token == ""
    assert found == await shop.discovered()


async def _provider_failure(device: Device, token: str, package: str) -> str:
    with pytest.raises(ProviderError) as refused:
        await soon(serve_app(package, [OrderTools], device.address, token))
    return str(refused.value)


@pytest.mark.requirement("appfunctions.provider.foreign-package-refused")
async def test_a_provider_may_register_only_for_the_package_of_its_token(device: Device) -> None:
    device.install("com.ordinary")

    message = await _provider_failure(device, device.tokens["com.ordinary"], PACKAGE)

    assert message.startswith(
        f"the token of 'com.ordinary' may not provide functions of '{PACKAGE}'"
    )


@pytest.mark.requirement("appfunctions.provider.duplicate-refused")
async def test_a_second_provider_of_the_same_functions_is_refused_and_the_first_goes_on(
    device: Device, shop: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appfunctions_host.provider_service.TAKEOVER_SECONDS", 0.01)

    message = await _provider_failure(device, device.tokens[PACKAGE], PACKAGE)

    assert message.startswith(f"App function already registered for ID: {FETCH}")
    assert await shop.code(FETCH, orderId="1") == 0


async def test_a_provider_without_a_host_says_which_address_is_silent(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="no AppFunction host answers at"):
        await serve_app(
            PACKAGE, [OrderTools], f"unix:{tmp_path / 'no.sock'}", "t", connect_timeout=0.1
        )


async def test_an_app_without_functions_is_refused_before_it_connects() -> None:
    class Empty(AppFunctionService):
        pass

    with pytest.raises(DefinitionError, match="declares no function"):
        await serve_app(PACKAGE, [Empty], "unix:/nowhere", "t")


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([], "the first message of a provider must be `register`"),
        ([pb.ProviderMessage()], "the first message of a provider must be `register`"),
        (
            [
                pb.ProviderMessage(
                    register=pb.ProviderMessage.Register(
                        functions=[pb.AppFunctionMetadata(name=name_of("T#x"), access_level=300)]
                    )
                )
            ]
            * 2,
            "a registered provider sent register",
        ),
    ],
)
async def test_a_stream_that_breaks_the_protocol_is_refused_with_the_rule(
    device: Device, messages: list[pb.ProviderMessage], text: str
) -> None:
    device.install(PACKAGE)
    metadata = (("authorization", f"Bearer {device.tokens[PACKAGE]}"),)
    stub: Any = appfunctions_pb2_grpc.AppFunctionProviderStub(device.channel)
    call = stub.Connect(iter(messages), metadata=metadata, timeout=5)

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await _drain(call)

    detail = error_detail(refused.value)
    assert detail is not None
    assert detail.simulator.kind == Kind.INVALID_REQUEST
    assert detail.simulator.message.startswith(text)


async def _drain(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass
    assert await call.code() == grpc.StatusCode.OK


async def test_a_provider_can_take_back_single_functions(device: Device) -> None:
    shop = device.install(PACKAGE)
    metadata = (("authorization", f"Bearer {device.tokens[PACKAGE]}"),)
    stub: Any = appfunctions_pb2_grpc.AppFunctionProviderStub(device.channel)
    call = stub.Connect(metadata=metadata, timeout=5)
    functions = [
        pb.AppFunctionMetadata(name=name_of(name), access_level=300) for name in ("T#x", "T#y")
    ]
    await call.write(pb.ProviderMessage(register=pb.ProviderMessage.Register(functions=functions)))
    await call.read()
    before = await shop.discovered()

    await call.write(
        pb.ProviderMessage(unregister=pb.ProviderMessage.Unregister(function_identifiers=["T#y"]))
    )
    await soon(device.host.registry.wait_free(PACKAGE, ["T#y"], 5))

    assert (before, await shop.discovered()) == (["T#x", "T#y"], ["T#x"])
    call.cancel()


@pytest.fixture
def _release() -> Iterator[None]:
    released.clear()
    yield
    released.set()


@pytest.mark.requirement("appfunctions.provider.in-host")
@pytest.mark.usefixtures("_release")
async def test_an_app_inside_the_host_that_blocks_its_loop_blocks_only_itself(
    device: Device,
) -> None:
    shop = device.install(PACKAGE)
    provider = await asyncio.to_thread(LocalProvider, PACKAGE, [TroubleTools])
    device.host.add_local(provider)
    try:
        blocked = asyncio.create_task(shop.execute(BLOCKS_LOOP))
        assert len(await shop.discovered()) == 14
        stranger = await device.install("com.ordinary").code(BLOCKS_LOOP)
        assert not blocked.done()
        released.set()

        assert stranger == 1000
        assert (await soon(blocked)).return_value.string_value == "done"
        assert await shop.code(RAISES) == 3000
    finally:
        released.set()
        await asyncio.to_thread(provider.close)


@pytest.mark.requirement("appfunctions.execute.time-limit")
async def test_a_function_over_its_time_is_3000_and_the_connection_stays(tmp_path: Path) -> None:
    async with running_device(tmp_path, execution_timeout=0.05) as device, _shop(device) as shop:
        slow = await shop.code(f"{PACKAGE}.TroubleTools#hang")

        assert (slow, await shop.code(FETCH, orderId="1")) == (3000, 0)


@pytest.mark.requirement("appfunctions.execute.level-denied-code")
async def test_a_hidden_function_is_1003_where_the_profile_says_so(tmp_path: Path) -> None:
    async with running_device(tmp_path, denied_code=1003) as device, _shop(device):
        assistant = device.install("com.assistant", "EXECUTE_APP_FUNCTIONS", targets=[PACKAGE])

        assert await assistant.code(CANCEL, orderId="1") == 1003


async def test_providers_see_an_orderly_end_when_the_host_stops(tmp_path: Path) -> None:
    async with running_device(tmp_path) as device:
        device.install(PACKAGE)
        ready = asyncio.Event()
        serving = asyncio.create_task(
            serve_app(
                PACKAGE,
                [OrderTools],
                device.address,
                device.tokens[PACKAGE],
                on_ready=lambda _: ready.set(),
            )
        )
        await soon(ready.wait())

    await soon(serving)
