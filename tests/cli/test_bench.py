"""The benchmark's arithmetic, and that it runs; its figures are no test."""

from __future__ import annotations

import pytest

from aicore_sim.cli.bench.figures import Figure, machine, median, percentile


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


def test_a_figure_without_a_target_only_informs() -> None:
    figure = Figure(name="memory", value=123.456, unit="MB")
    assert (figure.met, figure.shown()) == (None, ("123.5 MB", "", ""))


def test_the_machine_is_told_by_its_kind() -> None:
    assert set(machine()) == {"cores", "processor", "system", "python"}
