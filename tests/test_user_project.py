"""The example of a user's project: its tests pass, and each fails when its behaviour is broken."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "examples" / "user_project"
BREAKS = {
    "test_busy_is_tried_again_after_a_pause": ("PAUSE_SECONDS = 0.2", "PAUSE_SECONDS = 0.0"),
    "test_in_the_background_the_user_is_told_to_open_the_app": (
        "return OPEN_THE_APP",
        'return "Something went wrong."',
    ),
    "test_an_assistant_may_not_cancel_orders": ("LEVEL_SELF", "LEVEL_ANDROID_TRUSTED"),
    "test_nothing_is_cancelled_when_the_user_says_no": (
        "return False\n\n\nasync def run_agent",
        "return True\n\n\nasync def run_agent",
    ),
    "test_a_missing_model_is_downloaded": (
        "if status == FeatureStatus.DOWNLOADABLE",
        "if status == FeatureStatus.DOWNLOADING",
    ),
}


def _outcomes(project: Path) -> dict[str, str]:
    """Each test of the project and how it went, in a pytest of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:asyncio"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    found = dict(re.findall(r"::(\w+) (PASSED|FAILED|ERROR)", done.stdout))
    assert found, done.stdout + done.stderr
    return found


def test_the_tests_of_the_project_pass() -> None:
    assert _outcomes(PROJECT) == dict.fromkeys(BREAKS, "PASSED")


def test_each_test_fails_when_the_app_is_broken(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project)
    module = project / "order_assistant.py"
    text = module.read_text()
    for before, after in BREAKS.values():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    module.write_text(text)
    outcomes = _outcomes(project)
    assert outcomes.keys() == BREAKS.keys()
    assert "PASSED" not in outcomes.values(), outcomes
