"""`bench policy` and `bench inference`."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from aicore_sim.cli import options as shared
from aicore_sim.cli.bars import named_bars
from aicore_sim.cli.control import CommandError
from aicore_sim.measure.figures import Figure, machine

app = typer.Typer(help="Measurements on this machine.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def bench() -> None:
    """Measurements on this machine. A missed target is reported, and no failure."""


@app.command()
def policy(
    model: Annotated[
        str,
        typer.Option(help="Model of the long prefill; left out when it is not on this machine."),
    ] = shared.DEFAULT_MODEL,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the calls, to try it out.")
    ] = False,
    json_output: shared.Json = False,
) -> None:
    """Measure refusals, status calls beside a prefill, and a thousand calls at once."""
    # The daemon's modules are loaded only when something is measured.
    from aicore_sim.cli.bench.policy import PolicyPlan, measure

    plan = PolicyPlan(pairs=100, calls=100, rounds=2, prefills=1) if quick else PolicyPlan()
    found = _usable(model)
    with tempfile.TemporaryDirectory(prefix="aicore-sim-") as folder, named_bars() as advance:
        report = asyncio.run(measure(Path(folder), plan, model=found, advance=advance))
    where = machine()
    _show(
        f"Policy on {where['cores']} cores ({where['processor']}), quota off except for BUSY",
        report.figures,
        report.notes,
        model=found,
        json_output=json_output,
    )


@app.command()
def inference(
    model: Annotated[
        str, typer.Option(help="A model of `aicore-sim models list`, or a model folder.")
    ] = shared.DEFAULT_MODEL,
    gguf: Annotated[
        Path | None,
        typer.Option(
            help="The GGUF file that the model was made of: measures llama.cpp on it, too, where "
            "llama-cpp-python is installed."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few of each, to try it out.")] = False,
    json_output: shared.Json = False,
) -> None:
    """Measure decode speed, first tokens, warm prefixes, calls and memory of a real model."""
    from aicore_sim.cli.bench.against_llama_cpp import require_same_weights
    from aicore_sim.cli.bench.inference import InferencePlan, measure
    from aicore_sim.models.catalogue import find_model

    plan = InferencePlan()
    if quick:
        plan = InferencePlan(pairs=2, output=32, rounds=1, prompts=5, generations=20)
    found = _usable(model)
    if found is None:
        raise CommandError(
            f"--model {model!r} is not on this machine; run `aicore-sim models pull`"
        )
    if gguf is not None:
        require_same_weights(find_model(found), gguf)  # before minutes of other measurements
    with tempfile.TemporaryDirectory(prefix="aicore-sim-") as folder, named_bars() as advance:
        report = asyncio.run(measure(Path(folder), plan, model=found, advance=advance, gguf=gguf))
    where = machine()
    _show(
        f"Inference on {where['cores']} cores ({where['processor']}), greedy, quota off",
        report.figures,
        report.notes,
        model=found,
        json_output=json_output,
    )


def _show(
    title: str,
    figures: Sequence[Figure],
    notes: Sequence[str],
    *,
    model: str | None,
    json_output: bool,
) -> None:
    if json_output:
        shared.print_json(
            {
                "machine": machine(),
                "model": model,
                "quota": "off",
                "figures": [figure.facts() for figure in figures],
                "notes": list(notes),
            }
        )
        return
    shared.print_rows(
        title,
        ("measured", "value", "target", ""),
        [(figure.name, *figure.shown()) for figure in figures],
    )
    for note in notes:
        print(f"note: {note}")


def _usable(model: str) -> str | None:
    """The model when it is on this machine. Raises CommandError for a name that is none."""
    from aicore_sim.models.catalogue import find_model
    from aicore_sim.models.errors import ModelNotFound

    checked = shared.check_model(model)
    if shared.is_written(checked):
        raise CommandError(f"--model {model!r}: such a model has no prefill", exit_code=2)
    try:
        find_model(checked)
    except ModelNotFound:
        return None
    return checked
