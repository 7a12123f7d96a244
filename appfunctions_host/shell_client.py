"""The command line's connection to a running host, as the shell or as an app."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import (
    appfunctions_pb2_grpc,
    appfunctions_shell_pb2_grpc,
    device_pb2,
    device_pb2_grpc,
    errors_pb2,
    types_pb2,
)
from aicore_sim.device.home import DeviceHome
from aicore_sim.rpc.server import MAX_MESSAGE_BYTES
from appfunctions_host.wire_errors import error_detail, error_text

CALL_SECONDS = 10.0
# The shell command reads AppSearch itself, as Jetpack does, so it lists on every platform.
_READER = pb.CALLER_LIBRARY_JETPACK
_ADDRESSES = {"appfunctions": "APPFUNCTIONS_ADDRESS", "aicore": "AICORE_SIM_ADDRESS"}


class ServiceMissing(Exception):
    """No host answers; `cmd` says "Can't find service"."""


class TimedOut(Exception):
    """The function did not answer in the time that the command gave it."""


class ExecutionFailed(Exception):
    """An AppFunctionException; the text starts with its code."""


class CallRefused(Exception):
    """Any other refusal, for example Android's IllegalArgumentException."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which device, and who calls; `package_name` None means the shell."""

    device_dir: Path | None = None
    address: str | None = None
    package_name: str | None = None


class HostClient:
    """AppFunctionManager, one blocking call at a time."""

    def __init__(
        self, channel: grpc.Channel, token: str, *, shell: HostClient | None = None
    ) -> None:
        """`shell` makes bare method names whole; by default the caller itself does."""
        self._stub: Any = appfunctions_pb2_grpc.AppFunctionManagerStub(channel)
        self._set_up: Any = appfunctions_shell_pb2_grpc.AppFunctionShellStub(channel)
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._shell = shell or self

    def search(self, package_name: str | None) -> Iterator[pb.AppFunctionMetadata]:
        """All functions that the caller may discover. Raises as every call here."""
        page_token = ""
        while True:
            request = pb.SearchRequest(
                package_names=[package_name] if package_name else [],
                page_token=page_token,
                library=_READER,
            )
            page = self._call(self._stub.Search, request)
            yield from page.functions
            page_token = page.next_page_token
            if not page_token:
                return

    def full_name(self, name: pb.AppFunctionName) -> pb.AppFunctionName:
        """A bare method name made whole (ours), whoever the caller is: how a function is spelt must
        not change what its caller is told.

        Raises ValueError when several services of the package have it.
        """
        bare = name.function_identifier
        if "#" in bare:
            return name
        found = [
            metadata.name
            for metadata in self._shell.search(name.package_name)
            if metadata.name.function_identifier.endswith(f"#{bare}")
        ]
        if len(found) > 1:
            identifiers = ", ".join(item.function_identifier for item in found)
            raise ValueError(f"--function {bare} is ambiguous; use one of {identifiers}")
        return found[0] if found else name

    def states(self, names: list[pb.AppFunctionName]) -> Mapping[tuple[str, str], bool]:
        response = self._call(
            self._stub.GetStates, pb.GetStatesRequest(names=names, library=_READER)
        )
        return {
            (state.name.package_name, state.name.function_identifier): state.is_enabled
            for state in response.states
        }

    def execute(
        self,
        name: pb.AppFunctionName,
        parameters: types_pb2.ObjectValue,
        *,
        target_user: int,
        timeout: float,
    ) -> types_pb2.Value:
        request = pb.ExecuteRequest(name=name, parameters=parameters, target_user=target_user)
        response = self._call(self._stub.Execute, request, timeout)
        value: types_pb2.Value = response.return_value
        return value

    def is_enabled(self, name: pb.AppFunctionName) -> bool:
        return bool(self._call(self._stub.IsEnabled, pb.IsEnabledRequest(name=name)).is_enabled)

    def set_enabled(self, name: pb.AppFunctionName, state: pb.EnabledState) -> None:
        self._call(self._stub.SetEnabled, pb.SetEnabledRequest(name=name, state=state))

    def explain(
        self, calling_package: str, name: pb.AppFunctionName, id_filter: Sequence[str]
    ) -> pb.ExplainResponse:
        """Why `calling_package` sees and may run a function, or not."""
        request = pb.ExplainRequest(
            package_name=calling_package, function=name, id_filter=id_filter
        )
        response: pb.ExplainResponse = self._call(self._stub.Explain, request)
        return response

    def manage(self, method: str, request: object) -> Any:
        """A call of AppFunctionManager that needs the control token."""
        return self._call(getattr(self._stub, method), request)

    def set_up(self, method: str, request: object) -> Any:
        """A call of AppFunctionShell."""
        return self._call(getattr(self._set_up, method), request)

    def watch(self, *, after_id: int, follow: bool) -> Iterator[pb.AppFunctionDecision]:
        """Decisions after `after_id`; without `follow` only those that are recorded.

        Ends when the host stops.
        """
        request = pb.WatchDecisionsRequest(after_id=after_id, only_recorded=not follow)
        try:
            yield from self._stub.WatchDecisions(request, metadata=self._metadata)
        except grpc.RpcError as error:
            raise _explained(error) from None

    def _call(
        self, method: Callable[..., Any], request: object, timeout: float = CALL_SECONDS
    ) -> Any:
        try:
            return method(request, metadata=self._metadata, timeout=timeout)
        except grpc.RpcError as error:
            raise _explained(error) from None


@contextmanager
def connect(target: Target) -> Iterator[HostClient]:
    """A client of the host. Raises ServiceMissing, CallRefused, or FileNotFoundError."""
    home = DeviceHome(target.device_dir)
    address = target.address or _address(home, target, "appfunctions")
    control_token = home.read_control_token()
    token = control_token
    if target.package_name is not None:
        token = _launch_token(_address(home, target, "aicore"), token, target.package_name)
    with _channel(address) as channel:
        yield HostClient(channel, token, shell=HostClient(channel, control_token))


def _launch_token(address: str, control_token: str, package_name: str) -> str:
    request = device_pb2.IssueLaunchTokenRequest(package_name=package_name, pid=os.getpid())
    metadata = (("authorization", f"Bearer {control_token}"),)
    with _channel(address) as channel:
        stub: Any = device_pb2_grpc.DeviceControlStub(channel)
        try:
            token: str = stub.IssueLaunchToken(
                request, metadata=metadata, timeout=CALL_SECONDS
            ).token
        except grpc.RpcError as error:
            if error_detail(error) is None:
                raise CallRefused(
                    f"--as {package_name} needs the AICore daemon, and none answers at {address!r}"
                ) from None
            raise _explained(error) from None
    return token


def _address(home: DeviceHome, target: Target, daemon: str) -> str:
    """A named directory wins over the environment, which wins over the default directory."""
    from_environment = os.environ.get(_ADDRESSES[daemon])
    if target.device_dir is None and from_environment:
        return from_environment
    running = home.read_running() or {}
    found = running.get(daemon)
    return found["address"] if found else f"unix:{home.socket_path(daemon)}"


def _channel(address: str) -> grpc.Channel:
    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ]
    return grpc.insecure_channel(address, options=options)


def _explained(error: grpc.RpcError) -> Exception:
    detail: errors_pb2.ErrorDetail | None = error_detail(error)
    if detail is None:
        if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            return TimedOut()
        return ServiceMissing()
    if detail.WhichOneof("error") == "app_function":
        return ExecutionFailed(error_text(error))
    return CallRefused(error_text(error))
