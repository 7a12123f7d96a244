"""What counts as a right answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.evaluation.scoring import (
    MALFORMED,
    NO_CALL,
    Answer,
    asks_for,
    canonical,
    contains,
    judge,
)
from aicore_sim.inference.backend import Schema
from tests.evaluation.cases import BOOKED, booking, called, case, said

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
WORD = st.text(st.characters(categories=("Ll", "Lu", "Nd")), min_size=1, max_size=8)


def test_a_call_with_the_expected_arguments_is_right() -> None:
    verdict = judge(booking(), called(("book_table", BOOKED), text="I book it."))

    assert (verdict.right, verdict.right_tools, verdict.called_none) == (True, True, None)
    assert (verdict.why, verdict.confusions) == ("", ())


@pytest.mark.parametrize(
    ("wanted", "given_args"),
    [
        ({}, {"at": "19:00", "guests": 4}),
        ({}, {"guests": 4.0, "at": "19:00"}),
        ({"price": 20}, {**BOOKED, "price": 20.0}),
        ({"price": 20.5}, {**BOOKED, "price": 20.50}),
        ({}, {**BOOKED, "price": None}),
        ({"contact": {"name": "Ada"}}, {**BOOKED, "contact": {"name": "Ada", "age": None}}),
        ({"wishes": ["a", "b"]}, {**BOOKED, "wishes": ["a", "b"]}),
    ],
)
def test_arguments_are_equal_by_value(wanted: dict[str, Any], given_args: dict[str, Any]) -> None:
    assert judge(booking(**wanted), called(("book_table", given_args))).right


@pytest.mark.parametrize(
    ("wanted", "given_args"),
    [
        ({}, {"guests": 5, "at": "19:00"}),
        ({}, {"guests": "4", "at": "19:00"}),
        ({}, {"guests": 4}),
        ({}, {"guests": 4, "at": "19:00 "}),
        ({"at": "Noon"}, {"guests": 4, "at": "noon"}),
        ({}, {**BOOKED, "price": 0}),
        ({}, {**BOOKED, "unknown": None}),
        ({"guests": 1}, {"guests": True, "at": "19:00"}),
        ({"wishes": ["a", "b"]}, {**BOOKED, "wishes": ["b", "a"]}),
        ({"contact": {"name": "Ada"}}, {**BOOKED, "contact": {"name": None}}),
    ],
)
def test_other_arguments_are_wrong_with_the_right_tool(
    wanted: dict[str, Any], given_args: dict[str, Any]
) -> None:
    verdict = judge(booking(**wanted), called(("book_table", given_args)))

    assert (verdict.right, verdict.right_tools, verdict.confusions) == (False, True, ())
    assert "expected book_table" in verdict.why


@pytest.mark.parametrize(
    ("answer", "confusions"),
    [
        (called(("cancel_table", {})), (("book_table", "cancel_table"),)),
        (said("Gladly."), (("book_table", NO_CALL),)),
        (Answer(malformed=("{oops",)), (("book_table", MALFORMED),)),
        (called(("book_table", BOOKED), ("cancel_table", {})), ((NO_CALL, "cancel_table"),)),
        (called(("book_table", BOOKED), ("book_table", BOOKED)), ((NO_CALL, "book_table"),)),
    ],
)
def test_what_was_called_instead_is_a_confusion(
    answer: Answer, confusions: tuple[tuple[str, str], ...]
) -> None:
    verdict = judge(booking(), answer)

    assert (verdict.right, verdict.right_tools) == (False, False)
    assert verdict.confusions == confusions


def test_a_malformed_call_beside_a_right_one_is_wrong() -> None:
    answer = Answer(calls=called(("book_table", BOOKED)).calls, malformed=("{oops",))

    assert not judge(booking(), answer).right


TWO = [{"name": "book_table", "args": BOOKED}, {"name": "cancel_table"}]


@pytest.mark.parametrize("ordered", [False, True])
def test_several_calls_may_come_in_any_order_unless_they_are_ordered(ordered: bool) -> None:
    wanted = case({"calls": TWO, "ordered": ordered})
    there = called(("book_table", BOOKED), ("cancel_table", {}))
    back = called(("cancel_table", {}), ("book_table", BOOKED))

    assert judge(wanted, there).right
    assert judge(wanted, back).right is not ordered
    assert judge(wanted, back).right_tools


def test_an_alternative_is_as_right_and_the_nearest_one_is_confused() -> None:
    wanted = case({"calls": TWO, "alternatives": [[TWO[0]], [{"name": "cancel_table"}]]})

    assert judge(wanted, called(("book_table", BOOKED))).right
    assert judge(wanted, called(("cancel_table", {}))).right
    wrong = judge(wanted, called(("book_table", {"guests": 1, "at": "x"})))
    assert (wrong.right, wrong.right_tools, wrong.confusions) == (False, True, ())


def test_where_no_call_is_due_any_text_is_right_and_silence_is_not() -> None:
    wanted = case({"no_call": True})

    assert judge(wanted, said("Hello!")).right
    silent = judge(wanted, said(" \n"))
    assert (silent.right, silent.called_none, silent.why) == (False, True, "said nothing")
    talked = judge(wanted, called(("cancel_table", {}), text="Hello!"))
    assert (talked.right, talked.called_none, talked.right_tools) == (False, False, None)
    assert talked.confusions == ((NO_CALL, "cancel_table"),)
    assert judge(wanted, Answer(malformed=("{",))).confusions == ((NO_CALL, MALFORMED),)


def test_an_error_is_wrong_and_confuses_nothing() -> None:
    for wanted in (booking(), case({"no_call": True})):
        verdict = judge(wanted, Answer(error="[ErrorCode 12] too large"))
        assert (verdict.right, verdict.why) == (False, "[ErrorCode 12] too large")
        assert not verdict.right_tools
        assert not verdict.called_none
        assert verdict.confusions == ()


def test_every_fact_has_to_be_told_in_one_of_its_forms() -> None:
    wanted = case({"contains": ["19:00", ["table 4", "fourth table"]]})

    assert judge(wanted, said("It is the Fourth Table, at 19:00.")).right
    assert judge(wanted, said("TABLE 4 at 19:00!")).right
    missing = judge(wanted, said("Table 4 is yours."))
    assert (missing.right, missing.why) == (False, "does not say '19:00'")
    assert not judge(wanted, called(("cancel_table", {}), text="Table 4 at 19:00")).right


@pytest.mark.parametrize(
    ("text", "fact", "found"),
    [
        ("4 guests", "4", True),
        ("guests: 4.", "4", True),
        ("14 guests", "4", False),
        ("4.5 guests", "4", False),
        ("1,400 euros", "400", False),
        ("it has -4 degrees", "4", False),
        ("A-4", "4", False),
        ("order A-4 left", "a-4", True),
        ("order A-45 left", "A-4", False),
        ("due 2026-03-04", "2026-03-04", True),
        ("at 9:30", "19:30", False),
        ("at 19:30", "9:30", False),
        ("It’s fine", "it's fine", True),
        ("a  two\nline text", "two line", True),
        ("in Çeşme", "çeşme", True),
        ("49 % battery", "49 %", True),
        ("ships", "ship", False),
    ],
)
def test_facts_are_words_of_their_own_in_any_case(text: str, fact: str, found: bool) -> None:
    assert contains(text, (fact,)) is found


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Which orders do you mean?", True),
        ("Please tell me the order number.", True),
        ("Your order was cancelled.", False),
        ("How many pieces?", False),
        ("Is it on the border?", False),
    ],
)
def test_who_asks_names_what_is_missing(text: str, asks: bool) -> None:
    assert asks_for(text, ("order", "reference")) is asks
    assert judge(case({"asks_for": ["order", "reference"]}), said(text)).right is asks


@given(JSON)
def test_a_value_equals_itself_in_any_order_of_properties(value: Any) -> None:
    assert canonical(value) == canonical(_turned(value))


@given(st.integers(-(2**53), 2**53))
def test_a_whole_number_is_the_same_number_with_a_decimal_point(number: int) -> None:
    assert canonical({"x": number}) == canonical({"x": float(number)})
    assert canonical({"x": number}) != canonical({"x": str(number)})


@given(JSON, JSON)
def test_equal_texts_mean_equal_values(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == (_typed(one) == _typed(other))


@given(st.dictionaries(WORD, st.none() | st.integers(), max_size=5))
def test_an_optional_property_that_is_null_is_as_good_as_none(value: dict[str, Any]) -> None:
    schema = Schema(type="object", properties=dict.fromkeys(value, Schema(type="integer")))
    left = {name: item for name, item in value.items() if item is not None}

    assert canonical(value, schema) == canonical(left, schema)
    needed = schema.model_copy(update={"required": tuple(value)})
    assert (canonical(value, needed) == canonical(left, needed)) == (value == left)


@given(st.lists(WORD, min_size=1, max_size=6), st.data())
def test_a_word_of_a_text_is_found_and_a_part_of_a_word_is_not(
    words: list[str], data: st.DataObject
) -> None:
    word = data.draw(st.sampled_from(words))
    text = " ".join(words)

    assert contains(text, (word,))
    assert contains(text.upper(), (word.upper(),))
    assert not contains("".join(f"x{word}x" for word in words), (word,))


@given(st.permutations([("book_table", BOOKED), ("cancel_table", {}), ("cancel_table", {})]))
def test_the_order_of_calls_never_matters_without_ordered(
    calls: list[tuple[str, dict[str, Any]]],
) -> None:
    wanted = case({"calls": [*TWO, {"name": "cancel_table"}]})

    assert judge(wanted, called(*calls)).right
    assert not judge(wanted, called(*calls[:2])).right


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _turned(item) for name, item in reversed(value.items())}
    return [_turned(item) for item in value] if isinstance(value, list) else value


def _typed(value: Any) -> Any:
    """With truth values told from numbers, which Python does not."""
    if isinstance(value, dict):
        return {name: _typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return ("truth", value) if isinstance(value, bool) else value
