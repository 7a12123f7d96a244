"""`demo`: the order example with a real model, from nothing to a table of outcomes."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from aicore_sim.cli import options as shared
from aicore_sim.cli.demo import run as demo_run
from aicore_sim.cli.launcher import run_interruptible
from aicore_sim.cli.model_commands import pull_with_bars, summary
from aicore_sim.cli.supervisor import DeviceOptions
from aicore_sim.device.home import DeviceHome
from aicore_sim.models.catalogue import CATALOGUE

FAILED = 1


def demo(
    model: Annotated[
        str,
        typer.Option(
            help="A model name, the folder of an ONNX Runtime GenAI model, or `scripted`."
        ),
    ] = shared.DEFAULT_MODEL,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print events and outcomes as JSON lines.")
    ] = False,
    seed: shared.Seed = 0,
) -> None:
    """Boot a device, let the shop's agent answer, and try twelve calls from four apps."""
    if model in {known.name for known in CATALOGUE}:
        result = pull_with_bars(model)
        if not result.already_there:
            print(summary(result), file=sys.stderr)
    output: demo_run.Output = _JsonOutput() if json_output else _TextOutput()
    with (
        tempfile.TemporaryDirectory(prefix="aicore-sim-demo-") as folder,
        as_file(files("aicore_sim.cli.demo") / "script.yaml") as script,
    ):
        if model == "scripted":
            output.say("No model: a script says what the model would.")
            model = f"scripted:{script}"
        made = DeviceOptions(
            home=DeviceHome(Path(folder)),
            device=shared.DEVICE_DEFAULT,
            platform=shared.PLATFORM_DEFAULT,
            model=shared.check_model(model),
            seed=seed,
        )
        wrong = run_interruptible(demo_run.run(made, output))
    for sentence in wrong:
        print(f"aicore-sim: {sentence}", file=sys.stderr)
    if wrong:
        raise typer.Exit(FAILED)
    output.say("All right: the agent run finished and 12 of 12 outcomes are as expected.")


class _JsonOutput(demo_run.Output):
    def say(self, text: str) -> None:
        print(text, file=sys.stderr)

    def event(self, event: dict[str, Any]) -> None:
        print(json.dumps(event), flush=True)

    def outcomes(self, outcomes: list[dict[str, Any]]) -> None:
        for item in outcomes:
            print(json.dumps({"event": "Outcome", **item}), flush=True)


class _TextOutput(demo_run.Output):
    def __init__(self) -> None:
        self._console = Console()
        self._streaming = False

    def say(self, text: str) -> None:
        print(text, flush=True)

    def event(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "TextMessage" if event["is_partial"]:
                if not self._streaming:
                    print("Agent: ", end="")
                print(event["text"], end="", flush=True)
                self._streaming = True
            case "TextMessage":
                print(f"\nFinal text: {event['text']!r}")
                self._streaming = False
            case "FunctionCall":
                print(f"  FunctionCall {event['name']}({json.dumps(event['args'])})")
            case "FunctionResponse":
                print(f"  FunctionResponse {json.dumps(event['response'])}")
            case _:
                print(json.dumps(event))

    def outcomes(self, outcomes: list[dict[str, Any]]) -> None:
        table = Table(title="Who may find and run what", title_justify="left")
        for column in ("app", "function", "discovered", "execute", "as expected"):
            table.add_column(column)
        previous = ""
        for item in outcomes:
            if previous and previous != item["package"]:
                table.add_section()
            app = f"{item['package']} ({item['role']})" if previous != item["package"] else ""
            previous = item["package"]
            table.add_row(
                app,
                item["function"],
                "yes" if item["discovered"] else "no",
                "ok" if item["code"] == 0 else str(item["code"]),
                "yes" if item["ok"] else "NO",
            )
        console = self._console if self._console.is_terminal else Console(width=110)
        console.print(table)
