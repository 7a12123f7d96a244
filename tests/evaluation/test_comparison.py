"""Thresholds, JUnit XML, and two runs compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.evaluation.comparison import (
    Change,
    ComparisonError,
    Paired,
    compare,
    read_answers,
)
from aicore_sim.evaluation.junit import junit_xml
from aicore_sim.evaluation.report import Cost, Result, summarise
from aicore_sim.evaluation.scoring import Answer, judge
from aicore_sim.evaluation.thresholds import (
    ThresholdError,
    check,
    check_applicable,
    parse_threshold,
)
from tests.evaluation.cases import booking, called, case, said


def results() -> list[Result]:
    """Two bookings, of which one is right, and a text that is."""
    wrong = called(("book_table", {"guests": 5, "at": "19:00"}))
    right = called(("book_table", {"guests": 4, "at": "19:00"}))
    cases = [
        booking().model_copy(update={"id": "b-1", "category": "booking"}),
        booking().model_copy(update={"id": "b-2", "category": "booking"}),
        case({"no_call": True}, id="t-1", category="talk"),
    ]
    answers = [right, wrong, said("Hello.")]
    return [
        Result(case=one, answer=answer, verdict=judge(one, answer), cost=Cost(seconds=0.25))
        for one, answer in zip(cases, answers, strict=True)
    ]


@pytest.mark.requirement("simulator.command.eval.thresholds")
@pytest.mark.parametrize(
    ("text", "met", "share"),
    [
        ("right=0.6666", True, (2, 3)),
        ("right=0.67", False, (2, 3)),
        ("booking:right=0.5", True, (1, 2)),
        ("booking:right=0.51", False, (1, 2)),
        ("booking:right_tools=1", True, (2, 2)),
        ("talk:right=1.0", True, (1, 1)),
    ],
)
def test_a_threshold_is_met_when_the_share_reaches_it(
    text: str, met: bool, share: tuple[int, int]
) -> None:
    threshold = parse_threshold(text)
    check_applicable([threshold], [result.case for result in results()])
    [checked] = check([threshold], summarise(results()))
    assert (checked.met, (checked.share.right, checked.share.total)) == (met, share)
    assert checked.shown().startswith("met: " if met else "MISSED: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("right", "is not \\[CATEGORY:\\]MEASURE=SHARE with a measure of right, right_tools"),
        ("wrong=0.1", "with a measure of"),
        ("right=90", "'90' is no share from 0 to 1"),
        ("right=nan", "is no share"),
        ("right=x", "is no share"),
        ("dance:right=0.5", "no case of the run is of that category; it has booking, talk"),
        ("talk:right_tools=0.5", "none of its cases expects a call"),
    ],
)
def test_a_threshold_that_nothing_is_measured_by_is_refused(text: str, message: str) -> None:
    with pytest.raises(ThresholdError, match=message):
        check_applicable([parse_threshold(text)], [result.case for result in results()])


@pytest.mark.requirement("simulator.command.eval.junit")
def test_junit_xml_fails_for_missed_thresholds_and_names_wrong_answers() -> None:
    report = summarise(results())
    checked = check([parse_threshold("right=0.9"), parse_threshold("talk:right=1")], report)
    root = Xml.fromstring(junit_xml("suite.yaml", [("on", results(), checked)]))
    cases, thresholds = root.findall("testsuite")
    assert cases.attrib == {
        "name": "suite.yaml, grammar on",
        "tests": "3",
        "failures": "0",
        "errors": "0",
        "skipped": "1",
        "time": "0.750",
    }
    assert [(one.get("classname"), one.get("name")) for one in cases] == [
        ("booking", "b-1"),
        ("booking", "b-2"),
        ("talk", "t-1"),
    ]
    [skipped] = cases.findall("testcase/skipped")
    assert '"guests": 5' in str(skipped.get("message"))
    assert [one.get("name") for one in thresholds] == ["right", "talk:right"]
    [failure] = thresholds.findall("testcase/failure")
    assert "right is 66.7%" in str(failure.get("message"))


def test_what_xml_cannot_hold_is_replaced() -> None:
    one = case({"no_call": True}, id="a\x00b\ufffe")
    answer = Answer(error="bad \x1b[0m < & >")
    result = Result(case=one, answer=answer, verdict=judge(one, answer))
    root = Xml.fromstring(junit_xml("s", [("on", [result], ())]))
    [found] = root.iter("testcase")
    assert found.get("name") == "a\ufffdb\ufffd"
    assert found.find("skipped") is not None


def run_file(path: Path, *right: bool, grammar: str = "on", first: int = 1) -> Path:
    lines = [
        {"grammar": grammar, "id": f"c-{number}", "category": "even" if number % 2 == 0 else "odd",
         "right": one, "why": "" if one else f"why {number}", "text": "a\u2028b\x85c"}
        for number, one in enumerate(right, first)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return path


@pytest.mark.requirement("simulator.command.eval.compare")
def test_runs_are_compared_case_by_case(tmp_path: Path) -> None:
    first = read_answers(run_file(tmp_path / "a", True, False, True, True, False))
    second = read_answers(run_file(tmp_path / "b", True, True, False, False, first=1))
    found = compare(first, second)
    assert found.total == Paired(
        name="all", total=4, first_right=3, second_right=2, better=1, worse=2
    )
    assert [(one.name, one.better, one.worse) for one in found.categories] == [
        ("odd", 0, 1),
        ("even", 1, 1),
    ]
    assert found.changes == (
        Change(id="c-2", category="even", better=True, why="why 2"),
        Change(id="c-3", category="odd", better=False, why="why 3"),
        Change(id="c-4", category="even", better=False, why="why 4"),
    )
    assert (found.only_first, found.only_second) == (("c-5",), ())
    assert not found.is_worse


@pytest.mark.parametrize(
    ("better", "worse", "p_value"),
    [(0, 0, 1.0), (1, 2, 1.0), (0, 5, 0.0625), (0, 6, 0.03125), (10, 2, 0.038574), (3, 3, 1.0)],
)
def test_the_p_value_is_that_of_mcnemars_exact_test(
    better: int, worse: int, p_value: float
) -> None:
    pair = Paired(
        name="all", total=50, first_right=20, second_right=20 + better - worse,
        better=better, worse=worse,
    )  # fmt: skip
    assert pair.p_value == pytest.approx(p_value, abs=1e-6)


def test_the_interval_is_that_of_agresti_and_min() -> None:
    # By hand: half a pair more in each cell, so 43 / 322 = 0.13354 of 322 pairs, with the
    # standard error sqrt(59.5 + 16.5 - 43 * 43 / 322) / 322 = 0.02603.
    pair = Paired(
        name="all", total=320, first_right=200, second_right=243, better=59, worse=16
    )  # fmt: skip
    low, high = pair.interval
    assert (round(low, 3), round(high, 3)) == (0.083, 0.185)


@given(total=st.integers(1, 200), data=st.data())
def test_the_interval_holds_the_difference_and_shares(total: int, data: st.DataObject) -> None:
    better = data.draw(st.integers(0, total))
    worse = data.draw(st.integers(0, total - better))
    pair = Paired(
        name="x", total=total, first_right=worse, second_right=better, better=better, worse=worse
    )
    low, high = pair.interval
    assert -1 <= low <= pair.difference <= high <= 1
    assert 0 < pair.p_value <= 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "has no answers to compare"),
        (["{"], "line 1 is no JSON"),
        (['{"id": "a"}'], "line 1 is no line of `eval --output`: category"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(ComparisonError, match=message):
        read_answers(path)


def test_runs_that_cannot_be_paired_are_refused(tmp_path: Path) -> None:
    first = run_file(tmp_path / "a", True, True)
    other = run_file(tmp_path / "b", True, first=7)
    with pytest.raises(ComparisonError, match="no case in common"):
        compare(read_answers(first), read_answers(other))
    text = first.read_text()
    first.write_text(text + text.replace('"on"', '"off"'))
    with pytest.raises(ComparisonError, match="grammar off and on; choose with --grammar"):
        read_answers(first)
    assert len(read_answers(first, "off")) == 2
    first.write_text(text + text)
    with pytest.raises(ComparisonError, match="'c-1' twice"):
        read_answers(first)
    with pytest.raises(ComparisonError, match="it has grammar on"):
        read_answers(first, "off")
    with pytest.raises(ComparisonError, match="cannot read"):
        read_answers(tmp_path / "none")


def test_a_run_is_worse_when_chance_is_no_likely_reason(tmp_path: Path) -> None:
    def runs(*changed: bool) -> Any:
        first = read_answers(run_file(tmp_path / "a", *changed))
        return compare(first, read_answers(run_file(tmp_path / "b", *(not one for one in changed))))

    assert runs(*[True] * 6).is_worse
    assert not runs(*[True] * 5).is_worse
    assert not runs(*[False] * 6).is_worse
