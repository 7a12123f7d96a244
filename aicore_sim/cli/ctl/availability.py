"""`ctl availability`, `network`, `disk` and `download`: the feature's way to the device."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aicore_protos import aicore_pb2, device_pb2
from aicore_sim.cli import options as shared
from aicore_sim.cli.control import connect_home
from aicore_sim.cli.ctl import values

app = typer.Typer(
    help="FeatureStatus of what the device serves.", no_args_is_help=True, rich_markup_mode=None
)
download_app = typer.Typer(help="Simulated downloads.", no_args_is_help=True, rich_markup_mode=None)

_Progression = device_pb2.DownloadProgression
_POLLS_LIMIT = 10_000


@app.command()
def show(device_dir: shared.DeviceDir = None, json_output: shared.Json = False) -> None:
    """Show every feature of the device, the network, the disk, and how downloads move."""
    with connect_home(shared.home_of(device_dir)) as control:
        _show(control.availability(), json_output)


@app.command("set")
def set_(
    status: Annotated[
        str, typer.Argument(help="UNAVAILABLE, DOWNLOADABLE, DOWNLOADING or AVAILABLE.")
    ],
    feature: Annotated[
        int | None, typer.Option(help="Feature id, for example 636 (default: every feature).")
    ] = None,
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Put features into a state. DOWNLOADING begins a download that moves only by hand."""
    request = device_pb2.SetAvailabilityRequest(
        status=values.read("STATUS", status, values.status).name, feature_id=feature
    )
    _set(request, shared.home_of(device_dir), json_output)


def network(
    state: Annotated[str, typer.Argument(help="on or off.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Switch the network. Without it downloads fail; what is there works on."""
    chosen = values.read("STATE", state, values.one_of("on", "off"))
    request = device_pb2.SetAvailabilityRequest(network_available=chosen == "on")
    _set(request, shared.home_of(device_dir), json_output)


def disk(
    state: Annotated[str, typer.Argument(help="full or ok.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Fill or free the disk. While it is full downloads fail with 501."""
    chosen = values.read("STATE", state, values.one_of("full", "ok"))
    request = device_pb2.SetAvailabilityRequest(disk_full=chosen == "full")
    _set(request, shared.home_of(device_dir), json_output)


@download_app.command("progression")
def progression_(
    rule: Annotated[str, typer.Argument(help="immediate, manual, seconds=20 or polls=3.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Say how later simulated downloads move."""
    request = device_pb2.ControlDownloadRequest(progression=values.read("RULE", rule, progression))
    _control(request, shared.home_of(device_dir), json_output)


@download_app.command()
def advance(
    by: Annotated[str, typer.Argument(metavar="SIZE", help="For example 500MB or 1.5GB.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Move running downloads on; they complete when everything is there."""
    request = device_pb2.ControlDownloadRequest(advance_bytes=values.read("SIZE", by, values.size))
    _control(request, shared.home_of(device_dir), json_output)


@download_app.command()
def complete(device_dir: shared.DeviceDir = None, json_output: shared.Json = False) -> None:
    """Let running downloads succeed."""
    request = device_pb2.ControlDownloadRequest(complete=True)
    _control(request, shared.home_of(device_dir), json_output)


@download_app.command(context_settings={"ignore_unknown_options": True})
def fail(
    code: Annotated[
        str, typer.Argument(help="A code or its name, for example NOT_ENOUGH_DISK_SPACE.")
    ] = "UNKNOWN",
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Let running downloads fail."""
    request = device_pb2.ControlDownloadRequest(
        fail_with=values.read("CODE", code, values.error_code)
    )
    _control(request, shared.home_of(device_dir), json_output)


def progression(text: str) -> device_pb2.DownloadProgression:
    """`immediate`, `manual`, `seconds=20` or `polls=3`. Raises ValueError."""
    name, equals, value = text.lower().partition("=")
    if name in ("immediate", "manual") and not equals:
        return _Progression(rule=name.upper())
    if name == "seconds" and value:
        try:
            length = values.seconds(value if value[-1].isalpha() else f"{value}s")
        except ValueError as error:
            raise ValueError(f"{text!r}: {error}") from None
        if length > 0:
            return _Progression(rule=_Progression.SECONDS, seconds=length)
        raise ValueError(f"{text!r}: a download takes more than no time; use immediate")
    if name == "polls" and value.isdecimal() and 1 <= int(value) <= _POLLS_LIMIT:
        return _Progression(rule=_Progression.POLLS, polls=int(value))
    raise ValueError(f"{text!r} is not one of immediate, manual, seconds=20, polls=3")


def facts(found: device_pb2.Availability) -> dict[str, Any]:
    """Availability for JSON."""
    return {
        "features": [
            {
                "feature_id": feature.feature_id,
                "release_stage": values.enum_name(
                    aicore_pb2.ModelReleaseStage, feature.model.release_stage
                ),
                "preference": values.enum_name(
                    aicore_pb2.ModelPreference, feature.model.preference
                ),
                "base_model": feature.base_model_name,
                "status": values.enum_name(aicore_pb2.FeatureStatus, feature.status),
                "downloaded_bytes": feature.downloaded_bytes,
                "total_bytes": feature.total_bytes,
            }
            for feature in found.features
        ],
        "network": "on" if found.network_available else "off",
        "disk": "full" if found.disk_full else "ok",
        "progression": _shown_progression(found.progression),
    }


def _shown_progression(found: device_pb2.DownloadProgression) -> str:
    match found.rule:
        case _Progression.SECONDS:
            return f"seconds={found.seconds:g}"
        case _Progression.POLLS:
            return f"polls={found.polls}"
        case _:
            return values.enum_name(_Progression.Rule, found.rule).lower()


def _show(found: device_pb2.Availability, json_output: bool) -> None:
    made = facts(found)
    if json_output:
        shared.print_json(made)
        return
    rows: list[tuple[str, ...]] = []
    for feature in made["features"]:
        progress = ""
        if feature["total_bytes"]:
            have, whole = feature["downloaded_bytes"], feature["total_bytes"]
            progress = f"{values.shown_size(have)} of {values.shown_size(whole)}"
        rows.append(
            (
                str(feature["feature_id"]),
                f"{feature['release_stage']} {feature['preference']}",
                feature["base_model"],
                feature["status"],
                progress,
            )
        )
    title = (
        f"Features (network {made['network']}, disk {made['disk']}, "
        f"downloads {made['progression']})"
    )
    shared.print_rows(title, ("feature", "selection", "model", "status", "download"), rows)


def _set(request: device_pb2.SetAvailabilityRequest, home: Any, json_output: bool) -> None:
    with connect_home(home) as control:
        _show(control.set_availability(request), json_output)


def _control(request: device_pb2.ControlDownloadRequest, home: Any, json_output: bool) -> None:
    with connect_home(home) as control:
        _show(control.control_download(request), json_output)
