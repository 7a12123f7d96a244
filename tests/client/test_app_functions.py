from __future__ import annotations

import math

import pytest

from aicore_client import (
    AppFunctionActivityState,
    AppFunctionException,
    AppFunctionManager,
    AppFunctionMetadata,
    AppFunctionName,
    AppFunctionSearchSpec,
    AppFunctionState,
    DataType,
    ExecuteAppFunctionRequest,
    jetpack,
)
from aicore_protos import appfunctions_pb2
from tests.client.conftest import Device
from tests.client.fakes import SHOP, parameter

FETCH = f"{SHOP}.OrderTools#fetch_order_details"


@pytest.fixture
def manager(device: Device) -> AppFunctionManager:
    device.host.add(FETCH, lambda args: args, parameters=[parameter("orderId")])
    return AppFunctionManager(device.connection)


@pytest.mark.requirement("appfunctions.search.paged")
async def test_search_returns_whole_metadata_over_all_pages(
    device: Device, manager: AppFunctionManager
) -> None:
    device.host.add("com.example.mail.Mail#send", package="com.example.mail")
    device.host.page_size = 1

    fetch, send = await manager.search_app_functions()

    assert fetch.name == AppFunctionName(SHOP, FETCH)
    assert fetch.access_level == AppFunctionMetadata.ACCESS_LEVEL_ANDROID_TRUSTED
    assert [(item.name, item.data_type.type) for item in fetch.parameters] == [
        ("orderId", DataType.TYPE_STRING)
    ]
    assert (fetch.schema, fetch.deprecation_message) == (None, None)
    assert send.name.package_name == "com.example.mail"


@pytest.mark.requirement("appfunctions.search.filters")
async def test_search_sends_every_filter(device: Device, manager: AppFunctionManager) -> None:
    await manager.search_app_functions(
        AppFunctionSearchSpec(
            package_names=[SHOP],
            function_names=[AppFunctionName(SHOP, FETCH)],
            schema_category="notes",
            schema_name="create",
            min_schema_version=2,
            scopes=[AppFunctionMetadata.SCOPE_ACTIVITY],
        )
    )

    assert device.host.searches == [
        appfunctions_pb2.SearchRequest(
            package_names=[SHOP],
            function_names=[
                appfunctions_pb2.AppFunctionName(package_name=SHOP, function_identifier=FETCH)
            ],
            schema_category="notes",
            schema_name="create",
            min_schema_version=2,
            scopes=["SCOPE_ACTIVITY"],
        )
    ]


async def test_an_empty_filter_matches_nothing(device: Device, manager: AppFunctionManager) -> None:
    assert await manager.search_app_functions(AppFunctionSearchSpec(package_names=[])) == []
    assert device.host.searches == []


VALUES: dict[str, object] = {
    "text": "naïve 日本 👩‍👩‍👧",
    "long": -(2**63),
    "double": 0.1,
    "flag": True,
    "raw": b"\x00\xff",
    "nothing": None,
    "list": [1, 2.5, "x", [], {}],
    "object": {"inner": {"deep": [None]}},
}


@pytest.mark.requirement("appfunctions.value.int64-and-bytes")
async def test_values_cross_the_host_unchanged(manager: AppFunctionManager) -> None:
    request = ExecuteAppFunctionRequest(
        target_package_name=SHOP, function_identifier=FETCH, parameters=VALUES
    )

    response = await manager.execute_app_function(request)

    assert response.return_value == VALUES
    assert isinstance(response.return_value, dict)
    assert list(response.return_value) == list(VALUES)
    assert response.return_value["flag"] is True


def nested(levels: int) -> object:
    value: object = "core"
    for _ in range(levels):
        value = {"in": value}
    return value


@pytest.mark.requirement("appfunctions.value.nan-refused")
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (2**63, ValueError),
        (math.nan, ValueError),
        (-math.inf, ValueError),
        (object(), TypeError),
        ({1: "x"}, TypeError),
        (nested(40), ValueError),
    ],
)
async def test_a_value_that_cannot_be_sent_is_refused_before_the_call(
    device: Device, manager: AppFunctionManager, value: object, error: type[Exception]
) -> None:
    request = ExecuteAppFunctionRequest(
        target_package_name=SHOP, function_identifier=FETCH, parameters={"x": value}
    )

    with pytest.raises(error):
        await manager.execute_app_function(request)
    assert device.host.executed == []


async def test_the_deepest_value_that_is_accepted_crosses(manager: AppFunctionManager) -> None:
    request = ExecuteAppFunctionRequest(
        target_package_name=SHOP, function_identifier=FETCH, parameters={"x": nested(29)}
    )

    assert (await manager.execute_app_function(request)).return_value == {"x": nested(29)}


@pytest.mark.requirement("appfunctions.execute.large-payload")
async def test_five_megabytes_cross_the_host(manager: AppFunctionManager) -> None:
    payload = {"x": "a" * (5 * 1024 * 1024)}
    request = ExecuteAppFunctionRequest(
        target_package_name=SHOP, function_identifier=FETCH, parameters=payload
    )

    assert (await manager.execute_app_function(request)).return_value == payload


@pytest.mark.requirement("appfunctions.state.get-states-omits")
async def test_states_leave_out_what_does_not_exist(manager: AppFunctionManager) -> None:
    names = [AppFunctionName(SHOP, FETCH), AppFunctionName(SHOP, "A#nothing")]

    states = await manager.get_app_function_states(names)

    assert states == [
        AppFunctionState(name=AppFunctionName(SHOP, FETCH), is_enabled=True, activity_ids=None)
    ]


@pytest.mark.requirement("appfunctions.client.activity-states")
async def test_states_of_activities_name_their_functions_through_both_managers(
    device: Device, manager: AppFunctionManager
) -> None:
    device.host.activities = {"one": ["Editor#edit", "Editor#save"], "two": ["Editor#edit"]}
    other = await jetpack.AppFunctionManager.get_instance(device.connection)
    assert other is not None

    found = [
        await each.get_app_function_activity_states(["one", "gone"]) for each in (manager, other)
    ]

    names = frozenset({AppFunctionName(SHOP, "Editor#edit"), AppFunctionName(SHOP, "Editor#save")})
    assert found == [[AppFunctionActivityState(activity_id="one", function_names=names)]] * 2


async def test_a_function_is_disabled_and_enabled(manager: AppFunctionManager) -> None:
    await manager.set_app_function_enabled(FETCH, AppFunctionManager.APP_FUNCTION_STATE_DISABLED)
    assert not await manager.is_app_function_enabled(FETCH)

    await manager.set_app_function_enabled(FETCH, AppFunctionManager.APP_FUNCTION_STATE_DEFAULT)
    assert await manager.is_app_function_enabled(FETCH, SHOP)


async def test_wrong_use_is_a_value_error(manager: AppFunctionManager) -> None:
    with pytest.raises(ValueError, match="Invalid state: 3"):
        await manager.set_app_function_enabled(FETCH, 3)
    with pytest.raises(ValueError, match="App function not found"):
        await manager.is_app_function_enabled("A#nothing", SHOP)
    for attempt in (
        manager.is_app_function_enabled("A#nothing"),
        manager.set_app_function_enabled("A#nothing", 1),
    ):
        with pytest.raises(ValueError, match="Function A#nothing does not exist"):
            await attempt


@pytest.mark.requirement("appfunctions.caller.claimed-package-checked")
async def test_claiming_another_package_is_denied(device: Device) -> None:
    claimed = AppFunctionManager(device.connection, calling_package="com.example.other")

    with pytest.raises(AppFunctionException) as raised:
        await claimed.search_app_functions()

    assert raised.value.error_code == AppFunctionException.ERROR_DENIED
    assert raised.value.error_category == AppFunctionException.ERROR_CATEGORY_REQUEST_ERROR


@pytest.mark.requirement(
    "appfunctions.constants.states",
    "appfunctions.constants.access-levels",
    "appfunctions.constants.scopes",
)
def test_the_constants_are_those_of_android() -> None:
    manager, metadata = AppFunctionManager, AppFunctionMetadata
    assert [
        manager.APP_FUNCTION_STATE_DEFAULT,
        manager.APP_FUNCTION_STATE_ENABLED,
        manager.APP_FUNCTION_STATE_DISABLED,
    ] == [0, 1, 2]
    assert [
        metadata.ACCESS_LEVEL_SELF,
        metadata.ACCESS_LEVEL_SYSTEM,
        metadata.ACCESS_LEVEL_ANDROID_TRUSTED,
    ] == [100, 200, 300]
    assert [metadata.SCOPE_GLOBAL, metadata.SCOPE_ACTIVITY] == [0, 1]
