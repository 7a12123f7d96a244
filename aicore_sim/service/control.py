"""The DeviceControl service: what `adb shell` may do. Every call needs the control token."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aicore_protos import device_pb2, device_pb2_grpc
from aicore_sim import __version__
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.packages import Package, PackageStore, UnknownPackage
from aicore_sim.inference.scripted import ScriptedBackend, ScriptError, parse_script
from aicore_sim.rpc.identity import require_shell
from aicore_sim.service.generation import Generations
from aicore_sim.service.unimplemented import refuse_the_rest

logger = logging.getLogger(__name__)

SERVICE = device_pb2.DESCRIPTOR.services_by_name["DeviceControl"]


@refuse_the_rest(SERVICE, check=require_shell)
class DeviceControlServicer(device_pb2_grpc.DeviceControlServicer):
    """Packages, tokens, and the script of a scripted model."""

    def __init__(
        self, store: PackageStore, generations: Generations, *, device_dir: Path, seed: int
    ) -> None:
        self._store = store
        self._generations = generations
        self._device_dir = device_dir
        self._seed = seed

    async def GetDevice(
        self, request: device_pb2.GetDeviceRequest, context: Any
    ) -> device_pb2.Device:
        require_shell("GetDevice")
        profile, model = self._generations.profile, self._generations.model
        return device_pb2.Device(
            version=__version__,
            device_dir=str(self._device_dir),
            profile=profile.name,
            platform=profile.platform,
            model=model.name,
            unavailable_reason=model.unavailable_reason or "",
            seed=self._seed,
            pid=os.getpid(),
            running=self._generations.queue.running,
            waiting=self._generations.queue.waiting,
        )

    async def InstallPackage(
        self, request: device_pb2.InstallPackageRequest, context: Any
    ) -> device_pb2.InstallPackageResponse:
        require_shell("InstallPackage")
        with _store_errors():
            package, token = self._store.install(
                request.package_name,
                request.permissions,
                signing_digest=request.signing_digest,
                allowlist_targets=request.allowlist_targets,
            )
        logger.info("installed package=%s uid=%d", package.package_name, package.uid)
        return device_pb2.InstallPackageResponse(package=_message(package), token=token)

    async def UninstallPackage(
        self, request: device_pb2.UninstallPackageRequest, context: Any
    ) -> device_pb2.UninstallPackageResponse:
        require_shell("UninstallPackage")
        with _store_errors():
            self._store.uninstall(request.package_name)
        logger.info("uninstalled package=%s", request.package_name)
        return device_pb2.UninstallPackageResponse()

    async def GrantPermission(
        self, request: device_pb2.GrantPermissionRequest, context: Any
    ) -> device_pb2.Package:
        require_shell("GrantPermission")
        with _store_errors():
            return _message(self._store.grant(request.package_name, request.permission))

    async def RevokePermission(
        self, request: device_pb2.RevokePermissionRequest, context: Any
    ) -> device_pb2.Package:
        require_shell("RevokePermission")
        with _store_errors():
            return _message(self._store.revoke(request.package_name, request.permission))

    async def SetAllowlist(
        self, request: device_pb2.SetAllowlistRequest, context: Any
    ) -> device_pb2.Package:
        require_shell("SetAllowlist")
        with _store_errors():
            return _message(self._store.set_allowlist(request.package_name, request.targets))

    async def ListPackages(
        self, request: device_pb2.ListPackagesRequest, context: Any
    ) -> device_pb2.ListPackagesResponse:
        require_shell("ListPackages")
        return device_pb2.ListPackagesResponse(
            packages=[_message(package) for package in self._store.list()]
        )

    async def IssueLaunchToken(
        self, request: device_pb2.IssueLaunchTokenRequest, context: Any
    ) -> device_pb2.IssueLaunchTokenResponse:
        require_shell("IssueLaunchToken")
        with _store_errors():
            token = self._store.issue_launch_token(request.package_name, request.pid)
        logger.info("issued a launch token package=%s pid=%d", request.package_name, request.pid)
        return device_pb2.IssueLaunchTokenResponse(token=token)

    async def LoadScript(
        self, request: device_pb2.LoadScriptRequest, context: Any
    ) -> device_pb2.ScriptState:
        require_shell("LoadScript")
        scripted = self._scripted()
        try:
            script = parse_script(request.yaml, source="LoadScript")
        except ScriptError as error:
            raise SimulatorFault(FaultKind.INVALID_REQUEST, str(error)) from None
        warn_of_left_over_steps(scripted)
        scripted.load(script)
        return _script_state(scripted)

    async def GetScript(
        self, request: device_pb2.GetScriptRequest, context: Any
    ) -> device_pb2.ScriptState:
        require_shell("GetScript")
        return _script_state(self._scripted())

    def _scripted(self) -> ScriptedBackend:
        backend = self._generations.model.backend
        if not isinstance(backend, ScriptedBackend):
            raise SimulatorFault(
                FaultKind.INVALID_REQUEST,
                f"the model {self._generations.model.name!r} follows no script; "
                "start the device with --model scripted:FILE",
            )
        return backend


def warn_of_left_over_steps(scripted: ScriptedBackend) -> None:
    """Log the steps that no generation took: the app asked less often than planned."""
    remaining = scripted.remaining()
    if remaining:
        logger.warning(
            "the script has %d steps left over: %s", len(remaining), "; ".join(remaining)
        )


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except UnknownPackage as error:
        raise SimulatorFault(FaultKind.NOT_FOUND, str(error)) from None
    except ValueError as error:
        raise SimulatorFault(FaultKind.INVALID_REQUEST, str(error)) from None


def _message(package: Package) -> device_pb2.Package:
    return device_pb2.Package(
        package_name=package.package_name,
        uid=package.uid,
        permissions=sorted(package.permissions),
        signing_digest=package.signing_digest,
        allowlist_targets=sorted(package.allowlist_targets),
    )


def _script_state(scripted: ScriptedBackend) -> device_pb2.ScriptState:
    return device_pb2.ScriptState(
        steps=scripted.steps, consumed=scripted.consumed, remaining=scripted.remaining()
    )
