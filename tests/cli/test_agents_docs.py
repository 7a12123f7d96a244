"""The example of docs/agents.md, run as the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"


@pytest.mark.requirement("agent.tool.confirmation-ready-made", "simulator.client.retry-policy")
def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    text = PAGE.read_text()
    [source] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [script] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    [command] = re.findall(r"^    (aicore-sim exec .*)$", text, re.MULTILINE)
    (tmp_path / "agent.py").write_text(source)
    (tmp_path / "orders.yaml").write_text(script)
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))

    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "AICORE_SIM_HOME": str(tmp_path / "device")},
        timeout=100,
    )

    assert done.returncode == 0, done.stderr
    first, second, usage = done.stdout.splitlines()
    assert (first, second) == ("A-1 is cancelled.", "A-2 has been shipped already.")
    assert usage.startswith("Usage(input_tokens=")
