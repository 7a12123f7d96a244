"""Whatever type is declared and whatever value is sent: it round-trips, or is refused as 1001."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import operator
import types
import zoneinfo
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionError
from appfunctions_host import (
    AppFunctionIntValueConstraint,
    AppFunctionPatternMatcher,
    AppFunctionService,
    AppFunctionStringValueConstraint,
    Float,
    Instant,
    Long,
    PatternType,
    Uri,
    app_function_declaration,
    app_function_serializable,
)
from appfunctions_host.codec import ArgumentRules, decode_arguments, encode_result
from appfunctions_host.schema import FunctionDefinition, define_service

Typed = tuple[Any, st.SearchStrategy[Any]]
"""A hint, and the values of it."""

_class_numbers = itertools.count()
SCALARS: list[Typed] = [
    (int, st.integers(-(2**31), 2**31 - 1)),
    (Annotated[int, Long], st.integers(-(2**63), 2**63 - 1)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (Annotated[float, Float], st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (str, st.text()),
    (datetime.date, st.dates()),
    (datetime.time, st.times()),
    (datetime.datetime, st.datetimes()),
    (Annotated[datetime.datetime, Instant], st.datetimes(timezones=st.just(datetime.UTC))),
    (zoneinfo.ZoneInfo, st.sampled_from(["UTC", "Asia/Kathmandu"]).map(zoneinfo.ZoneInfo)),
    (Uri, st.text().map(Uri)),
    (
        Annotated[int, AppFunctionIntValueConstraint(enum_values=(1, -5))],
        st.sampled_from([1, -5]),
    ),
    (
        Annotated[
            str,
            AppFunctionStringValueConstraint(
                pattern_matchers=(AppFunctionPatternMatcher("[a-c]+", PatternType.ADVANCED_GLOB),)
            ),
        ],
        st.text("abc", min_size=1),
    ),
]
BYTES: Typed = (bytes, st.binary())


def _class_of(fields: list[Typed]) -> Typed:
    # Names of their own, so that no other alternative of a one-of fits by chance.
    number = next(_class_numbers)
    names = [f"f{number}_{index}" for index in range(len(fields))]
    made = app_function_serializable(
        dataclasses.make_dataclass(
            f"Made{number}",
            [(name, hint) for name, (hint, _) in zip(names, fields, strict=True)],
            frozen=True,
        )
    )
    return made, st.tuples(*(values for _, values in fields)).map(lambda values: made(*values))


def _union_of(classes: list[Typed]) -> Typed:
    hints = [hint for hint, _ in classes]
    return functools.reduce(operator.or_, hints), st.one_of([values for _, values in classes])


def _nullable(typed: Typed) -> Typed:
    return typed[0] | None, st.none() | typed[1]


def _list_of(typed: Typed) -> Typed:
    return types.GenericAlias(list, (typed[0],)), st.lists(typed[1], max_size=4)


def _classes(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.lists(inner, min_size=1, max_size=4).map(_class_of)


def _wider(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    made = _classes(inner)
    unions = st.lists(made, min_size=2, max_size=3).map(_union_of)
    lists = st.one_of(st.sampled_from(SCALARS), made, unions).map(_list_of)
    return st.one_of(made, unions, lists, lists.map(_nullable), made.map(_nullable))


TYPES = st.recursive(st.sampled_from([*SCALARS, BYTES]), _wider, max_leaves=12)


def _echo(hint: object) -> FunctionDefinition:
    def echo(self, value):  # type: ignore[no-untyped-def]
        return value

    echo.__annotations__ = {"value": hint, "return": hint}
    service = type("Echo", (AppFunctionService,), {"echo": app_function_declaration(echo)})
    return define_service(service, "com.example.app")[0]


def _arguments(value: types_pb2.Value) -> types_pb2.ObjectValue:
    return types_pb2.ObjectValue(fields=[types_pb2.ObjectValue.Field(name="value", value=value)])


@pytest.mark.requirement("jetpack.types.supported", "jetpack.serializable.nested")
@settings(max_examples=150, deadline=None)
@given(TYPES, st.data())
def test_a_value_of_any_declared_type_survives_the_wire(typed: Typed, data: st.DataObject) -> None:
    hint, values = typed
    function, value = _echo(hint), data.draw(values)

    wire = encode_result(function, value).SerializeToString(deterministic=True)
    sent = _arguments(types_pb2.Value.FromString(wire))

    assert decode_arguments(function, sent) == {"value": value}
    assert function.metadata.parameters[0].data_type == function.metadata.response.value_type


def _list_value(values: list[types_pb2.Value]) -> types_pb2.Value:
    return types_pb2.Value(list_value=types_pb2.ListValue(values=values))


def _object_value(fields: list[tuple[str, types_pb2.Value]]) -> types_pb2.Value:
    made = types_pb2.Value(object_value=types_pb2.ObjectValue())
    for name, value in fields:
        made.object_value.fields.add(name=name).value.CopyFrom(value)
    return made


def _kind(name: str) -> Callable[[object], types_pb2.Value]:
    return lambda value: types_pb2.Value(**{name: value})  # type: ignore[arg-type]


NAMES = st.sampled_from(
    ["value", "year", "month", "dayOfMonth", "hour", "minute", "second", "nanoOfSecond"]
    + ["epochSecond", "nanoAdjustment", "zoneID", "uri", "name", "next"]
)
WIRE = st.recursive(
    st.one_of(
        st.just(types_pb2.Value()),
        st.just(types_pb2.Value(null_value=types_pb2.NULL_VALUE)),
        st.integers(-(2**63), 2**63 - 1).map(_kind("int_value")),
        st.integers(-1, 60).map(_kind("int_value")),
        st.floats().map(_kind("double_value")),
        st.booleans().map(_kind("bool_value")),
        st.text().map(_kind("string_value")),
        st.binary().map(_kind("bytes_value")),
    ),
    lambda inner: (
        st.lists(inner, max_size=4).map(_list_value)
        | st.lists(st.tuples(NAMES | st.text(max_size=3), inner), max_size=8).map(_object_value)
    ),
    max_leaves=20,
)


@app_function_serializable
class Named:
    name: str
    next: list[datetime.date]


EVERY_KIND = [
    _echo(hint) for hint, _ in [*SCALARS, BYTES, *map(_list_of, SCALARS), *map(_nullable, SCALARS)]
] + [_echo(Named), _echo(list[Named])]


def _refusal(
    function: FunctionDefinition, parameters: types_pb2.ObjectValue, rules: ArgumentRules
) -> AppFunctionError | None:
    try:
        found = decode_arguments(function, parameters, rules)
    except AppFunctionError as error:
        return error
    # What was let in is of the type, so it can be a result, too.
    encode_result(function, found["value"])
    return None


@pytest.mark.requirement("appfunctions.arguments.fuzz", "appfunctions.error.invalid-argument")
@pytest.mark.parametrize(
    "rules", [ArgumentRules(), ArgumentRules(ignore_unknown=True, enforce_constraints=False)]
)
@settings(max_examples=100, deadline=None)
@given(parameters=WIRE.map(_arguments))
def test_any_bytes_on_the_wire_are_arguments_or_1001(
    rules: ArgumentRules, parameters: types_pb2.ObjectValue
) -> None:
    for function in EVERY_KIND:
        refused = _refusal(function, parameters, rules)
        if refused is not None:
            assert refused.error_code == 1001
            assert refused.message.startswith(f"{function.identifier}: Parameter 'value")
