"""Python values to and from the typed `Value` message."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from aicore_protos import types_pb2

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


MAX_DEPTH = 30
"""Lists and objects inside one another. Protobuf refuses messages nested about three times as deep,
and a value has to pass inside other messages."""


def to_value(obj: object, depth: int = 0) -> types_pb2.Value:
    """Raises ValueError for what has no counterpart: NaN, infinities, integers beyond 64 bits,
    text that is no Unicode, keys that are not strings, types such as set, and deep nesting."""
    if depth > MAX_DEPTH:
        raise ValueError(f"a value is nested more than {MAX_DEPTH} levels deep")
    match obj:
        case None:
            return types_pb2.Value(null_value=types_pb2.NULL_VALUE)
        case bool():
            return types_pb2.Value(bool_value=obj)
        case int():
            if not _INT64_MIN <= obj <= _INT64_MAX:
                raise ValueError(f"{obj} does not fit into 64 bits")
            return types_pb2.Value(int_value=obj)
        case float():
            if not math.isfinite(obj):
                raise ValueError(f"{obj} is not a finite number")
            return types_pb2.Value(double_value=obj)
        case str():
            return types_pb2.Value(string_value=_unicode(obj))
        case bytes():
            return types_pb2.Value(bytes_value=obj)
        case list() | tuple():
            items = types_pb2.ListValue(values=[to_value(item, depth + 1) for item in obj])
            return types_pb2.Value(list_value=items)
        case Mapping():
            return types_pb2.Value(object_value=to_object(obj, depth + 1))
        case _:
            raise ValueError(f"a value of type {type(obj).__name__!r} cannot be sent")


def from_value(value: types_pb2.Value) -> Any:
    """Raises ValueError for a value without a kind."""
    match value.WhichOneof("kind"):
        case "null_value":
            return None
        case "list_value":
            return [from_value(item) for item in value.list_value.values]
        case "object_value":
            return from_object(value.object_value)
        case None:
            raise ValueError("a value without a kind")
        case kind:
            return getattr(value, kind)


def to_object(fields: Mapping[Any, object], depth: int = 0) -> types_pb2.ObjectValue:
    """Raises ValueError as `to_value` does."""
    made = types_pb2.ObjectValue()
    for name, item in fields.items():
        if not isinstance(name, str):
            raise ValueError(f"the key {name!r} is not a string")
        made.fields.append(
            types_pb2.ObjectValue.Field(name=_unicode(name), value=to_value(item, depth))
        )
    return made


def from_object(fields: types_pb2.ObjectValue) -> dict[str, Any]:
    """Raises ValueError for a name that comes twice."""
    made: dict[str, Any] = {}
    for field in fields.fields:
        if field.name in made:
            raise ValueError(f"the field {field.name!r} comes twice")
        made[field.name] = from_value(field.value)
    return made


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("text with a lone surrogate is no Unicode") from None
    return text
