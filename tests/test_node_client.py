"""The example in Node. It needs node and `npm ci` in its folder, which `.ci/run` does; no test of
the suite uses the network, so without that it is skipped and says so."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "node_client"
REQUIRED = "AICORE_SIM_NODE_CLIENT"
"""When set, what is missing fails instead."""

[COMMAND] = re.findall(
    r"^    (aicore-sim exec .*)$", (FOLDER / "README.md").read_text(), re.MULTILINE
)


@pytest.fixture
def _installed() -> None:
    missing = None
    if shutil.which("node") is None:
        missing = "node is not installed"
    elif not (FOLDER / "node_modules").is_dir():
        missing = f"the packages are not installed: run `npm ci` in {FOLDER.name}"
    if missing is not None:
        if os.environ.get(REQUIRED):
            pytest.fail(missing)
        pytest.skip(missing)


def run(tmp_path: Path, command: str) -> tuple[int, list[dict[str, Any]]]:
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        cwd=FOLDER,
        timeout=100,
        env={
            **os.environ,
            "PATH": os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"])),
            "AICORE_SIM_HOME": str(tmp_path / "device"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.usefixtures("_installed")
@pytest.mark.requirement("simulator.protocol.node")
def test_the_order_example_runs_in_node(tmp_path: Path) -> None:
    assert run(tmp_path, COMMAND) == (
        0,
        [
            {
                "event": "FunctionCall",
                "name": "fetch_order_details",
                "args": {"orderId": "ORD-8492"},
            },
            {
                "event": "FunctionResponse",
                "name": "fetch_order_details",
                "response": {"result": "Out for delivery, 2:30 PM"},
            },
            {
                "event": "TextMessage",
                "text": "Your order ORD-8492 is out for delivery and arrives at 2:30 PM.",
            },
        ],
    )


@pytest.mark.usefixtures("_installed")
@pytest.mark.requirement("simulator.protocol.node")
def test_node_gets_the_typed_error_of_a_failed_call(tmp_path: Path) -> None:
    busy = tmp_path / "busy.yaml"
    busy.write_text("- error: {code: BUSY}\n")
    code, [event] = run(tmp_path, COMMAND.replace("answers.yaml", str(busy)))
    assert (code, event["event"], event["kind"], event["code"]) == (1, "Error", "gen_ai", 9)
    wrong = COMMAND.replace("scripted:answers.yaml", "scripted").replace(
        "-- node", "-- env AICORE_SIM_TOKEN=wrong node"
    )
    code, [event] = run(tmp_path, wrong)
    assert (event["kind"], event["code"]) == ("simulator", "UNAUTHENTICATED")


@pytest.mark.usefixtures("_installed")
def test_a_function_that_fails_is_told_to_the_model(tmp_path: Path) -> None:
    script = tmp_path / "wrong.yaml"
    script.write_text(
        "- function_calls: [{name: fetch_order_details, args: {orderId: A-1}}]\n"
        "- function_calls: [{name: steal}]\n"
        "- text: I cannot find it.\n"
    )
    code, events = run(tmp_path, COMMAND.replace("answers.yaml", str(script)))
    assert code == 0
    responses = [one["response"] for one in events if one["event"] == "FunctionResponse"]
    assert "there is no order A-1" in responses[0]["error"]
    assert responses[1] == {"error": "there is no function steal"}


def test_the_versions_of_the_packages_are_pinned() -> None:
    wanted = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    locked = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    for name, version in wanted.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert locked[f"node_modules/{name}"]["version"] == version
    assert all("resolved" not in one for one in locked.values())
