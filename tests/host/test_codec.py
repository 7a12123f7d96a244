"""Strict arguments (1001) and strict results (3000)."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionError
from aicore_sim.rpc.values import to_object, to_value
from appfunctions_host import (
    AppFunctionService,
    Float,
    Long,
    app_function_declaration,
    app_function_serializable,
)
from appfunctions_host.codec import decode_arguments, encode_result
from appfunctions_host.schema import FunctionDefinition, define_service

NO_TAGS: list[str] = []


@app_function_serializable
class Item:
    name: str
    count: int = 0

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name is empty")


@app_function_serializable
class Order:
    id: Annotated[int, Long]
    items: list[Item]
    price: float
    note: str | None


class Tools(AppFunctionService):
    @app_function_declaration
    def text(self, value: str) -> str: ...  # type: ignore[empty-body]

    @app_function_declaration
    def integer(self, value: int) -> int: ...  # type: ignore[empty-body]

    @app_function_declaration
    def long(self, value: Annotated[int, Long]) -> Annotated[int, Long]: ...  # type: ignore[empty-body]

    @app_function_declaration
    def number(self, value: float) -> float: ...  # type: ignore[empty-body]

    @app_function_declaration
    def small(self, value: Annotated[float, Float]) -> Annotated[float, Float]: ...  # type: ignore[empty-body]

    @app_function_declaration
    def truth(self, value: bool) -> bool: ...  # type: ignore[empty-body]

    @app_function_declaration
    def data(self, value: bytes) -> bytes: ...  # type: ignore[empty-body]

    @app_function_declaration
    def numbers(self, value: list[int]) -> list[int]: ...  # type: ignore[empty-body]

    @app_function_declaration
    def order(self, value: Order) -> Order: ...  # type: ignore[empty-body]

    @app_function_declaration
    def unit(self) -> None: ...

    @app_function_declaration
    def maybe(self, value: str | None) -> str | None: ...

    @app_function_declaration
    def optional(
        self,
        a: int = 1,
        b: float = 1.5,
        c: bool = True,
        d: list[str] = NO_TAGS,
        e: str | None = None,
    ) -> None: ...


FUNCTIONS = {item.method_name: item for item in define_service(Tools, "com.example.app")}
ORDER = {
    "id": 2**40,
    "items": [{"name": "tea", "count": 2}, {"name": "milk", "count": 1}],
    "price": 9.5,
    "note": None,
}


def _decode(method: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return decode_arguments(FUNCTIONS[method], to_object(arguments))


def _roundtrip(function: FunctionDefinition, value: object) -> types_pb2.Value:
    decoded = decode_arguments(function, to_object({"value": value}))
    return encode_result(function, decoded["value"])


@pytest.mark.requirement("appfunctions.value.int64-and-bytes")
@given(
    st.one_of(
        st.tuples(st.just("text"), st.text()),
        st.tuples(st.just("integer"), st.integers(-(2**31), 2**31 - 1)),
        st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just("number"), st.floats(allow_nan=False, allow_infinity=False)),
        st.tuples(st.just("small"), st.floats(allow_nan=False, allow_infinity=False, width=32)),
        st.tuples(st.just("truth"), st.booleans()),
        st.tuples(st.just("data"), st.binary()),
        st.tuples(st.just("numbers"), st.lists(st.integers(-(2**31), 2**31 - 1))),
        st.tuples(st.just("maybe"), st.none() | st.text()),
    )
)
def test_every_value_of_a_declared_type_comes_back_unchanged(case: tuple[str, object]) -> None:
    method, value = case

    assert _roundtrip(FUNCTIONS[method], value) == to_value(value)


@pytest.mark.requirement("jetpack.serializable.nested")
def test_nested_objects_arrive_as_instances_and_come_back_in_declared_order() -> None:
    order = _decode("order", {"value": ORDER})["value"]

    assert order == Order(2**40, [Item("tea", 2), Item("milk", 1)], 9.5, None)
    assert encode_result(FUNCTIONS["order"], order) == to_value(ORDER)


@pytest.mark.requirement("jetpack.parameters.integer-for-double")
def test_an_integer_stands_for_a_double() -> None:
    found = _decode("number", {"value": 5})["value"]

    assert (found, type(found)) == (5.0, float)


@pytest.mark.requirement("jetpack.optional.zero-value")
def test_left_out_optional_arguments_are_zero_values_and_not_pythons_defaults() -> None:
    assert _decode("optional", {}) == {"a": 0, "b": 0.0, "c": False, "d": [], "e": None}


def test_a_left_out_nullable_argument_is_none() -> None:
    assert _decode("maybe", {}) == {"value": None}


@pytest.mark.requirement(
    "appfunctions.error.invalid-argument",
    "jetpack.parameters.integer-for-double",
    "jetpack.parameters.unknown-refused",
)
@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("text", {}, "Parameter 'value' should be the type of String, but it is missing"),
        ("text", {"value": 5}, "Parameter 'value' should be the type of String, but was Int"),
        ("text", {"value": None}, "Parameter 'value' should be the type of String, but was null"),
        (
            "text",
            {"value": b"a"},
            "Parameter 'value' should be the type of String, but was ByteArray",
        ),
        (
            "text",
            {"value": "a", "vlaue": "b"},
            "Parameter 'vlaue' is unknown; the declared ones are: value",
        ),
        ("unit", {"value": 1}, "Parameter 'value' is unknown; the declared ones are: none"),
        (
            "integer",
            {"value": True},
            "Parameter 'value' should be the type of Int, but was Boolean",
        ),
        ("integer", {"value": 5.0}, "Parameter 'value' should be the type of Int, but was Double"),
        ("integer", {"value": "5"}, "Parameter 'value' should be the type of Int, but was String"),
        (
            "integer",
            {"value": 2**31},
            "Parameter 'value' should be the type of Int, but was 2147483648, which does not fit",
        ),
        ("truth", {"value": 1}, "Parameter 'value' should be the type of Boolean, but was Int"),
        (
            "truth",
            {"value": 2**40},
            "Parameter 'value' should be the type of Boolean, but was Long",
        ),
        (
            "number",
            {"value": True},
            "Parameter 'value' should be the type of Double, but was Boolean",
        ),
        (
            "small",
            {"value": 1e300},
            "Parameter 'value' should be the type of Float, but was 1e+300, which does not fit",
        ),
        (
            "data",
            {"value": "YQ=="},
            "Parameter 'value' should be the type of ByteArray, but was String",
        ),
        ("numbers", {"value": 1}, "Parameter 'value' should be the type of List<Int>, but was Int"),
        (
            "numbers",
            {"value": [1, "2"]},
            "Parameter 'value[1]' should be the type of Int, but was String",
        ),
        ("order", {"value": []}, "Parameter 'value' should be the type of Order, but was List"),
        (
            "order",
            {"value": {**ORDER, "items": [{"name": 1}]}},
            "Parameter 'value.items[0].name' should be the type of String, but was Int",
        ),
        (
            "order",
            {"value": {**ORDER, "total": 1}},
            "Parameter 'value.total' is unknown; the declared ones are: id, items, price, note",
        ),
        (
            "order",
            {"value": {**ORDER, "items": [{"name": ""}]}},
            "Parameter 'value.items[0]' was refused: name is empty",
        ),
    ],
)
def test_a_wrong_argument_is_a_1001_that_names_function_parameter_and_types(
    method: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(AppFunctionError) as refused:
        _decode(method, arguments)

    assert refused.value.error_code == 1001
    assert refused.value.message == f"com.example.app.Tools#{method}: {message}"


@pytest.mark.requirement("appfunctions.value.nan-refused")
def test_values_that_no_honest_client_sends_are_1001_and_no_crash() -> None:
    infinite = types_pb2.Value(double_value=float("inf"))
    field = types_pb2.ObjectValue.Field
    for method, fields in (
        ("number", [field(name="value", value=infinite)]),
        ("text", [field(name="value")]),
        ("text", [field(name="value", value=to_value("a"))] * 2),
    ):
        with pytest.raises(AppFunctionError) as refused:
            decode_arguments(FUNCTIONS[method], types_pb2.ObjectValue(fields=fields))
        assert refused.value.error_code == 1001


@pytest.mark.requirement("appfunctions.value.nan-refused", "jetpack.types.wrong-result")
@pytest.mark.parametrize(
    ("method", "result", "message"),
    [
        ("text", 5, "the result should be the type of String, but was int"),
        ("text", None, "the result should be the type of String, but was None"),
        ("text", {"a"}, "the result should be the type of String, but was set"),
        ("text", "\ud800", "the result holds a lone surrogate, which is no text"),
        ("integer", True, "the result should be the type of Int, but was bool"),
        (
            "integer",
            2**31,
            "the result 2147483648 does not fit into Int; declare Annotated[int, Long]",
        ),
        ("long", 2**63, "the result 9223372036854775808 does not fit into Long"),
        ("number", float("nan"), "the result nan is not a finite Double"),
        ("number", 10**400, f"the result {10**400} is not a finite Double"),
        ("small", 1e39, "the result 1e+39 is not a finite Float"),
        ("numbers", (1,), "the result should be the type of List<Int>, but was tuple"),
        ("numbers", [1, None], "the result[1] should be the type of Int, but was None"),
        ("order", ORDER, "the result should be the type of Order, but was dict"),
        (
            "order",
            Order(1, [Item("a", 2**40)], 1.0, None),
            f"the result.items[0].count {2**40} does not fit into Int; "
            "declare Annotated[int, Long]",
        ),
        ("unit", "x", "the result should be the type of Unit, but was str"),
    ],
)
def test_a_result_that_is_not_of_the_declared_type_is_a_3000_with_the_reason(
    method: str, result: object, message: str
) -> None:
    with pytest.raises(AppFunctionError) as refused:
        encode_result(FUNCTIONS[method], result)

    assert refused.value.error_code == 3000
    assert refused.value.message == f"com.example.app.Tools#{method}: {message}"
