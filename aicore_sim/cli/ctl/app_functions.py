"""`ctl app-functions`: what decides about app functions for the whole device."""

from __future__ import annotations

from typing import Annotated

import typer

from aicore_sim.cli import options as shared
from aicore_sim.cli.control import connect_home
from aicore_sim.cli.ctl import values
from aicore_sim.device.app_functions_policy import AppFunctionsPolicy

app = typer.Typer(
    help="What decides about app functions.", no_args_is_help=True, rich_markup_mode=None
)

_WORDS = tuple(one.value.replace("_", "-") for one in AppFunctionsPolicy)


@app.callback()
def app_functions() -> None:
    """What decides about app functions."""


@app.command()
def policy(
    value: Annotated[
        str | None, typer.Argument(metavar="[POLICY]", help=f"One of {', '.join(_WORDS)}.")
    ] = None,
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Show or set the enterprise policy; disabled makes every execution 2002."""
    chosen = ""
    if value is not None:
        chosen = values.read("POLICY", value, values.one_of(*_WORDS)).replace("-", "_")
    with connect_home(shared.home_of(device_dir)) as control:
        found = control.app_functions_policy(chosen)
    if json_output:
        shared.print_json({"policy": found})
    else:
        print(found.replace("_", "-"))
