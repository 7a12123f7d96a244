"""Runs a command as an app of the device: own process, own identity."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from aicore_sim.cli.control import connect
from aicore_sim.device.app_process import app_process
from aicore_sim.device.home import HOME_VARIABLE, DeviceHome

T = TypeVar("T")


@asynccontextmanager
async def launch(
    facts: dict[str, Any],
    package_name: str,
    command: Sequence[str],
    *,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
) -> AsyncIterator[Process]:
    """Start `command` as a process of `package_name` and end it on leaving.

    It gets the device's addresses and a launch token that ends with it. It dies with us, also when
    we are killed.
    """

    async def environment(pid: int) -> dict[str, str]:
        return await asyncio.to_thread(_environment, facts, package_name, pid)

    async with app_process(command, environment, stdout=stdout, stderr=stderr) as process:
        yield process


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, but SIGTERM and SIGHUP unwind the work as Ctrl-C does, so that it cleans up.

    Raises SystemExit with 128 and the signal's number after that.
    """
    return asyncio.run(_interruptible(work))


async def _interruptible(work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def interrupt(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise


def exit_code(returncode: int) -> int:
    """What a shell would report: 128 and the signal for a killed process."""
    return 128 - returncode if returncode < 0 else returncode


def forward_signals(process: Process) -> None:
    """Hand SIGTERM on. Ctrl-C reaches the command through the terminal, so it is only awaited."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)

    def terminate() -> None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()

    loop.add_signal_handler(signal.SIGTERM, terminate)


def addresses(facts: dict[str, Any]) -> dict[str, str]:
    """The variables that tell a client where the device is."""
    return {
        "AICORE_SIM_ADDRESS": facts["aicore"]["address"],
        "APPFUNCTIONS_ADDRESS": facts["appfunctions"]["address"],
        HOME_VARIABLE: facts["device_dir"],
    }


def _environment(facts: dict[str, Any], package_name: str, pid: int) -> dict[str, str]:
    token = DeviceHome(Path(facts["device_dir"])).read_control_token()
    with connect(facts["aicore"]["address"], token) as control:
        launch_token = control.launch_token(package_name, pid)
    return {**addresses(facts), "AICORE_SIM_TOKEN": launch_token}
