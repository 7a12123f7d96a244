"""Writes the shipped suite from the domains of the test split.

python -m scripts.adapter.make_suite

The same seed gives the same file.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from docstring_parser import parse

from aicore_sim.cli.demo.order_agent import INSTRUCTIONS
from aicore_sim.cli.demo.shop import OrderTools
from aicore_sim.inference.backend import (
    Content,
    FunctionCallPart,
    FunctionResponsePart,
    Part,
    TextPart,
)
from aicore_sim.inference.dialect.declarations import function_object
from scripts.adapter.chatter import ERRORS_OF_TESTS
from scripts.adapter.conversations import Category, Example, Writer
from scripts.adapter.domains import domains
from scripts.adapter.facts import forms

SEED = 1
SUITE = Path(__file__).parents[2] / "aicore_sim/evaluation/suites/tools.jsonl"
_PHRASINGS = Path(__file__).with_name("demo_phrasings.yaml")
_ORDER_ID = re.compile(r"\b(?=[\w-]*\d)[A-Z\d][\w-]*")
_IDENTIFIER = re.compile(r"(?=.*\d)(?!\d{4}-\d\d-\d\d\Z)(?!\d\d:\d\d\Z)\S{3,}")
_WORDS_OF_QUESTIONS = frozenset(
    ("a", "an", "at", "did", "do", "for", "how", "i", "in", "is", "it", "many", "my", "of", "on",
     "should", "the", "to", "was", "what", "which", "you", "your")
)  # fmt: skip
_NOT_DONE = (
    *("cancelled", "canceled", "declined", "stopped", "unchanged", "as it is", "as they are"),
    *("not", "nothing", "no change", "no changes", "didn't", "won't", "wasn't", "hasn't"),
)
"""One of these is in an answer that does not claim that a declined action was done."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """So many cases of a category of the suite, out of those examples that fit."""

    category: str
    count: int
    source: Category
    fits: Callable[[Example], bool] = lambda example: True


def _call_of(example: Example) -> FunctionCallPart:
    call = example.answer[0]
    assert isinstance(call, FunctionCallPart)
    return call


def _optional(example: Example) -> list[str]:
    call = _call_of(example)
    declared = next(tool for tool in example.request.tools if tool.name == call.name).parameters
    return [name for name in declared.properties if name not in declared.required]


def _values(example: Example) -> list[Any]:
    return list(_call_of(example).args.values())


def _is_flat(example: Example) -> bool:
    return not any(isinstance(value, list | dict) for value in _values(example))


def _has_objects(example: Example) -> bool:
    return any(
        isinstance(value, dict) or (isinstance(value, list) and isinstance(value[0], dict))
        for value in _values(example)
    )


def _has_lists(example: Example) -> bool:
    return not _has_objects(example) and not _is_flat(example)


def _has_identifier(example: Example) -> bool:
    return any(
        isinstance(value, str) and _IDENTIFIER.fullmatch(value) for value in _values(example)
    )


def _calls(example: Example) -> bool:
    return isinstance(example.answer[0], FunctionCallPart)


def _few_tools(example: Example) -> bool:
    return len(example.request.tools) <= 3 and _is_flat(example)


def _many_tools(example: Example) -> bool:
    return len(example.request.tools) >= 6


def _step(number: int) -> Callable[[Example], bool]:
    """A plan of two steps of which `number` are done."""
    return lambda example: len(example.request.contents) == 1 + 2 * number


ROWS = (
    Row(category="single_call", count=50, source="call", fits=_few_tools),
    Row(category="single_call_many_tools", count=50, source="call", fits=_many_tools),
    Row(
        category="optional_arguments",
        count=20,
        source="call",
        fits=lambda example: any(name in _call_of(example).args for name in _optional(example)),
    ),
    Row(
        category="optional_arguments",
        count=20,
        source="call",
        fits=lambda example: (
            bool(_optional(example))
            and not any(name in _call_of(example).args for name in _optional(example))
        ),
    ),
    Row(category="nested_arguments", count=30, source="call", fits=_has_objects),
    Row(category="list_arguments", count=35, source="call", fits=_has_lists),
    Row(category="copied_values", count=40, source="call", fits=_has_identifier),
    Row(category="missing_argument", count=40, source="missing", fits=lambda e: not _calls(e)),
    Row(category="answered_question", count=20, source="missing", fits=_calls),
    Row(
        category="no_tool_fits",
        count=50,
        source="out_of_scope",
        fits=lambda example: bool(example.request.tools),
    ),
    Row(category="small_talk", count=25, source="small_talk"),
    Row(category="tool_result_answer", count=60, source="result"),
    Row(category="error_explained", count=25, source="error"),
    Row(category="cancelled_by_user", count=20, source="declined"),
    Row(category="two_calls_in_one_answer", count=30, source="parallel"),
    Row(category="two_step_plan", count=15, source="two_step", fits=_step(0)),
    Row(category="two_step_plan", count=10, source="two_step", fits=_step(1)),
    Row(category="two_step_plan", count=10, source="two_step", fits=_step(2)),
    Row(category="multi_turn", count=35, source="turns"),
)


@cache
def examples(seed: int) -> tuple[tuple[str, Example], ...]:
    """Category of the suite, and example; no two with the same conversation."""
    seen: set[str] = set()
    found = []
    for number, row in enumerate(ROWS):
        writer = Writer("test", seed * 1000 + number)
        made = 0
        while made < row.count:
            example = writer.write(row.source)
            said = repr(example.request.contents)
            if said not in seen and row.fits(example):
                seen.add(said)
                made += 1
                found.append((row.category, example))
    return tuple(found)


def cases(seed: int) -> list[dict[str, Any]]:
    """The cases of the suite, as they are written."""
    made: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for category, example in examples(seed):
        counts[category] = counts.get(category, 0) + 1
        made.append({"id": f"{category}-{counts[category]:03d}", **case_of(category, example)})
    return [*made, *order_demo()]


def case_of(category: str, example: Example) -> dict[str, Any]:
    """A case without its id."""
    request = example.request
    return {
        "category": category,
        **({"system": request.system_instruction} if request.system_instruction else {}),
        "tools": [function_object(tool) for tool in request.tools],
        "contents": [_turn(content) for content in request.contents],
        "expect": _expectation(example),
    }


def order_demo() -> list[dict[str, Any]]:
    """The question of the demo in ten other phrasings."""
    described = parse(OrderTools.fetch_order_details.__doc__ or "")
    tool = {
        "name": "fetch_order_details",
        "description": described.short_description,
        "parameters": {
            "type": "object",
            "properties": {
                "orderId": {"type": "string", "description": described.params[0].description}
            },
            "required": ["orderId"],
        },
    }
    made = []
    for number, phrase in enumerate(yaml.safe_load(_PHRASINGS.read_text(encoding="utf-8")), 1):
        (order_id,) = _ORDER_ID.findall(phrase)
        made.append(
            {
                "id": f"order_demo-{number:03d}",
                "category": "order_demo",
                "system": INSTRUCTIONS,
                "tools": [tool],
                "contents": [{"user": phrase}],
                "expect": {"calls": [{"name": tool["name"], "args": {"orderId": order_id}}]},
            }
        )
    return made


def text(seed: int) -> str:
    """The file: one case on each line."""
    return "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases(seed))


def _expectation(example: Example) -> dict[str, Any]:
    if _calls(example):
        calls = [part for part in example.answer if isinstance(part, FunctionCallPart)]
        return {"calls": [{"name": call.name, "args": call.args} for call in calls]}
    match example.category:
        case "missing":
            return {"asks_for": _asked(example)}
        case "error":
            return {"contains": [[error, ERRORS_OF_TESTS[error]] for error in example.facts]}
        case "declined":
            return {"contains": [list(_NOT_DONE)]}
        case "result" | "two_step":
            return {"contains": _told(example)}
        case _:
            return {"no_call": True}


def _told(example: Example) -> list[list[str]]:
    """What the results say that the calls did not."""
    parts = [part for content in example.request.contents for part in content.parts]
    asked = [v for p in parts if isinstance(p, FunctionCallPart) for v in p.args.values()]
    return [
        forms(value)
        for part in parts
        if isinstance(part, FunctionResponsePart)
        for value in part.response.values()
        if value not in asked
    ]


def _asked(example: Example) -> list[str]:
    """The words of the question and of the parameter that it is about."""
    (part,) = example.answer
    assert isinstance(part, TextPart)
    domain = next(domain for domain in domains() if domain.name == example.domain)
    found: dict[str, None] = {}
    for function in domain.functions:
        for name, question in function.ask.items():
            if question == part.text:
                words = re.findall(r"[a-z]+", question.lower())
                words += [word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)]
                words = [word for word in words if word not in _WORDS_OF_QUESTIONS]
                # Who says that it cancels the order asks for no order.
                verb = function.name.split()[0]
                found |= dict.fromkeys([word for word in words if word != verb] or words)
    return list(found)


def _turn(content: Content) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for part in content.parts:
        _add(made, content.role, part)
    return made


def _add(made: dict[str, Any], role: str, part: Part) -> None:
    match part:
        case TextPart():
            made[role] = part.text
        case FunctionCallPart():
            made.setdefault("calls", []).append({"name": part.name, "args": part.args})
        case FunctionResponsePart():
            made.setdefault("results", []).append({"name": part.name, "response": part.response})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=SUITE)
    options = parser.parse_args()
    options.out.write_text(text(options.seed), encoding="utf-8")


if __name__ == "__main__":
    main()
