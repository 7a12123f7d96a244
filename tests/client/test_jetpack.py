"""Jetpack's manager, its exceptions and its data."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from aicore_client import (
    AppFunctionDataTypeMetadata,
    AppFunctionName,
    AppFunctionParameterMetadata,
    AppFunctionResponseMetadata,
    DataType,
    UnauthenticatedError,
    jetpack,
)
from aicore_client.jetpack import AppFunctionData, Error, ExecuteAppFunctionRequest, Success
from tests.client.conftest import Device
from tests.client.fakes import SHOP, BareStatus, app_function_error, simulator_error
from tests.client.rig import app_of
from tests.host.rig import provider_process, running_device
from tests.host.shop import ECHO, FETCH, NOTHING, PACKAGE, RAISES, REPORTS

SHOW = f"{SHOP}.OrderTools#show"


async def _manager(device: Device) -> jetpack.AppFunctionManager:
    manager = await jetpack.AppFunctionManager.get_instance(device.connection)
    assert manager is not None
    return manager


@pytest.mark.requirement("jetpack.facade.get-instance")
@pytest.mark.parametrize(
    ("sdk_int_full", "exists"), [(3_500_000, False), (3_600_000, True), (3_700_002, True)]
)
async def test_there_is_no_manager_below_android_16(
    device: Device, sdk_int_full: int, exists: bool
) -> None:
    device.host.sdk_int_full = sdk_int_full

    manager = await jetpack.AppFunctionManager.get_instance(device.connection)

    assert (manager is not None) is exists


UNREACHABLE = BareStatus(grpc.StatusCode.UNAVAILABLE)


@pytest.mark.requirement("jetpack.facade.reader-failure")
async def test_metadata_that_cannot_be_read_is_a_system_error_and_the_function_is_not_called(
    device: Device,
) -> None:
    device.host.add(SHOW)
    manager = await _manager(device)
    device.host.failure = app_function_error(1000, "no metadata today")

    answer = await manager.execute_app_function(ExecuteAppFunctionRequest(SHOP, SHOW))

    assert isinstance(answer, Error)
    assert type(answer.error) is jetpack.AppFunctionSystemUnknownException
    assert device.host.executed == []


async def test_a_fault_of_the_set_up_is_no_answer_of_a_phone(device: Device) -> None:
    manager = await _manager(device)
    device.host.failure = simulator_error("UNAUTHENTICATED")

    with pytest.raises(UnauthenticatedError):
        await manager.execute_app_function(ExecuteAppFunctionRequest(SHOP, SHOW))


async def test_a_host_that_is_gone_is_jetpacks_system_error(device: Device) -> None:
    manager = await _manager(device)
    device.host.failure = UNREACHABLE

    with pytest.raises(jetpack.AppFunctionSystemUnknownException) as raised:
        await manager.search_app_functions()
    with pytest.raises(jetpack.AppFunctionSystemUnknownException):
        await jetpack.AppFunctionManager.get_instance(device.connection)
    assert raised.value.error_code == 2000


REQUEST, SYSTEM, APP = (
    jetpack.AppFunctionRequestException,
    jetpack.AppFunctionSystemException,
    jetpack.AppFunctionAppException,
)


@pytest.mark.requirement(
    "jetpack.errors.classes", "jetpack.errors.extra-codes", "jetpack.errors.unknown-code"
)
@pytest.mark.parametrize(
    ("code", "exception", "base"),
    [
        (1000, jetpack.AppFunctionDeniedException, REQUEST),
        (1001, jetpack.AppFunctionInvalidArgumentException, REQUEST),
        (1002, jetpack.AppFunctionDisabledException, REQUEST),
        (1003, jetpack.AppFunctionFunctionNotFoundException, REQUEST),
        (1500, jetpack.AppFunctionElementNotFoundException, REQUEST),
        (1501, jetpack.AppFunctionLimitExceededException, REQUEST),
        (1502, jetpack.AppFunctionElementAlreadyExistsException, REQUEST),
        (2000, jetpack.AppFunctionSystemUnknownException, SYSTEM),
        (2001, jetpack.AppFunctionCancelledException, SYSTEM),
        (2002, jetpack.AppFunctionUnknownException, jetpack.AppFunctionException),
        (3000, jetpack.AppFunctionAppUnknownException, APP),
        (3500, jetpack.AppFunctionPermissionRequiredException, APP),
        (3501, jetpack.AppFunctionNotSupportedException, APP),
        (4711, jetpack.AppFunctionUnknownException, jetpack.AppFunctionException),
    ],
)
async def test_each_code_returns_as_its_class_with_text_and_extras(
    device: Device,
    code: int,
    exception: type[jetpack.AppFunctionException],
    base: type[jetpack.AppFunctionException],
) -> None:
    device.host.add(SHOW, lambda args: app_function_error(code, "why", {"near": [SHOW]}))
    manager = await _manager(device)

    answer = await manager.execute_app_function(ExecuteAppFunctionRequest(SHOP, SHOW))

    assert isinstance(answer, Error)
    found = answer.error
    assert (type(found), found.error_code, found.error_message, found.extras) == (
        exception,
        code,
        "why",
        {"near": [SHOW]},
    )
    assert isinstance(found, base)


@pytest.mark.requirement("jetpack.facade.typed-response", "jetpack.errors.service-mapping")
async def test_results_and_failures_of_an_app_arrive_typed(tmp_path: Path) -> None:
    key = Success.PROPERTY_RETURN_VALUE
    async with running_device(tmp_path) as device:
        device.install(PACKAGE)
        async with (
            provider_process(device, "OrderTools", "TroubleTools"),
            app_of(device, PACKAGE) as app,
        ):

            async def run(identifier: str, **values: object) -> jetpack.ExecuteAppFunctionResponse:
                return await app.jetpack.execute_app_function(
                    ExecuteAppFunctionRequest(PACKAGE, identifier, AppFunctionData(values))
                )

            (fetch,) = await app.jetpack.search_app_functions(
                jetpack.AppFunctionSearchSpec(function_names=[AppFunctionName(PACKAGE, FETCH)])
            )
            builder = AppFunctionData.Builder(fetch.parameters, fetch.components)
            arguments = builder.set_string("orderId", "ORD-8492").build()
            details = await app.jetpack.execute_app_function(
                ExecuteAppFunctionRequest(PACKAGE, FETCH, arguments)
            )
            nothing = await run(NOTHING)
            echo = await run(ECHO, data=b"\x00\xff")
            reports, raises = await run(REPORTS), await run(RAISES)

    assert isinstance(details, Success)
    order = details.return_value.get_app_function_data(key)
    assert order is not None
    assert order.get_string("orderId") == "ORD-8492"
    assert order.get_int("itemCount") == 2
    assert order.get_string("eta") is None
    assert not order.contains_key("eta")
    for wrong in (lambda: order.get_long("itemCount"), lambda: order.get_string("owner")):
        with pytest.raises(ValueError, match="metadata"):
            wrong()
    assert nothing == Success(AppFunctionData.EMPTY)
    assert isinstance(echo, Success)
    assert echo.return_value.get_byte_array(key) == b"\x00\xff"
    assert isinstance(reports, Error)
    assert isinstance(reports.error, jetpack.AppFunctionNotSupportedException)
    assert reports.error.extras == {"country": "XX"}
    assert isinstance(raises, Error)
    assert isinstance(raises.error, jetpack.AppFunctionAppUnknownException)


def _type(kind: DataType, **fields: object) -> AppFunctionDataTypeMetadata:
    return AppFunctionDataTypeMetadata(type=kind, **fields)  # type: ignore[arg-type]


def _array(kind: DataType) -> AppFunctionDataTypeMetadata:
    return _type(DataType.TYPE_ARRAY, item_type=_type(kind))


NOTE = _type(
    DataType.TYPE_OBJECT,
    object_qualified_name="com.example.Note",
    properties={
        "title": _type(DataType.TYPE_STRING),
        "pages": _type(DataType.TYPE_INT, is_nullable=True),
        "parent": _type(DataType.TYPE_REFERENCE, data_type_reference="Note", is_nullable=True),
    },
    required=("title", "pages"),
)
COMPONENTS = {"Note": NOTE}
OF_NOTE = _type(DataType.TYPE_REFERENCE, data_type_reference="Note")
PARAMETERS = [
    AppFunctionParameterMetadata(name=name, is_required=name == "text", data_type=data_type)
    for name, data_type in {
        "flag": _type(DataType.TYPE_BOOLEAN),
        "int": _type(DataType.TYPE_INT),
        "long": _type(DataType.TYPE_LONG),
        "float": _type(DataType.TYPE_FLOAT),
        "double": _type(DataType.TYPE_DOUBLE),
        "text": _type(DataType.TYPE_STRING),
        "raw": _type(DataType.TYPE_BYTES),
        "note": OF_NOTE,
        "flags": _array(DataType.TYPE_BOOLEAN),
        "ints": _array(DataType.TYPE_INT),
        "longs": _array(DataType.TYPE_LONG),
        "floats": _array(DataType.TYPE_FLOAT),
        "doubles": _array(DataType.TYPE_DOUBLE),
        "texts": _array(DataType.TYPE_STRING),
        "notes": _type(DataType.TYPE_ARRAY, item_type=OF_NOTE),
        "color": _type(DataType.TYPE_STRING, enum_values=("red", "green")),
        "size": _type(DataType.TYPE_INT, enum_values=("1", "2")),
        "either": _type(
            DataType.TYPE_ONE_OF,
            one_of=(OF_NOTE, _type(DataType.TYPE_OBJECT, object_qualified_name="com.example.No")),
        ),
        "all": _type(
            DataType.TYPE_ALL_OF,
            object_qualified_name="com.example.All",
            all_of=(
                OF_NOTE,
                _type(DataType.TYPE_OBJECT, properties={"more": _type(DataType.TYPE_LONG)}),
            ),
        ),
    }.items()
]


def _builder() -> AppFunctionData.Builder:
    return AppFunctionData.Builder(PARAMETERS, COMPONENTS)


def _note(title: str) -> AppFunctionData:
    return AppFunctionData.Builder(NOTE, COMPONENTS).set_string("title", title).build()


VALUES: dict[str, tuple[str, object]] = {
    "boolean": ("flag", True),
    "int": ("int", -(2**31)),
    "long": ("long", 2**63 - 1),
    "float": ("float", 0.5),
    "double": ("double", 1e300),
    "string": ("text", "日本"),
    "byte_array": ("raw", b"\x00"),
    "app_function_data": ("note", _note("a")),
    "boolean_array": ("flags", [True, False]),
    "int_array": ("ints", [1, 2]),
    "long_array": ("longs", [2**40]),
    "float_array": ("floats", [0.5]),
    "double_array": ("doubles", [1.0, 2.5]),
    "string_list": ("texts", ["x", ""]),
    "app_function_data_list": ("notes", [_note("a"), _note("b")]),
}


@pytest.mark.requirement("jetpack.data.typed")
@pytest.mark.parametrize("kind", VALUES)
def test_what_a_setter_wrote_its_getter_reads_and_no_other(kind: str) -> None:
    key, value = VALUES[kind]
    data = getattr(_builder(), f"set_{kind}")(key, value).build()

    assert getattr(data, f"get_{kind}")(key) == value
    assert data.contains_key(key)
    for other in VALUES.keys() - {kind}:
        with pytest.raises(ValueError, match=f"^{key} is .* according to the metadata"):
            getattr(data, f"get_{other}")(key)
        with pytest.raises(ValueError):  # noqa: PT011
            getattr(_builder(), f"set_{other}")(key, VALUES[other][1])


@pytest.mark.requirement("jetpack.data.typed")
def test_a_value_that_is_absent_reads_as_the_default_unless_it_is_required() -> None:
    data = _builder().build()

    assert (data.get_int("int"), data.get_long("long", 7), data.get_boolean("flag")) == (
        0,
        7,
        False,
    )
    assert (data.get_float("float"), data.get_double("double", 2.5)) == (0.0, 2.5)
    assert (data.get_byte_array("raw"), data.get_int_array("ints")) == (None, None)
    assert (data.get_app_function_data("note"), data.get_string_list("texts")) == (None, None)
    assert not data.contains_key("text")
    with pytest.raises(ValueError, match="required value of text"):
        data.get_string("text")
    # Required and nullable: it may be absent.
    assert _note("a").get_int("pages") == 0


@pytest.mark.requirement("jetpack.data.typed")
@pytest.mark.parametrize(
    ("setter", "key", "value"),
    [
        ("set_int", "int", 2**31),
        ("set_int", "int", True),
        ("set_long", "long", 2**63),
        ("set_float", "float", 1e39),
        ("set_double", "double", "1"),
        ("set_string", "unknown", "x"),
        ("set_string", "color", "blue"),
        ("set_int", "size", 3),
        ("set_string_list", "texts", ["x", 1]),
        ("set_app_function_data", "note", {"title": "a"}),
        ("set_app_function_data", "note", _builder().build()),
        ("set_app_function_data", "either", _builder().build()),
        ("set_app_function_data", "all", _note("a")),
        ("set_string", "note", "a"),
    ],
)
def test_a_value_that_the_metadata_does_not_allow_is_refused_by_name(
    setter: str, key: str, value: object
) -> None:
    with pytest.raises(ValueError, match=key):
        getattr(_builder(), setter)(key, value)


@pytest.mark.requirement("jetpack.data.typed")
def test_constrained_values_alternatives_and_merged_objects_are_read_by_their_metadata() -> None:
    merged = AppFunctionData.Builder(PARAMETERS[-1].data_type, COMPONENTS)
    data = (
        _builder()
        .set_string("color", "red")
        .set_int("size", 2)
        .set_app_function_data("either", _note("a"))
        .set_app_function_data("all", merged.set_string("title", "b").set_long("more", 3).build())
        .build()
    )

    either, both = data.get_app_function_data("either"), data.get_app_function_data("all")

    assert either is not None
    assert both is not None
    assert (either.qualified_name, either.get_string("title")) == ("com.example.Note", "a")
    assert (both.qualified_name, both.get_long("more")) == ("com.example.All", 3)
    assert data.as_mapping() == {
        "color": "red",
        "size": 2,
        "either": {"title": "a"},
        "all": {"title": "b", "more": 3},
    }


@pytest.mark.requirement("jetpack.data.typed")
def test_metadata_that_refers_to_itself_or_to_nothing_is_refused_and_not_followed_for_ever() -> (
    None
):
    circle = {"Circle": _type(DataType.TYPE_REFERENCE, data_type_reference="Circle")}
    merged = {
        "Circle": _type(
            DataType.TYPE_ALL_OF,
            all_of=(_type(DataType.TYPE_REFERENCE, data_type_reference="Circle"),),
        )
    }
    response = AppFunctionResponseMetadata(
        value_type=_type(DataType.TYPE_REFERENCE, data_type_reference="Circle")
    )
    for components in (circle, {}):
        with pytest.raises(ValueError, match="Circle"):
            AppFunctionData.Builder(response, components).set_string(
                Success.PROPERTY_RETURN_VALUE, "x"
            )
    with pytest.raises(ValueError, match="contains itself"):
        AppFunctionData.Builder(merged["Circle"], merged)


def test_data_without_metadata_is_checked_by_the_types_of_its_values_alone() -> None:
    data = AppFunctionData({"n": 5, "texts": ("a",), "inner": AppFunctionData({"x": True})})

    assert (data.get_int("n"), data.get_double("n"), data.get_string_list("texts")) == (
        5,
        5.0,
        ["a"],
    )
    assert data.get_app_function_data("inner") == AppFunctionData({"x": True})
    with pytest.raises(ValueError, match="n must be a String, not 5"):
        data.get_string("n")
    with pytest.raises(ValueError, match="n must be a list"):
        data.get_int_array("n")
