"""`scenario list` and `scenario run`."""

from __future__ import annotations

import asyncio
import logging
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError
from aicore_sim.cli.ctl import values
from aicore_sim.cli.scenario.format import Scenario, load_scenario, parse_scenario

app = typer.Typer(
    help="Ready-made situations on a device of their own, in virtual time.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FAILED = 1
ALL = "all"


@app.command("list")
def list_(json_output: shared.Json = False) -> None:
    """List the scenarios that come with the simulator."""
    scenarios = [shipped(name) for name in shipped_names()]
    if json_output:
        shared.print_json([{"name": one.name, "title": one.title} for one in scenarios])
        return
    shared.print_rows(
        "Scenarios", ("name", "what happens"), [(one.name, one.title) for one in scenarios]
    )


@app.command()
def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE|all", help="A name of `scenario list`, or a file.")
    ],
    json_output: shared.Json = False,
) -> None:
    """Run scenarios and print pass or fail with the evidence. Exit code 1 when one fails."""
    # ONNX and the daemon are loaded only when something runs.
    from aicore_sim.cli.scenario.result import StepResult
    from aicore_sim.cli.scenario.run import run_scenario

    scenarios = chosen(name)
    # The daemon is in this process; its warnings are what the scenarios provoke.
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s %(message)s")

    def show(step: StepResult) -> None:
        mark = "ok  " if step.passed else "FAIL"
        print(f"  {mark} {step.number:>6}  {step.step}: {step.evidence}".rstrip(": "))
        for problem in step.problems:
            print(f"               {problem}")

    results = []
    for scenario in scenarios:
        if not json_output:
            print(f"{scenario.name}: {scenario.title}")
        result = asyncio.run(
            run_scenario(scenario, on_step=(lambda _: None) if json_output else show)
        )
        results.append(result)
        if not json_output:
            word = "passed" if result.passed else "FAILED"
            device_time = values.shown_duration(result.device_seconds)
            print(f"  {word} in {result.real_seconds:.2f} s ({device_time} on the device)\n")
    if json_output:
        shared.print_json([result.facts() for result in results])
    elif len(results) > 1:
        passed = sum(result.passed for result in results)
        print(f"{passed} of {len(results)} scenarios passed")
    if not all(result.passed for result in results):
        raise typer.Exit(FAILED)


def shipped_names() -> tuple[str, ...]:
    """Names of the scenarios that come with the simulator."""
    folder = files("aicore_sim.cli.scenario.shipped")
    found = (item.name for item in folder.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml")))


def shipped(name: str) -> Scenario:
    """A scenario of `shipped_names`."""
    file = files("aicore_sim.cli.scenario.shipped") / f"{name}.yaml"
    return parse_scenario(file.read_text(encoding="utf-8"), source=name, default_name=name)


def chosen(name: str) -> list[Scenario]:
    """The scenarios that a word names. Raises CommandError."""
    names = shipped_names()
    if name == ALL:
        return [shipped(one) for one in names]
    if name in names:
        return [shipped(name)]
    if Path(name).is_file() or name.endswith((".yaml", ".yml")):
        return [load_scenario(Path(name))]
    raise CommandError(
        f"NAME: {name!r} is neither a file nor one of {', '.join((*names, ALL))}",
        exit_code=values.BAD_INPUT,
    )
