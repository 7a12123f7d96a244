"""`exec`: run one command as an app of a device that lives as long as the command."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError, connect
from aicore_sim.cli.device_commands import is_running
from aicore_sim.cli.launcher import exit_code, forward_signals, launch, run_interruptible
from aicore_sim.cli.supervisor import DeviceOptions
from aicore_sim.cli.up import booted
from aicore_sim.device.home import HOME_VARIABLE, DeviceHome

SCRIPT_LEFT_OVER = 6
"""Exit code of a command that succeeded and left steps of its script unused."""
DEFAULT_PACKAGE = "com.example.app"
_BOOT_FLAGS = {
    "device": "--device",
    "platform": "--platform",
    "model": "--model",
    "record": "--record",
    "replay": "--replay",
    "apps": "--app",
    "xml": "--xml",
    "stub": "--stub",
    "seed": "--seed",
    "quota": "--quota",
    "clock": "--clock",
    "pace": "--pace",
}


@dataclass(frozen=True)
class App:
    """Who the command is."""

    package: str
    permissions: tuple[str, ...]
    allowlist: tuple[str, ...]


def exec_(
    context: typer.Context,
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    package: Annotated[
        str, typer.Option("--as", metavar="PACKAGE", help="The app that the command belongs to.")
    ] = DEFAULT_PACKAGE,
    permissions: Annotated[
        list[str] | None,
        typer.Option("--permission", help="Grant the app a permission. May be repeated."),
    ] = None,
    allowlist: Annotated[
        list[str] | None,
        typer.Option(
            help="Let the app, as a certified agent, run functions of this package, or '*' for "
            "all. May be repeated."
        ),
    ] = None,
    device: shared.Device = shared.DEVICE_DEFAULT,
    platform: shared.Platform = shared.PLATFORM_DEFAULT,
    model: shared.Model = shared.DEFAULT_MODEL,
    apps: shared.Apps = None,
    xml: shared.Xml = None,
    stub: shared.Stub = None,
    seed: shared.Seed = 0,
    quota: shared.Quota = None,
    clock: shared.ClockName = "real",
    pace: shared.PaceName = "host",
    record: shared.Record = None,
    replay: shared.Replay = None,
    device_dir: Annotated[
        Path | None,
        typer.Option(
            "--device-dir",
            help="Use this device directory (default: AICORE_SIM_HOME, else the one of a device "
            "that runs in the user's data directory, else a temporary one). When a device runs "
            "there, the command runs on it.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run a command as an app of a device that is booted for it.

    Returns the command's exit code, or 6 when it is 0 and steps of a script, or answers of a
    recorded run, are left. Where a
    device runs already, the command runs on that one, unless an option asks for another. What an
    app was granted on a device that stays, it keeps: see `aicore-sim pm revoke`.

    \b
    aicore-sim exec --as com.example.shop --app com.example.shop=shop:Shop -- python agent.py
    aicore-sim exec --as com.example.assistant --permission EXECUTE_APP_FUNCTIONS \\
        --allowlist com.example.shop --app com.example.shop=shop:Shop -- python assistant.py
    """
    model = shared.check_model(shared.replayed(context, replay, model))
    checked, declared = shared.check_apps(apps), shared.check_xml(xml)

    def options(home: DeviceHome) -> DeviceOptions:
        return DeviceOptions(
            home=home,
            device=shared.check_device(device),
            platform=shared.check_platform(platform),
            model=model,
            record=shared.check_record(record, model),
            seed=seed,
            quota=shared.check_quota(quota, device),
            clock=clock,
            pace=pace,
            apps=checked,
            xml=declared,
            stub=shared.check_stub(stub, declared),
        )

    app = App(package, tuple(permissions or ()), tuple(allowlist or ()))
    raise typer.Exit(run_as_app(app, command, options, device_dir=device_dir, given=given(context)))


def given(context: typer.Context) -> list[str]:
    """Flags of the command line that say how a device is booted."""
    return [
        flag
        for name, flag in _BOOT_FLAGS.items()
        if name in context.params and shared.was_given(context, name)
    ]


def run_as_app(
    app: App,
    command: list[str],
    options: Callable[[DeviceHome], DeviceOptions],
    *,
    device_dir: Path | None,
    given: list[str],
) -> int:
    """Run `command` on the device that runs already, else on one of `options`; its exit code.

    Raises CommandError where a device runs in the place that was named and flags are `given`.
    """
    with tempfile.TemporaryDirectory(prefix="aicore-sim-") as temporary:
        home = _home(device_dir, Path(temporary), own=bool(given))
        facts = home.read_running()
        if facts is None or not is_running(facts):
            return run_interruptible(_boot_and_run(options(home), app, command))
        if given:
            raise CommandError(
                f"a device runs in {str(home.path)!r} already, so {', '.join(given)} would "
                "change nothing; leave it out, or name another --device-dir",
                exit_code=2,
            )
        return run_interruptible(_run(facts, home, app, command))


def _home(device_dir: Path | None, temporary: Path, *, own: bool) -> DeviceHome:
    """`own`: the command needs a device that is booted for it."""
    if device_dir is None and os.environ.get(HOME_VARIABLE):
        return DeviceHome()
    if device_dir is None and not own:
        usual = DeviceHome()
        facts = usual.read_running()
        if facts is not None and is_running(facts):
            return usual
    return DeviceHome(device_dir or temporary)


async def _boot_and_run(options: DeviceOptions, app: App, command: list[str]) -> int:
    async with booted(options) as (_, facts):
        if facts["unavailable_reason"]:
            print(f"aicore-sim: the model cannot be used: {facts['unavailable_reason']}",
                  file=sys.stderr)  # fmt: skip
        code = await _run(facts, options.home, app, command)
        if options.model.startswith(("scripted:", "replay:")):
            left = await asyncio.to_thread(_unused_steps, facts, options.home)
            return code or (SCRIPT_LEFT_OVER if left else 0)
        return code


def _unused_steps(facts: dict[str, Any], home: DeviceHome) -> bool:
    """A test that passes although its script was not played to the end proves less than it says."""
    with connect(facts["aicore"]["address"], home.read_control_token()) as control:
        left = control.script().remaining
    if left:
        print(
            f"aicore-sim: steps of the script that were not used: {'; '.join(left)}",
            file=sys.stderr,
        )
    return bool(left)


async def _run(
    facts: dict[str, Any],
    home: DeviceHome,
    app: App,
    command: list[str],
) -> int:
    with connect(facts["aicore"]["address"], home.read_control_token()) as control:
        await asyncio.to_thread(
            control.ensure_installed, app.package, app.permissions, app.allowlist
        )
    async with launch(facts, app.package, command) as process:
        forward_signals(process)
        return exit_code(await process.wait())
