"""Values of a declared type, made from a seed."""

from __future__ import annotations

import random
from typing import Any, assert_never

from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.inference.backend import Schema
from aicore_sim.inference.grammar.formats import FORMATS
from aicore_sim.inference.grammar.pattern_syntax import (
    Anchor,
    Characters,
    Choice,
    Node,
    PatternError,
    PatternParser,
    Repeat,
    Sequence,
)
from aicore_sim.inference.validation import why_not

_TRIES = 50
_MORE_REPEATS = 3
"""What a repetition without need goes beyond its least."""


def made_value(schema: Schema, *, seed: int, name: str) -> Any:
    """A value of the type, as `json.loads` would return it; the same for the same arguments.

    `name` is the function's or the property's, and makes texts readable. Required properties are
    always there, optional ones half of the time. Raises SimulatorFault (INVALID_REQUEST) naming
    what no value was found for.
    """
    dice = random.Random(f"{seed}:{name}")
    problem: str | None = None
    for _ in range(_TRIES):
        try:
            value = _value(schema, name, dice)
        except PatternError as error:
            problem = str(error)
            continue
        problem = why_not(schema, value)
        if problem is None:
            return value
    raise SimulatorFault(
        FaultKind.INVALID_REQUEST,
        f"auto found no value for the schema of {name!r}: {problem}; script that call instead",
    )


def _value(schema: Schema, name: str, dice: random.Random) -> Any:
    if schema.any_of:
        return _value(dice.choice(schema.any_of), name, dice)
    if schema.enum:
        return dice.choice(schema.enum_values)
    match schema.type:
        case "object":
            return {
                key: _value(item, key, dice)
                for key, item in schema.properties.items()
                if key in schema.required or dice.getrandbits(1)
            }
        case "array":
            least = schema.min_items or 0
            most = least + 2 if schema.max_items is None else schema.max_items
            count = dice.randint(max(least, min(1, most)), min(most, max(least, 1) + 1))
            items = schema.items or Schema(type="string")
            return [_value(items, name, dice) for _ in range(count)]
        case "string":
            return _text(schema, name, dice)
        case "integer":
            low, high = _range(schema)
            return dice.randint(-int(-low // 1), int(high // 1))
        case "number":
            low, high = _range(schema)
            drawn = dice.uniform(low, high)
            return round(drawn, 2) if low <= round(drawn, 2) <= high else drawn
        case "boolean":
            return bool(dice.getrandbits(1))
        case "null":
            return None
    assert_never(schema.type)


def _range(schema: Schema) -> tuple[float, float]:
    low, high = schema.minimum, schema.maximum
    if low is None and high is None:
        return 0.0, 100.0
    if low is None:
        assert high is not None
        return high - 100.0, high
    return low, low + 100.0 if high is None else high


def _text(schema: Schema, name: str, dice: random.Random) -> str:
    pattern = schema.pattern or FORMATS.get(schema.format, "")
    if pattern:
        return _matching(PatternParser(pattern).parse(), dice)
    text = f"{name}-{dice.randint(1, 999)}"
    least = schema.min_length or 0
    text = text.ljust(least, "x")
    return text if schema.max_length is None else text[: schema.max_length]


def _matching(node: Node, dice: random.Random) -> str:
    match node:
        case Characters():
            if not node.allowed:
                raise PatternError("the pattern allows no character in one place")
            return dice.choice(sorted(node.allowed))
        case Sequence():
            return "".join(_matching(item, dice) for item in node.items)
        case Choice():
            return _matching(dice.choice(node.options), dice)
        case Repeat():
            more = node.least + _MORE_REPEATS
            most = more if node.most is None else min(node.most, more)
            count = dice.randint(node.least, most)
            return "".join(_matching(node.item, dice) for _ in range(count))
        case Anchor():
            return ""
    assert_never(node)
