"""Builds the grammar that an answer has to follow.

The grammar is in llguidance's variant of lark. It holds the declared tools' names and their
schemas' own types, and nothing from the prompt.
https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from aicore_sim.inference._codes import InferenceErrorCode
from aicore_sim.inference.backend import BackendError, GenerateRequest, Schema, ToolDeclaration
from aicore_sim.inference.dialect import Dialect

MAX_CALLS = 8
"""Calls in one answer when the model chooses to call; a bound, so that a model that repeats itself
comes to an end. A call that the request demands is one call."""
_MAX_DEPTH = 32
_MAX_REPEAT = 1000
_INTEGER_LIMITS = {"": 2**63 - 1, "int64": 2**63 - 1, "int32": 2**31 - 1}

_CHARACTER = (
    r'([^"\\\x00-\x1F\x7F]'
    r'|\\(["\\\/bfnrt]|u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})))'
)
"""One character of a JSON string. An escaped half of a surrogate pair is no character."""
_STRING = f'/"{_CHARACTER}*"/'
_ASCII_STRING = '"[ -~]*"'
_INTEGER = "/-?(0|[1-9][0-9]{0,17})/"
_NUMBER = r"/-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?([eE][+\-]?[0-9]{1,2})?/"


@dataclass(frozen=True, kw_only=True)
class Grammar:
    """`lark` is what the answer must match."""

    lark: str
    longest_forced: int
    """No stretch of the answer that the grammar dictates is longer, in bytes and so in tokens."""
    fast_forward: bool
    """Whether `longest_forced` is sure, so that dictated tokens may be appended at once."""


def build_grammar(request: GenerateRequest, dialect: Dialect) -> Grammar | None:
    """The grammar for an answer to `request`; None when any text will do.

    Raises BackendError (STRUCTURED_OUTPUT_REQUEST_ERROR) naming the tool and the property whose
    schema cannot be used.
    """
    if not request.tools and request.tool_choice.mode in ("required", "named"):
        raise _refused("tool_choice", f"it is {request.tool_choice.mode!r} without any tool")
    if not request.tools and request.response_schema is None and not _speaks_of_calls(request):
        return None
    builder = _GrammarBuilder()
    starts: list[str] = []
    tools = _callable_tools(request)
    free_text = False
    if request.tool_choice.mode in ("auto", "none"):
        if request.response_schema is not None:
            starts.append(builder.value(request.response_schema, "response_schema", 0))
        else:
            free_text = True
            starts.append("TEXT")
            builder.lines.append(f"TEXT: /(?s:.+)/ & ~/{_any_of(dialect.marks)}/")
    builder.end_section()
    if tools:
        calls = []
        for tool in tools:
            calls.append(builder.call(tool, dialect))
            builder.end_section()
        builder.lines.append("call: " + " | ".join(calls))
        opening = _quoted(dialect.call_open)
        if free_text:
            # A model may say what it is about to do before it calls.
            marks = _any_of(mark for mark in dialect.marks if mark != dialect.call_open)
            builder.lines.append(f"OPENING: /(?s:.*){_escaped(dialect.call_open)}/ & ~/{marks}/")
            builder.lines.append("opening[lazy]: OPENING")
            opening = "opening"
        more = _quoted(dialect.call_separator + dialect.call_open)
        repeats = MAX_CALLS - 1 if request.tool_choice.mode == "auto" else 0
        starts.append(f"{opening} call" + (f" ({more} call){{0,{repeats}}}" if repeats else ""))
    lark = "\n".join(["start: " + " | ".join(starts), *builder.lines, ""])
    return Grammar(
        lark=lark,
        longest_forced=len(dialect.call_open + dialect.call_separator) + builder.longest_section,
        fast_forward=builder.fast_forward,
    )


def _speaks_of_calls(request: GenerateRequest) -> bool:
    """Whether the prompt shows the model the notation of calls, which it may then imitate."""
    return any(part.kind != "text" for content in request.contents for part in content.parts)


def _callable_tools(request: GenerateRequest) -> tuple[ToolDeclaration, ...]:
    names = [tool.name for tool in request.tools]
    for name in names:
        if not name or names.count(name) > 1:
            raise _refused("tools", f"the name {name!r} is empty or declared twice")
    choice = request.tool_choice
    if choice.mode == "none":
        return ()
    if choice.mode != "named":
        return request.tools
    if choice.name not in names:
        raise _refused("tool_choice", f"names {choice.name!r}; declared are {names!r}")
    return tuple(tool for tool in request.tools if tool.name == choice.name)


class _GrammarBuilder:
    """Collects rules; a value's rule is named, so that every schema becomes one short line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fast_forward = True
        self.longest_section = 0
        self._section: list[str] = []
        self._rules = 0

    def end_section(self) -> None:
        """Ends an alternative; literals of different alternatives never follow each other."""
        self.longest_section = max(self.longest_section, len("".join(self._section).encode()))
        self._section = []

    def call(self, tool: ToolDeclaration, dialect: Dialect) -> str:
        where = f"tool {tool.name!r}"
        if tool.parameters.type != "object" or tool.parameters.any_of:
            raise _refused(where, "its parameters are no object schema")
        before, after = dialect.call_frame(tool.name)
        arguments = self._object(tool.parameters, where, 0)
        return self._rule(f"{self._literal(before)} {arguments} {self._literal(after)}")

    def value(self, schema: Schema, where: str, depth: int) -> str:
        """The name of a rule for any JSON value of `schema`."""
        if depth > _MAX_DEPTH:
            raise _refused(where, f"it is nested deeper than {_MAX_DEPTH} levels")
        if schema.any_of:
            body = " | ".join(
                self.value(option, f"{where} any_of[{i}]", depth + 1)
                for i, option in enumerate(schema.any_of)
            )
        elif schema.enum:
            body = " | ".join(self._literal(_enum_json(schema, v, where)) for v in schema.enum)
        elif schema.type == "object":
            body = self._object(schema, where, depth)
        elif schema.type == "array":
            body = self._array(schema, where, depth)
        elif schema.type == "string":
            body = self._string(schema, where)
        elif schema.type in ("integer", "number"):
            body = self._number(schema, where)
        elif schema.type == "boolean":
            body = f"{self._literal('true')} | {self._literal('false')}"
        else:
            body = self._literal("null")
        if schema.nullable:
            body = f"{body} | {self._literal('null')}"
        return self._rule(body)

    def _object(self, schema: Schema, where: str, depth: int) -> str:
        """Properties in declared order; an optional one may be left out."""
        for name in schema.required:
            if name not in schema.properties:
                raise _refused(where, f"it requires {name!r}, which it does not declare")
        # Built from the last property to the first, once for the case that something was written
        # before (a separator is due) and once for the case that nothing was.
        tail_first, tail_more = '""', '""'
        for name, kind in reversed(schema.properties.items()):
            value = self.value(kind, f"{where} property {name!r}", depth + 1)
            pair = f"{self._literal(f'{_ascii_json(name)}: ')} {value}"
            first, more = f"{pair} {tail_more}", f"{self._literal(', ')} {pair} {tail_more}"
            if name not in schema.required:
                first, more = f"{first} | {tail_first}", f"{more} | {tail_more}"
            tail_first, tail_more = self._rule(first), self._rule(more)
        return self._rule(f"{self._literal('{')} {tail_first} {self._literal('}')}")

    def _array(self, schema: Schema, where: str, depth: int) -> str:
        if schema.items is None:
            raise _refused(where, "an array without `items`")
        low, high = _bounds(schema.min_items, schema.max_items, where, "items")
        if low > 1:
            self.fast_forward = False  # repeated items can be one long dictated stretch
        item = self.value(schema.items, f"{where} items", depth + 1)
        opened, closed = self._literal("["), self._literal("]")
        empty = f"{opened} {closed}"
        if high == 0:
            return empty
        more = f"({self._literal(', ')} {item})"
        more += f"{{{max(low - 1, 0)},{'' if high is None else high - 1}}}"
        full = f"{opened} {item} {more if high != 1 else ''} {closed}"
        return full if low else f"{empty} | {full}"

    def _string(self, schema: Schema, where: str) -> str:
        low, high = _bounds(schema.min_length, schema.max_length, where, "length")
        if not schema.pattern and not low and high is None:
            return _STRING
        parts = [f'/"{_CHARACTER}{{{low},{"" if high is None else high}}}"/']
        if schema.pattern:
            self.fast_forward = False  # a pattern can dictate any length of text
            parts.append(f"/{_pattern_in_quotes(schema.pattern, where)}/")
            parts.append(f"/{_ASCII_STRING}/")
        self._rules += 1
        name = f"S{self._rules}"
        self.lines.append(f"{name}: {' & '.join(parts)}")
        return name

    def _number(self, schema: Schema, where: str) -> str:
        low, high = schema.minimum, schema.maximum
        if not all(bound is None or math.isfinite(bound) for bound in (low, high)):
            raise _refused(where, f"minimum {low} or maximum {high} is not finite")
        if low is not None and high is not None:
            if low > high:
                raise _refused(where, f"minimum {low} is above maximum {high}")
            self.fast_forward &= low != high  # equal bounds dictate every digit
        limits: dict[str, object] = {"type": schema.type}
        if schema.type == "integer":
            bound = _INTEGER_LIMITS.get(schema.format, _INTEGER_LIMITS[""])
            if low is None and high is None and bound == _INTEGER_LIMITS[""]:
                return _INTEGER
            limits["minimum"] = -bound if low is None else max(-bound, math.ceil(low))
            limits["maximum"] = bound if high is None else min(bound, math.floor(high))
        elif low is None and high is None:
            return _NUMBER
        else:
            limits |= {} if low is None else {"minimum": low}
            limits |= {} if high is None else {"maximum": high}
        return f"%json {json.dumps(limits)}"

    def _literal(self, text: str) -> str:
        self._section.append(text)
        return _quoted(text)

    def _rule(self, body: str) -> str:
        self._rules += 1
        name = f"v{self._rules}"
        self.lines.append(f"{name}: {body}")
        return name


def _ascii_json(value: object) -> str:
    """JSON without other characters than ASCII.

    Where a grammar leaves one way on in the middle of a character's bytes, the library (0.18.0)
    makes U+FFFD of them and then refuses its own token.
    """
    return json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    return re.sub(r"[^\w<>]", lambda found: "\\" + found.group(), text)


def _any_of(marks: Iterable[str]) -> str:
    return f"(?s:.*)({'|'.join(_escaped(mark) for mark in marks)})(?s:.*)"


def _bounds(low: int | None, high: int | None, where: str, what: str) -> tuple[int, int | None]:
    if low is not None and not 0 <= low <= _MAX_REPEAT:
        raise _refused(where, f"minimum {what} {low} is not in 0..{_MAX_REPEAT}")
    if high is not None and high < (low or 0):
        raise _refused(where, f"maximum {what} {high} is below the minimum {low or 0}")
    return low or 0, None if high is None else min(high, _MAX_REPEAT)


def _enum_json(schema: Schema, value: str, where: str) -> str:
    if schema.type == "string":
        return _ascii_json(value)
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = None
    kinds = {bool: ("boolean",), int: ("integer", "number"), float: ("number",)}
    if schema.type not in kinds.get(type(parsed), ()):
        raise _refused(where, f"the enum value {value!r} is no {schema.type}")
    return _ascii_json(parsed)


def _pattern_in_quotes(pattern: str, where: str) -> str:
    """The pattern as a whole JSON string. As in JSON Schema it may match anywhere in the value."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise _refused(
            where, f"the pattern {pattern!r} is no regular expression: {error}"
        ) from None
    start = "" if pattern.startswith("^") else f"{_CHARACTER}*"
    ends = pattern.endswith("$") and not pattern.endswith("\\$")
    body = pattern.removeprefix("^")
    body = body[:-1] if ends else body
    if not (body.isascii() and body.isprintable()):
        raise _refused(where, f"the pattern {pattern!r} has characters other than printable ASCII")
    body = re.sub(r"\\?/", r"\/", body)
    return f'"{start}({body}){"" if ends else f"{_CHARACTER}*"}"'


def _refused(where: str, why: str) -> BackendError:
    code = InferenceErrorCode.STRUCTURED_OUTPUT_REQUEST_ERROR
    return BackendError(code, f"The schema of {where} cannot be used: {why}.")
