"""That the inference benchmark runs, on a model whose figures mean nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aicore_sim.cli.bench.command import app
from aicore_sim.cli.bench.inference import InferencePlan, measure
from aicore_sim.cli.bench.inference_prompts import prompts
from tests.inference.synthetic import build_synthetic_model

PLAN = InferencePlan(pairs=1, output=6, rounds=1, prompts=3, generations=6)


@pytest.mark.requirement("simulator.command.bench.inference")
async def test_the_benchmark_measures_a_real_daemon_and_the_engine_alone(tmp_path: Path) -> None:
    folder = build_synthetic_model(tmp_path / "model", {".": [" tick", " tock", " tick"]})
    seen: list[tuple[str, int, int]] = []
    with tempfile.TemporaryDirectory(prefix="aicore-") as place:
        report = await measure(
            Path(place), PLAN, model=str(folder), advance=lambda *at: seen.append(at)
        )

    figures = {figure.name: figure for figure in report.figures}
    assert figures["of 3 answers, different when warm"].value == 0
    assert figures["tokens of the warm prefix"].value > 1000
    assert figures["steps ÷ tokens of it"].value < 0.35
    assert figures["time of a token, daemon ÷ bare loop"].target == pytest.approx(1 / 0.97)
    assert all(figure.value >= 0 for figure in report.figures)
    assert seen[-1] == ("the engine alone", 1, 1)
    assert any("one after the other" in note for note in report.notes)


def test_there_are_fifty_different_prompts_and_any_part_of_them() -> None:
    assert len(set(prompts(50))) == 50
    assert len(set(prompts(7))) == 7


@pytest.mark.parametrize("model", ["scripted", "no-such-model"])
def test_a_model_that_cannot_be_measured_is_refused_by_its_name(model: str) -> None:
    result = CliRunner().invoke(app, ["inference", "--model", model])

    assert result.exit_code != 0
    assert result.exception is not None
