"""`bench policy`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError
from aicore_sim.measure.figures import machine

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
    console = Console(stderr=True)
    with (
        tempfile.TemporaryDirectory(prefix="aicore-sim-") as folder,
        Progress(
            TextColumn("{task.description:<26}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        ) as bars,
    ):
        tasks = {}

        def advance(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
                if not console.is_terminal:
                    console.print(f"{name} …")
            bars.update(tasks[name], completed=done)

        found = _usable(model)
        report = asyncio.run(measure(Path(folder), plan, model=found, advance=advance))
    where = machine()
    if json_output:
        shared.print_json(
            {
                "machine": where,
                "model": found,
                "quota": "off",
                "figures": [figure.facts() for figure in report.figures],
                "notes": report.notes,
            }
        )
        return
    shared.print_rows(
        f"Policy on {where['cores']} cores ({where['processor']}), quota off except for BUSY",
        ("measured", "value", "target", ""),
        [(figure.name, *figure.shown()) for figure in report.figures],
    )
    for note in report.notes:
        print(f"note: {note}")


def _usable(model: str) -> str | None:
    """The model when it is on this machine. Raises CommandError for a name that is none."""
    from aicore_sim.models.catalogue import find_model
    from aicore_sim.models.errors import ModelNotFound

    checked = shared.check_model(model)
    if checked.startswith("scripted"):
        raise CommandError("--model: a scripted model has no prefill", exit_code=2)
    try:
        find_model(checked)
    except ModelNotFound:
        return None
    return checked
