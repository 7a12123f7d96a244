"""`eval` through a real device: right and wrong answers are counted exactly."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from aicore_sim.cli.main import app
from tests.cli.processes import (
    COMMAND,
    WAIT,
    children_of,
    is_running,
    run,
    script,
    wait_until,
)
from tests.inference.models import build_model
from tests.inference.test_unconstrained import TEMPLATE

TOOLS = [
    {
        "name": "fetch_order_details",
        "description": "Fetches an order.",
        "parameters": {
            "type": "object",
            "properties": {
                "orderId": {"type": "string"},
                "lines": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["orderId"],
        },
    },
    {"name": "cancel_order"},
]


def case(number: int, category: str, said: str, expect: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"case-{number}",
        "category": category,
        "system": "You help.",
        "tools": TOOLS,
        "contents": [{"user": said}],
        "expect": expect,
    }


def fetched(**args: Any) -> dict[str, Any]:
    return {"name": "fetch_order_details", "args": args}


SUITE = [
    case(1, "calls", "Where is A-1?", {"calls": [fetched(orderId="A-1", lines=[1, 2])]}),
    case(2, "calls", "Where is B-2?", {"calls": [fetched(orderId="B-2")]}),
    case(3, "calls", "Where is C-3?", {"calls": [fetched(orderId="C-3")]}),
    case(4, "talk", "Hello", {"no_call": True}),
    case(5, "talk", "Weather?", {"no_call": True}),
    {
        **case(6, "facts", "Where is A-1?", {"contains": ["14:30", ["out", "on its way"]]}),
        "contents": [
            {"user": "Where is A-1?"},
            {"model": "I look.", "calls": [fetched(orderId="A-1")]},
            {
                "results": [
                    {"name": "fetch_order_details", "response": {"eta": "14:30", "state": "OUT"}}
                ]
            },
        ],
    },
    case(7, "asks", "Where is my order?", {"asks_for": ["order number"]}),
]
SCRIPT: list[dict[str, Any]] = [
    {"function_calls": [fetched(lines=[1, 2], orderId="A-1")], "expect": {"tool": "cancel_order"}},
    {"function_calls": [fetched(orderId="B-3")]},
    {"text": "I cancel.", "function_calls": [{"name": "cancel_order"}]},
    {"text": "Hello!", "expect": {"last_message_contains": "Hello"}},
    {"malformed_call": {"text": "{oops", "reason": "not JSON"}},
    {"text": "It is on its way and comes at 14:30.", "expect": {"last_message_contains": "14:30"}},
    {"error": {"code": "REQUEST_TOO_LARGE", "message": "Too much."}},
]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(SUITE))
    return path


def model(tmp_path: Path, steps: list[dict[str, Any]]) -> str:
    return script(tmp_path / "script.yaml", yaml.safe_dump(steps, sort_keys=False))


@pytest.mark.requirement("simulator.command.eval")
def test_right_and_wrong_answers_are_counted_exactly(tmp_path: Path, suite: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    done = run(
        *("eval", str(suite), "--model", model(tmp_path, SCRIPT), "--seed", "7"),
        *("--json", "--output", str(answers)),
    )
    assert done.returncode == 0, done.stderr
    assert "cases, grammar on" in done.stderr
    found = json.loads(done.stdout)
    assert (found["seed"], found["quota"], found["sampling"]) == (7, "off", "greedy")
    [report] = found["runs"]
    assert report["grammar"] == "on"
    assert {one["name"]: (one["right"], one["n"]) for one in report["categories"]} == {
        "calls": (1, 3),
        "talk": (1, 2),
        "facts": (1, 1),
        "asks": (0, 1),
    }
    assert {name: (one["right"], one["n"]) for name, one in report["measures"].items()} == {
        "one call, exact": (1, 3),
        "one call, right tool": (2, 3),
        "no call where none is due": (2, 4),
        "text with all its facts": (1, 1),
        "asks for what is missing": (0, 1),
    }
    assert (report["all"]["right"], report["all"]["n"], report["errors"]) == (3, 7, 1)
    assert report["confusions"] == [
        {"expected": "fetch_order_details", "called": "cancel_order", "count": 1},
        {"expected": "(no call)", "called": "(malformed call)", "count": 1},
    ]
    assert report["tokens"]["input"] > 0
    _check_answers([json.loads(line) for line in answers.read_text().splitlines()])


def _check_answers(lines: list[dict[str, Any]]) -> None:
    assert [line["id"] for line in lines] == [one["id"] for one in SUITE]
    assert [line["right"] for line in lines] == [True, False, False, True, False, True, False]
    assert lines[0]["calls"] == [fetched(lines=[1, 2], orderId="A-1")]
    assert lines[2]["text"] == "I cancel."
    assert lines[4]["malformed_calls"] == ["{oops"]
    assert "Too much." in lines[6]["error"]
    assert all(line["seconds"] >= line["first_seconds"] > 0 for line in lines)


def test_people_get_tables(tmp_path: Path, suite: Path) -> None:
    done = run(
        *("eval", str(suite), "--model", model(tmp_path, SCRIPT[3:5]), "--category", "talk"),
    )
    assert done.returncode == 0, done.stderr
    assert "talk" in done.stdout
    assert "50.0%" in done.stdout
    assert "9.5% to 90.5%" in done.stdout
    assert "(malformed call)" in done.stdout
    assert "tokens in" in done.stdout


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([{"error": {"code": "BUSY"}}], "case 'case-1': [ErrorCode 9]"),
        ([SCRIPT[0]], "case 'case-4': generation 2 has no step"),
    ],
)
def test_a_device_that_fails_ends_the_run_and_names_the_case(
    tmp_path: Path, suite: Path, steps: list[dict[str, Any]], said: str
) -> None:
    done = run("eval", str(suite), "--limit", "1", "--model", model(tmp_path, steps))

    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""


def test_a_run_that_is_ended_leaves_nothing_behind(tmp_path: Path, suite: Path) -> None:
    slow = model(tmp_path, [{"text": "Hello", "delay": 3600}])
    answers = tmp_path / "answers.jsonl"
    command = [*COMMAND, "eval", str(suite), "--model", slow, "--output", str(answers)]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process,
    ):
        wait_until(lambda: len(children_of(process.pid)) == 2, "both daemons", timeout=60.0)
        daemons = children_of(process.pid)
        process.terminate()
        assert process.wait(timeout=4 * WAIT) == 128 + signal.SIGTERM
    wait_until(lambda: not any(map(is_running, daemons)), "the end of the daemons")


@pytest.mark.requirement("simulator.command.eval.grammar")
def test_with_and_without_grammar_are_two_runs_of_the_same_cases(tmp_path: Path) -> None:
    folder = build_model(tmp_path / "model", template=TEMPLATE)
    suite = tmp_path / "suite.yaml"
    wanted = {"calls": [fetched(orderId="A-1")]}
    suite.write_text(
        yaml.safe_dump([case(1, "right", "Hi&", wanted), case(2, "broken", "Hi$", wanted)])
    )
    answers = tmp_path / "answers.jsonl"
    done = run(
        *("eval", str(suite), "--model", str(folder), "--grammar", "both", "--json"),
        *("--output", str(answers), "--max-output-tokens", "60"),
    )
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [one["grammar"] for one in runs] == ["on", "off"]
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [(line["grammar"], line["id"]) for line in lines] == [
        ("on", "case-1"),
        ("on", "case-2"),
        ("off", "case-1"),
        ("off", "case-2"),
    ]
    # Only a model that no grammar holds can write what is no call.
    assert [bool(line["malformed_calls"]) for line in lines] == [False, False, False, True]
    assert [line["right"] for line in lines[2:]] == [True, False]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-suite"], "neither a shipped suite (tools) nor a file"),
        (["none.yaml"], "cannot read the suite 'none.yaml'"),
        (["tools", "--category", "juggling"], "no case is of the category 'juggling'"),
        (["tools", "--model", "no-such-model"], "--model 'no-such-model' is neither a folder"),
        (["tools", "--model", "scripted", "--output", "no/such/folder.jsonl"], "--output"),
    ],
)
def test_bad_input_is_named_before_anything_starts(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["eval", *words])

    assert getattr(result.exception, "exit_code", None) == 2
    assert said in str(result.exception)


def test_a_model_that_is_not_pulled_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AICORE_SIM_CACHE", str(tmp_path))
    result = CliRunner().invoke(app, ["eval", "tools"])

    assert getattr(result.exception, "exit_code", None) == 1
    assert "models pull" in str(result.exception)


@pytest.mark.requirement(
    "simulator.command.eval.thresholds",
    "simulator.command.eval.junit",
    "simulator.command.eval.compare",
)
def test_a_missed_threshold_is_an_exit_code_and_a_failure_in_the_xml(
    tmp_path: Path, suite: Path
) -> None:
    def evaluate(steps: list[dict[str, Any]], name: str, *minimum: str) -> Any:
        options = [word for one in minimum for word in ("--min", one)]
        return run(
            *("eval", str(suite), "--model", model(tmp_path, steps), *options),
            *("--output", str(tmp_path / f"{name}.jsonl"), "--junit", str(tmp_path / "eval.xml")),
        )

    missed = evaluate(SCRIPT, "a", "right=0.4", "talk:right=0.9")
    assert missed.returncode == 7, missed.stderr
    assert "met: right is 42.9%" in missed.stdout
    assert "MISSED: talk:right is 50.0%" in missed.stdout
    xml = (tmp_path / "eval.xml").read_text()
    assert xml.count("<failure") == 1
    assert xml.count("<skipped") == 4
    better = [*SCRIPT[:4], {"text": "Sunny."}, *SCRIPT[5:]]
    assert evaluate(better, "b", "talk:right=0.9").returncode == 0
    files = (str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"))
    done = run("eval", "compare", *files, "--json", "--fail-if-worse")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(one["id"], one["better"]) for one in found["changes"]] == [("case-5", True)]
    assert (found["all"]["first_right"], found["all"]["second_right"]) == (3, 4)
    shown = run("eval", "compare", *files)
    assert "case-5" in shown.stdout


def test_thresholds_and_files_to_compare_are_checked_first(tmp_path: Path) -> None:
    for words, message in (
        (["tools", "--min", "right=90"], "--min 'right=90': '90' is no share from 0 to 1"),
        (["tools", "--min", "x:right=1"], "--min x:right: no case of the run"),
        (["compare", "none.jsonl", "none.jsonl"], "cannot read 'none.jsonl'"),
    ):
        result = CliRunner().invoke(app, ["eval", *words])
        assert getattr(result.exception, "exit_code", None) == 2
        assert message in str(result.exception)
