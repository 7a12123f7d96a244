"""Starts the two daemons of a device as processes of their own, and ends them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import grpc

from aicore_protos import appfunctions_pb2, appfunctions_pb2_grpc
from aicore_sim import __version__
from aicore_sim.cli.control import CommandError, connect, explain
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.process import start_time
from aicore_sim.device.profile import PlatformName

START_TIMEOUT = 60.0
STOP_TIMEOUT = 5.0
_LOG_TAIL_LINES = 25


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """What to boot. `apps` are `PACKAGE=MODULE:CLASS`, run inside the host; `xml` are
    `PACKAGE=FILE`, declared there, with results from `stub`."""

    home: DeviceHome
    device: str
    platform: PlatformName
    model: str
    seed: int
    clock: Literal["real", "virtual"] = "real"
    pace: Literal["host", "phone"] = "host"
    quota: str | None = None
    prefix_memory: int | None = None
    dialect: str | None = None
    show_prompt: bool = False
    grammar: bool = True
    record: Path | None = None
    apps: tuple[str, ...] = ()
    xml: tuple[str, ...] = ()
    stub: Path | None = None
    aicore_address: str | None = None
    appfunctions_address: str | None = None


@dataclass(kw_only=True)
class _Daemon:
    name: str
    process: Process
    lifeline: int
    """Write end of the pipe whose closing ends the daemon."""
    address: str = ""


@dataclass(kw_only=True)
class Supervisor:
    """One device: AICore first, then the host, each ready before the next step."""

    options: DeviceOptions
    _daemons: list[_Daemon] = field(default_factory=list)

    async def start(self) -> dict[str, Any]:
        """Boot the device and return the facts to publish.

        Raises CommandError with the log's tail when a daemon does not come up.
        """
        options = self.options
        home = options.home
        token = home.read_control_token()
        try:
            aicore = await self._spawn(
                "aicore",
                ["-m", "aicore_sim", "serve", "--device", options.device]
                + ["--platform", options.platform, "--model", options.model]
                + ["--seed", str(options.seed), "--clock", options.clock, "--pace", options.pace]
                + (["--quota", options.quota] if options.quota is not None else [])
                + _prefix_memory(options.prefix_memory)
                + (["--dialect", options.dialect] if options.dialect is not None else [])
                + (["--show-prompt"] if options.show_prompt else [])
                + ([] if options.grammar else ["--no-grammar"])
                + (["--record", str(options.record)] if options.record is not None else [])
                + _address(options.aicore_address),
            )
            with connect(aicore.address, token) as control:
                for app in (*options.apps, *options.xml):
                    await asyncio.to_thread(control.ensure_installed, app.partition("=")[0])
                device = await asyncio.to_thread(control.get_device)
            host = await self._spawn(
                "appfunctions",
                ["-m", "appfunctions_host", "serve"]
                + [word for app in options.apps for word in ("--app", app)]
                + [word for spec in options.xml for word in ("--xml", spec)]
                + (["--stub", str(options.stub)] if options.stub is not None else [])
                + _address(options.appfunctions_address),
            )
            await _exchange(host.address, token)
        except BaseException:
            await self.stop()
            raise
        return {
            "version": __version__,
            "device_dir": str(home.path),
            "pid": os.getpid(),
            "pid_started": start_time(os.getpid()),
            "aicore": {"address": aicore.address, "pid": aicore.process.pid},
            "appfunctions": {"address": host.address, "pid": host.process.pid},
            "model": device.model,
            "unavailable_reason": device.unavailable_reason,
            "profile": device.profile,
            "platform": device.platform,
            "seed": options.seed,
        }

    async def wait(self) -> str:
        """Return the name of the first daemon that ends."""
        waits = {
            asyncio.create_task(daemon.process.wait()): daemon.name for daemon in self._daemons
        }
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        return waits[done.pop()]

    def log_tail(self, name: str) -> str:
        """The last lines of a daemon's log."""
        return _tail(self.options.home.log_path(name))

    async def stop(self) -> None:
        """SIGTERM to both, SIGKILL after five seconds. Idempotent."""
        for daemon in self._daemons:
            with contextlib.suppress(ProcessLookupError):
                daemon.process.send_signal(signal.SIGTERM)
        waits = [daemon.process.wait() for daemon in self._daemons]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*waits), STOP_TIMEOUT)
        for daemon in self._daemons:
            if daemon.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(daemon.process.pid, signal.SIGKILL)
                await daemon.process.wait()
            os.close(daemon.lifeline)
        self._daemons.clear()

    async def _spawn(self, name: str, arguments: Sequence[str]) -> _Daemon:
        home = self.options.home
        ready = home.path / f"{name}.ready"
        ready.unlink(missing_ok=True)
        read_end, lifeline = os.pipe()
        try:
            log = os.open(home.log_path(name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *arguments,
                    "--device-dir",
                    str(home.path),
                    "--ready-file",
                    str(ready),
                    "--exit-with-parent-fd",
                    str(read_end),
                    stdin=DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(read_end,),
                )
            finally:
                os.close(log)
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            os.close(read_end)
        daemon = _Daemon(name=name, process=process, lifeline=lifeline)
        self._daemons.append(daemon)
        daemon.address = (await self._ready(daemon, ready))["address"]
        return daemon

    async def _ready(self, daemon: _Daemon, ready: Path) -> dict[str, Any]:
        ended = asyncio.create_task(daemon.process.wait())
        try:
            async with asyncio.timeout(START_TIMEOUT):
                while not ready.exists():
                    if ended.done():
                        raise CommandError(
                            f"the {daemon.name} daemon ended with {daemon.process.returncode} "
                            f"before it was ready; its log ends:\n{self.log_tail(daemon.name)}"
                        )
                    await asyncio.wait({ended}, timeout=0.02)
        except TimeoutError:
            raise CommandError(
                f"the {daemon.name} daemon was not ready after {START_TIMEOUT:.0f} s; "
                f"its log ends:\n{self.log_tail(daemon.name)}"
            ) from None
        finally:
            ended.cancel()
        facts: dict[str, Any] = json.loads(ready.read_text())
        return facts


async def _exchange(address: str, token: str) -> None:
    """A real search at the host: listening is not yet being ready."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = appfunctions_pb2_grpc.AppFunctionManagerStub(channel)
        try:
            await stub.Search(
                appfunctions_pb2.SearchRequest(
                    page_size=1, library=appfunctions_pb2.CALLER_LIBRARY_JETPACK
                ),
                metadata=(("authorization", f"Bearer {token}"),),
                timeout=10.0,
            )
        except grpc.RpcError as error:
            raise CommandError(explain(error, address)) from None


def _prefix_memory(mebibytes: int | None) -> list[str]:
    return [] if mebibytes is None else ["--prefix-memory", str(mebibytes)]


def _address(address: str | None) -> list[str]:
    return ["--address", address] if address else []


def _tail(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return "(no log)"
    return "\n".join(lines[-_LOG_TAIL_LINES:]) or "(the log is empty)"
