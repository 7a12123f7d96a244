"""Text and calls out of an answer, wherever it was cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.inference.backend import (
    Chunk,
    FunctionCall,
    MalformedCall,
    TextDelta,
    ThoughtDelta,
)
from aicore_sim.inference.dialect import FUNCTION_GEMMA, MarkedDialect, MarkedNotation, to_json
from aicore_sim.inference.marked_calls import MarkedCalls
from aicore_sim.inference.output_parser import (
    AnswerParser,
    BareJsonCalls,
    CallNotation,
    MarkedJsonCalls,
)
from tests.inference.requests import ask_with_tools, merged

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def call(name: str, args: dict[str, Any]) -> str:
    return f"{OPEN}\n{to_json({'name': name, 'arguments': args})}\n{CLOSE}"


HERMES = MarkedJsonCalls(OPEN, CLOSE, arguments="arguments")
BARE = BareJsonCalls('{"name":', arguments="parameters")
GEMMA_OPEN, GEMMA_CLOSE = "<start_function_call>", "<end_function_call>"
NOTATION = MarkedNotation(quote="<escape>")
GEMMA = MarkedCalls(GEMMA_OPEN, GEMMA_CLOSE, quote=NOTATION.quote)
THOUGHT = ("<think>", "</think>")


def parse(
    text: str,
    size: int,
    *,
    only_calls: bool = False,
    calls: CallNotation = HERMES,
    thought: tuple[str, str] | None = None,
    thought_first: bool = False,
) -> list[Any]:
    parser = AnswerParser(
        calls, only_calls=only_calls, thought=thought, thought_first=thought_first
    )
    chunks = []
    for start in range(0, len(text), size):
        chunks += parser.feed(text[start : start + size])
    chunks += parser.finish()
    for chunk in chunks:
        if isinstance(chunk, TextDelta):
            assert chunk.text
            assert calls is BARE or calls.opening not in chunk.text
    return joined(chunks)


def joined(chunks: list[Chunk]) -> list[Any]:
    """The chunks as `merged` has them, and neighbouring pieces of a thought as one."""
    result: list[Any] = []
    for chunk in merged(chunks):
        last = result[-1] if result else None
        if isinstance(chunk, ThoughtDelta) and isinstance(last, ThoughtDelta):
            result[-1] = ThoughtDelta(text=last.text + chunk.text)
        else:
            result.append(chunk)
    return result


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


THOUGHTS = {
    "thought and text": (
        "<think>\nIs it 1 < 2?\n</think>\n\n Yes.",
        [ThoughtDelta(text="Is it 1 < 2?"), "Yes."],
    ),
    "thought and call": (
        "\n<think>A <tool_call> may do.</think>" + call("f", {"a": 1}),
        [ThoughtDelta(text="A <tool_call> may do."), FunctionCall(name="f", args={"a": 1})],
    ),
    "empty thought": ("<think>\n\n</think>\n\nHi", ["Hi"]),
    "no thought": ("<thin air", ["<thin air"]),
    "thought in the middle": (
        "So\n<think>no, or </thin?</think>\n\n yes. ",
        ["So", ThoughtDelta(text="no, or </thin?"), "\nyes. "],
    ),
    "thought after a call": (
        call("f", {}) + "\n<think>And now?</think>\n\nDone.",
        [FunctionCall(name="f", args={}), ThoughtDelta(text="And now?"), "Done."],
    ),
    "thought between words and a call": (
        "I see. <think>Look.</think> " + call("f", {}) + " <think>x</think>",
        [
            "I see.",
            ThoughtDelta(text="Look."),
            FunctionCall(name="f", args={}),
            ThoughtDelta(text="x"),
        ],
    ),
    "marks of thoughts inside a string": (
        call("f", {"html": "<think>no</think>"}),
        [FunctionCall(name="f", args={"html": "<think>no</think>"})],
    ),
    "thought at the end": ("So. <think>Let me", ["So.", ThoughtDelta(text="Let me")]),
    "thought cut off": ("<think>Let me </thin", [ThoughtDelta(text="Let me </thin")]),
    "start of a mark": ("<thi", ["<thi"]),
    "nothing": ("  ", ["  "]),
}


@pytest.mark.requirement("aicore.dialect.thoughts")
@pytest.mark.parametrize("size", [1, 3, 8, 999])
@pytest.mark.parametrize("name", THOUGHTS)
def test_a_thought_is_kept_from_the_text_wherever_it_comes(name: str, size: int) -> None:
    text, expected = THOUGHTS[name]

    assert parse(text, size, thought=THOUGHT) == expected


@pytest.mark.requirement("aicore.dialect.thoughts")
@pytest.mark.parametrize("size", [1, 3, 8, 999])
def test_in_an_answer_of_json_only_a_thought_at_the_beginning_is_one(size: int) -> None:
    data = '{"html": "<think>no</think>"}'
    text = f" <think>As JSON.</think>\n{data}"

    assert parse(text, size, thought=THOUGHT, thought_first=True) == [
        ThoughtDelta(text="As JSON."),
        data,
    ]
    assert parse(data, size, thought=THOUGHT, thought_first=True) == [data]


BARE_ANSWERS = {
    "call": (
        '{"name": "f", "parameters": {"a": [1, {"b": "}"}]}}',
        [FunctionCall(name="f", args={"a": [1, {"b": "}"}]})],
    ),
    "prose and two calls": (
        'Sure.\n{"name":"f","parameters":{}}\n{"name": "g", "parameters": {}} Done.',
        ["Sure.", FunctionCall(name="f", args={}), FunctionCall(name="g", args={}), "Done."],
    ),
    "text and an object with a name": ('See {"name": "Ann"} here', ['See {"name": "Ann"} here']),
    "other JSON": ('As JSON: {"a": 1} and {"b": [2]}', ['As JSON: {"a": 1} and {"b": [2]}']),
    "an object with a name": ('{"name": "Ann", "age": 3}', ['{"name": "Ann", "age": 3}']),
    "a name that is none": (
        '{"name": {"k": 3}, "parameters": {}} Oh.',
        [
            MalformedCall(
                text='{"name": {"k": 3}, "parameters": {}}', reason='The call has no "name".'
            ),
            "Oh.",
        ],
    ),
    "cut off": (
        '{"name": "f", "parameters": {"a": "b"',
        [
            MalformedCall(
                text='{"name": "f", "parameters": {"a": "b"', reason="The call is cut off."
            )
        ],
    ),
}


@pytest.mark.requirement("aicore.dialect.gemma", "aicore.generate.no-marker-in-text")
@pytest.mark.parametrize("size", [1, 3, 8, 999])
@pytest.mark.parametrize("name", BARE_ANSWERS)
def test_bare_calls_read_the_same_however_the_answer_is_cut(name: str, size: int) -> None:
    text, expected = BARE_ANSWERS[name]

    assert parse(text, size, calls=BARE) == expected


def marked(name: str, args: dict[str, Any]) -> str:
    return f"{GEMMA_OPEN}call:{name}{NOTATION.text(args)}{GEMMA_CLOSE}"


DEEP = {"city": "Tōkyō", "days": 3, "deep": {"ok": [True, None, -1.5]}}
MARKED_ANSWERS = {
    "call": (
        marked("f", DEEP),
        [FunctionCall(name="f", args=DEEP)],
    ),
    "marks and braces inside a string": (
        marked("f", {"a": f'{{"x": 1}}, {GEMMA_CLOSE} {GEMMA_OPEN}'}) + " after",
        [FunctionCall(name="f", args={"a": f'{{"x": 1}}, {GEMMA_CLOSE} {GEMMA_OPEN}'}), "after"],
    ),
    "prose and two calls": (
        "Let me look." + marked("f", {}) + marked("g", {"a": ""}),
        ["Let me look.", FunctionCall(name="f", args={}), FunctionCall(name="g", args={"a": ""})],
    ),
    "spaces": (
        f"{GEMMA_OPEN} call: f {{ a : 1 , b : [ 2 , 3 ] }} {GEMMA_CLOSE}",
        [FunctionCall(name="f", args={"a": 1, "b": [2, 3]})],
    ),
    "a string that never ends": (
        f"{GEMMA_OPEN}call:f{{a:<escape>b{GEMMA_CLOSE} Sorry.",
        [
            MalformedCall(
                text="call:f{a:<escape>b",
                reason="The call cannot be read: a string without its second <escape>",
            ),
            "Sorry.",
        ],
    ),
}


@pytest.mark.requirement("aicore.dialect.gemma", "aicore.generate.no-marker-in-text")
@pytest.mark.parametrize("size", [1, 3, 8, 999])
@pytest.mark.parametrize("name", MARKED_ANSWERS)
def test_marked_calls_read_the_same_however_the_answer_is_cut(name: str, size: int) -> None:
    text, expected = MARKED_ANSWERS[name]

    assert parse(text, size, calls=GEMMA) == expected


@pytest.mark.parametrize("size", [1, 999])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "does not begin with"),
        ("f{}", "does not begin with"),
        ("call:{}", "does not begin with"),
        ("call:f", "does not begin with"),
        ("call:f{a}", "no name"),
        ("call:f{a:}", "no value"),
        ("call:f{a:b}", "'b' is no number"),
        ("call:f{a:NaN}", "'NaN' is no number"),
        ("call:f{a:1 b:2}", "no ','"),
        ("call:f{a:1,a:2}", "comes twice"),
        ("call:f{a:1}}", "more text"),
        ("call:f{a:[1", "no ','"),
        (f"call:f{{a:{'[' * 200}", "nested deeper"),
    ],
)
def test_a_marked_call_that_does_not_parse_is_malformed(body: str, reason: str, size: int) -> None:
    broken, after = parse(f"{GEMMA_OPEN}{body}{GEMMA_CLOSE} Sorry.", size, calls=GEMMA)

    assert isinstance(broken, MalformedCall)
    assert broken.text == body
    assert reason in broken.reason
    assert after == "Sorry."


@given(cut=st.integers(1, len(marked("f", {"a": "b"})) - 1), size=st.sampled_from([1, 3, 8, 999]))
def test_a_marked_call_cut_off_by_the_limit_is_never_a_call(cut: int, size: int) -> None:
    chunks = parse(marked("f", {"a": "b"})[:cut], size, only_calls=True, calls=GEMMA)

    assert [type(chunk) for chunk in chunks] == [MalformedCall]


NAMES = st.text("abcÄ_-.0", min_size=1, max_size=4)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8).filter(lambda text: "<escape>" not in text),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)


@given(
    prose=TEXTS.filter(lambda text: GEMMA_OPEN not in text),
    calls=st.lists(st.dictionaries(NAMES, VALUES, max_size=3), max_size=3),
    size=st.integers(1, 40),
)
def test_what_the_marked_notation_writes_it_reads(
    prose: str, calls: list[dict[str, Any]], size: int
) -> None:
    text = prose + "".join(marked("f", args) for args in calls)
    text_expected = prose.rstrip() if calls else prose

    assert parse(text, size, calls=GEMMA) == [
        *([text_expected] if text_expected else []),
        *(FunctionCall(name="f", args=args) for args in calls),
    ]


@pytest.mark.parametrize("calls", [HERMES, BARE, GEMMA])
def test_endless_repetition_inside_a_call_is_one_malformed_call(calls: CallNotation) -> None:
    text = f"{calls.opening}{{percent" * 400

    chunks = parse(text, 7, calls=calls)

    assert [type(chunk) for chunk in chunks] == [MalformedCall]


@pytest.mark.requirement("aicore.dialect.nul")
def test_a_nul_in_a_call_is_kept_or_named() -> None:
    escaped = call("f", {"a": "x\0y"})
    [raw] = parse(escaped.replace("\\u0000", "\0"), 3)
    [marked_call] = parse(marked("f", {"a": "x\0y"}), 3, calls=GEMMA)

    assert parse(escaped, 3) == [FunctionCall(name="f", args={"a": "x\0y"})]
    assert isinstance(raw, MalformedCall)
    assert "not JSON" in raw.reason
    assert marked_call == FunctionCall(name="f", args={"a": "x\0y"})


@pytest.mark.requirement("aicore.dialect.gemma")
@pytest.mark.parametrize("size", [1, 3, 8, 999])
def test_a_response_that_a_model_makes_up_for_its_own_call_is_dropped(size: int) -> None:
    request = ask_with_tools("Hi")
    parser = MarkedDialect(FUNCTION_GEMMA).parser(request)
    text = marked("f", {"a": 1}) + "<start_function_response>response:f{ok:true}"
    chunks = [
        chunk
        for start in range(0, len(text), size)
        for chunk in parser.feed(text[start : start + size])
    ]

    assert [*chunks, *parser.finish()] == [FunctionCall(name="f", args={"a": 1})]


def test_the_start_of_an_ending_mark_is_text_when_nothing_follows() -> None:
    parser = MarkedDialect(FUNCTION_GEMMA).parser(ask_with_tools("Hi"))

    assert merged([*parser.feed("a <start_func"), *parser.finish()]) == ["a <start_func"]
