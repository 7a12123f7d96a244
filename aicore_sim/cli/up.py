"""`up` boots a device and keeps it running; `serve` is the AICore daemon alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError, connect
from aicore_sim.cli.scenario import Scenario, apply_scenario, boot_options, load_scenario
from aicore_sim.cli.supervisor import DeviceOptions, Supervisor
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.process import is_alive
from aicore_sim.rpc.server import stop_event

_SCENARIO_FLAGS = {
    "device": "--device",
    "platform": "--platform",
    "seed": "--seed",
    "pace": "--pace",
}
DAEMON_DIED = 3
DETACH_TIMEOUT = 90.0


def up(
    context: typer.Context,
    device: shared.Device = shared.DEVICE_DEFAULT,
    platform: shared.Platform = shared.PLATFORM_DEFAULT,
    model: shared.Model = shared.DEFAULT_MODEL,
    apps: shared.Apps = None,
    xml: shared.Xml = None,
    stub: shared.Stub = None,
    seed: shared.Seed = 0,
    clock: shared.ClockName = "real",
    pace: shared.PaceName = "host",
    quota: shared.Quota = None,
    prefix_memory: shared.PrefixMemory = None,
    dialect: shared.Dialect = None,
    show_prompt: shared.ShowPrompt = False,
    grammar: shared.Grammar = True,
    record: shared.Record = None,
    replay: shared.Replay = None,
    device_dir: shared.DeviceDir = None,
    aicore_address: Annotated[
        str | None,
        typer.Option(help="Where AICore serves (default: a socket in the device directory)."),
    ] = None,
    appfunctions_address: Annotated[
        str | None,
        typer.Option(help="Where the host serves (default: a socket in the device directory)."),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write the READY facts there when the device is ready.")
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            help="Start from the state of a scenario file: profile, apps, status, quota, "
            "importance, faults and script."
        ),
    ] = None,
    wipe_data: Annotated[
        bool, typer.Option("--wipe-data", help="Forget packages, permissions and states first.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when the device is ready; it goes on running.")
    ] = False,
) -> None:
    """Boot a device and keep it running.

    The AICore daemon and the AppFunction host are processes of their own; READY is printed when
    both answer. Packages, permissions and states are kept in the device directory.

    \b
    aicore-sim up --app com.example.shop=shop:Shop
    aicore-sim up --detach --wipe-data && eval "$(aicore-sim env --as com.example.shop)"
    """
    model = shared.replayed(context, replay, model)
    home = shared.home_of(device_dir)
    declared = shared.check_xml(xml)
    state = None
    if scenario is not None:
        given = [flag for name, flag in _SCENARIO_FLAGS.items() if shared.was_given(context, name)]
        if given:
            raise CommandError(f"--scenario sets what {', '.join(given)} would; leave it out", 2)
        state = load_scenario(scenario)
        boot = boot_options(state)
        device, platform, seed, pace = boot.profile, boot.platform, boot.seed, boot.pace
        if boot.scripted and replay is not None:
            raise CommandError(
                "--scenario brings a script, so --replay has no place; leave it out", 2
            )
        model = "scripted" if boot.scripted else model
    if wipe_data:
        _wipe(home)
    model = shared.check_model(model)
    made = DeviceOptions(
        home=home,
        device=shared.check_device(device),
        platform=shared.check_platform(platform),
        model=model,
        record=shared.check_record(record, model),
        seed=seed,
        clock=clock,
        pace=pace,
        quota=shared.check_quota(quota, device),
        prefix_memory=prefix_memory,
        dialect=shared.check_dialect(dialect),
        show_prompt=show_prompt,
        grammar=grammar,
        apps=shared.check_apps(apps),
        xml=declared,
        stub=shared.check_stub(stub, declared),
        aicore_address=aicore_address,
        appfunctions_address=appfunctions_address,
    )
    if ready_file is not None and not ready_file.absolute().parent.is_dir():
        raise CommandError(f"--ready-file {str(ready_file)!r}: its folder does not exist", 2)
    if detach:
        _detach(home, ready_file)
    else:
        raise typer.Exit(asyncio.run(_foreground(made, ready_file, state)))


def serve(
    context: typer.Context,
    device: shared.Device = shared.DEVICE_DEFAULT,
    platform: shared.Platform = shared.PLATFORM_DEFAULT,
    model: shared.Model = shared.DEFAULT_MODEL,
    seed: shared.Seed = 0,
    clock: shared.ClockName = "real",
    pace: shared.PaceName = "host",
    quota: shared.Quota = None,
    prefix_memory: shared.PrefixMemory = None,
    dialect: shared.Dialect = None,
    show_prompt: shared.ShowPrompt = False,
    grammar: shared.Grammar = True,
    record: shared.Record = None,
    replay: shared.Replay = None,
    device_dir: shared.DeviceDir = None,
    address: Annotated[
        str | None,
        typer.Option(help="unix:/absolute/path or 127.0.0.1:PORT (0: the system chooses)."),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write address and pid there when the daemon is ready.")
    ] = None,
    exit_with_parent_fd: Annotated[
        int | None, typer.Option(help="Stop when this inherited pipe closes.", hidden=True)
    ] = None,
) -> None:
    """Run the AICore daemon alone, in the foreground."""
    from aicore_sim.inference.model_folder import PromptOptions
    from aicore_sim.server import ServeOptions, run_daemon

    model = shared.check_model(shared.replayed(context, replay, model))

    raise typer.Exit(
        asyncio.run(
            run_daemon(
                ServeOptions(
                    home=shared.home_of(device_dir),
                    profile=device,
                    platform=shared.check_platform(platform),
                    model=model,
                    record=shared.check_record(record, model),
                    seed=seed,
                    clock=clock,
                    pace=pace,
                    quota=quota,
                    prefix_memory=prefix_memory,
                    prompts=PromptOptions(
                        dialect=shared.check_dialect(dialect), show=show_prompt, guidance=grammar
                    ),
                    address=address,
                    ready_file=ready_file,
                    exit_with_parent_fd=exit_with_parent_fd,
                )
            )
        )
    )


@asynccontextmanager
async def booted(options: DeviceOptions) -> AsyncIterator[tuple[Supervisor, dict[str, Any]]]:
    """A device that runs while the context is open. Raises DeviceInUse and CommandError."""
    home = options.home
    home.prepare()
    supervisor = Supervisor(options=options)
    # The daemons of a killed `up` may need a moment to notice; their own locks make us wait.
    with home.lock("device"):
        try:
            facts = await supervisor.start()
            home.write_running(facts)
            yield supervisor, facts
        finally:
            home.running_path.unlink(missing_ok=True)
            await supervisor.stop()


def published(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of the READY line. They hold no token."""
    names = (
        "version", "device_dir", "pid", "aicore", "appfunctions", "model", "profile", "platform",
        "seed",
    )  # fmt: skip
    return {name: facts[name] for name in names}


async def _foreground(
    options: DeviceOptions, ready_file: Path | None, state: Scenario | None
) -> int:
    stopping = stop_event()
    running = asyncio.create_task(_run(options, ready_file, state))
    stopped = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        # Booting or running: either way the daemons are ended before the task is.
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return 0
    finally:
        stopped.cancel()


async def _run(options: DeviceOptions, ready_file: Path | None, state: Scenario | None) -> int:
    async with booted(options) as (supervisor, facts):
        if state is not None:
            with connect(facts["aicore"]["address"], options.home.read_control_token()) as control:
                await asyncio.to_thread(apply_scenario, control, state)
        _print_device(facts)
        ready = json.dumps(published(facts))
        print(f"READY {ready}", flush=True)
        if ready_file is not None:
            options.home.write_private(ready_file.absolute(), ready)
        try:
            name = await supervisor.wait()
        finally:
            if ready_file is not None:
                ready_file.unlink(missing_ok=True)
        print(
            f"aicore-sim: the {name} daemon died; its log ends:\n{supervisor.log_tail(name)}",
            file=sys.stderr,
        )
        return DAEMON_DIED


def _print_device(facts: dict[str, Any]) -> None:
    shared.print_rows(
        "Simulated device",
        ("part", "address", "pid", "facts"),
        [
            (
                "AICore",
                facts["aicore"]["address"],
                str(facts["aicore"]["pid"]),
                f"model {facts['model']}, profile {facts['profile']}, seed {facts['seed']}",
            ),
            (
                "AppFunctions",
                facts["appfunctions"]["address"],
                str(facts["appfunctions"]["pid"]),
                f"platform {facts['platform']}",
            ),
        ],
    )
    if facts["unavailable_reason"]:
        print(
            f"aicore-sim: the model cannot be used now: {facts['unavailable_reason']}",
            file=sys.stderr,
        )


def _wipe(home: DeviceHome) -> None:
    """A factory-new device; refused while one is running."""
    home.prepare()
    with home.lock("device"):
        for name in ("device.db", "device.db-wal", "device.db-shm", "control.token"):
            (home.path / name).unlink(missing_ok=True)


def _detach(home: DeviceHome, ready_file: Path | None) -> None:
    """Start the same command in a session of its own and wait for its READY facts."""
    home.prepare()
    with home.lock("device"):  # refused here, a second `up` does not touch the first one's files
        pass
    ready = (ready_file or home.path / "up.ready").absolute()
    ready.unlink(missing_ok=True)
    arguments = [word for word in sys.argv[1:] if word not in ("--detach", "--wipe-data")]
    if ready_file is None:
        arguments += ["--ready-file", str(ready)]
    log_path = home.log_path("up")
    with open(log_path, "wb", opener=_private) as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "aicore_sim", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + DETACH_TIMEOUT
    while not ready.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=0.05)
            raise CommandError(_last_words(log_path), exit_code=code or 1)
        if time.monotonic() > deadline:
            process.terminate()
            raise CommandError(f"the device was not ready after {DETACH_TIMEOUT:.0f} s")
    print(f"READY {ready.read_text()}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _last_words(log_path: Path) -> str:
    lines = log_path.read_text(errors="replace").strip().splitlines()
    return "\n".join(lines[-20:]).removeprefix("aicore-sim: ") or "the device did not start"


def stop_device(facts: dict[str, Any], timeout: float = 10.0) -> bool:
    """SIGTERM to the `up` that published `facts`, then SIGKILL. Whether it was running."""
    pid, started = facts["pid"], facts["pid_started"]
    if not is_alive(pid, started):
        return False
    for number, patience in ((signal.SIGTERM, timeout), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not is_alive(pid, started):
                return True
            time.sleep(0.02)  # noqa: TID251 - waits for another process, not for the device
    raise CommandError(f"process {pid} does not end")
