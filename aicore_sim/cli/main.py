"""The `aicore-sim` command."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import grpc
import typer

from aicore_sim.cli.control import CommandError
from aicore_sim.cli.lazy import LazyCommand, lazy_group
from aicore_sim.cli.version import facts
from aicore_sim.device.home import DeviceInUse
from aicore_sim.device.profile import ProfileError
from aicore_sim.rpc.server import AddressError

_COMMANDS = {
    "up": LazyCommand(module="aicore_sim.cli.up", attribute="up"),
    "serve": LazyCommand(module="aicore_sim.cli.up", attribute="serve"),
    "exec": LazyCommand(
        module="aicore_sim.cli.exec_command",
        attribute="exec_",
        context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
    ),
    "chat": LazyCommand(module="aicore_sim.cli.chat.command", attribute="chat"),
    "demo": LazyCommand(module="aicore_sim.cli.demo_command", attribute="demo"),
    "status": LazyCommand(module="aicore_sim.cli.device_commands", attribute="status"),
    "wait": LazyCommand(module="aicore_sim.cli.device_commands", attribute="wait"),
    "logs": LazyCommand(module="aicore_sim.cli.device_commands", attribute="logs"),
    "env": LazyCommand(module="aicore_sim.cli.device_commands", attribute="env"),
    "stop": LazyCommand(module="aicore_sim.cli.device_commands", attribute="stop"),
    "errors": LazyCommand(module="aicore_sim.cli.errors_command", attribute="errors"),
    "pm": LazyCommand(module="aicore_sim.cli.pm", attribute="app"),
    "ctl": LazyCommand(module="aicore_sim.cli.ctl", attribute="app"),
    "scenario": LazyCommand(module="aicore_sim.cli.scenario.command", attribute="app"),
    "bench": LazyCommand(module="aicore_sim.cli.bench.command", attribute="app"),
    "eval": LazyCommand(module="aicore_sim.cli.evaluation.app", attribute="app"),
    "show-prompt": LazyCommand(module="aicore_sim.cli.show_prompt", attribute="show_prompt"),
    "models": LazyCommand(module="aicore_sim.cli.model_commands", attribute="app"),
}

app = typer.Typer(
    name="aicore-sim",
    help="A simulated Android device for on-device GenAI: AICore, AppFunctions and their rules.",
    cls=lazy_group(_COMMANDS),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and what it emulates.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="With --version: print JSON.")
    ] = False,
) -> None:
    if version:
        found = facts()
        if json_output:
            print(json.dumps(found, indent=2))
        else:
            print(f"aicore-sim {found['version']}")
            for name, emulated in found["emulates"].items():
                print(f"  emulates {name} {emulated}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise typer.BadParameter("name a command; `aicore-sim --help` lists them")


def run() -> None:
    """Entry point; turns the failures that a user can mend into one line and an exit code."""
    try:
        app()
    except CommandError as error:
        print(f"aicore-sim: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (DeviceInUse, ProfileError, AddressError) as error:
        print(f"aicore-sim: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read our output has left; nothing more can be said to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        where = f": {error.filename!r}" if error.filename and error.strerror else ""
        print(f"aicore-sim: {error.strerror or error}{where}", file=sys.stderr)
        sys.exit(1)
    except grpc.RpcError as error:
        print(f"aicore-sim: the device does not answer: {error.code().name}", file=sys.stderr)
        sys.exit(1)
