"""The demo as users run it, with a script and with the real model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import Up, run

# Written out again, on purpose: the demo must not be its own judge.
TABLE = {
    ("com.example.shop", "fetch_order_details"): (True, 0),
    ("com.example.shop", "reset_order_cache"): (True, 0),
    ("com.example.shop", "cancel_order"): (True, 0),
    ("com.example.launcher", "fetch_order_details"): (True, 0),
    ("com.example.launcher", "reset_order_cache"): (True, 0),
    ("com.example.launcher", "cancel_order"): (False, 1000),
    ("com.example.assistant", "fetch_order_details"): (True, 0),
    ("com.example.assistant", "reset_order_cache"): (False, 1000),
    ("com.example.assistant", "cancel_order"): (False, 1000),
    ("com.example.notes", "fetch_order_details"): (False, 1000),
    ("com.example.notes", "reset_order_cache"): (False, 1000),
    ("com.example.notes", "cancel_order"): (False, 1000),
}
SHOP = "com.example.shop"
APP = f"{SHOP}=aicore_sim.cli.demo.shop:OrderTools"
AGENT = ("-m", "aicore_sim.cli.demo.order_agent")


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _check(lines: list[dict[str, Any]], order_id: str = "ORD-8492") -> None:
    """One finished run: a call, its response, partial texts, one final text with all of it."""
    events = [line for line in lines if line["event"] != "Outcome"]
    call, response = (event for event in events if event["event"].startswith("Function"))
    assert (call["event"], call["name"], call["args"]) == (
        "FunctionCall",
        "fetch_order_details",
        {"orderId": order_id},
    )
    assert (response["event"], response["id"], response["response"]) == (
        "FunctionResponse",
        call["id"],
        {"orderId": order_id, "status": "Out for delivery", "eta": "2:30 PM"},
    )
    texts = [event for event in events if event["event"] == "TextMessage"]
    partial = [event["text"] for event in texts if event["is_partial"]]
    assert partial
    assert [event for event in texts if not event["is_partial"]] == [events[-1]]
    assert events[-1]["text"] == "".join(partial)
    assert events[-1]["text"].strip()


@pytest.mark.requirement("simulator.command.demo")
def test_the_scripted_demo_shows_a_finished_run_and_twelve_right_outcomes(tmp_path: Path) -> None:
    done = run("demo", "--model", "scripted", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = _lines(done.stdout)
    _check(lines)
    seen = {
        (line["package"], line["function"]): (line["discovered"], line["code"])
        for line in lines
        if line["event"] == "Outcome"
    }
    assert seen == TABLE
    assert list(tmp_path.iterdir()) == []


def test_the_demo_prints_a_table_for_people_and_says_that_a_script_answers() -> None:
    done = run("demo", "--model", "scripted")
    assert done.returncode == 0, done.stderr
    assert "No model: a script says what the model would." in done.stdout
    assert "may call any of the shop's three functions, or none" in done.stdout
    assert "12 of 12 outcomes" in done.stdout


def test_the_demo_fails_when_the_run_is_not_finished(tmp_path: Path) -> None:
    broken = tmp_path / "script.yaml"
    broken.write_text("- text: I will not call anything.\n")
    done = run("demo", "--model", f"scripted:{broken}")
    assert done.returncode == 1
    assert "expected one call of fetch_order_details" in done.stderr


@pytest.mark.real_model
@pytest.mark.requirement("simulator.command.demo.model-makes-the-call")
def test_the_demo_passes_with_the_real_model(real_model_dir: Path) -> None:
    done = run("demo", "--json", timeout=100)
    assert done.returncode == 0, done.stderr
    lines = _lines(done.stdout)
    _check(lines)
    assert sum(line["event"] == "Outcome" for line in lines) == 12


@pytest.fixture(scope="module")
def real_device(real_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    device_dir = tmp_path_factory.mktemp("real") / "device"
    with Up(device_dir, "--app", APP):
        yield device_dir


@pytest.mark.real_model
@pytest.mark.requirement("simulator.command.demo.model-makes-the-call")
@pytest.mark.parametrize("order_id", ["A17-330", "84921", "QX7"])
def test_the_model_itself_copies_ids_of_other_shapes(real_device: Path, order_id: str) -> None:
    done = run(
        "exec",
        "--device-dir",
        str(real_device),
        "--as",
        SHOP,
        "--",
        sys.executable,
        *AGENT,
        f"Where is my order {order_id}?",
    )
    assert done.returncode == 0, done.stderr
    _check(_lines(done.stdout), order_id)
