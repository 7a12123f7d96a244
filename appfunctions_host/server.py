"""The host as a server, and as a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import grpc.aio
from pydantic import ValidationError

from aicore_protos import appfunctions_pb2_grpc, appfunctions_shell_pb2_grpc
from aicore_sim.device.database import open_database
from aicore_sim.device.home import HOME_VARIABLE, DeviceHome
from aicore_sim.device.packages import PackageStore
from aicore_sim.device.process import exit_on_eof
from aicore_sim.device.profile import DeviceProfile, ProfileError, load_profile
from aicore_sim.rpc.server import RunningServer, start_server, stop_event
from appfunctions_host.apps import load_apps
from appfunctions_host.host import AppFunctionHost
from appfunctions_host.local import LocalProvider
from appfunctions_host.metadata_files.stub_apps import add_stubs, read_apps
from appfunctions_host.metadata_files.stub_file import load_stubs
from appfunctions_host.process_exit import exit_after
from appfunctions_host.provider_service import ProviderServicer
from appfunctions_host.service import ManagerServicer
from appfunctions_host.shell_service import ShellServicer

logger = logging.getLogger(__name__)

SERVICES = (
    "aicore.sim.v1.AppFunctionManager",
    "aicore.sim.v1.AppFunctionProvider",
    "aicore.sim.v1.AppFunctionShell",
)
GRACE_SECONDS = 2.0
EXIT_SECONDS = 4.5
LOCK_SECONDS = 5.0
"""How long a new host waits for one that is still stopping."""


@dataclass(frozen=True, kw_only=True)
class RunningHost:
    """A host that answers on `server.address`."""

    server: RunningServer
    providers: ProviderServicer
    host: AppFunctionHost
    follower: asyncio.Task[None]

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Tell the providers, refuse new calls, give running ones `grace` seconds."""
        self.follower.cancel()
        await asyncio.wait([self.follower])
        self.providers.close()
        self.host.close()
        await self.host.starter.close()
        await self.server.stop(grace)
        self.host.close()  # what the last calls left to write


async def start_host(
    host: AppFunctionHost,
    packages: PackageStore,
    address: str,
    *,
    more_services: Callable[[grpc.aio.Server], None] | None = None,
) -> RunningHost:
    """Serve `host`; raises `AddressError` as `start_server` does.

    `more_services` adds services to the same server before it starts.
    """
    providers = ProviderServicer(host)
    manager = ManagerServicer(host)
    shell = ShellServicer(host)

    def register(server: grpc.aio.Server) -> None:
        appfunctions_pb2_grpc.add_AppFunctionManagerServicer_to_server(manager, server)
        appfunctions_pb2_grpc.add_AppFunctionProviderServicer_to_server(providers, server)
        appfunctions_shell_pb2_grpc.add_AppFunctionShellServicer_to_server(shell, server)
        if more_services is not None:
            more_services(server)

    server = await start_server(
        address=address, resolve=packages.resolve, services=SERVICES, register=register
    )
    if not host.starter.environment():
        host.starter.environment = lambda: {"APPFUNCTIONS_ADDRESS": server.address}
    follower = asyncio.create_task(host.follow_device(), name="follow-device")
    return RunningHost(server=server, providers=providers, host=host, follower=follower)


async def serve(
    home: DeviceHome,
    *,
    address: str | None = None,
    apps: Iterable[str] = (),
    xml: Iterable[str] = (),
    stub: Path | None = None,
    ready_file: Path | None = None,
    exit_with_parent_fd: int | None = None,
) -> None:
    """Run the host of one device directory until SIGTERM or SIGINT.

    Args:
        home: The device directory, prepared by AICore.
        address: Where to serve; the directory's socket `appfunctions.sock` by default.
        apps: `PACKAGE=MODULE:CLASS` to provide inside this process.
        xml: `PACKAGE=FILE`, apps of which only the XML of their functions is there.
        stub: YAML with the results of those functions.
        ready_file: Gets the JSON of the READY line when the host answers.
        exit_with_parent_fd: Also stop when this pipe ends, as it does with the parent.

    Raises:
        DeviceInUse, AddressError, AppSpecError, DefinitionError, SimulatorFault, ProfileError,
        XmlError, StubError, OSError, sqlite3.Error: The host cannot start; the text says why.
    """
    if exit_with_parent_fd is not None:
        # First of all: importing an app's module may take any time.
        exit_on_eof(exit_with_parent_fd)
    described, results = read_apps(xml), load_stubs(stub) if stub is not None else {}
    profile = _profile(home)
    token = home.read_control_token()
    with (
        home.lock("appfunctions", wait=LOCK_SECONDS),
        contextlib.closing(open_database(home.database_path, create=False)) as connection,
        contextlib.ExitStack() as cleanup,
    ):
        packages = PackageStore(connection, control_token=token)
        host = AppFunctionHost(connection, packages, profile=profile)
        for package_name, services in load_apps(apps).items():
            provider = LocalProvider(package_name, services)
            cleanup.callback(provider.close)
            host.add_local(provider)
            _warn_unless_installed(packages, package_name)
        for problem in described.problems:
            logger.warning("%s", problem)
        add_stubs(host, described, results, source=repr(str(stub)))
        for package_name in described.declared:
            _warn_unless_installed(packages, package_name)
        stop = stop_event()
        running = await start_host(
            host, packages, address or f"unix:{home.socket_path('appfunctions')}"
        )
        try:
            at = running.server.address
            host.starter.environment = lambda: _environment(home, at)
            _announce(home, at, ready_file)
            await stop.wait()
        finally:
            exit_after(EXIT_SECONDS)
            await running.stop()


def _warn_unless_installed(packages: PackageStore, package_name: str) -> None:
    if packages.get(package_name) is None:
        logger.warning(
            "%s is not installed, so its functions stay hidden; "
            "install it with `aicore-sim pm install %s`",
            package_name,
            package_name,
        )


def _environment(home: DeviceHome, address: str) -> dict[str, str]:
    """How a service that the host starts finds the device."""
    facts = home.read_running()
    aicore = facts["aicore"]["address"] if facts else f"unix:{home.socket_path('aicore')}"
    return {
        "APPFUNCTIONS_ADDRESS": address,
        "AICORE_SIM_ADDRESS": aicore,
        HOME_VARIABLE: str(home.path),
    }


def _announce(home: DeviceHome, address: str, ready_file: Path | None) -> None:
    facts = json.dumps(
        {
            "version": version("aicore-sim"),
            "device_dir": str(home.path),
            "address": address,
            "pid": os.getpid(),
        }
    )
    logger.info("the AppFunction host answers at %s", address)
    if ready_file is not None:
        home.write_private(ready_file.absolute(), facts)
    print("READY", facts, flush=True)


def _profile(home: DeviceHome) -> DeviceProfile:
    """Raises ProfileError for a file that AICore did not write so."""
    if not home.profile_path.exists():
        return load_profile()
    try:
        return DeviceProfile.model_validate_json(home.profile_path.read_bytes())
    except ValidationError as error:
        raise ProfileError(
            f"{str(home.profile_path)!r} is damaged ({error.error_count()} faults); "
            "start the device again with `aicore-sim up`"
        ) from None
