"""Text and calls out of an answer, wherever it was cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.inference.backend import FunctionCall, MalformedCall, TextDelta
from aicore_sim.inference.dialect import to_json
from aicore_sim.inference.output_parser import CallParser
from tests.inference.requests import merged

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def call(name: str, args: dict[str, Any]) -> str:
    return f"{OPEN}\n{to_json({'name': name, 'arguments': args})}\n{CLOSE}"


def parse(text: str, size: int, *, only_calls: bool = False) -> list[Any]:
    parser = CallParser(OPEN, CLOSE, only_calls=only_calls)
    chunks = []
    for start in range(0, len(text), size):
        chunks += parser.feed(text[start : start + size])
    chunks += parser.finish()
    for chunk in chunks:
        if isinstance(chunk, TextDelta):
            assert chunk.text
            assert OPEN not in chunk.text
    return merged(chunks)


ANSWERS = {
    "text": ("Hello, <world> 1 < 2 <tool", ["Hello, <world> 1 < 2 <tool"]),
    "text keeps its white space": ("  a\n\n b \n", ["  a\n\n b \n"]),
    "empty": ("", []),
    "call": (
        call("f", {"a": [1, {"b": None}]}),
        [FunctionCall(name="f", args={"a": [1, {"b": None}]})],
    ),
    "prose and a call": (
        "Let me look.\n\n" + call("f", {}) + "\n",
        ["Let me look.", FunctionCall(name="f", args={})],
    ),
    "two calls and prose": (
        call("f", {"x": 1}) + "\n" + call("g", {}) + "\n Done. ",
        [FunctionCall(name="f", args={"x": 1}), FunctionCall(name="g", args={}), "Done. "],
    ),
    "marks inside a string": (
        call("f", {"html": f'{OPEN} "q" \\ {CLOSE} \\" end'}) + "after",
        [FunctionCall(name="f", args={"html": f'{OPEN} "q" \\ {CLOSE} \\" end'}), "after"],
    ),
    "mark after half a mark": (
        "<tool<tool_call>",
        ["<tool", MalformedCall(text="", reason="The call is cut off.")],
    ),
}


@pytest.mark.requirement("aicore.generate.no-marker-in-text")
@pytest.mark.parametrize("size", [1, 3, 8, 999])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_reads_the_same_however_it_is_cut(name: str, size: int) -> None:
    text, expected = ANSWERS[name]

    assert parse(text, size) == expected


@pytest.mark.parametrize("size", [1, 3, 8, 999])
@pytest.mark.parametrize(
    "body",
    [
        '{"name": "f", "arguments": {"a": 1}',
        '{"name": "f"}',
        '{"arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"name": "f", "arguments": []}',
        '{"name": "f", "arguments": {}, "id": 3}',
        '{"name": "f", "arguments": {"a": NaN}}',
        '{"name": "f", "arguments": {"a": "\\ud800"}}',
        "[]",
        "not json",
        "",
    ],
)
def test_a_call_that_does_not_parse_is_malformed_and_the_text_after_it_is_text(
    body: str, size: int
) -> None:
    malformed, after = parse(f"{OPEN}{body}{CLOSE} Sorry.", size)

    assert isinstance(malformed, MalformedCall)
    assert malformed.text == body
    assert malformed.reason
    assert after == "Sorry."


@pytest.mark.parametrize("size", [1, 3, 8, 999])
def test_a_string_that_never_ends_does_not_swallow_the_text_after_the_call(size: int) -> None:
    malformed, after = parse(f'{OPEN}{{"name": "f{CLOSE} Sorry.', size)

    assert isinstance(malformed, MalformedCall)
    assert malformed.text == '{"name": "f'
    assert after == "Sorry."


@given(cut=st.integers(1, len(call("f", {"a": "b"})) - 1), size=st.sampled_from([1, 3, 8, 999]))
def test_a_call_cut_off_by_the_limit_is_never_a_call(cut: int, size: int) -> None:
    chunks = parse(call("f", {"a": "b"})[:cut], size, only_calls=True)

    assert [type(chunk) for chunk in chunks] == [MalformedCall]


TEXTS = st.text('ab <>\n"\\/{}é👨‍👩‍👧_toolcal', max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(
    prose=TEXTS.filter(lambda text: OPEN not in text),
    calls=st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3), max_size=3),
    size=st.integers(1, 40),
)
def test_prose_and_calls_come_back_whatever_they_hold(
    prose: str, calls: list[dict[str, Any]], size: int
) -> None:
    text = prose + "\n".join(call("f", args) for args in calls)
    text_expected = prose.rstrip() if calls else prose

    assert parse(text, size) == [
        *([text_expected] if text_expected else []),
        *(FunctionCall(name="f", args=args) for args in calls),
    ]
