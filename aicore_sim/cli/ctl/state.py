"""`ctl script`, `journal`, `reset`, `factory-reset`, `export` and `import`."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from aicore_protos import device_pb2
from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError, connect_home
from aicore_sim.cli.ctl import values

script_app = typer.Typer(
    help="What the scripted model answers.", no_args_is_help=True, rich_markup_mode=None
)

_SCOPES = ("conversations", "quota", "faults", "journal", "all")


@script_app.command("load")
def load_script(
    file: Annotated[
        Path, typer.Argument(help="A script: a YAML list of steps, or a table with rules.")
    ],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Replace the script of the scripted model."""
    text = _read(file).decode(errors="replace")
    with connect_home(shared.home_of(device_dir)) as control:
        _show_script(control.load_script(text), json_output)


@script_app.command("show")
def show_script(device_dir: shared.DeviceDir = None, json_output: shared.Json = False) -> None:
    """Show how far the script has come, and the steps that are left."""
    with connect_home(shared.home_of(device_dir)) as control:
        _show_script(control.script(), json_output)


def journal(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")
    ] = False,
    package: Annotated[str, typer.Option(help="Only this app's calls.")] = "",
    rpc: Annotated[str, typer.Option(help="Only this call, for example GenerateContent.")] = "",
    last: Annotated[int, typer.Option(help="Only the last so many; 0 means all.")] = 0,
    device_dir: shared.DeviceDir = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --follow one object per line.")
    ] = False,
) -> None:
    """Show what the device decided, call by call. It never holds what was said."""
    if last < 0:
        raise CommandError(f"--last: {last} is negative", exit_code=values.BAD_INPUT)
    request = device_pb2.ReadJournalRequest(follow=follow, package_name=package, rpc=rpc, last=last)
    with connect_home(shared.home_of(device_dir)) as control:
        entries = control.journal(request)
        if follow:
            with contextlib.suppress(KeyboardInterrupt), contextlib.closing(entries):  # type: ignore[type-var]
                for entry in entries:
                    found = journal_facts(entry)
                    print(json.dumps(found) if json_output else _line(found), flush=True)
            return
        rows = [journal_facts(entry) for entry in entries]
    if json_output:
        shared.print_json(rows)
        return
    shared.print_rows(
        "Journal",
        ("id", "device time", "package", "call", "decision", "code", "figures"),
        [
            (
                str(row["id"]),
                row["time"],
                row["package"],
                row["rpc"],
                row["decision"],
                str(row["error_code"] or ""),
                _shown_figures(row["figures"]),
            )
            for row in rows
        ],
    )


def reset(
    scopes: Annotated[list[str], typer.Argument(help=f"One or more of {', '.join(_SCOPES)}.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Reset parts of the device's state; packages stay."""
    chosen = [values.read("SCOPE", scope, values.one_of(*_SCOPES)) for scope in scopes]
    with connect_home(shared.home_of(device_dir)) as control:
        control.reset([scope.upper() for scope in chosen])
    if json_output:
        shared.print_json({"reset": chosen})
    else:
        print(f"reset {', '.join(chosen)}")


def factory_reset(device_dir: shared.DeviceDir = None, json_output: shared.Json = False) -> None:
    """Make it a new phone: packages, grants, quota and availability are gone, the clock goes on."""
    with connect_home(shared.home_of(device_dir)) as control:
        control.reset(["FACTORY"])
    if json_output:
        shared.print_json({"reset": ["factory"]})
    else:
        print("the device is as new")


def export(
    file: Annotated[Path, typer.Argument(help="Where to write; replaced when it is there.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Write the device's state to a file. It holds hashes of tokens, and no conversation."""
    with connect_home(shared.home_of(device_dir)) as control:
        state = control.export_state()
    try:
        with open(file, "wb", opener=_private) as out:
            out.write(state)
    except OSError as error:
        raise CommandError(f"FILE: cannot write {str(file)!r}: {error.strerror}") from None
    if json_output:
        shared.print_json({"file": str(file), "bytes": len(state)})
    else:
        print(f"{file}: {values.shown_size(len(state))}")


def import_(
    file: Annotated[Path, typer.Argument(help="What `ctl export` wrote.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Put the device into an exported state, or leave it as it is when the file is damaged."""
    state = _read(file)
    with connect_home(shared.home_of(device_dir)) as control:
        found = control.import_state(state)
    packages = sorted(found.packages)
    now = values.shown_time(found.clock.now)
    if json_output:
        shared.print_json({"packages": packages, "now": now})
    else:
        print(f"imported {len(packages)} packages; it is {now} on the device")


def journal_facts(entry: device_pb2.JournalEntry) -> dict[str, Any]:
    """An entry for JSON; times in seconds of device time."""
    return {
        "id": entry.id,
        "time": values.shown_time(entry.time),
        "rpc": entry.rpc,
        "package": entry.package_name,
        "decision": entry.decision,
        "error_code": entry.error_code,
        "figures": {name: entry.figures[name] for name in sorted(entry.figures)},
    }


def _line(row: dict[str, Any]) -> str:
    code = f" code={row['error_code']}" if row["error_code"] else ""
    figures = _shown_figures(row["figures"])
    return f"{row['time']} {row['package']} {row['rpc']} {row['decision']}{code} {figures}".rstrip()


def _shown_figures(figures: dict[str, float]) -> str:
    return " ".join(f"{name}={round(value, 3):g}" for name, value in figures.items())


def _show_script(state: device_pb2.ScriptState, json_output: bool) -> None:
    if json_output:
        shared.print_json(
            {
                "steps": state.steps,
                "consumed": state.consumed,
                "remaining": list(state.remaining),
            }
        )
        return
    title = f"Script: {state.consumed} of {state.steps} steps taken"
    shared.print_rows(title, ("left",), [(step,) for step in state.remaining])


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CommandError(
            f"FILE: cannot read {str(file)!r}: {error.strerror}", exit_code=values.BAD_INPUT
        ) from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
