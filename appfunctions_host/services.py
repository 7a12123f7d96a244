"""Services that are started when one of their functions is called, as Android binds a service.

The command that runs an app's services is registered by package. A call that finds nobody running
its function starts the command, once for all calls that wait, as a process of the package with a
launch token of its own. It is kept for a while after its last call, as Android caches processes,
and ends with the host. How long is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aicore_sim.device.app_process import app_process
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError
from aicore_sim.device.packages import PackageStore, UnknownPackage
from appfunctions_host.registry import DeclaredFunction, Provider, Registry

logger = logging.getLogger(__name__)

BIND_SECONDS = 10.0
"""How long a process may take from its start to providing the function."""
IDLE_SECONDS = 60.0
"""How long a started process is kept after its last call."""
NO_SERVICE_TEXT = "Cannot find the target service."
NOT_BOUND_TEXT = "Failed to bind the AppFunctionService."

# The command goes with the package, in whichever process that is uninstalled.
_TABLE = """
CREATE TABLE IF NOT EXISTS app_function_services (
    package_name TEXT PRIMARY KEY REFERENCES packages ON DELETE CASCADE,
    command TEXT NOT NULL,
    directory TEXT NOT NULL
) STRICT
"""


@dataclass(frozen=True, kw_only=True)
class ServiceCommand:
    package_name: str
    command: tuple[str, ...]
    directory: str
    """Where it runs; empty means where the host does."""


class ServiceCommands:
    """The registered commands of one device."""

    def __init__(self, connection: sqlite3.Connection, packages: PackageStore) -> None:
        self._connection = connection
        self._packages = packages
        connection.execute(_TABLE)

    def set(self, package_name: str, command: Sequence[str], directory: str = "") -> None:
        """Register a command; an empty one takes the registration away.

        Raises UnknownPackage, and ValueError for words that no process can be given.
        """
        if self._packages.get(package_name) is None:
            raise UnknownPackage(package_name)
        if any("\0" in word for word in (*command, directory)) or (command and not command[0]):
            raise ValueError(f"{list(command)!r} is no command")
        if command:
            self._connection.execute(
                "INSERT OR REPLACE INTO app_function_services VALUES (?, ?, ?)",
                (package_name, json.dumps(list(command)), directory),
            )
        else:
            self._connection.execute(
                "DELETE FROM app_function_services WHERE package_name = ?", (package_name,)
            )

    def get(self, package_name: str) -> ServiceCommand | None:
        row = self._connection.execute(
            "SELECT * FROM app_function_services WHERE package_name = ?", (package_name,)
        ).fetchone()
        return None if row is None else _command(row)

    def all(self) -> tuple[ServiceCommand, ...]:
        """By package."""
        rows = self._connection.execute("SELECT * FROM app_function_services ORDER BY 1")
        return tuple(_command(row) for row in rows.fetchall())


@dataclass(kw_only=True, eq=False)
class _Started:
    """One process that this host started."""

    task: asyncio.Task[None]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    has_provided: bool = False
    calls: int = 0
    """Those that run, and those that wait for its start."""
    timer: asyncio.TimerHandle | None = None


class ServiceStarter:
    """Binds calls to running services. For one event loop."""

    def __init__(
        self,
        commands: ServiceCommands,
        packages: PackageStore,
        registry: Registry,
        *,
        environment: Callable[[], Mapping[str, str]] = dict,
        bind_seconds: float = BIND_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`environment` gives the variables by which a process finds the device."""
        self._commands = commands
        self._packages = packages
        self._registry = registry
        self.environment = environment
        self._bind_seconds = bind_seconds
        self._idle_seconds = idle_seconds
        self._started: dict[str, _Started] = {}
        self._failures: dict[str, str] = {}
        self._closed = False

    @property
    def running(self) -> tuple[str, ...]:
        """Packages whose services this host has started."""
        return tuple(sorted(self._started))

    def last_failure(self, package_name: str) -> str:
        """Why the last start of its service served no call; empty when it did, or never started."""
        return self._failures.get(package_name, "")

    def can_bind(self, function: DeclaredFunction) -> bool:
        """Whether somebody runs the function, or can be started for it."""
        package_name = function.key[0]
        return (
            self._registry.provider_of(function.key) is not None
            or self._commands.get(package_name) is not None
        )

    async def bind(self, function: DeclaredFunction) -> Provider:
        """Who runs the function, started if need be. Raises AppFunctionError 2000."""
        provider = self._registry.provider_of(function.key)
        if provider is not None:
            return provider
        package_name = function.key[0]
        command = self._commands.get(package_name)
        if command is None or self._closed:
            raise AppFunctionError(AppFunctionCode.SYSTEM_ERROR, NO_SERVICE_TEXT)
        started = self._start(command)
        was_ending = started.has_provided
        provider = await self._bound(function, started)
        if provider is None and was_ending and started.task.done() and not self._closed:
            # Its stream was known to be gone before its exit was.
            provider = await self._bound(function, self._start(command))
        if provider is None:
            raise AppFunctionError(AppFunctionCode.SYSTEM_ERROR, NOT_BOUND_TEXT)
        return provider

    async def _bound(self, function: DeclaredFunction, started: _Started) -> Provider | None:
        """The provider, or None when the process ended or did not provide in time."""
        bound = asyncio.ensure_future(self._registry.wait_bound(function.key, self._bind_seconds))
        try:
            # A caller that leaves meanwhile leaves an idle process, connected or not.
            with self._in_use(started):
                await asyncio.wait({bound, started.task}, return_when=asyncio.FIRST_COMPLETED)
            if bound.done() and (provider := bound.result()) is not None:
                started.has_provided = True
                self._failures.pop(function.key[0], None)
                return provider
        finally:
            bound.cancel()
        if started.task.done():
            self._failures.setdefault(function.key[0], f"ended without providing {function.key[1]}")
        else:
            logger.warning(
                "the service of %s did not provide %s within %g s; ending it",
                *function.key,
                self._bind_seconds,
            )
            self._failures[function.key[0]] = (
                f"did not provide {function.key[1]} within {self._bind_seconds:g} s"
            )
            started.stop.set()
        return None

    @contextlib.contextmanager
    def using(self, package_name: str) -> Iterator[None]:
        """Around a call: the process is not idle."""
        started = self._started.get(package_name)
        with self._in_use(started) if started is not None else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def _in_use(self, started: _Started) -> Iterator[None]:
        started.calls += 1
        if started.timer is not None:
            started.timer.cancel()
            started.timer = None
        try:
            yield
        finally:
            started.calls -= 1
            if not started.calls and not started.task.done():
                started.timer = asyncio.get_running_loop().call_later(
                    self._idle_seconds, started.stop.set
                )

    async def close(self) -> None:
        """End every process. Bounded by the grace that a process has."""
        self._closed = True
        tasks = [started.task for started in self._started.values()]
        for started in self._started.values():
            started.stop.set()
        if tasks:
            await asyncio.wait(tasks)

    def _start(self, command: ServiceCommand) -> _Started:
        found = self._started.get(command.package_name)
        if found is not None and not found.stop.is_set():
            return found
        self._failures.pop(command.package_name, None)
        stop = asyncio.Event()
        task = asyncio.create_task(
            self._run(command, stop, found.task if found is not None else None),
            name=f"service-of-{command.package_name}",
        )
        started = _Started(task=task, stop=stop)
        self._started[command.package_name] = started
        task.add_done_callback(lambda _: self._ended(command.package_name, started))
        return started

    def _ended(self, package_name: str, started: _Started) -> None:
        if started.timer is not None:
            started.timer.cancel()
        if self._started.get(package_name) is started:
            del self._started[package_name]

    async def _run(
        self, command: ServiceCommand, stop: asyncio.Event, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        package_name = command.package_name

        async def environment(pid: int) -> dict[str, str]:
            token = self._packages.issue_launch_token(package_name, pid)
            return {**self.environment(), "AICORE_SIM_TOKEN": token}

        try:
            async with app_process(
                command.command,
                environment,
                stdin=DEVNULL,
                stdout=sys.stderr,
                stderr=sys.stderr,
                cwd=command.directory or None,
            ) as process:
                logger.info("started the service of %s, pid %s", package_name, process.pid)
                await _until(process, stop)
            logger.info("the service of %s ended with %s", package_name, process.returncode)
            if not stop.is_set() and process.returncode:
                self._failures[package_name] = f"ended with exit code {process.returncode}"
        except (OSError, ValueError, UnknownPackage, sqlite3.Error) as error:
            logger.exception("the service of %s could not be started", package_name)
            self._failures[package_name] = f"could not be started: {error}"


async def _until(process: Process, stop: asyncio.Event) -> None:
    """Return when the process has ended, or is to."""
    waits = {asyncio.ensure_future(process.wait()), asyncio.ensure_future(stop.wait())}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _command(row: tuple[str, str, str]) -> ServiceCommand:
    return ServiceCommand(package_name=row[0], command=tuple(json.loads(row[1])), directory=row[2])
