"""A device of its own for one scenario: a daemon in this process, on virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aicore_client import DeviceConnection
from aicore_sim.cli.control import Control, connect
from aicore_sim.cli.scenario.app import ScenarioApp
from aicore_sim.cli.scenario.apply import apply_scenario
from aicore_sim.cli.scenario.format import Scenario
from aicore_sim.device.clock import ClockMode
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.server import AicoreServer, ServeOptions

LONG_CALL_TIMEOUT = 30.0
"""Real seconds after which a call that never ends is given up."""


class ScenarioDevice:
    """What the steps of a scenario act on."""

    def __init__(
        self,
        server: AicoreServer,
        control: Control,
        clock: DeviceClock,
        apps: dict[str, ScenarioApp],
    ) -> None:
        self._server = server
        self.control = control
        """Calls block, and the daemon is on this loop: use it inside `asyncio.to_thread`."""
        self.clock = clock
        self.apps = apps

    @property
    def generations(self) -> int:
        """Generations that have reached the daemon and not left it."""
        return len(self._server.device.generations.calls)


@asynccontextmanager
async def booted(scenario: Scenario) -> AsyncIterator[ScenarioDevice]:
    """Boot the device of a scenario in a temporary directory and stop it afterwards.

    Raises CommandError and ProfileError.
    """
    async with contextlib.AsyncExitStack() as stack:
        # A short path: a Unix socket's may have about a hundred characters.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="aicore-sim-"))
        home = DeviceHome(Path(folder))
        clock = DeviceClock(ClockMode.VIRTUAL)
        options = ServeOptions(
            model="scripted",
            home=home,
            profile=scenario.device.profile,
            platform=scenario.device.platform,
            seed=scenario.device.seed,
            pace=scenario.device.pace,
        )
        server = AicoreServer(options, device_clock=clock)
        await stack.enter_async_context(server)
        control = stack.enter_context(connect(server.address, home.read_control_token()))
        tokens = await asyncio.to_thread(apply_scenario, control, scenario)
        apps = {}
        for package, token in tokens.items():
            connection = DeviceConnection(
                server.address, server.address, token, long_call_timeout=LONG_CALL_TIMEOUT
            )
            apps[package] = ScenarioApp(connection)
            stack.push_async_callback(apps[package].close)
        yield ScenarioDevice(server, control, clock, apps)
