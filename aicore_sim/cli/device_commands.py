"""Commands about a running device: status, wait, logs, env, stop."""

from __future__ import annotations

import os
import shlex
import time
from datetime import UTC
from typing import Annotated, Any

import typer
from google.protobuf.timestamp_pb2 import Timestamp

from aicore_protos import device_pb2
from aicore_sim.cli import options as shared
from aicore_sim.cli.control import (
    NOT_RUNNING,
    CommandError,
    connect,
    connect_home,
    running_device,
)
from aicore_sim.cli.launcher import addresses
from aicore_sim.cli.up import published, stop_device
from aicore_sim.device.process import is_alive

_LOGS = ("aicore", "appfunctions", "up")


def is_running(facts: dict[str, Any]) -> bool:
    """Whether the `up` that published the facts still lives."""
    return is_alive(facts["pid"], facts["pid_started"])


def status(device_dir: shared.DeviceDir = None, json_output: shared.Json = False) -> None:
    """Show whether a device runs, its daemons, its model and its queue. Exit code 4 without one."""
    home = shared.home_of(device_dir)
    facts = home.read_running()
    if facts is None or not is_running(facts):
        if json_output:
            shared.print_json({"running": False, "device_dir": str(home.path)})
            raise typer.Exit(NOT_RUNNING)
        running_device(home)  # raises and says how to start one
        return
    with connect(facts["aicore"]["address"], home.read_control_token()) as control:
        device = control.get_device()
    shown = {
        "running": True,
        **published(facts),
        "unavailable_reason": device.unavailable_reason,
        "model_state": device_pb2.ModelState.Name(device.model_state),
        "unloads_at": _time(device.unload_at) if device.HasField("unload_at") else None,
        "clock": {"now": _time(device.clock.now), "mode": _mode(device.clock.mode)},
        "pace": device.pace,
        "quota": device.quota_model,
        "faults": device.faults,
        "generations": {
            "running": device.running,
            "waiting": device.waiting,
            "slots": device.slots,
            "places": device.places,
            "now": [
                {
                    "package": generation.package_name,
                    "phase": device_pb2.Generation.Phase.Name(generation.phase),
                    "since": _time(generation.since),
                }
                for generation in device.generations
            ],
        },
    }
    if json_output:
        shared.print_json(shown)
        return
    shared.print_rows(
        f"Device in {home.path}",
        ("part", "address", "pid", "state"),
        [
            (
                "AICore",
                facts["aicore"]["address"],
                str(facts["aicore"]["pid"]),
                f"model {device.model}: {device.unavailable_reason or shown['model_state']}\n"
                f"{device.running} of {device.slots} running, {device.waiting} of "
                f"{device.places} waiting; quota {device.quota_model}, pace {device.pace}, "
                f"clock {_mode(device.clock.mode)}, {device.faults} faults",
            ),
            (
                "AppFunctions",
                facts["appfunctions"]["address"],
                str(facts["appfunctions"]["pid"]),
                f"platform {facts['platform']}",
            ),
        ],
    )


def _time(stamp: Timestamp) -> str:
    return stamp.ToDatetime(UTC).isoformat()


def _mode(mode: device_pb2.SetClockRequest.Mode) -> str:
    return device_pb2.SetClockRequest.Mode.Name(mode)


def wait(
    device_dir: shared.DeviceDir = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most.")] = 30.0,
) -> None:
    """Wait until a device is ready. Exit code 4 when there is none in time."""
    if not 0 <= timeout <= 86_400:
        raise CommandError(f"--timeout {timeout} is not between 0 and 86400 seconds", 2)
    home = shared.home_of(device_dir)
    deadline = time.monotonic() + timeout
    while True:
        facts = home.read_running()
        if facts is not None and is_running(facts):
            with connect_home(home) as control:
                control.get_device()
            return
        if time.monotonic() >= deadline:
            raise CommandError(
                f"no device was ready in {str(home.path)!r} within {timeout:g} s", NOT_RUNNING
            )
        time.sleep(0.05)  # noqa: TID251 - waits for another process, not for the device


def logs(
    name: Annotated[str, typer.Argument(help="aicore, appfunctions or up.")] = "aicore",
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Show what is added.")] = False,
    device_dir: shared.DeviceDir = None,
) -> None:
    """Print a daemon's log."""
    if name not in _LOGS:
        raise CommandError(f"there is no log {name!r}; choose one of {', '.join(_LOGS)}", 2)
    path = shared.home_of(device_dir).log_path(name)
    if not path.exists():
        raise CommandError(f"there is no log at {str(path)!r} yet; start a device with `up`")
    with path.open(errors="replace") as file:
        while True:
            text = file.read()
            print(text, end="", flush=True)
            if not follow:
                return
            if not text:
                time.sleep(0.2)  # noqa: TID251 - waits for another process, not for the device


def env(
    package: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="PACKAGE",
            help="Also print a token of this app; it ends with the shell that asked.",
        ),
    ] = None,
    device_dir: shared.DeviceDir = None,
) -> None:
    """Print the variables that point a client at the running device.

    \b
    eval "$(aicore-sim env --as com.example.shop)" && python agent.py
    """
    home = shared.home_of(device_dir)
    try:
        facts = running_device(home)
        variables = addresses(facts)
        if package is not None:
            with connect_home(home) as control:
                control.ensure_installed(package)
                variables["AICORE_SIM_TOKEN"] = control.launch_token(package, os.getppid())
    except CommandError:
        print("false")  # so that `eval` fails as well
        raise
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")


def stop(device_dir: shared.DeviceDir = None) -> None:
    """Stop the running device. Does nothing when there is none."""
    home = shared.home_of(device_dir)
    facts = home.read_running()
    if facts is None or not stop_device(facts):
        home.running_path.unlink(missing_ok=True)
        print(f"no device was running in {home.path}")
    else:
        print(f"stopped the device in {home.path}")
