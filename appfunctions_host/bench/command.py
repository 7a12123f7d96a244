"""`appfunctions-host bench`: what the host costs on this machine."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from aicore_sim.measure.figures import machine
from appfunctions_host.command_options import fail


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the calls, to try it out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Measure executions against a bare echo, callers in parallel, and many functions."""
    # What is measured is loaded only here.
    from appfunctions_host.bench.measure import BenchError, Plan, measure

    plan = Plan(pairs=100, calls_each=5, functions=1000, searches=10) if quick else Plan()
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

        try:
            report = asyncio.run(measure(Path(folder), plan, advance))
        except BenchError as error:
            fail(f"appfunctions-host: {error}")
    where = machine()
    if as_json:
        figures = [figure.facts() for figure in report.figures]
        print(json.dumps({"machine": where, "figures": figures, "notes": report.notes}, indent=2))
        return
    title = f"AppFunction host on {where['cores']} cores ({where['processor']})"
    table = Table("measured", "value", "target", "", title=title)
    for figure in report.figures:
        table.add_row(figure.name, *figure.shown())
    Console().print(table)
    for note in report.notes:
        print(f"note: {note}")
