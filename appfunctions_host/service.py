"""The gRPC service for callers: parse the request, ask the host, build the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc.aio

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_pb2_grpc
from aicore_sim.device.errors import AppFunctionError, FaultKind, SimulatorFault
from aicore_sim.device.packages import Identity, UnknownPackage
from aicore_sim.rpc.identity import caller, require_shell
from appfunctions_host.access import Decision, may_claim
from appfunctions_host.audit import AuditEntry
from appfunctions_host.catalog import FunctionName, SearchSpec
from appfunctions_host.dispatch import Execution
from appfunctions_host.host import AppFunctionHost
from appfunctions_host.observe import Change
from appfunctions_host.provider_service import bearer_token


class ManagerServicer(appfunctions_pb2_grpc.AppFunctionManagerServicer):
    """`android.app.appfunctions.AppFunctionManager` for callers."""

    def __init__(self, host: AppFunctionHost) -> None:
        self._host = host

    async def Search(
        self, request: pb.SearchRequest, context: grpc.aio.ServicerContext
    ) -> pb.SearchResponse:
        await self._meet_faults("Search", context)
        if request.library != pb.CALLER_LIBRARY_JETPACK:
            self._host.require_search("searchAppFunctions")
        identity = self._verified("search", request.calling_package)
        names = frozenset(_name(name) for name in request.function_names)
        functions, next_page = self._host.catalog.search(
            identity,
            SearchSpec(
                package_names=frozenset(request.package_names) or None,
                function_names=names or None,
                schema_category=request.schema_category,
                schema_name=request.schema_name,
                min_schema_version=request.min_schema_version,
                scopes=frozenset(request.scopes) or None,
            ),
            page_size=request.page_size,
            page_token=request.page_token,
        )
        self._record("search", identity, self._host.rules.may_read(identity))
        return pb.SearchResponse(functions=functions, next_page_token=next_page)

    async def GetCallingPackage(
        self, request: pb.GetCallingPackageRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetCallingPackageResponse:
        identity = caller()
        return pb.GetCallingPackageResponse(
            package_name=identity.package_name,
            uid=identity.uid,
            permissions=sorted(self._host.rules.permissions(identity)),
            sdk_int_full=self._host.sdk_int_full,
        )

    async def GetStates(
        self, request: pb.GetStatesRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetStatesResponse:
        await self._meet_faults("GetStates", context)
        through_jetpack = request.library == pb.CALLER_LIBRARY_JETPACK
        if not through_jetpack:
            self._host.require_search("getAppFunctionStates")
        identity = self._verified("get_states", request.calling_package)
        names = [_name(name) for name in request.names]
        found = self._host.catalog.states(identity, names, through_jetpack=through_jetpack)
        self._record("get_states", identity, self._host.rules.may_read(identity))
        return pb.GetStatesResponse(
            states=[
                pb.AppFunctionState(
                    name=_wire_name(state.name),
                    is_enabled=state.is_enabled,
                    activity_ids=state.activity_ids,
                )
                for state in found
            ]
        )

    async def GetActivityStates(
        self, request: pb.GetActivityStatesRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetActivityStatesResponse:
        await self._meet_faults("GetActivityStates", context)
        if request.library != pb.CALLER_LIBRARY_JETPACK:
            self._host.require_search("getAppFunctionActivityStates")
        identity = self._verified("get_states", request.calling_package)
        found = self._host.catalog.activity_states(identity, request.activity_ids)
        self._record("get_states", identity, self._host.rules.may_read(identity))
        return pb.GetActivityStatesResponse(
            states=[
                pb.AppFunctionActivityState(
                    activity_id=activity_id, names=[_wire_name(name) for name in names]
                )
                for activity_id, names in found
            ]
        )

    async def Execute(
        self, request: pb.ExecuteRequest, context: grpc.aio.ServicerContext
    ) -> pb.ExecuteResponse:
        await self._meet_faults("Execute", context, request.name)
        package_name, identifier = _name(request.name)
        identity = caller()
        execution = Execution(
            package_name=package_name,
            function_identifier=identifier,
            parameters=request.parameters,
            claimed_package=request.calling_package,
            target_user=request.target_user,
            activity_id=request.activity_id,
            verification=request.verification,
        )
        execute = self._host.dispatcher.execute
        if not request.cancellation_id:
            return pb.ExecuteResponse(return_value=await execute(identity, execution))
        with self._host.cancellations.open(
            identity.package_name, request.cancellation_id
        ) as cancellation:
            value = await execute(identity, execution, cancellation)
        return pb.ExecuteResponse(return_value=value)

    async def CancelExecution(
        self, request: pb.CancelExecutionRequest, context: grpc.aio.ServicerContext
    ) -> pb.CancelExecutionResponse:
        await self._meet_faults("CancelExecution", context)
        self._host.cancellations.cancel(caller().package_name, request.cancellation_id)
        return pb.CancelExecutionResponse()

    async def IsEnabled(
        self, request: pb.IsEnabledRequest, context: grpc.aio.ServicerContext
    ) -> pb.IsEnabledResponse:
        await self._meet_faults("IsEnabled", context, request.name)
        identity = self._verified("is_enabled", request.calling_package)
        name = _name(request.name)
        self._record("is_enabled", identity, self._host.catalog.may_see(identity, name), name)
        return pb.IsEnabledResponse(is_enabled=self._host.catalog.is_enabled(identity, name))

    async def SetEnabled(
        self, request: pb.SetEnabledRequest, context: grpc.aio.ServicerContext
    ) -> pb.SetEnabledResponse:
        await self._meet_faults("SetEnabled", context, request.name)
        identity = self._verified("set_enabled", request.calling_package)
        name, state = _name(request.name), int(request.state)
        decision = self._host.catalog.may_set_enabled(identity, name, state)
        self._record("set_enabled", identity, decision, name)
        self._host.catalog.set_enabled(identity, name, state)
        return pb.SetEnabledResponse()

    async def Observe(
        self, request: pb.ObserveRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.ObserveResponse]:
        await self._meet_faults("Observe", context)
        if request.library != pb.CALLER_LIBRARY_JETPACK:
            self._host.require_observe()
        identity = self._verified("observe", request.calling_package)
        token = bearer_token(context)
        self._record("observe", identity, self._host.rules.may_read(identity))
        observation = self._host.observers.open(lambda: self._host.packages.resolve(token))
        try:
            yield pb.ObserveResponse()
            async for change in observation.changes():
                for response in _changed(change):
                    yield response
        finally:
            self._host.observers.close(observation)

    async def Explain(
        self, request: pb.ExplainRequest, context: grpc.aio.ServicerContext
    ) -> pb.ExplainResponse:
        require_shell("Explain")
        try:
            found = self._host.explainer.explain(
                request.package_name, _name(request.function), frozenset(request.id_filter)
            )
        except UnknownPackage as error:
            raise SimulatorFault(FaultKind.NOT_FOUND, str(error)) from None
        return pb.ExplainResponse(
            discoverable=found.discovery.allowed,
            discovery_reason=found.discovery.rule.value,
            discovery_rule=found.discovery.rule.name,
            execute_error_code=found.execution.error_code,
            execute_reason=found.execution.rule.value,
            execute_rule=found.execution.rule.name,
            filtered_out=found.filtered_out,
        )

    async def WatchDecisions(
        self, request: pb.WatchDecisionsRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.AppFunctionDecision]:
        require_shell("WatchDecisions")
        if request.only_recorded:
            for entry in self._host.journal.read(request.after_id):
                yield _decision(entry)
            return
        async for entry in self._host.journal.follow(request.after_id):
            yield _decision(entry)

    async def SetServiceCommand(
        self, request: pb.SetServiceCommandRequest, context: grpc.aio.ServicerContext
    ) -> pb.SetServiceCommandResponse:
        require_shell("SetServiceCommand")
        service = request.service
        try:
            self._host.service_commands.set(
                service.package_name, service.command, service.directory
            )
        except UnknownPackage as error:
            raise SimulatorFault(FaultKind.NOT_FOUND, str(error)) from None
        except ValueError as error:
            raise SimulatorFault(FaultKind.INVALID_REQUEST, f"command: {error}") from None
        return pb.SetServiceCommandResponse()

    async def ListServiceCommands(
        self, request: pb.ListServiceCommandsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListServiceCommandsResponse:
        require_shell("ListServiceCommands")
        running = self._host.starter.running
        return pb.ListServiceCommandsResponse(
            services=[
                pb.ServiceCommand(
                    package_name=one.package_name,
                    command=one.command,
                    directory=one.directory,
                    is_running=one.package_name in running,
                    last_failure=self._host.starter.last_failure(one.package_name),
                )
                for one in self._host.service_commands.all()
            ]
        )

    async def _meet_faults(
        self, rpc: str, context: grpc.aio.ServicerContext, name: pb.AppFunctionName | None = None
    ) -> None:
        await self._host.faults.meet(
            rpc,
            context,
            package_name=caller().package_name,
            function_identifier=name.function_identifier if name is not None else "",
        )

    def _verified(self, operation: str, claimed_package: str) -> Identity:
        identity = caller()
        decision = may_claim(identity, claimed_package)
        if not decision.allowed:
            self._record(operation, identity, decision)
            raise AppFunctionError(decision.error_code, decision.message)
        return identity

    def _record(
        self,
        operation: str,
        identity: Identity,
        decision: Decision,
        name: FunctionName = ("", ""),
    ) -> None:
        self._host.journal.record(
            operation,
            caller=identity.package_name,
            decision=decision,
            package_name=name[0],
            function_identifier=name[1],
        )


def _name(name: pb.AppFunctionName) -> FunctionName:
    return name.package_name, name.function_identifier


def _wire_name(name: FunctionName) -> pb.AppFunctionName:
    return pb.AppFunctionName(package_name=name[0], function_identifier=name[1])


def _changed(change: Change) -> list[pb.ObserveResponse]:
    made = []
    if change.packages:
        metadata = pb.ObserveResponse.MetadataChanged(package_names=sorted(change.packages))
        made.append(pb.ObserveResponse(metadata_changed=metadata))
    if change.functions:
        names = [_wire_name(name) for name in sorted(change.functions)]
        states = pb.ObserveResponse.StatesChanged(names=names)
        made.append(pb.ObserveResponse(states_changed=states))
    return made


def _decision(entry: AuditEntry) -> pb.AppFunctionDecision:
    made = pb.AppFunctionDecision(
        id=entry.id,
        time=entry.time,
        operation=entry.operation,
        calling_package=entry.calling_package,
        rule=entry.rule,
        reason=entry.reason,
        allowed=entry.allowed,
        error_code=entry.error_code,
    )
    if entry.target_package or entry.function_identifier:
        made.function.package_name = entry.target_package
        made.function.function_identifier = entry.function_identifier
    return made
