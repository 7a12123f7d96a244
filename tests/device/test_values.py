"""Values on the wire: nothing changes on the way, and what cannot travel is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_protos import types_pb2
from aicore_sim.rpc.values import from_object, from_value, to_object, to_value

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.binary(max_size=20)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def same(left: Any, right: Any) -> bool:
    """Equality that tells 1 from 1.0 and True, and 0.0 from -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


@pytest.mark.requirement("appfunctions.value.int64-and-bytes")
@given(VALUES)
def test_a_value_survives_the_wire_with_its_type_and_order(value: Any) -> None:
    sent = to_value(value).SerializeToString()
    assert same(from_value(types_pb2.Value.FromString(sent)), value)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_an_object_survives_the_wire(fields: dict[str, Any]) -> None:
    sent = to_object(fields).SerializeToString()
    assert same(from_object(types_pb2.ObjectValue.FromString(sent)), fields)


def test_a_tuple_travels_as_a_list() -> None:
    assert from_value(to_value((1, ("a",)))) == [1, ["a"]]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (2**63, "9223372036854775808 does not fit into 64 bits"),
        (-(2**63) - 1, "does not fit into 64 bits"),
        (math.nan, "nan is not a finite number"),
        (-math.inf, "-inf is not a finite number"),
        ({"a": [{1: "b"}]}, "the key 1 is not a string"),
        ({1}, "a value of type 'set' cannot be sent"),
        ([object()], "a value of type 'object' cannot be sent"),
    ],
)
def test_what_has_no_counterpart_is_refused(value: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        to_value(value)


def test_a_value_without_a_kind_and_a_name_that_comes_twice_are_refused() -> None:
    with pytest.raises(ValueError, match="a value without a kind"):
        from_value(types_pb2.Value())
    field = types_pb2.ObjectValue.Field(name="a", value=types_pb2.Value(int_value=1))
    with pytest.raises(ValueError, match="the field 'a' comes twice"):
        from_object(types_pb2.ObjectValue(fields=[field, field]))
