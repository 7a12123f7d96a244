"""Rules for values of declared types.

Every schema becomes rules of its own, each a short line, and an upper bound of what the grammar may
dictate in one go: a dictated stretch is a part of every continuation, so it is never longer than
the shortest way to the end from where it begins.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aicore_sim.inference._codes import InferenceErrorCode
from aicore_sim.inference.backend import BackendError, Schema
from aicore_sim.inference.dialect.notation import JsonNotation, Notation, UnwritableError
from aicore_sim.inference.grammar.formats import FORMATS
from aicore_sim.inference.grammar.patterns import PatternError, WrittenPattern, written_pattern

_MAX_DEPTH = 32
_MAX_REPEAT = 1000
_INTEGER_LIMITS = {"": 2**63 - 1, "int64": 2**63 - 1, "int32": 2**31 - 1}
_LONGEST_NUMBER = 64
_LONGEST_CHARACTER = 12  # two escapes of six characters, for one beyond U+FFFF

_JSON_CHARACTER = (
    r'([^"\\\x00-\x1F\x7F]'
    r'|\\(["\\\/bfnrt]|u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})))'
)
"""One character of a JSON string. An escaped half of a surrogate pair is no character."""
_BARE_CHARACTER = r"[^\x00-\x08\x0B\x0C\x0E-\x1F\x7F]"
_INTEGER = "/-?(0|[1-9][0-9]{0,17})/"
_NUMBER = r"/-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?([eE][+\-]?[0-9]{1,2})?/"


@dataclass(frozen=True)
class Rule:
    """Part of a grammar: its text, and the bytes that it dictates in one go at the most."""

    text: str
    forced: int


class ValueRules:
    """Collects rules for values written in `notation`.

    `control` are the marks of the notation that are control tokens of the model: no characters
    spell them, so a grammar names the tokens.
    """

    def __init__(self, notation: Notation, control: frozenset[str], *, prefix: str = "v") -> None:
        self.lines: list[str] = []
        self._prefix = prefix
        self._notation = notation
        self._control = control
        self._count = 0

    def literal(self, text: str) -> Rule:
        """Text that is dictated."""
        return Rule(written_literal(text, self._control), len(text.encode()))

    def rule(self, text: str, forced: int) -> Rule:
        """Gives a rule a name."""
        self._count += 1
        name = f"{self._prefix}{self._count}"
        self.lines.append(f"{name}: {text}")
        return Rule(name, forced)

    def sequence(self, *rules: Rule) -> Rule:
        return self.rule(" ".join(rule.text for rule in rules), sum(rule.forced for rule in rules))

    def choice(self, rules: Iterable[Rule]) -> Rule:
        options = list(rules)
        return self.rule(
            " | ".join(option.text for option in options),
            max(option.forced for option in options),
        )

    def value(self, schema: Schema, where: str, depth: int = 0) -> Rule:
        """Any value of `schema`. Raises BackendError naming `where`."""
        if depth > _MAX_DEPTH:
            raise refused(where, f"it is nested deeper than {_MAX_DEPTH} levels")
        if schema.any_of:
            made = self.choice(
                self.value(option, f"{where} any_of[{number}]", depth + 1)
                for number, option in enumerate(schema.any_of)
            )
        elif schema.enum:
            made = self.choice(
                self._constant(value, where) for value in _enum_values(schema, where)
            )
        elif schema.type == "object":
            made = self.object_(schema, where, depth)
        elif schema.type == "array":
            made = self._array(schema, where, depth)
        elif schema.type == "string":
            made = self._string(schema, where)
        elif schema.type in ("integer", "number"):
            made = self._number(schema, where)
        elif schema.type == "boolean":
            made = self.choice([self.literal("true"), self.literal("false")])
        else:
            made = self.literal("null")
        return self.choice([made, self.literal("null")]) if schema.nullable else made

    def object_(self, schema: Schema, where: str, depth: int = 0) -> Rule:
        """Properties in one order; an optional one may be left out."""
        for name in schema.required:
            if name not in schema.properties:
                raise refused(where, f"it requires {name!r}, which it does not declare")
        # Built from the last property to the first, once for the case that something was written
        # before (a separator is due) and once for the case that nothing was.
        tail_first = tail_more = Rule('""', 0)
        separator = self.literal(self._notation.separator)
        for name in reversed(self._notation.ordered(schema.properties)):
            value = self.value(schema.properties[name], f"{where} property {name!r}", depth + 1)
            try:
                opening = self.literal(self._notation.opening(name))
            except UnwritableError as error:
                raise refused(where, str(error)) from None
            first = self.sequence(opening, value, tail_more)
            more = self.sequence(separator, opening, value, tail_more)
            if name not in schema.required:
                first, more = self.choice([first, tail_first]), self.choice([more, tail_more])
            tail_first, tail_more = first, more
        return self.sequence(self.literal("{"), tail_first, self.literal("}"))

    def _array(self, schema: Schema, where: str, depth: int) -> Rule:
        if schema.items is None:
            raise refused(where, "an array without `items`")
        low, high = _bounds(schema.min_items, schema.max_items, where, "items")
        item = self.value(schema.items, f"{where} items", depth + 1)
        opened, closed = self.literal("["), self.literal("]")
        empty = self.sequence(opened, closed)
        if high == 0:
            return empty
        more = self.sequence(self.literal(self._notation.separator), item)
        least = max(low - 1, 0)
        most = "" if high is None else high - 1
        repeated = "" if high == 1 else f"{more.text}{{{least},{most}}}"
        full = self.rule(
            f"{opened.text} {item.text} {repeated} {closed.text}",
            2 + item.forced + more.forced * max(least, 1),
        )
        return full if low else self.choice([empty, full])

    def _string(self, schema: Schema, where: str) -> Rule:
        low, high = _bounds(schema.min_length, schema.max_length, where, "length")
        wanted = [
            self._pattern(pattern, name, where, low, high)
            for name, pattern in (
                ("pattern", schema.pattern),
                ("format", FORMATS.get(schema.format, "")),
            )
            if pattern
        ]
        character = _JSON_CHARACTER if isinstance(self._notation, JsonNotation) else _BARE_CHARACTER
        limited = bool(low) or high is not None
        counted = f"{character}{{{low},{'' if high is None else high}}}"
        inside = [pattern.expression for pattern in wanted]
        if limited or not inside:
            inside.append(counted)
        # With a least length, the shortest way to the end may be that much longer.
        forced = sum(pattern.forced for pattern in wanted)
        if wanted and low:
            forced += low * _LONGEST_CHARACTER
        return self._quoted(inside, forced)

    def _quoted(self, inside: list[str], forced: int) -> Rule:
        """A string between its quotes, with each of the expressions true of what is inside."""
        quote = self._notation.quote
        self._count += 1
        name = f"{self._prefix.upper()}{self._count}"
        forced += 2 * len(quote)
        if quote in self._control:
            # No text can hold a control token, so nothing has to be kept out.
            self.lines.append(f"{name}: {' & '.join(f'/{part}/' for part in inside)}")
            return self.rule(f"{quote} {name} {quote}", forced)
        written = "".join(map(_escaped, quote))
        parts = [f"/{written}{part}{written}/" for part in inside]
        if not isinstance(self._notation, JsonNotation):
            parts.append(f"~/{written}(?s:.*){written}(?s:.*){written}/")
        self.lines.append(f"{name}: {' & '.join(parts)}")
        return Rule(name, forced)

    def _pattern(
        self, pattern: str, kind: str, where: str, low: int, high: int | None
    ) -> WrittenPattern:
        try:
            written = written_pattern(pattern, self._notation.character)
        except (PatternError, UnwritableError) as error:
            raise refused(where, f"its {kind} {pattern!r} cannot be followed: {error}") from None
        if (high is not None and written.shortest > high) or (
            written.longest is not None and written.longest < low
        ):
            raise refused(where, f"no string of an allowed length matches its {kind} {pattern!r}")
        return written

    def _number(self, schema: Schema, where: str) -> Rule:
        low, high = schema.minimum, schema.maximum
        if not all(bound is None or math.isfinite(bound) for bound in (low, high)):
            raise refused(where, f"minimum {low} or maximum {high} is not finite")
        if low is not None and high is not None and low > high:
            raise refused(where, f"minimum {low} is above maximum {high}")
        limits: dict[str, object] = {"type": schema.type}
        if schema.type == "integer":
            bound = _INTEGER_LIMITS.get(schema.format, _INTEGER_LIMITS[""])
            if low is None and high is None and bound == _INTEGER_LIMITS[""]:
                return Rule(_INTEGER, 1)
            least = -bound if low is None else max(-bound, math.ceil(low))
            most = bound if high is None else min(bound, math.floor(high))
            if least > most:
                raise refused(where, f"there is no integer from {low} to {high}")
            limits |= {"minimum": least, "maximum": most}
        elif low is None and high is None:
            return Rule(_NUMBER, 1)
        else:
            limits |= {} if low is None else {"minimum": low}
            limits |= {} if high is None else {"maximum": high}
        return self.rule(f"%json {json.dumps(limits)}", _LONGEST_NUMBER)

    def _constant(self, value: object, where: str) -> Rule:
        try:
            return self.literal(self._notation.literal(value))
        except UnwritableError as error:
            raise refused(where, str(error)) from None


def written_literal(text: str, control: frozenset[str]) -> str:
    """`text` in a grammar, with control tokens by name."""
    if not control:
        return json.dumps(text, ensure_ascii=False)
    parts = re.split(f"({'|'.join(map(re.escape, control))})", text)
    return " ".join(
        part if part in control else json.dumps(part, ensure_ascii=False) for part in parts if part
    )


def refused(where: str, why: str) -> BackendError:
    """The error for a declaration that no answer can be held to."""
    code = InferenceErrorCode.STRUCTURED_OUTPUT_REQUEST_ERROR
    return BackendError(code, f"The schema of {where} cannot be used: {why}.")


def _escaped(character: str) -> str:
    return character if character.isalnum() else f"\\x{ord(character):02X}"


def _bounds(low: int | None, high: int | None, where: str, what: str) -> tuple[int, int | None]:
    if low is not None and not 0 <= low <= _MAX_REPEAT:
        raise refused(where, f"minimum {what} {low} is not in 0..{_MAX_REPEAT}")
    if high is not None and high < (low or 0):
        raise refused(where, f"maximum {what} {high} is below the minimum {low or 0}")
    return low or 0, None if high is None else min(high, _MAX_REPEAT)


def _enum_values(schema: Schema, where: str) -> Iterator[object]:
    kinds = {
        str: ("string",),
        bool: ("boolean",),
        int: ("integer", "number"),
        float: ("number",),
    }
    for spelled, value in zip(schema.enum, schema.enum_values, strict=True):
        if schema.type not in kinds.get(type(value), ()):
            raise refused(where, f"the enum value {spelled!r} is no {schema.type}")
        yield value
