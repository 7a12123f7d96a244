"""`ctl quota`: what apps may still infer."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aicore_protos import device_pb2
from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError, Control, connect_home
from aicore_sim.cli.ctl import values

app = typer.Typer(
    help="What apps may still infer, in device time.", no_args_is_help=True, rich_markup_mode=None
)

_Package = Annotated[str | None, typer.Argument(metavar="[PACKAGE]", help="Default: every app.")]


@app.command()
def show(
    package: _Package = None, device_dir: shared.DeviceDir = None, json_output: shared.Json = False
) -> None:
    """Show the short-term allowance and the battery budgets."""
    with connect_home(shared.home_of(device_dir)) as control:
        _show(_quotas(control, package), json_output)


@app.command("set")
def set_(
    model: Annotated[str, typer.Argument(help="A quota model of the profile, or off.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Put another quota model in force; every app starts afresh in it."""
    with connect_home(shared.home_of(device_dir)) as control:
        known = control.quota().models
        if known and model not in known:
            raise CommandError(
                f"MODEL: {model!r} is no quota model of this device; use one of {', '.join(known)}",
                exit_code=values.BAD_INPUT,
            )
        control.set_quota(device_pb2.SetQuotaRequest(model=model))
        _show(_quotas(control, None), json_output)


@app.command()
def charge(
    package: Annotated[str, typer.Argument(metavar="PACKAGE")],
    duration: Annotated[str, typer.Argument(help="Device time, for example 90s or 2h.")],
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Charge an app as if an inference of this length had just ended."""
    used = values.read("DURATION", duration, values.seconds)
    request = device_pb2.SetQuotaRequest(package_name=package, charge_seconds=used)
    with connect_home(shared.home_of(device_dir)) as control:
        _show([control.set_quota(request)], json_output)


@app.command()
def reset(
    package: _Package = None, device_dir: shared.DeviceDir = None, json_output: shared.Json = False
) -> None:
    """Give one app, or all apps and the device, a fresh start."""
    with connect_home(shared.home_of(device_dir)) as control:
        control.reset_quota(package or "")
        _show(_quotas(control, package), json_output)


def _quotas(control: Control, package: str | None) -> list[device_pb2.Quota]:
    names = [package] if package else [one.package_name for one in control.packages()]
    return [control.quota(name) for name in names] or [control.quota()]


def _show(quotas: list[device_pb2.Quota], json_output: bool) -> None:
    if json_output:
        shared.print_json([facts(quota) for quota in quotas])
        return
    shared.print_rows(
        f"Quota (model {quotas[0].model})",
        ("package", "left", "next call", "app's battery", "device's battery"),
        [
            (
                quota.package_name,
                _left(quota),
                _wait(quota),
                _budget(quota, "app_battery"),
                _budget(quota, "device_battery"),
            )
            for quota in quotas
        ],
    )


def facts(quota: device_pb2.Quota) -> dict[str, Any]:
    """A quota for JSON; times in seconds."""
    return {
        "package": quota.package_name,
        "model": quota.model,
        "models": list(quota.models),
        "available_seconds": _optional(quota, "available_seconds"),
        "available_calls": _optional(quota, "available_calls"),
        "retry_delay": quota.retry_delay.ToNanoseconds() / values.NANOS,
        "app_battery": _battery_facts(quota, "app_battery"),
        "device_battery": _battery_facts(quota, "device_battery"),
    }


def _battery_facts(quota: device_pb2.Quota, field: Any) -> dict[str, Any] | None:
    if not quota.HasField(field):
        return None
    budget: device_pb2.BatteryBudget = getattr(quota, field)
    return {
        "started": values.shown_time(budget.started) if budget.HasField("started") else None,
        "ends": values.shown_time(budget.ends) if budget.HasField("ends") else None,
        "calls": budget.calls,
        "device_seconds": budget.device_seconds,
        "calls_limit": _optional(budget, "calls_limit"),
        "device_seconds_limit": _optional(budget, "device_seconds_limit"),
    }


def _optional(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def _left(quota: device_pb2.Quota) -> str:
    if quota.HasField("available_seconds"):
        return values.shown_duration(quota.available_seconds)
    if quota.HasField("available_calls"):
        return f"{quota.available_calls} calls"
    return "no limit"


def _wait(quota: device_pb2.Quota) -> str:
    delay = quota.retry_delay.ToNanoseconds() / values.NANOS
    return f"in {values.shown_duration(delay)}" if delay else "now"


def _budget(quota: device_pb2.Quota, field: Any) -> str:
    if not quota.HasField(field):
        return "none"
    budget: device_pb2.BatteryBudget = getattr(quota, field)
    parts = []
    if budget.HasField("device_seconds_limit"):
        limit = values.shown_duration(budget.device_seconds_limit)
        parts.append(f"{values.shown_duration(budget.device_seconds)} of {limit}")
    if budget.HasField("calls_limit"):
        parts.append(f"{budget.calls} of {budget.calls_limit} calls")
    if budget.HasField("ends"):
        parts.append(f"until {values.shown_time(budget.ends)}")
    return ", ".join(parts)
