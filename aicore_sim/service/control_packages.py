"""DeviceControl: packages, their permissions and their tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aicore_protos import device_pb2
from aicore_sim.device.errors import FaultKind, GenAiCode, SimulatorFault
from aicore_sim.device.packages import Package, UnknownPackage
from aicore_sim.policy.failures import aicore_failure
from aicore_sim.rpc.identity import require_shell
from aicore_sim.service.parts import DeviceParts

logger = logging.getLogger(__name__)


class PackageCalls:
    """The calls of DeviceControl about packages."""

    def __init__(self, parts: DeviceParts) -> None:
        self._parts = parts
        self._store = parts.store

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
        return device_pb2.InstallPackageResponse(package=self._changed(package), token=token)

    async def UninstallPackage(
        self, request: device_pb2.UninstallPackageRequest, context: Any
    ) -> device_pb2.UninstallPackageResponse:
        require_shell("UninstallPackage")
        with _store_errors():
            package = self._require(request.package_name)
            self._store.uninstall(request.package_name)
        self._forget(package)
        self._parts.generations.quota.reset(package.uid)
        self._parts.events.tell(removed(package.package_name))
        logger.info("uninstalled package=%s", request.package_name)
        return device_pb2.UninstallPackageResponse()

    async def ClearPackage(
        self, request: device_pb2.ClearPackageRequest, context: Any
    ) -> device_pb2.ClearPackageResponse:
        require_shell("ClearPackage")
        with _store_errors():
            self._forget(self._require(request.package_name))
            self._store.clear_states(request.package_name)
        return device_pb2.ClearPackageResponse()

    async def GrantPermission(
        self, request: device_pb2.GrantPermissionRequest, context: Any
    ) -> device_pb2.Package:
        require_shell("GrantPermission")
        with _store_errors():
            return self._changed(self._store.grant(request.package_name, request.permission))

    async def RevokePermission(
        self, request: device_pb2.RevokePermissionRequest, context: Any
    ) -> device_pb2.Package:
        require_shell("RevokePermission")
        with _store_errors():
            return self._changed(self._store.revoke(request.package_name, request.permission))

    async def SetAllowlist(
        self, request: device_pb2.SetAllowlistRequest, context: Any
    ) -> device_pb2.Package:
        require_shell("SetAllowlist")
        with _store_errors():
            return self._changed(self._store.set_allowlist(request.package_name, request.targets))

    async def ListPackages(
        self, request: device_pb2.ListPackagesRequest, context: Any
    ) -> device_pb2.ListPackagesResponse:
        require_shell("ListPackages")
        return device_pb2.ListPackagesResponse(
            packages=[package_message(package) for package in self._store.list()]
        )

    async def IssueLaunchToken(
        self, request: device_pb2.IssueLaunchTokenRequest, context: Any
    ) -> device_pb2.IssueLaunchTokenResponse:
        require_shell("IssueLaunchToken")
        with _store_errors():
            token = self._store.issue_launch_token(request.package_name, request.pid)
        logger.info("issued a launch token package=%s pid=%d", request.package_name, request.pid)
        return device_pb2.IssueLaunchTokenResponse(token=token)

    def _require(self, package_name: str) -> Package:
        package = self._store.get(package_name)
        if package is None:
            raise UnknownPackage(package_name)
        return package

    def _forget(self, package: Package) -> None:
        generations = self._parts.generations
        ended = aicore_failure(GenAiCode.CANCELLED, "The app's data was cleared.")
        generations.end_all(ended, "package-cleared", uid=package.uid)
        generations.foreground.forget(package.uid)

    def _changed(self, package: Package) -> device_pb2.Package:
        event = changed(package)
        self._parts.events.tell(event)
        return event.package_changed.package


def package_message(package: Package) -> device_pb2.Package:
    return device_pb2.Package(
        package_name=package.package_name,
        uid=package.uid,
        permissions=sorted(package.permissions),
        signing_digest=package.signing_digest,
        allowlist_targets=sorted(package.allowlist_targets),
    )


def changed(package: Package) -> device_pb2.DeviceEvent:
    made = device_pb2.DeviceEvent.PackageChanged(package=package_message(package))
    return device_pb2.DeviceEvent(package_changed=made)


def removed(package_name: str) -> device_pb2.DeviceEvent:
    made = device_pb2.DeviceEvent.PackageRemoved(package_name=package_name)
    return device_pb2.DeviceEvent(package_removed=made)


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except UnknownPackage as error:
        raise SimulatorFault(FaultKind.NOT_FOUND, str(error)) from None
    except ValueError as error:
        raise SimulatorFault(FaultKind.INVALID_REQUEST, str(error)) from None
