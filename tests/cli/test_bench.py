"""The benchmark's arithmetic, and that it runs; its figures are no test."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from aicore_sim.cli.bench.policy import PolicyPlan, measure
from aicore_sim.measure.figures import Figure, machine, median, percentile


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 100)) == (
        50,
        99,
        100,
    )
    assert percentile([7.0], 99) == 7.0


def test_the_median_lies_in_the_middle() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5


@pytest.mark.parametrize("of", [median, lambda values: percentile(values, 50)])
def test_nothing_has_no_statistics(of: object) -> None:
    assert callable(of)
    with pytest.raises(ValueError, match="no values"):
        of([])


@pytest.mark.parametrize(("value", "met"), [(1.5, True), (1.51, False)])
def test_a_target_is_met_up_to_its_value(value: float, met: bool) -> None:
    figure = Figure(name="ratio", value=value, unit="", target=1.5)
    assert figure.met is met
    assert figure.facts()["met"] is met
    assert figure.shown()[2] == ("met" if met else "MISSED")


@pytest.mark.parametrize(("value", "met"), [(1.05, True), (1.04, False)])
def test_a_target_to_be_reached_is_met_from_its_value_on(value: float, met: bool) -> None:
    figure = Figure(name="ratio", value=value, unit="", target=1.05, at_least=True)
    assert figure.met is met
    assert figure.shown()[1:] == ("≥ 1.05", "met" if met else "MISSED")


def test_a_figure_without_a_target_only_informs() -> None:
    figure = Figure(name="memory", value=123.456, unit="MB")
    assert (figure.met, figure.shown()) == (None, ("123.5 MB", "", ""))


def test_the_machine_is_told_by_its_kind() -> None:
    assert set(machine()) == {"cores", "processor", "system", "python"}


@pytest.mark.requirement("simulator.command.bench.policy")
async def test_the_policy_benchmark_measures_a_real_daemon_and_finds_nothing_left_over() -> None:
    seen: list[tuple[str, int, int]] = []
    plan = PolicyPlan(pairs=5, calls=20, rounds=1)
    with tempfile.TemporaryDirectory(prefix="aicore-") as folder:
        report = await measure(
            Path(folder), plan, model=None, advance=lambda *progress: seen.append(progress)
        )
    figures = {figure.name: figure for figure in report.figures}
    assert figures["BUSY p50 ÷ echo p50"].target == 1.5
    assert figures["calls ÷ echo streams"].value > 0
    for name in ("tasks left over", "queue entries left over"):
        assert figures[name].value == 0
    assert seen[-1] == ("20 calls at once", 1, 1)
    assert ("BUSY against echo", 5, 5) in seen
    (note,) = report.notes
    assert "aicore-sim models pull" in note
