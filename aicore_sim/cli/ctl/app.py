"""The `ctl` command."""

from __future__ import annotations

import typer

from aicore_sim.cli.ctl import app_functions, availability, clock, fault, importance, quota, state

app = typer.Typer(
    help="Change a running device: time, quota, availability, importance, faults, state.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(clock.app, name="clock")
app.add_typer(quota.app, name="quota")
app.add_typer(availability.app, name="availability")
app.command("network")(availability.network)
app.command("disk")(availability.disk)
app.add_typer(availability.download_app, name="download")
app.command("importance")(importance.importance)
app.command("foreground")(importance.foreground)
app.add_typer(fault.app, name="fault")
app.add_typer(app_functions.app, name="app-functions")
app.add_typer(state.script_app, name="script")
app.command("journal")(state.journal)
app.command("reset")(state.reset)
app.command("factory-reset")(state.factory_reset)
app.command("export")(state.export)
app.command("import")(state.import_)
