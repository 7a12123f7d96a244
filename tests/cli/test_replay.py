"""`--record` and `--replay` as a user gives them."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from tests.cli.processes import Up, run, script

AGENT = """
import asyncio, sys
from aicore_client import Generation

async def main():
    model = Generation.get_client()
    for prompt in sys.argv[1:]:
        said = await model.generate_content(prompt)
        print(said.candidates[0].text)

asyncio.run(main())
"""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    model = script(tmp_path / "s.yaml", "- text: First.\n- text: Second.\n")
    done = run(
        "exec", "--as", "com.example.shop", "--model", model, "--record", str(path),
        "--", sys.executable, "-c", AGENT, "one", "two",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "First.\nSecond.\n"), done.stderr
    return path


def replay(path: Path, *prompts: str, package: str = "com.example.shop") -> tuple[int, str, str]:
    command = (sys.executable, "-c", AGENT, *prompts)
    done = run("exec", "--as", package, "--replay", str(path), "--", *command)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.requirement("simulator.replay.same-answers", "simulator.replay.left-over")
def test_exec_records_a_run_and_replays_it(recorded: Path) -> None:
    assert stat.S_IMODE(recorded.stat().st_mode) == 0o600
    assert replay(recorded, "one", "two")[:2] == (0, "First.\nSecond.\n")
    code, said, errors = replay(recorded, "one")
    assert (code, said) == (6, "First.\n")
    assert "not used: answer 2 of com.example.shop: 'two'" in errors
    code, said, errors = replay(recorded, "one", "three")
    assert (code, said) == (1, "First.\n")
    assert "ReplayDriftError" in errors
    assert '-     "text": "two"' in errors
    assert '+     "text": "three"' in errors
    assert "ReplayDriftError" in replay(recorded, "one", package="com.example.other")[2]


def test_a_device_that_stays_replays_and_shows_what_is_left(recorded: Path, tmp_path: Path) -> None:
    home = ("--device-dir", str(tmp_path / "device"))
    again = tmp_path / "again.jsonl"
    with Up(tmp_path / "device", "--replay", str(recorded), "--record", str(again)) as up:
        assert up.facts["model"] == f"replay:{recorded}"
        run("exec", *home, "--as", "com.example.shop", "--", sys.executable, "-c", AGENT, "one")
        shown = json.loads(run("ctl", "script", "show", *home, "--json").stdout)
        assert shown["remaining"] == ["answer 2 of com.example.shop: 'two'"]
        assert up.end() == 0
    # A replay that is recorded is the same run, as far as it came.
    assert again.read_bytes().splitlines()[:2] == recorded.read_bytes().splitlines()[:2]


@pytest.mark.requirement("simulator.replay.damaged")
def test_what_is_no_recorded_run_is_refused_before_anything_boots(
    recorded: Path, tmp_path: Path
) -> None:
    def refused(*options: str) -> str:
        done = run("exec", *options, "--", "true")
        assert done.returncode == 2, done.stderr
        return done.stderr

    data = recorded.read_bytes()
    recorded.write_bytes(data[:-20])
    assert "was not finished: its last line is no end" in refused("--replay", str(recorded))
    recorded.write_bytes(data)
    assert "cannot read recording" in refused("--replay", str(tmp_path / "none"))
    both = ("--replay", str(recorded), "--model", "echo")
    assert "--replay takes the place of --model; leave one out" in refused(*both)
    same = ("--replay", str(recorded), "--record", str(recorded))
    assert "--record and --replay are both" in refused(*same)
    assert recorded.read_bytes() == data
    nowhere = ("--model", "echo", "--record", str(tmp_path / "no" / "run.jsonl"))
    assert "its folder does not exist" in refused(*nowhere)


def test_a_scenario_with_a_script_and_a_replay_exclude_each_other(
    recorded: Path, tmp_path: Path
) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("device: {script: [{text: a}]}\n")
    home = ("--device-dir", str(tmp_path / "device"))
    done = run("up", *home, "--scenario", str(scenario), "--replay", str(recorded))
    assert done.returncode == 2
    assert "--scenario brings a script, so --replay has no place" in done.stderr
