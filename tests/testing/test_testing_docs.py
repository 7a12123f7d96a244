"""docs/testing.md says what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text()


@pytest.mark.parametrize("environment", ["in-process", "virtual-time"])
def test_the_test_of_the_page_passes(tmp_path: Path, environment: str) -> None:
    [text] = re.findall(r"^```python\n(import pytest\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "test_page.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--device-env", environment],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "1 passed" in done.stdout, done.stdout


def test_a_retry_without_back_off_fails_the_test_of_the_page(tmp_path: Path) -> None:
    [text] = re.findall(r"^```python\n(import pytest\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    without = text.replace("    device.advance_or_wait(0.2)\n", "")
    assert without != text
    (tmp_path / "test_page.py").write_text(without)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "1 failed" in done.stdout
    assert "busy-retried-at-once" in done.stdout
