"""The command line's own connection to a device: the control token and the control service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from grpc_status import rpc_status

from aicore_protos import device_pb2, device_pb2_grpc, errors_pb2
from aicore_sim.device.home import DeviceHome

CALL_TIMEOUT = 10.0


class CommandError(Exception):
    """A failure that ends a command with its message and exit code."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Control:
    """DeviceControl of a running device, each call bounded by ten seconds."""

    def __init__(self, address: str, token: str, channel: grpc.Channel) -> None:
        self.address = address
        self._stub: Any = device_pb2_grpc.DeviceControlStub(channel)
        self._metadata = (("authorization", f"Bearer {token}"),)

    def get_device(self) -> device_pb2.Device:
        device: device_pb2.Device = self._call(self._stub.GetDevice, device_pb2.GetDeviceRequest())
        return device

    def install(self, request: device_pb2.InstallPackageRequest) -> device_pb2.Package:
        response: device_pb2.InstallPackageResponse = self._call(self._stub.InstallPackage, request)
        return response.package

    def uninstall(self, package_name: str) -> None:
        request = device_pb2.UninstallPackageRequest(package_name=package_name)
        self._call(self._stub.UninstallPackage, request)

    def grant(self, package_name: str, permission: str) -> device_pb2.Package:
        request = device_pb2.GrantPermissionRequest(
            package_name=package_name, permission=permission
        )
        package: device_pb2.Package = self._call(self._stub.GrantPermission, request)
        return package

    def revoke(self, package_name: str, permission: str) -> device_pb2.Package:
        request = device_pb2.RevokePermissionRequest(
            package_name=package_name, permission=permission
        )
        package: device_pb2.Package = self._call(self._stub.RevokePermission, request)
        return package

    def packages(self) -> tuple[device_pb2.Package, ...]:
        response: device_pb2.ListPackagesResponse = self._call(
            self._stub.ListPackages, device_pb2.ListPackagesRequest()
        )
        return tuple(response.packages)

    def ensure_installed(self, package_name: str, permissions: tuple[str, ...] = ()) -> None:
        """Install a package that is missing, or grant an installed one what it lacks."""
        if any(package.package_name == package_name for package in self.packages()):
            for permission in permissions:
                self.grant(package_name, permission)
        else:
            self.install(
                device_pb2.InstallPackageRequest(package_name=package_name, permissions=permissions)
            )

    def launch_token(self, package_name: str, pid: int) -> str:
        """A token for process `pid`, which ends with it."""
        request = device_pb2.IssueLaunchTokenRequest(package_name=package_name, pid=pid)
        response: device_pb2.IssueLaunchTokenResponse = self._call(
            self._stub.IssueLaunchToken, request
        )
        return response.token

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        try:
            return method(request, metadata=self._metadata, timeout=CALL_TIMEOUT)
        except grpc.RpcError as error:
            raise CommandError(explain(error, self.address)) from None


@contextmanager
def connect(address: str, token: str) -> Iterator[Control]:
    """A control connection to the AICore daemon at `address`."""
    with grpc.insecure_channel(address) as channel:
        yield Control(address, token, channel)


@contextmanager
def connect_home(home: DeviceHome) -> Iterator[Control]:
    """A control connection to the device that runs in `home`. Raises CommandError without one."""
    facts = running_device(home)
    with connect(facts["aicore"]["address"], home.read_control_token()) as control:
        yield control


def running_device(home: DeviceHome) -> dict[str, Any]:
    """What the running device published. Raises CommandError when none is running."""
    facts = home.read_running()
    if facts is None:
        raise CommandError(
            f"no device is running in {str(home.path)!r}; start one with `aicore-sim up`, "
            "or name its directory with --device-dir or AICORE_SIM_HOME",
            exit_code=4,
        )
    return facts


def explain(error: grpc.RpcError, address: str) -> str:
    """The message of a failed call, for a person."""
    status = rpc_status.from_call(error)
    for packed in status.details if status else ():
        detail = errors_pb2.ErrorDetail()
        if packed.Unpack(detail):
            match detail.WhichOneof("error"):
                case "gen_ai":
                    return f"[ErrorCode {detail.gen_ai.error_code}] {detail.gen_ai.message}"
                case "app_function":
                    found = detail.app_function
                    return f"[{found.error_code}] {found.error_message}"
                case "simulator":
                    return detail.simulator.message
    return (
        f"the daemon at {address} does not answer ({error.code().name}: {error.details()}); "
        "see `aicore-sim status` and `aicore-sim logs`"
    )
