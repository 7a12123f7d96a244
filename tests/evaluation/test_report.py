"""Shares, intervals, confusions and medians of a run."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.evaluation.report import Confusion, Cost, Result, Share, summarise, wilson
from aicore_sim.evaluation.scoring import Answer, judge
from aicore_sim.evaluation.suite import Case
from tests.evaluation.cases import BOOKED, TOOLS, booking, called, case, said

SHARES = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def result(of: Case, answer: Answer, *, seconds: float = 1.0, tokens: int = 10) -> Result:
    cost = Cost(input_tokens=tokens, output_tokens=2, first_seconds=seconds / 2, seconds=seconds)
    return Result(case=of, answer=answer, verdict=judge(of, answer), cost=cost)


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    # Computed by hand from the formula, z = 1.96.
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (9, 10, 0.5958, 0.9821), (50, 100, 0.404, 0.596)],
)
def test_intervals_are_wilsons(right: int, total: int, low: float, high: float) -> None:
    assert wilson(right, total) == pytest.approx((low, high), abs=5e-4)


@given(SHARES)
def test_an_interval_holds_its_share_and_lies_between_none_and_all(share: tuple[int, int]) -> None:
    right, total = share
    low, high = wilson(right, total)

    assert 0.0 <= low <= right / total <= high <= 1.0
    mirrored = wilson(total - right, total)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-9)


@given(SHARES)
def test_more_of_the_same_narrows_the_interval(share: tuple[int, int]) -> None:
    right, total = share
    low, high = wilson(right, total)
    low4, high4 = wilson(4 * right, 4 * total)

    assert high4 - low4 < high - low


@pytest.mark.parametrize(("right", "total"), [(0, 0), (3, 2), (-1, 2)])
def test_what_is_no_share_is_refused(right: int, total: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        wilson(right, total)


def test_a_share_of_nothing_has_no_figures() -> None:
    assert Share(right=0, total=0).facts() == {"right": 0, "n": 0}
    assert Share(right=0, total=0).shown() == ("", "")


def test_categories_measures_and_costs_are_counted() -> None:
    talk = case({"no_call": True}, id="talk", category="talk")
    facts = case({"contains": ["19:00"]}, id="facts", category="talk")
    asking = case({"asks_for": ["time"]}, id="asks", category="asking")
    two = case(
        {"calls": [{"name": "cancel_table"}, {"name": "cancel_table"}]}, id="two", category="calls"
    )
    report = summarise(
        [
            result(booking(), called(("book_table", BOOKED)), seconds=1.0, tokens=10),
            result(booking(), called(("book_table", {"guests": 1, "at": ""})), seconds=5.0),
            result(booking(), called(("cancel_table", {})), seconds=3.0, tokens=40),
            result(two, called(("cancel_table", {}), ("cancel_table", {}))),
            result(talk, said("Hello!")),
            result(talk, called(("cancel_table", {}))),
            result(facts, said("At seven.")),
            result(asking, said("At what time?")),
            result(asking, Answer(error="[ErrorCode 12]", cut_off=True)),
        ]
    )

    counts = {one.name: (one.right.right, one.right.total) for one in report.categories}
    assert counts == {"some": (1, 3), "calls": (1, 1), "talk": (1, 3), "asking": (1, 2)}
    assert {name: (one.right, one.total) for name, one in report.measures.items()} == {
        "one call, exact": (1, 3),
        "one call, right tool": (2, 3),
        "several calls, exact": (1, 1),
        "no call where none is due": (3, 5),
        "text with all its facts": (0, 1),
        "asks for what is missing": (1, 2),
    }
    some = report.categories[0]
    assert (some.right_tools.right, some.right_tools.total) == (2, 3)
    assert (some.seconds, some.first_seconds, some.input_tokens) == (3.0, 1.5, 10)
    assert report.tokens == {"input": 120, "cached_input": 0, "output": 18}
    assert (report.errors, report.cut_off) == (1, 1)
    assert (report.total.right.right, report.total.right.total) == (4, 9)


def test_names_that_differ_in_style_are_one_confusion_and_the_most_frequent_comes_first() -> None:
    def styled(name: str) -> Case:
        return case(
            {"calls": [{"name": name}]},
            tools=[{"name": name}, {"name": "cancelTable"}, {"name": "cancel_table"}],
        )

    report = summarise(
        [
            result(styled("openDoor"), said("No.")),
            result(styled("openDoor"), called(("cancel_table", {}))),
            result(styled("open_door"), called(("cancelTable", {}))),
        ]
    )

    assert report.confusions == (
        Confusion(expected="openDoor", called="cancel_table", count=2),
        Confusion(expected="openDoor", called="(no call)", count=1),
    )


def test_everything_can_be_written_as_json() -> None:
    one = result(booking(), called(("book_table", BOOKED)))

    facts = json.loads(json.dumps(summarise([one]).facts()))
    assert facts["all"]["n"] == 1
    assert math.isclose(facts["measures"]["one call, exact"]["low"], 0.2065, abs_tol=1e-4)
    written = json.loads(json.dumps(one.facts()))
    assert written["calls"] == [{"name": "book_table", "args": BOOKED}]
    assert (written["id"], written["right"], written["why"]) == ("one", True, "")
    assert len(TOOLS) == 2
