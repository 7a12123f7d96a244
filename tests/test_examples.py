"""The examples, run as their pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(example: str, tmp_path: Path, *options: str) -> str:
    """What the command of the example's page prints, with more options before the `--`."""
    folder = EXAMPLES / example
    [command] = re.findall(
        r"^    (aicore-sim exec .*)$", (folder / "README.md").read_text(), re.MULTILINE
    )
    before, _, after = command.partition(" -- ")
    done = subprocess.run(
        ["bash", "-c", " ".join((before, *options, "--", after))],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            "PATH": os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"])),
            "AICORE_SIM_HOME": str(tmp_path / "device"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requirement("agent.guide-port")
def test_the_guide_line_by_line(tmp_path: Path) -> None:
    assert run("seed_port", tmp_path, "--model", "scripted:answers.yaml").splitlines() == [
        "status: Executing fetch_order_details...",
        "status: Received data from fetch_order_details",
        "messages:",
        "  Where is my order ORD-8492?",
        "  Your order ORD-8492 arrives at 2:30 PM.",
        "messages:",
        "  Where is my order ORD-8492?",
        "  Your order ORD-8492 arrives at 2:30 PM.",
        "  Thank you!",
        "  You are welcome.",
        "Order 1042 is out for delivery.",
        "Order 1042 is on its way.",
        "status: Executing cancel_order...",
        "declined: cancel_order({'orderId': 'A17-330'})",
        "status: Received data from cancel_order",
        "messages:",
        "  Please cancel order A17-330.",
        "  ",
        "error: On-device AI is busy. Please try again.",
    ]


@pytest.mark.real_model
def test_the_guide_with_the_default_model(tmp_path: Path, real_model_dir: Path) -> None:
    printed = run("seed_port", tmp_path)
    assert "status: Executing fetch_order_details..." in printed
    assert "2:30 PM" in printed
    assert "error:" not in printed
