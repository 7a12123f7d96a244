"""The `aicore-sim` command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import grpc
import typer

from aicore_sim.cli import (
    ctl,
    demo_command,
    device_commands,
    errors_command,
    exec_command,
    model_commands,
    pm,
    up,
)
from aicore_sim.cli.bench import command as bench_command
from aicore_sim.cli.control import CommandError
from aicore_sim.cli.options import print_json
from aicore_sim.cli.scenario import command as scenario_command
from aicore_sim.cli.version import facts
from aicore_sim.device.home import DeviceInUse
from aicore_sim.device.profile import ProfileError
from aicore_sim.rpc.server import AddressError

app = typer.Typer(
    name="aicore-sim",
    help="A simulated Android device for on-device GenAI: AICore, AppFunctions and their rules.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("up")(up.up)
app.command("serve")(up.serve)
app.command(
    "exec", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False}
)(exec_command.exec_)
app.command("demo")(demo_command.demo)
app.command("status")(device_commands.status)
app.command("wait")(device_commands.wait)
app.command("logs")(device_commands.logs)
app.command("env")(device_commands.env)
app.command("stop")(device_commands.stop)
app.command("errors")(errors_command.errors)
app.add_typer(pm.app, name="pm")
app.add_typer(ctl.app, name="ctl")
app.add_typer(scenario_command.app, name="scenario")
app.add_typer(bench_command.app, name="bench")
app.add_typer(model_commands.app, name="models")


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
            print_json(found)
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
