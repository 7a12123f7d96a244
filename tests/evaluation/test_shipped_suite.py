"""The suite that comes with the simulator, and the data that it is made of."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter

import pytest

from aicore_sim.evaluation.loading import load_suite, shipped_names
from aicore_sim.evaluation.scoring import Answer, judge
from aicore_sim.evaluation.suite import Call, Case
from aicore_sim.inference.backend import FunctionCallPart, TextPart
from scripts.adapter import chatter
from scripts.adapter.conversations import Example, Writer
from scripts.adapter.domains import Split, domains
from scripts.adapter.facts import forms
from scripts.adapter.make_suite import SEED, SUITE, examples, text


@pytest.fixture(scope="module")
def suite() -> tuple[Case, ...]:
    return load_suite("tools")


def test_the_shipped_suite_is_what_the_script_writes() -> None:
    assert SUITE.read_bytes() == text(SEED).encode(), "run python -m scripts.adapter.make_suite"


@pytest.mark.requirement("simulator.command.eval.shipped")
def test_it_has_five_hundred_cases_in_all_categories(suite: tuple[Case, ...]) -> None:
    counts = Counter(case.category for case in suite)

    assert shipped_names() == ("tools",)
    assert sum(counts.values()) >= 500
    assert counts["order_demo"] == 10
    assert min(counts.values()) >= 10
    assert {
        "single_call", "single_call_many_tools", "optional_arguments", "nested_arguments",
        "list_arguments", "copied_values", "missing_argument", "answered_question",
        "no_tool_fits", "small_talk", "tool_result_answer", "error_explained",
        "cancelled_by_user", "two_calls_in_one_answer", "two_step_plan", "multi_turn",
        "order_demo",
    } == set(counts)  # fmt: skip


def test_every_held_out_domain_is_asked_about() -> None:
    counts = Counter(example.domain for _, example in examples(SEED))

    assert set(counts) == {domain.name for domain in domains() if domain.split == "test"}
    assert min(counts.values()) >= 20


def test_the_answer_that_an_example_was_written_with_is_right(suite: tuple[Case, ...]) -> None:
    by_id = iter(suite)
    wrong = [
        (case.id, judge(case, _answer(example)).why)
        for case, (_, example) in zip(by_id, examples(SEED), strict=False)
        if not judge(case, _answer(example)).right
    ]

    assert wrong == []


def test_a_model_that_always_talks_and_one_that_always_calls_fail_what_they_should(
    suite: tuple[Case, ...],
) -> None:
    for case in suite:
        talked = judge(case, Answer(text="What else can I do for you?"))
        called = judge(case, Answer(calls=(Call(name="something_else"),)))
        free_text = not (case.expect.calls or case.expect.contains or case.expect.asks_for)
        assert talked.right is free_text
        assert not called.right


def test_no_function_phrase_or_name_of_a_test_is_trained_on() -> None:
    seen = {split: _words(split) for split in ("train", "validation", "test")}

    assert seen["test"] & seen["train"] == set()
    assert seen["test"] & seen["validation"] == set()


def test_no_conversation_of_the_suite_is_trained_on(suite: tuple[Case, ...]) -> None:
    asked = {turn.user for case in suite for turn in case.contents if turn.user is not None}
    writer = Writer("train", 1)
    trained = {
        part.text
        for example in itertools.islice(writer.examples(), 3000)
        for content in example.request.contents
        for part in content.parts
        if isinstance(part, TextPart) and content.role == "user"
    }

    # What has one or two words ("hello", "42") can be anybody's.
    assert {text for text in asked & trained if len(text.split()) > 2} == set()


@pytest.mark.parametrize(
    ("of_tests", "of_training"),
    [
        (chatter.SMALL_TALK_OF_TESTS, chatter.SMALL_TALK),
        (tuple(chatter.ERRORS_OF_TESTS), chatter.ERRORS),
        (chatter.PLANS_OF_TESTS, chatter.PLANS),
        (chatter.BARE_WISHES_OF_TESTS, chatter.BARE_WISHES),
    ],
)
def test_tests_have_small_talk_errors_and_frames_of_their_own(
    of_tests: tuple[object, ...], of_training: tuple[object, ...]
) -> None:
    first = {entry[0] if isinstance(entry, tuple) else entry for entry in of_tests}
    second = {entry[0] if isinstance(entry, tuple) else entry for entry in of_training}

    assert first & second == set()


def test_the_training_split_is_the_one_that_the_adapter_saw() -> None:
    writer = Writer("train", 1)
    data = "".join(
        example.model_dump_json()
        for example in (*itertools.islice(writer.examples(), 200), *writer.group(8))
    )

    assert hashlib.sha256(data.encode()).hexdigest()[:16] == "3a74b1c15d66d15f"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("SHIPPED", ["SHIPPED"]),
        (7, ["7"]),
        (True, ["True"]),
        (12500, ["12500", "12,500"]),
        (31.0, ["31.0", "31"]),
        (0.5, ["0.5"]),
        ("2026-03-04", ["2026-03-04", "March 4", "4 March", "March 04"]),
        ("2026-10-14", ["2026-10-14", "October 14", "14 October"]),
        ("16:05", ["16:05", "4:05 PM"]),
        ("00:30", ["00:30", "0:30", "12:30 AM"]),
        ("8 to 12", ["8 to 12", "8-12", "8 - 12", "8–12", "8 and 12"]),
    ],
)
def test_a_value_may_be_told_in_several_ways(value: object, said: list[str]) -> None:
    assert forms(value) == said


def _answer(example: Example) -> Answer:
    return Answer(
        text=" ".join(part.text for part in example.answer if isinstance(part, TextPart)),
        calls=tuple(
            Call(name=part.name, args=json.loads(json.dumps(part.args)))
            for part in example.answer
            if isinstance(part, FunctionCallPart)
        ),
    )


def _words(split: Split) -> set[str]:
    """Names, phrases and descriptions of the functions of a split."""
    return {
        text.casefold()
        for domain in domains()
        if domain.split == split
        for function in domain.functions
        for text in (domain.name, function.name, function.does, *function.say)
    }
