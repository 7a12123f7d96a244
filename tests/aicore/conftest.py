"""A daemon inside the test process, on a Unix socket, and apps that call it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from blockbuster import blockbuster_ctx

from aicore_protos import device_pb2
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference.backend import Backend
from aicore_sim.server import AicoreServer, ServeOptions
from tests.aicore.calls import App


@dataclass(frozen=True, kw_only=True)
class Daemon:
    server: AicoreServer
    channel: grpc.aio.Channel
    home: DeviceHome
    shell: App
    app: App
    """com.example.app, an ordinary app."""
    app_token: str

    def caller(self, token: str | None) -> App:
        return App(self.channel, token)


StartDaemon = Callable[..., AbstractAsyncContextManager[Daemon]]


_IN_THE_LOOP = [
    f"aicore_sim.{part}" for part in ("service", "policy", "inference", "rpc.interceptor")
]


@pytest.fixture(autouse=True)
def _no_blocking_call_in_the_loop() -> Iterator[None]:
    """SQLite, and facts about local processes, answer in microseconds: they may block, and so may
    the start, while nobody is served."""
    with blockbuster_ctx(_IN_THE_LOOP) as blocker:
        for name, function in blocker.functions.items():
            if name.startswith("sqlite3."):
                function.deactivate()
            function.can_block_in("aicore_sim/device/process.py", "start_time")
            function.can_block_in("aicore_sim/server.py", "_start")
        yield


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose sockets have short paths, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="aicore-") as name:
        yield Path(name)


@pytest.fixture
def start_daemon(short_dir: Path) -> StartDaemon:
    """Starts a daemon for a block; `script` is the YAML of a scripted model."""

    @asynccontextmanager
    async def start(
        *,
        script: str = "",
        backend: Backend | None = None,
        device_clock: DeviceClock | None = None,
        profile: str = "pixel-10",
        **more: Any,
    ) -> AsyncIterator[Daemon]:
        """`more` are other ServeOptions."""
        home = DeviceHome(short_dir / "device")
        file = short_dir / "script.yaml"
        file.write_text(script)
        model = f"scripted:{file}"
        options = ServeOptions(model=model, home=home, seed=7, profile=profile, **more)
        async with contextlib.AsyncExitStack() as stack:
            server = await stack.enter_async_context(
                AicoreServer(options, backend=backend, device_clock=device_clock)
            )
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(server.address))
            shell = App(channel, home.read_control_token())
            request = device_pb2.InstallPackageRequest(package_name="com.example.app")
            installed = await shell.call("InstallPackage", request)
            yield Daemon(
                server=server,
                channel=channel,
                home=home,
                shell=shell,
                app=App(channel, installed.token),
                app_token=installed.token,
            )

    return start
