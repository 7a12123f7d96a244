"""`ctl importance` and `ctl foreground`: which app is on top."""

from __future__ import annotations

from typing import Annotated

import typer

from aicore_protos import device_pb2
from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError, connect_home
from aicore_sim.cli.ctl import values

LEVELS = ("top", "visible", "foreground-service", "overlay", "background")


def importance(
    package: Annotated[str | None, typer.Argument(metavar="[PACKAGE]")] = None,
    level: Annotated[str | None, typer.Argument(help=f"One of {', '.join(LEVELS)}.")] = None,
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Give an app's process an importance, or show every app's. Only top may infer."""
    request = None
    if package is not None:
        if level is None:
            raise CommandError(
                f"LEVEL: missing for {package!r}; use one of {', '.join(LEVELS)}",
                exit_code=values.BAD_INPUT,
            )
        chosen = values.read("LEVEL", level, wire)
        request = device_pb2.SetImportanceRequest(package_name=package, importance=chosen)
    with connect_home(shared.home_of(device_dir)) as control:
        found = control.foreground() if request is None else control.set_importance(request)
    _show(found, json_output)


def foreground(
    mode: Annotated[str, typer.Argument(help="exclusive (one app on top at a time) or free.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Say whether at most one app is on top."""
    chosen = values.read("MODE", mode, values.one_of("exclusive", "free"))
    request = device_pb2.SetImportanceRequest(exclusive=chosen == "exclusive")
    with connect_home(shared.home_of(device_dir)) as control:
        _show(control.set_importance(request), json_output)


def wire(text: str) -> str:
    """Name of the member of `Importance` for a word. Raises ValueError."""
    name = values.one_of(*LEVELS)(text)
    return name.upper().replace("-", "_")


def _show(found: device_pb2.Foreground, json_output: bool) -> None:
    apps = {
        one.package_name: values.enum_name(device_pb2.Importance, one.importance).lower()
        for one in found.apps
    }
    mode = "exclusive" if found.exclusive else "free"
    if json_output:
        shared.print_json({"foreground": mode, "apps": apps})
        return
    rows: list[tuple[str, ...]] = [
        (name, level.replace("_", " ")) for name, level in sorted(apps.items())
    ]
    shared.print_rows(f"Importance (foreground {mode})", ("package", "importance"), rows)
