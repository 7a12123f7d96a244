"""docs/evaluation.md says what is so."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from typer.testing import CliRunner

from aicore_sim.cli.main import app
from aicore_sim.evaluation.loading import load_suite, parse_suite
from aicore_sim.evaluation.report import Result, summarise
from aicore_sim.evaluation.scoring import Answer, judge
from aicore_sim.evaluation.suite import Expectation

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "evaluation.md").read_text()


def test_the_suite_of_the_page_can_be_read_and_answered() -> None:
    [text] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    cases = parse_suite(text, source="page", lines=False)
    answers = [
        Answer(calls=cases[0].expect.calls),
        Answer(text="Table 12 is yours at half past seven."),
        Answer(text="For how many people?"),
        Answer(text="Hello!"),
    ]

    assert all(judge(case, answer).right for case, answer in zip(cases, answers, strict=True))


def test_the_page_names_every_key_of_expect_and_every_measure() -> None:
    table = PAGE.partition("| Key | A right answer |")[2].partition("**Arguments**")[0]
    keys = re.findall(r"^\| `(\w+)", table, re.MULTILINE)
    measured = PAGE.partition("| Measured |")[2].partition("The confusions")[0]
    cases = load_suite("tools")
    results = [Result(case=case, answer=Answer(), verdict=judge(case, Answer())) for case in cases]

    assert set(keys) == set(Expectation.model_fields)
    assert re.findall(r"^\| ([a-z][a-z ,']+?) \|", measured, re.MULTILINE) == list(
        summarise(results).measures
    )


def test_the_page_counts_the_shipped_suite() -> None:
    counts = Counter(case.category for case in load_suite("tools"))
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE, re.MULTILINE)

    assert {name: int(count) for name, count in rows} == counts
    assert f"{sum(counts.values())} cases in English" in PAGE


def test_the_page_names_every_option() -> None:
    shown = CliRunner().invoke(app, ["eval", "--help"], terminal_width=100).stdout

    options = set(re.findall(r"^  (--[a-z-]+)", shown, re.MULTILINE))
    assert options == set(re.findall(r"^\| `(--[a-z-]+)", PAGE, re.MULTILINE))
    assert "tools" in shown
