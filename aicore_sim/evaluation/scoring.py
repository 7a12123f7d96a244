"""Whether an answer is right. Pure: what the model said comes in, a verdict goes out."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aicore_sim.evaluation.suite import Call, Case, Expectation, Fact
from aicore_sim.inference.backend import Schema

NO_CALL = "(no call)"
MALFORMED = "(malformed call)"
"""What stands in the confusions where there is no tool's name."""
_ASKING = r"[?\uff1f]|\b(please|tell me|let me know|need|provide|specify|missing)\b"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the model said to a case."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    malformed: tuple[str, ...] = ()
    """Calls that do not parse, or do not fit their declaration, as they were written."""
    error: str = ""
    """Why there is no answer."""
    cut_off: bool = False
    """Whether the limit of output tokens ended it."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    right: bool
    why: str = ""
    """What is wrong; empty when nothing is."""
    right_tools: bool | None = None
    """Whether the right tools were called, whatever their arguments; None when none should be."""
    called_none: bool | None = None
    """Whether no tool was called; None when one should be."""
    confusions: tuple[tuple[str, str], ...] = ()
    """What should have been called, and what was in its place."""


def judge(case: Case, answer: Answer) -> Verdict:
    """The verdict on one answer."""
    expect = case.expect
    names = [call.name for call in answer.calls] + [MALFORMED] * len(answer.malformed)
    if not expect.calls:
        why = answer.error or _why_text_is_wrong(expect, answer)
        return Verdict(
            right=not why,
            why=why,
            called_none=not names and not answer.error,
            confusions=tuple((NO_CALL, name) for name in names),
        )
    if answer.error:
        return Verdict(right=False, why=answer.error, right_tools=False)
    confusions = min((_confusions(calls, names) for calls in expect.right_calls), key=len)
    why = _why_calls_are_wrong(case, answer)
    return Verdict(right=not why, why=why, right_tools=not confusions, confusions=confusions)


def canonical(value: Any, schema: Schema | None = None) -> str:
    """A text that is the same for equal arguments: numbers by value, texts to the character, an
    optional property that is null as if it were left out, properties in any order."""
    return json.dumps(_plain(value, schema), ensure_ascii=False, sort_keys=True)


def contains(text: str, fact: Fact) -> bool:
    """Whether the text says the fact in one of its forms, as words of their own, in any case.

    `4` is not in `14`, `4.5` or `-4`.
    """
    said = _folded(text)
    return any(re.search(_whole(_folded(form)), said) is not None for form in fact)


def asks_for(text: str, beginnings: Sequence[str]) -> bool:
    """Whether the text asks, and a word of it begins like one of `beginnings`.

    It asks with a question mark or, in English, in words: "please tell me …".
    """
    said = _folded(text)
    return re.search(_ASKING, said) is not None and any(
        re.search(rf"(?<!\w){re.escape(_folded(one))}", said) for one in beginnings
    )


def _why_calls_are_wrong(case: Case, answer: Answer) -> str:
    if answer.malformed:
        return f"wrote what is no call: {answer.malformed[0]}"
    if not answer.calls:
        return "called nothing"
    expect = case.expect
    made = [_canonical_call(case, call) for call in answer.calls]
    for calls in expect.right_calls:
        wanted = [_canonical_call(case, call) for call in calls]
        if made == wanted or (not expect.ordered and Counter(made) == Counter(wanted)):
            return ""
    return f"called {_shown(answer.calls)}, expected {_shown(expect.calls)}"


def _why_text_is_wrong(expect: Expectation, answer: Answer) -> str:
    if answer.malformed:
        return f"wrote what is no call: {answer.malformed[0]}"
    if answer.calls:
        return f"called {_shown(answer.calls)}, expected a text"
    if not answer.text.strip():
        return "said nothing"
    for fact in expect.contains:
        if not contains(answer.text, fact):
            return f"does not say {' or '.join(map(repr, fact))}"
    if expect.asks_for and not asks_for(answer.text, expect.asks_for):
        return f"asks for none of {list(expect.asks_for)}"
    return ""


def _confusions(wanted: Sequence[Call], names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """What is left on both sides when equal names are paired off, in their order."""
    missing = Counter(call.name for call in wanted)
    extra = Counter(names)
    missing, extra = missing - extra, extra - missing
    left, right = list(missing.elements()), list(extra.elements())
    length = max(len(left), len(right))
    left += [NO_CALL] * (length - len(left))
    right += [NO_CALL] * (length - len(right))
    return tuple(zip(left, right, strict=True))


def _canonical_call(case: Case, call: Call) -> tuple[str, str]:
    return call.name, canonical(call.args, case.schema_of(call.name))


def _plain(value: Any, schema: Schema | None) -> Any:
    match value:
        case dict():
            return {
                name: _plain(item, None if schema is None else schema.properties.get(name))
                for name, item in value.items()
                if item is not None or not _is_optional(name, schema)
            }
        case list() | tuple():
            items = None if schema is None else schema.items
            return [_plain(item, items) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def _is_optional(name: str, schema: Schema | None) -> bool:
    return schema is not None and name in schema.properties and name not in schema.required


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFC", text).translate({0x2019: "'", 0x2212: "-", 0x202F: " "})
    return " ".join(plain.casefold().split())


def _whole(form: str) -> str:
    """A pattern for `form` as words of their own."""
    pattern = re.escape(form)
    if re.match(r"\w", form):
        pattern = r"(?<!\w)" + pattern
    if re.match(r"\d", form):
        pattern = r"(?<!\d[.,])" + pattern
    if re.fullmatch(r"[\d.,]+", form):
        pattern = r"(?<!-)" + pattern
    if re.search(r"\w\Z", form):
        pattern += r"(?!\w)"
    if re.search(r"\d\Z", form):
        pattern += r"(?![.,]\d)"
    return pattern


def _shown(calls: Sequence[Call]) -> str:
    return ", ".join(f"{call.name}({json.dumps(call.args, ensure_ascii=False)})" for call in calls)
