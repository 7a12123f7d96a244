"""`ctl clock`: the device's time."""

from __future__ import annotations

from typing import Annotated

import typer

from aicore_protos import device_pb2
from aicore_sim.cli import options as shared
from aicore_sim.cli.control import connect_home
from aicore_sim.cli.ctl import values

app = typer.Typer(help="The device's time.", no_args_is_help=True, rich_markup_mode=None)

_Clock = device_pb2.SetClockRequest


@app.command()
def now(device_dir: shared.DeviceDir = None, json_output: shared.Json = False) -> None:
    """Show the device's time and how it flows."""
    with connect_home(shared.home_of(device_dir)) as control:
        _show(control.clock(), json_output)


@app.command()
def advance(
    duration: Annotated[str, typer.Argument(help="For example 3h, 1.5s or 2m30s.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Move a virtual or frozen clock forward, and wait until everybody who fell due is idle."""
    nanos = values.read("DURATION", duration, values.nanoseconds)
    with connect_home(shared.home_of(device_dir)) as control:
        _show(control.advance_clock(nanos), json_output)


@app.command()
def freeze(device_dir: shared.DeviceDir = None, json_output: shared.Json = False) -> None:
    """Stop the clock where it is."""
    with connect_home(shared.home_of(device_dir)) as control:
        _show(control.set_clock(_Clock(mode=_Clock.FROZEN)), json_output)


@app.command("set")
def set_(
    mode: Annotated[str, typer.Argument(help="real or virtual.")],
    time: Annotated[
        str | None,
        typer.Option(help="Advance to this time, for example 2026-03-01T08:00:00Z."),
    ] = None,
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Let time flow with the host's, or stand still until it is advanced."""
    chosen = values.read("MODE", mode, values.one_of("real", "virtual"))
    request = _Clock(mode=chosen.upper())
    if time is not None:
        request.time.CopyFrom(values.read("--time", time, values.timestamp))
    with connect_home(shared.home_of(device_dir)) as control:
        _show(control.set_clock(request), json_output)


def _show(state: device_pb2.ClockState, json_output: bool) -> None:
    mode = values.enum_name(_Clock.Mode, state.mode).lower()
    time = values.shown_time(state.now)
    if json_output:
        shared.print_json({"now": time, "mode": mode})
    else:
        shared.print_rows("Clock", ("device time", "mode"), [(time, mode)])
