"""How many processor cores this process may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """Cores by affinity and container quota; a model slows down with more threads than that."""
    cores = os.cpu_count() or 1
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
        cores = min(cores, _quota(_CGROUP_QUOTA) or cores)
    return max(cores, 1)


def _quota(path: Path) -> int | None:
    """Whole cores of a cgroup's quota, rounded up; None without one."""
    try:
        quota, period = path.read_text().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):
        return None
