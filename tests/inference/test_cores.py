"""Threads follow the cores that a process may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from aicore_sim.inference import cores


@pytest.mark.parametrize(
    ("text", "expected"),
    [("200000 100000\n", 2), ("150000 100000\n", 2), ("50000 100000\n", 1), ("max 100000\n", None)],
)
def test_a_container_quota_counts_as_whole_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: int | None
) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(text)
    monkeypatch.setattr(cores, "_CGROUP_QUOTA", quota)
    if sys.platform == "linux":
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
        assert cores.usable_cores() == (expected or 64)


def test_a_machine_without_a_quota_uses_what_the_process_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "_CGROUP_QUOTA", tmp_path / "none")

    assert 1 <= cores.usable_cores() <= (os.cpu_count() or 1)
