"""Builds the grammar that an answer has to follow.

The grammar is in llguidance's variant of lark. It holds the declared tools' names and their
schemas' own types, and nothing from the prompt.
https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from aicore_sim.inference.backend import GenerateRequest, ToolDeclaration
from aicore_sim.inference.dialect import Dialect, JsonNotation, UnwritableError
from aicore_sim.inference.grammar.values import Rule, ValueRules, refused

MAX_CALLS = 8
"""Calls in one answer when the model chooses to call; a bound, so that a model that repeats itself
comes to an end. A call that the request demands is one call."""
_LONGEST_FORCED = 4096


@dataclass(frozen=True, kw_only=True)
class Grammar:
    """`lark` is what the answer must match."""

    lark: str
    longest_forced: int
    """No stretch of the answer that the grammar dictates is longer, in bytes and so in tokens."""
    fast_forward: bool
    """Whether dictated tokens may be appended at once."""


def build_grammar(request: GenerateRequest, dialect: Dialect) -> Grammar | None:
    """The grammar for an answer to `request`; None when any text will do.

    Raises BackendError (STRUCTURED_OUTPUT_REQUEST_ERROR) naming the tool and the property whose
    schema cannot be used.
    """
    if not request.tools and request.tool_choice.mode in ("required", "named"):
        raise refused("tool_choice", f"it is {request.tool_choice.mode!r} without any tool")
    tools = _callable_tools(request)
    marks = dialect.text_marks(request)
    if not tools and request.response_schema is None and not marks:
        return None
    rules = ValueRules(dialect.notation, dialect.control)
    starts: list[Rule] = []
    lines: list[str] = []
    free_text = False
    if request.tool_choice.mode in ("auto", "none"):
        if request.response_schema is not None:
            answer = ValueRules(JsonNotation(), frozenset(), prefix="r")
            starts.append(answer.value(request.response_schema, "response_schema"))
            lines += answer.lines
        else:
            free_text = True
            starts.append(Rule("TEXT", 0))
            lines.append(f"TEXT: /(?s:.+)/{_without(marks - dialect.control)}")
    if tools:
        call = rules.choice([_call(rules, tool, dialect) for tool in tools])
        opening = rules.literal(dialect.call_open)
        if free_text:
            # A model may say what it is about to do before it calls.
            opening = _opening_after_text(dialect, marks, lines)
        more = rules.literal(dialect.call_separator + dialect.call_open)
        text = f"{opening.text} {call.text}"
        repeats = MAX_CALLS - 1 if request.tool_choice.mode == "auto" else 0
        if repeats:
            text += f" ({more.text} {call.text}){{0,{repeats}}}"
        starts.append(Rule(text, opening.forced + more.forced + call.forced))
    forced = max(start.forced for start in starts)
    return Grammar(
        lark="\n".join(
            ["start: " + " | ".join(start.text for start in starts), *lines, *rules.lines, ""]
        ),
        longest_forced=forced,
        fast_forward=forced <= _LONGEST_FORCED,
    )


def _call(rules: ValueRules, tool: ToolDeclaration, dialect: Dialect) -> Rule:
    where = f"tool {tool.name!r}"
    if tool.parameters.type != "object" or tool.parameters.any_of:
        raise refused(where, "its parameters are no object schema")
    try:
        before, after = dialect.call_frame(tool.name)
    except UnwritableError as error:
        raise refused(where, str(error)) from None
    arguments = rules.object_(tool.parameters, where)
    return rules.sequence(rules.literal(before), arguments, rules.literal(after))


def _opening_after_text(dialect: Dialect, marks: frozenset[str], lines: list[str]) -> Rule:
    """Any text up to the mark of the first call."""
    opening = dialect.call_open
    if opening in dialect.control:
        lines.append(f"opening: TEXT {opening} | {opening}")
    else:
        others = _without(marks - {opening} - dialect.control)
        lines.append(f"OPENING: /(?s:.*){_escaped(opening)}/{others}")
        lines.append("opening[lazy]: OPENING")
    return Rule("opening", len(opening))


def _without(marks: Iterable[str]) -> str:
    """For a terminal that must hold none of the marks."""
    options = "|".join(_escaped(mark) for mark in sorted(marks))
    return f" & ~/(?s:.*)({options})(?s:.*)/" if options else ""


def _escaped(text: str) -> str:
    return re.sub(r"[^\w<>]", lambda found: f"\\x{ord(found.group()):02X}", text)


def _callable_tools(request: GenerateRequest) -> tuple[ToolDeclaration, ...]:
    names = [tool.name for tool in request.tools]
    for name in names:
        if not name or names.count(name) > 1:
            raise refused("tools", f"the name {name!r} is empty or declared twice")
    choice = request.tool_choice
    if choice.mode == "none":
        return ()
    if choice.mode != "named":
        return request.tools
    if choice.name not in names:
        raise refused("tool_choice", f"names {choice.name!r}; declared are {names!r}")
    return tuple(tool for tool in request.tools if tool.name == choice.name)
