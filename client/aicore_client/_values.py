"""Python values to and from the typed `Value` message."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from aicore_protos import types_pb2

_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1
_MAX_DEPTH = 30
"""Protobuf parsers stop at 100 nested messages; an object level takes three."""


def to_value(obj: object) -> types_pb2.Value:
    """None, bool, int64, float, str, bytes, lists and string-keyed mappings of them.

    Raises ValueError for a number that does not fit and TypeError for any other type.
    """
    value = types_pb2.Value()
    _fill(value, obj, 0)
    return value


def to_object(fields: Mapping[str, object]) -> types_pb2.ObjectValue:
    """As :func:`to_value`, for a mapping."""
    message = types_pb2.ObjectValue()
    _fill_object(message, fields, 0)
    return message


def from_value(value: types_pb2.Value) -> object:
    match value.WhichOneof("kind"):
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bool_value":
            return value.bool_value
        case "string_value":
            return value.string_value
        case "bytes_value":
            return value.bytes_value
        case "list_value":
            return [from_value(item) for item in value.list_value.values]
        case "object_value":
            return from_object(value.object_value)
        case _:
            return None


def from_object(message: types_pb2.ObjectValue) -> dict[str, object]:
    return {field.name: from_value(field.value) for field in message.fields}


def _fill(value: types_pb2.Value, obj: object, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError(f"a value is nested deeper than {_MAX_DEPTH} levels")
    match obj:
        case None:
            value.null_value = types_pb2.NULL_VALUE
        case bool():
            value.bool_value = obj
        case int():
            if not _INT64_MIN <= obj <= _INT64_MAX:
                raise ValueError(f"{obj} does not fit into a 64-bit integer")
            value.int_value = int(obj)
        case float():
            if not math.isfinite(obj):
                raise ValueError(f"{obj} is not a finite number")
            value.double_value = obj
        case str():
            value.string_value = obj
        case bytes() | bytearray() | memoryview():
            value.bytes_value = bytes(obj)
        case Mapping():
            value.object_value.SetInParent()
            _fill_object(value.object_value, obj, depth)
        case Sequence():
            value.list_value.SetInParent()
            for item in obj:
                _fill(value.list_value.values.add(), item, depth + 1)
        case _:
            raise TypeError(f"a value of type {type(obj).__name__} cannot cross processes")


def _fill_object(message: types_pb2.ObjectValue, fields: Mapping[str, object], depth: int) -> None:
    for name, item in fields.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a field must be a string, not {name!r}")
        field = message.fields.add(name=name)
        _fill(field.value, item, depth + 1)
