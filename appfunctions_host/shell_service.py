"""The gRPC service behind the shell command's settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aicore_protos import appfunctions_shell_pb2 as pb
from aicore_protos import appfunctions_shell_pb2_grpc
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.packages import UnknownPackage
from aicore_sim.rpc.identity import require_shell
from appfunctions_host.host import AppFunctionHost

SERVICE = pb.DESCRIPTOR.services_by_name["AppFunctionShell"]


class ShellServicer(appfunctions_shell_pb2_grpc.AppFunctionShellServicer):
    """Settings of one host."""

    def __init__(self, host: AppFunctionHost) -> None:
        self._host = host
        self._settings = host.settings

    async def UpdateAccess(self, request: pb.UpdateAccessRequest, context: Any) -> pb.AccessState:
        require_shell("UpdateAccess")
        with _refusing():
            flags = self._settings.update_access(
                request.agent_package,
                request.target_package,
                flags=request.flags,
                mask=request.mask,
            )
        return self._access(request.agent_package, request.target_package, flags)

    async def GetAccess(self, request: pb.GetAccessRequest, context: Any) -> pb.AccessState:
        require_shell("GetAccess")
        agent, target = request.agent_package, request.target_package
        return self._access(agent, target, self._settings.access_flags(agent, target))

    async def ListValidPackages(
        self, request: pb.ListValidPackagesRequest, context: Any
    ) -> pb.ListValidPackagesResponse:
        require_shell("ListValidPackages")
        return pb.ListValidPackagesResponse(
            agents=self._settings.valid_agents(), targets=self._settings.valid_targets()
        )

    async def ReadAppDescription(
        self, request: pb.ReadAppDescriptionRequest, context: Any
    ) -> pb.ReadAppDescriptionResponse:
        require_shell("ReadAppDescription")
        found = self._host.app_descriptions.get(request.package_name, "")
        return pb.ReadAppDescriptionResponse(description=found)

    async def SetAdditionalAgents(
        self, request: pb.SetAdditionalAgentsRequest, context: Any
    ) -> pb.ShellSettings:
        require_shell("SetAdditionalAgents")
        self._settings.additional_agents = tuple(request.package_names)
        return self._all()

    async def SetAllowlistEnabled(
        self, request: pb.SetAllowlistEnabledRequest, context: Any
    ) -> pb.ShellSettings:
        require_shell("SetAllowlistEnabled")
        self._settings.allowlist_enabled = request.enabled
        return self._all()

    async def SetTestPageSize(
        self, request: pb.SetTestPageSizeRequest, context: Any
    ) -> pb.ShellSettings:
        require_shell("SetTestPageSize")
        with _refusing():
            self._settings.test_page_size = request.page_size
        return self._all()

    async def SetPackageQueries(
        self, request: pb.SetPackageQueriesRequest, context: Any
    ) -> pb.SetPackageQueriesResponse:
        require_shell("SetPackageQueries")
        with _refusing():
            self._settings.set_queries(request.package_name, request.targets)
        self._host.observers.poke()
        return pb.SetPackageQueriesResponse()

    def _access(self, agent: str, target: str, flags: int) -> pb.AccessState:
        state = self._settings.access_state(agent, target)
        return pb.AccessState(flags=flags, request_state=int(state))

    def _all(self) -> pb.ShellSettings:
        return pb.ShellSettings(
            allowlist_enabled=self._settings.allowlist_enabled,
            additional_agents=self._settings.additional_agents,
            test_page_size=self._settings.test_page_size,
        )


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except UnknownPackage as error:
        raise SimulatorFault(FaultKind.NOT_FOUND, str(error)) from None
    except ValueError as error:
        raise SimulatorFault(FaultKind.ILLEGAL_ARGUMENT, str(error)) from None
