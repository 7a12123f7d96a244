"""Schemas of every kind, and whether a value is of one: a second opinion on grammars."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any
from urllib.parse import urlsplit

from hypothesis import strategies as st

from aicore_sim.inference.backend import Schema


def _scheme(text: str) -> str:
    scheme = urlsplit(text).scheme
    if not scheme:
        raise ValueError(text)
    return scheme


READERS: dict[str, Callable[[str], object]] = {
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "date-time": datetime.fromisoformat,
    "uuid": uuid.UUID,
    "uri": _scheme,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
}
"""Raise ValueError for what is not of the format."""


def matches(schema: Schema, value: Any) -> bool:
    """Whether a JSON value is one of the schema's; a second opinion on the grammar."""
    if value is None and schema.nullable:
        return True
    if schema.any_of:
        return any(matches(option, value) for option in schema.any_of)
    if schema.enum:
        return value in schema.enum
    match schema.type:
        case "object":
            return (
                isinstance(value, dict)
                and set(schema.required) <= value.keys() <= schema.properties.keys()
                and list(value) == [name for name in schema.properties if name in value]
                and all(matches(schema.properties[name], item) for name, item in value.items())
            )
        case "array":
            assert schema.items is not None
            items = schema.items
            return (
                isinstance(value, list)
                and (schema.min_items or 0) <= len(value)
                and (schema.max_items is None or len(value) <= schema.max_items)
                and all(matches(items, item) for item in value)
            )
        case "string":
            return (
                isinstance(value, str)
                and (schema.min_length or 0) <= len(value)
                and (schema.max_length is None or len(value) <= schema.max_length)
                and (not schema.pattern or re.search(schema.pattern, value) is not None)
                and is_of_format(schema.format, value)
            )
        case "integer":
            return type(value) is int and in_range(schema, value)
        case "number":
            return type(value) in (int, float) and in_range(schema, value)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None


def is_of_format(name: str, value: str) -> bool:
    if name not in READERS:
        return True
    try:
        READERS[name](value)
    except ValueError:
        return False
    return True


def in_range(schema: Schema, value: float) -> bool:
    low, high = schema.minimum, schema.maximum
    return (low is None or low <= value) and (high is None or value <= high)


PATTERNS = (r"^[A-Z]{3}-[0-9]{4}$", r"^a/b+$", r"\d{2}", "x$", r"""^["\\]+$""", "^...$", "^[^a]?b")


_KINDS = ("string", "enum", "pattern", "format", "integer", "range", "number", "bool")


@st.composite
def scalars(draw: st.DrawFn) -> Schema:
    nullable = draw(st.booleans())
    kind = draw(
        st.sampled_from(
            ["string", "enum", "pattern", "format", "integer", "range", "number", "bool"]
        )
    )
    low = draw(st.integers(-50, 50))
    match kind:
        case "string":
            size = draw(st.integers(0, 4))
            return Schema(type="string", min_length=size, max_length=size + 3, nullable=nullable)
        case "enum":
            values = draw(st.lists(st.text(max_size=6), min_size=1, max_size=3, unique=True))
            return Schema(type="string", enum=tuple(values), nullable=nullable)
        case "pattern":
            pattern = draw(st.sampled_from(PATTERNS))
            return Schema(type="string", pattern=pattern, max_length=9, nullable=nullable)
        case "format":
            name = draw(st.sampled_from(sorted(READERS)))
            return Schema(type="string", format=name, nullable=nullable)
        case "range":
            return Schema(type="integer", minimum=low, maximum=low + 7, nullable=nullable)
        case "integer":
            return Schema(type="integer", nullable=nullable)
        case "number":
            return Schema(type="number", nullable=nullable)
        case _:
            return Schema(type="boolean", nullable=nullable)


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[Schema]) -> Schema:
    names = draw(st.lists(st.text('abÄ"\\ _', min_size=1, max_size=4), max_size=4, unique=True))
    required = tuple(name for name in names if draw(st.booleans()))
    properties = {name: draw(values) for name in names}
    return Schema(type="object", properties=properties, required=required)


SCHEMAS = st.recursive(
    scalars(),
    lambda inner: st.one_of(
        objects(inner),
        st.builds(
            lambda items, low, more: Schema(
                type="array", items=items, min_items=low, max_items=low + more
            ),
            inner,
            st.integers(0, 2),
            st.integers(0, 2),
        ),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda options: Schema(type="string", any_of=tuple(options))
        ),
    ),
    max_leaves=5,
)
