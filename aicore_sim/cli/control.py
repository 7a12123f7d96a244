"""The command line's own connection to a device: the control token and the control service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from grpc_status import rpc_status

from aicore_protos import device_pb2, device_pb2_grpc, errors_pb2
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.process import is_alive

CALL_TIMEOUT = 10.0
NOT_RUNNING = 4
# An advance waits for everybody who falls due, five seconds each at the most.
LONG_CALL_TIMEOUT = 120.0

# An export may be larger than gRPC's 4 MiB.
_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)


class CommandError(Exception):
    """A failure that ends a command with its message and exit code."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Control:
    """DeviceControl of a running device, each call bounded. Every method raises CommandError."""

    def __init__(self, address: str, token: str, channel: grpc.Channel) -> None:
        self.address = address
        self._stub: Any = device_pb2_grpc.DeviceControlStub(channel)
        self._clock_stub: Any = device_pb2_grpc.DeviceClockStub(channel)
        self._metadata = (("authorization", f"Bearer {token}"),)

    def get_device(self) -> device_pb2.Device:
        device: device_pb2.Device = self._call(self._stub.GetDevice, device_pb2.GetDeviceRequest())
        return device

    def install(self, request: device_pb2.InstallPackageRequest) -> device_pb2.Package:
        return self.install_app(request).package

    def install_app(
        self, request: device_pb2.InstallPackageRequest
    ) -> device_pb2.InstallPackageResponse:
        """As `install`, with the app's token."""
        response: device_pb2.InstallPackageResponse = self._call(self._stub.InstallPackage, request)
        return response

    def uninstall(self, package_name: str) -> None:
        request = device_pb2.UninstallPackageRequest(package_name=package_name)
        self._call(self._stub.UninstallPackage, request)

    def clear(self, package_name: str) -> None:
        request = device_pb2.ClearPackageRequest(package_name=package_name)
        self._call(self._stub.ClearPackage, request)

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

    def ensure_installed(
        self,
        package_name: str,
        permissions: tuple[str, ...] = (),
        allowlist: tuple[str, ...] = (),
    ) -> None:
        """Install a package that is missing, or give an installed one what it lacks."""
        if any(package.package_name == package_name for package in self.packages()):
            for permission in permissions:
                self.grant(package_name, permission)
            if allowlist:
                self.set_allowlist(package_name, allowlist)
        else:
            self.install(
                device_pb2.InstallPackageRequest(
                    package_name=package_name,
                    permissions=permissions,
                    allowlist_targets=allowlist,
                )
            )

    def set_allowlist(self, package_name: str, targets: tuple[str, ...]) -> device_pb2.Package:
        """Replace the packages whose functions this agent may run."""
        request = device_pb2.SetAllowlistRequest(package_name=package_name, targets=targets)
        package: device_pb2.Package = self._call(self._stub.SetAllowlist, request)
        return package

    def launch_token(self, package_name: str, pid: int) -> str:
        """A token for process `pid`, which ends with it."""
        request = device_pb2.IssueLaunchTokenRequest(package_name=package_name, pid=pid)
        response: device_pb2.IssueLaunchTokenResponse = self._call(
            self._stub.IssueLaunchToken, request
        )
        return response.token

    # Time.

    def clock(self) -> device_pb2.ClockState:
        state: device_pb2.ClockState = self._call(
            self._clock_stub.GetTime, device_pb2.GetTimeRequest()
        )
        return state

    def set_clock(self, request: device_pb2.SetClockRequest) -> device_pb2.ClockState:
        state: device_pb2.ClockState = self._call(self._stub.SetClock, request, LONG_CALL_TIMEOUT)
        return state

    def advance_clock(self, nanos: int) -> device_pb2.ClockState:
        """Move a clock that stands still forward by `nanos` nanoseconds."""
        request = device_pb2.AdvanceClockRequest()
        request.duration.FromNanoseconds(nanos)
        state: device_pb2.ClockState = self._call(
            self._stub.AdvanceClock, request, LONG_CALL_TIMEOUT
        )
        return state

    # What an app may do, and when.

    def quota(self, package_name: str = "") -> device_pb2.Quota:
        quota: device_pb2.Quota = self._call(
            self._stub.GetQuota, device_pb2.GetQuotaRequest(package_name=package_name)
        )
        return quota

    def set_quota(self, request: device_pb2.SetQuotaRequest) -> device_pb2.Quota:
        quota: device_pb2.Quota = self._call(self._stub.SetQuota, request)
        return quota

    def reset_quota(self, package_name: str = "") -> None:
        """A fresh start for one app, or without a name for all apps and the device."""
        request = device_pb2.ResetQuotaRequest(package_name=package_name)
        self._call(self._stub.ResetQuota, request)

    def foreground(self) -> device_pb2.Foreground:
        found: device_pb2.Foreground = self._call(
            self._stub.GetImportance, device_pb2.GetImportanceRequest()
        )
        return found

    def set_importance(self, request: device_pb2.SetImportanceRequest) -> device_pb2.Foreground:
        found: device_pb2.Foreground = self._call(self._stub.SetImportance, request)
        return found

    def app_functions_policy(self, policy: str = "") -> str:
        """The enterprise policy for app functions, set before if one is given."""
        request = device_pb2.SetAppFunctionsPolicyRequest(policy=policy)
        found: device_pb2.AppFunctionsPolicy = self._call(self._stub.SetAppFunctionsPolicy, request)
        return found.policy

    # The feature's way to the device.

    def availability(self) -> device_pb2.Availability:
        found: device_pb2.Availability = self._call(
            self._stub.GetAvailability, device_pb2.GetAvailabilityRequest()
        )
        return found

    def set_availability(
        self, request: device_pb2.SetAvailabilityRequest
    ) -> device_pb2.Availability:
        found: device_pb2.Availability = self._call(self._stub.SetAvailability, request)
        return found

    def control_download(
        self, request: device_pb2.ControlDownloadRequest
    ) -> device_pb2.Availability:
        found: device_pb2.Availability = self._call(self._stub.ControlDownload, request)
        return found

    # Faults and the script.

    def add_fault(self, table: dict[str, Any]) -> device_pb2.Fault:
        """`table` is `Fault` as protobuf's JSON writes it."""
        request = device_pb2.AddFaultRequest(fault=ParseDict(table, device_pb2.Fault()))
        fault: device_pb2.Fault = self._call(self._stub.AddFault, request)
        return fault

    def faults(self) -> tuple[device_pb2.Fault, ...]:
        response: device_pb2.ListFaultsResponse = self._call(
            self._stub.ListFaults, device_pb2.ListFaultsRequest()
        )
        return tuple(response.faults)

    def clear_faults(self, ids: Iterable[str] = ()) -> int:
        """Drop the named rules, or all of them; returns how many there were."""
        response: device_pb2.ClearFaultsResponse = self._call(
            self._stub.ClearFaults, device_pb2.ClearFaultsRequest(ids=ids)
        )
        return response.cleared

    def load_script(self, yaml: str) -> device_pb2.ScriptState:
        state: device_pb2.ScriptState = self._call(
            self._stub.LoadScript, device_pb2.LoadScriptRequest(yaml=yaml)
        )
        return state

    def script(self) -> device_pb2.ScriptState:
        state: device_pb2.ScriptState = self._call(
            self._stub.GetScript, device_pb2.GetScriptRequest()
        )
        return state

    # The journal, and the state as a whole.

    def journal(self, request: device_pb2.ReadJournalRequest) -> Iterator[device_pb2.JournalEntry]:
        """Entries, oldest first; with `follow` it ends only when the device does."""
        timeout = None if request.follow else LONG_CALL_TIMEOUT
        call = self._stub.ReadJournal(request, metadata=self._metadata, timeout=timeout)
        try:
            yield from call
        except grpc.RpcError as error:
            raise CommandError(explain(error, self.address)) from None
        finally:
            call.cancel()

    def reset(self, scopes: Iterable[str]) -> None:
        """`scopes` are names of ResetRequest.Scope."""
        self._call(self._stub.Reset, device_pb2.ResetRequest(scopes=scopes), LONG_CALL_TIMEOUT)

    def export_state(self) -> bytes:
        response: device_pb2.ExportStateResponse = self._call(
            self._stub.ExportState, device_pb2.ExportStateRequest(), LONG_CALL_TIMEOUT
        )
        return response.state

    def import_state(self, state: bytes) -> device_pb2.ImportStateResponse:
        response: device_pb2.ImportStateResponse = self._call(
            self._stub.ImportState, device_pb2.ImportStateRequest(state=state), LONG_CALL_TIMEOUT
        )
        return response

    def _call(self, method: Callable[..., Any], request: Any, timeout: float = CALL_TIMEOUT) -> Any:
        try:
            return method(request, metadata=self._metadata, timeout=timeout)
        except grpc.RpcError as error:
            raise CommandError(explain(error, self.address)) from None


@contextmanager
def connect(address: str, token: str) -> Iterator[Control]:
    """A control connection to the AICore daemon at `address`."""
    with grpc.insecure_channel(address, _CHANNEL_OPTIONS) as channel:
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
    if facts is None or not is_alive(facts["pid"], facts["pid_started"]):
        raise CommandError(
            f"no device is running in {str(home.path)!r}; start one with `aicore-sim up`, "
            "or name its directory with --device-dir or AICORE_SIM_HOME",
            exit_code=NOT_RUNNING,
        )
    return facts


def explain(error: grpc.RpcError, address: str) -> str:
    """The message of a failed call, for a person."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:  # gRPC cut the metadata
        status = None
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
