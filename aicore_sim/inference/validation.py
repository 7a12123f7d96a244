"""Whether a JSON value is one of a declared type: a second opinion where no grammar saw to it."""

from __future__ import annotations

import json
import re
from typing import Any

from aicore_sim.inference.backend import Schema
from aicore_sim.inference.grammar.formats import FORMATS

_BITS = {"int32": 31}


def why_not(schema: Schema, value: Any, where: str = "") -> str | None:
    """What is wrong with `value`, with its place in it; None when nothing is."""
    place = where or "the value"
    if value is None and (schema.nullable or schema.type == "null"):
        return None
    if schema.any_of:
        if any(why_not(option, value) is None for option in schema.any_of):
            return None
        return f"{place} is of none of the {len(schema.any_of)} possible types"
    if schema.enum and json.dumps(value) not in map(json.dumps, schema.enum_values):
        return f"{place} is none of {list(schema.enum)!r}"
    match schema.type:
        case "object":
            return _object(schema, value, where) if isinstance(value, dict) else _no(place, schema)
        case "array":
            return _array(schema, value, where) if isinstance(value, list) else _no(place, schema)
        case "string":
            return _string(schema, value, place) if isinstance(value, str) else _no(place, schema)
        case "boolean":
            return None if isinstance(value, bool) else _no(place, schema)
        case "null":
            return _no(place, schema)
        case "integer" | "number":
            kinds = (int,) if schema.type == "integer" else (int, float)
            if type(value) not in kinds:
                return _no(place, schema)
            return _number(schema, value, place)


def _no(place: str, schema: Schema) -> str:
    return f"{place} is no {schema.type}"


def _object(schema: Schema, value: dict[str, Any], where: str) -> str | None:
    for name in schema.required:
        if name not in value:
            return f"{where or 'the object'} lacks {name!r}"
    for name, item in value.items():
        place = f"{where}.{name}" if where else name
        if name not in schema.properties:
            return f"{place!r} is not declared; declared are {list(schema.properties)!r}"
        wrong = why_not(schema.properties[name], item, place)
        if wrong:
            return wrong
    return None


def _array(schema: Schema, value: list[Any], where: str) -> str | None:
    if not (schema.min_items or 0) <= len(value) <= _limit(schema.max_items, len(value)):
        return f"{where or 'the array'} has {len(value)} items"
    for number, item in enumerate(value):
        wrong = None if schema.items is None else why_not(schema.items, item, f"{where}[{number}]")
        if wrong:
            return wrong
    return None


def _string(schema: Schema, value: str, place: str) -> str | None:
    if not (schema.min_length or 0) <= len(value) <= _limit(schema.max_length, len(value)):
        return f"{place} has {len(value)} characters"
    if schema.pattern and re.search(schema.pattern, value) is None:
        return f"{place} does not match {schema.pattern!r}"
    form = FORMATS.get(schema.format)
    if form is not None and re.fullmatch(form, value) is None:
        return f"{place} is no {schema.format}"
    return None


def _number(schema: Schema, value: float, place: str) -> str | None:
    low, high = schema.minimum, schema.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        return f"{place} is not in {low} to {high}"
    if isinstance(value, int) and abs(value) >= 2 ** _BITS.get(schema.format, 63):
        return f"{place} has too many digits"
    return None


def _limit(most: int | None, default: int) -> int:
    return default if most is None else most
