"""A device as a test sees it, however it was started. Every call blocks, and is bounded."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from google.protobuf.json_format import MessageToDict

from aicore_client import DeviceConnection
from aicore_client.blocking import run_blocking
from aicore_protos import device_pb2
from aicore_sim.cli.control import CommandError, Control
from aicore_sim.cli.ctl import values
from aicore_sim.cli.ctl.importance import wire
from aicore_sim.device.profile import DeviceProfile
from aicore_sim.testing._boot import Running
from aicore_sim.testing._loop import LoopThread
from aicore_sim.testing.journal import Journal
from aicore_sim.testing.scopes import Scope, kept
from aicore_sim.testing.verdict import Finding, findings, report
from appfunctions_host.annotations import AppFunctionService
from appfunctions_host.provider import serve_app

Script = str | Path | Sequence[Mapping[str, Any]]
"""A script: its YAML, the path of a file with it, or its steps as tables."""

LONG_CALL_SECONDS = 60.0
"""Real seconds after which a generation or an execution of a test is given up."""
_READY_SECONDS = 10.0
_SHELL = "com.android.shell"


class Device:
    """One simulated device.

    Its methods may be called from any thread; each raises CommandError when the device refuses,
    with what was wrong. In a coroutine, use `async with` for
    the states and `asyncio.to_thread` for a call that may take long, such as `advance`.
    """

    def __init__(
        self,
        running: Running,
        control: Control,
        close: Callable[[], None],
    ) -> None:
        self._running = running
        self._control = control
        self._close = close
        self._lock = threading.Lock()
        self._providers: LoopThread | None = None
        self._connections: list[DeviceConnection] = []
        self._stopped = False
        self.journal = Journal(
            lambda: control.journal(device_pb2.ReadJournalRequest()), self._package_names
        )
        """What AICore decided; see `Journal.calls`."""
        profile = DeviceProfile.model_validate_json(running.home.profile_path.read_bytes())
        self._context_tokens = profile.token_limit
        self._packages_at_start = control.packages()
        self._quota_at_start = control.quota().model
        self._exclusive_at_start = control.foreground().exclusive
        self._policy_at_start = control.app_functions_policy()

    # Where it is.

    @property
    def aicore_address(self) -> str:
        """gRPC target of AICore."""
        return str(self._running.facts["aicore"]["address"])

    @property
    def appfunctions_address(self) -> str:
        """gRPC target of the AppFunction host."""
        return str(self._running.facts["appfunctions"]["address"])

    @property
    def facts(self) -> dict[str, Any]:
        """What `running.json` says of the device: addresses, profile, seed."""
        return dict(self._running.facts)

    @property
    def seed(self) -> int:
        """Repeats the run: everything that is drawn by lot comes from it."""
        return int(self._running.facts["seed"])

    def log_tail(self) -> str:
        """The last lines of the daemons' logs; empty for a device in this process."""
        return self._running.log_tail()

    # Apps.

    def install(
        self, package: str, *, permissions: Iterable[str] = (), allowlist: Iterable[str] = ()
    ) -> None:
        """Install an app, or update it: its permissions are then exactly these.

        `allowlist` are the packages whose functions the app, as a certified agent, may run.
        """
        self._control.install(
            device_pb2.InstallPackageRequest(
                package_name=package, permissions=permissions, allowlist_targets=allowlist
            )
        )

    def uninstall(self, package: str) -> None:
        """Remove an app with all that it was granted."""
        self._control.uninstall(package)

    def grant(self, package: str, permission: str) -> None:
        """Give an app a permission, from its next call on."""
        self._control.grant(package, permission)

    def revoke(self, package: str, permission: str) -> None:
        """Take a permission away, from the next call on."""
        self._control.revoke(package, permission)

    def packages(self) -> tuple[str, ...]:
        """The installed packages, by name."""
        return tuple(self._package_names())

    def caller(
        self,
        package: str,
        *,
        permissions: Iterable[str] | None = None,
        allowlist: Iterable[str] | None = None,
    ) -> DeviceConnection:
        """A connection of the app, for `AgentRunner`, `Generation` and `AppFunctionManager`.

        Installs the app where it is missing. `permissions` are then exactly the app's, `allowlist`
        the packages whose functions it may run; None leaves what it has. `reset` and `stop` close
        the connection.
        """
        installed = package in self._package_names()
        if not installed or permissions is not None:
            self.install(package, permissions=permissions or (), allowlist=allowlist or ())
        elif allowlist is not None:
            self._control.set_allowlist(package, tuple(allowlist))
        connection = DeviceConnection(
            self.aicore_address,
            self.appfunctions_address,
            self._control.launch_token(package, os.getpid()),
            long_call_timeout=LONG_CALL_SECONDS,
        )
        self._connections.append(connection)
        return connection

    def app_function(self, package: str, *services: type[AppFunctionService]) -> tuple[str, ...]:
        """Serve the functions of an app from this process; returns their identifiers.

        Installs the app where it is missing. They run in a thread beside the test, until `reset` or
        `stop`. Raises DefinitionError for a service that Android's compiler would refuse.
        """
        self._control.ensure_installed(package)
        ready = threading.Event()
        identifiers: list[str] = []

        def tell(found: Sequence[str]) -> None:
            identifiers.extend(found)
            ready.set()

        with self._lock:
            if self._providers is None:
                self._providers = LoopThread("aicore-sim-functions")
        token = self._control.launch_token(package, os.getpid())
        serving = self._providers.begin(
            serve_app(package, services, self.appfunctions_address, token, on_ready=tell)
        )
        serving.add_done_callback(lambda _: ready.set())
        if not ready.wait(_READY_SECONDS):
            serving.cancel()
            raise TimeoutError(f"{package}: no function was ready after {_READY_SECONDS:.0f} s")
        if serving.done():
            serving.result()
        return tuple(identifiers)

    # The model.

    def set_script(self, script: Script) -> None:
        """Replace what the model answers; docs/scripts.md has the format."""
        self._control.load_script(_yaml(script))

    def remaining_steps(self) -> tuple[str, ...]:
        """The steps that no generation has taken, described."""
        return tuple(self._control.script().remaining)

    def assert_script_complete(self) -> None:
        """Raises AssertionError when steps of the script are left."""
        if left := self.remaining_steps():
            raise AssertionError(f"steps of the script that were not used: {'; '.join(left)}")

    # Faults and state.

    def fault(
        self,
        error: int | str,
        *,
        rpc: str = "GenerateContent",
        package: str = "",
        function: str = "",
        times: int = 0,
        after: int = 0,
    ) -> Scope[str]:
        """For a block, calls fail with `error`: a code, or its name such as "BUSY".

        `times`: how often at the most, 0 without limit. `after`: matching calls that pass first.
        Calls of the AppFunction host have `rpc="Execute"` and may name a `function`. Raises
        ValueError for a code or an app that does not exist. The block gets the id of the rule.
        """
        code = values.error_code(error if isinstance(error, str) else int(error))
        table = {
            "match": {"rpc": rpc, "package_name": package, "function_identifier": function},
            "action": {"error_code": code},
            "times": times,
            "after": after,
        }

        def enter() -> str:
            if package:
                self._require(package)
            return self._control.add_fault(table).id

        def leave(fault_id: str) -> None:
            if any(one.id == fault_id for one in self._control.faults()):
                self._control.clear_faults([fault_id])

        return Scope(enter, leave)

    def background(self, package: str) -> Scope[None]:
        """For a block, the app is in the background: its inferences fail with 30."""
        return self.importance(package, "background")

    def importance(self, package: str, level: str) -> Scope[None]:
        """For a block, the app's importance: top, visible, foreground-service, overlay or
        background. Raises ValueError for an app or a level that does not exist."""
        chosen = wire(level)

        def apps() -> Sequence[device_pb2.AppImportance]:
            self._require(package)
            return self._control.foreground().apps

        def put_back(before: Sequence[device_pb2.AppImportance]) -> None:
            names = self._package_names()
            # Where one app at most is on top, whoever comes last is.
            for app in sorted(before, key=lambda one: one.importance == device_pb2.TOP):
                if app.package_name in (*names, _SHELL):
                    self._set_importance(app.package_name, app.importance)

        return kept(apps, lambda: self._set_importance(package, chosen), put_back)

    def quota(self, model: str) -> Scope[None]:
        """For a block, another quota model of the device's profile, or "off"."""

        def choose(name: str) -> None:
            self._control.set_quota(device_pb2.SetQuotaRequest(model=name))

        return kept(lambda: self._control.quota().model, lambda: choose(model), choose)

    def charge(self, package: str, seconds: float) -> None:
        """Charge the app's quota as if it had inferred for `seconds`, until `reset`."""
        self._control.set_quota(
            device_pb2.SetQuotaRequest(package_name=package, charge_seconds=seconds)
        )

    def network_off(self) -> Scope[None]:
        """For a block, downloads reach nothing and fail with type 1, code 0."""

        def switch(on: bool) -> None:
            self._control.set_availability(device_pb2.SetAvailabilityRequest(network_available=on))

        return kept(
            lambda: self._control.availability().network_available, lambda: switch(False), switch
        )

    def feature_status(self, status: str) -> Scope[None]:
        """For a block, what `checkStatus` says: UNAVAILABLE, DOWNLOADABLE, DOWNLOADING or
        AVAILABLE. A download in the block may go on from there; the block's end puts back each
        feature's status."""
        chosen = values.status(status)

        def choose() -> None:
            self._control.set_availability(device_pb2.SetAvailabilityRequest(status=chosen.name))

        def put_back(before: Sequence[device_pb2.FeatureAvailability]) -> None:
            for feature in before:
                self._control.set_availability(
                    device_pb2.SetAvailabilityRequest(
                        status=feature.status, feature_id=feature.feature_id
                    )
                )

        return kept(lambda: self._control.availability().features, choose, put_back)

    def instant_downloads(self) -> Scope[None]:
        """For a block, downloads that begin are complete at once, not after device time."""
        at_once = device_pb2.DownloadProgression(rule=device_pb2.DownloadProgression.IMMEDIATE)

        def choose(progression: device_pb2.DownloadProgression) -> None:
            request = device_pb2.ControlDownloadRequest(progression=progression)
            self._control.control_download(request)

        return kept(
            lambda: self._control.availability().progression, lambda: choose(at_once), choose
        )

    # Time.

    def now(self) -> float:
        """Device time in seconds since the epoch."""
        return self._control.clock().now.ToNanoseconds() / 1e9

    def advance(self, seconds: float) -> None:
        """Move a clock that stands still; returns when what fell due is done.

        Raises CommandError on a device whose time flows.
        """
        self._control.advance_clock(round(seconds * 1e9))

    def advance_or_wait(self, seconds: float) -> None:
        """Let device time pass: advance a clock that stands still, else wait.

        Lets one test run in real and in virtual time.
        """
        if self._control.clock().mode == device_pb2.SetClockRequest.REAL:
            threading.Event().wait(seconds)
        else:
            self.advance(seconds)

    # Verdict, reset, end.

    def findings(self) -> tuple[Finding, ...]:
        """How apps misbehaved since the last reset; docs/verdict.md explains each rule."""
        return findings(
            self.journal.entries(),
            context_tokens=self._context_tokens,
            remaining_steps=self.remaining_steps(),
            running=[one.package_name for one in self._control.get_device().generations],
        )

    def assert_well_behaved(self, *, ignore: Iterable[str] = ()) -> None:
        """Raises AssertionError with every finding but those of the rules in `ignore`.

        Raises ValueError for a rule that does not exist.
        """
        text = report(self.findings(), ignore=ignore)
        if text:
            raise AssertionError(text)

    def reset(self) -> None:
        """A new phone with the apps that were there when the test kit found the device.

        Ends generations, providers and connections; drops faults, journal, script, grants, states
        and what was used of quotas. Time goes on.
        """
        self._end_apps()
        control = self._control
        control.reset(["FACTORY"])
        control.load_script("[]")
        control.set_quota(device_pb2.SetQuotaRequest(model=self._quota_at_start))
        control.set_importance(device_pb2.SetImportanceRequest(exclusive=self._exclusive_at_start))
        control.app_functions_policy(self._policy_at_start)
        for package in self._packages_at_start:
            fields = MessageToDict(package, preserving_proto_field_name=True)
            fields.pop("uid", None)
            control.install(device_pb2.InstallPackageRequest(**fields))

    def stop(self) -> None:
        """End the device, or leave one that ran before. Idempotent."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        try:
            self._end_apps()
        finally:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _end_apps(self) -> None:
        with self._lock:
            providers, self._providers = self._providers, None
            connections, self._connections = self._connections, []
        if providers is not None:
            providers.close()
        for connection in connections:
            with contextlib.suppress(TimeoutError):
                run_blocking(connection.close())

    def _package_names(self) -> list[str]:
        return [package.package_name for package in self._control.packages()]

    def _set_importance(self, package: str, importance: device_pb2.Importance | str) -> None:
        self._control.set_importance(
            device_pb2.SetImportanceRequest(package_name=package, importance=importance)
        )

    def _require(self, package: str) -> None:
        names = self._package_names()
        if package not in names:
            raise ValueError(
                f"package {package!r} is not installed; there are {', '.join(names) or 'none'}"
            )


def _yaml(script: Script) -> str:
    if isinstance(script, Path):
        return script.read_text(encoding="utf-8")
    if isinstance(script, str):
        return script
    return yaml.safe_dump([dict(step) for step in script], sort_keys=False, allow_unicode=True)


__all__ = ["CommandError", "Device", "Script"]
