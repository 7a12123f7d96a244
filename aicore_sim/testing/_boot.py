"""The three ways to a device: daemons in this process, processes of their own, one that runs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from aicore_sim import __version__
from aicore_sim.cli.control import running_device
from aicore_sim.cli.supervisor import DeviceOptions
from aicore_sim.cli.up import booted
from aicore_sim.device.database import open_database
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.packages import PackageStore
from aicore_sim.device.profile import DEFAULT_PROFILE, load_profile
from aicore_sim.server import AicoreServer, ServeOptions
from appfunctions_host.host import AppFunctionHost
from appfunctions_host.server import start_host

_LOG_LINES = 25
_DAEMONS = ("aicore", "appfunctions")


@dataclass(frozen=True, kw_only=True)
class BootOptions:
    """How a device of a test is booted. Whatever it is, its model is scripted."""

    profile: str = DEFAULT_PROFILE
    """Name of a shipped device profile, or the path of a TOML file."""
    seed: int = 0
    clock: Literal["real", "virtual"] = "real"
    pace: Literal["host", "phone"] = "host"
    quota: str | None = None
    """A quota model of the profile, or "off", in place of the profile's."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A device that answers."""

    home: DeviceHome
    facts: dict[str, Any]
    """As in `running.json`: addresses, seed, profile; no token."""
    has_logs: bool

    def log_tail(self) -> str:
        """The last lines of both daemons' logs; empty for daemons in this process."""
        if not self.has_logs:
            return ""
        parts = []
        for name in _DAEMONS:
            with contextlib.suppress(OSError):
                lines = self.home.log_path(name).read_text(errors="replace").splitlines()
                parts.append(f"--- {name} ---\n" + "\n".join(lines[-_LOG_LINES:]))
        return "\n".join(parts)


@asynccontextmanager
async def in_process(options: BootOptions) -> AsyncIterator[Running]:
    """Both daemons as objects on this event loop, on Unix sockets in a temporary directory."""
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="aicore-sim-"))
        home = DeviceHome(Path(folder))
        profile = load_profile(options.profile)
        server = AicoreServer(
            ServeOptions(
                model="scripted",
                home=home,
                profile=options.profile,
                seed=options.seed,
                clock=options.clock,
                pace=options.pace,
                quota=options.quota,
            )
        )
        await stack.enter_async_context(server)
        connection = stack.enter_context(
            contextlib.closing(open_database(home.database_path, create=False))
        )
        packages = PackageStore(connection, control_token=home.read_control_token())
        host = AppFunctionHost(connection, packages, profile=profile)
        running = await start_host(host, packages, f"unix:{home.socket_path('appfunctions')}")
        stack.push_async_callback(running.stop, 0.5)
        facts = {
            "version": __version__,
            "device_dir": str(home.path),
            "aicore": {"address": server.address},
            "appfunctions": {"address": running.server.address},
            "profile": profile.name,
            "seed": options.seed,
        }
        await server.wait_ready()
        yield Running(home=home, facts=facts, has_logs=False)


@asynccontextmanager
async def local(options: BootOptions) -> AsyncIterator[Running]:
    """Both daemons as processes, as `aicore-sim up` starts them; they end with this process."""
    with tempfile.TemporaryDirectory(prefix="aicore-sim-") as folder:
        home = DeviceHome(Path(folder))
        boot = DeviceOptions(
            home=home,
            device=options.profile,
            platform=load_profile(options.profile).platform,
            model="scripted",
            seed=options.seed,
            clock=options.clock,
            pace=options.pace,
            quota=options.quota,
        )
        async with booted(boot) as (_, facts):
            yield Running(home=home, facts=facts, has_logs=True)


@asynccontextmanager
async def existing(device_dir: Path | None) -> AsyncIterator[Running]:
    """A device that runs in `device_dir`; it goes on afterwards. Raises CommandError."""
    home = DeviceHome(device_dir)
    yield Running(home=home, facts=running_device(home), has_logs=True)
