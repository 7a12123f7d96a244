"""Statistics of a benchmark, and the machine that it ran on."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of them do not exceed. Raises ValueError for none."""
    if not values:
        raise ValueError("no values")
    rank = max(1, math.ceil(percent / 100 * len(values)))
    return sorted(values)[rank - 1]


def median(values: Sequence[float]) -> float:
    """The middle one, or the mean of the two in the middle. Raises ValueError for none."""
    if not values:
        raise ValueError("no values")
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured value, and the target that it was measured for."""

    name: str
    value: float
    unit: str
    target: float | None = None
    """At most this; None only informs."""
    at_least: bool = False
    """Whether `target` is to be reached, not to be kept below."""

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "met": self.met}

    def shown(self) -> tuple[str, str, str]:
        """Value, target and whether it was met, for a table."""
        met = {True: "met", False: "MISSED", None: ""}[self.met]
        sign = "≥" if self.at_least else "≤"
        target = "" if self.target is None else f"{sign} {self.target:g} {self.unit}".rstrip()
        return f"{self.value:.4g} {self.unit}".rstrip(), target, met


def machine() -> dict[str, Any]:
    """What kind of machine this is. No name, no path."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }  # fmt: skip


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
