"""That the benchmark runs and gives every figure; the figures themselves are no test."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from appfunctions_host.bench.measure import LOCAL_RATIO, REMOTE_RATIO, SEARCH_RATIO, Plan, measure


@pytest.mark.requirement("shell.bench")
async def test_the_benchmark_measures_all_that_it_promises() -> None:
    plan = Plan(pairs=3, callers=4, calls_each=2, functions=300, searches=2)
    seen: dict[str, tuple[int, int]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        report = await measure(
            Path(folder), plan, lambda name, done, total: seen.update({name: (done, total)})
        )
    figures = {figure.name: figure for figure in report.figures}
    assert len(figures) == len(report.figures)
    targets = {name: one.target for name, one in figures.items() if one.target is not None}
    assert targets == {
        "execute in the host ÷ echo": LOCAL_RATIO,
        "execute in a provider ÷ echo": REMOTE_RATIO,
        "many ÷ few": SEARCH_RATIO,
    }
    assert {"execute in the host p99", "execute in a provider p99", "4 callers in parallel"} < set(
        figures
    )
    assert all(one.value > 0 for one in figures.values() if one.name != "memory per function")
    assert all(done == total for done, total in seen.values()), seen
