"""The gRPC services: parse the request, ask the host, build the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import NoReturn

import grpc.aio

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_pb2_grpc
from aicore_sim.device.errors import AppFunctionError, FaultKind, SimulatorFault
from aicore_sim.device.packages import Identity
from aicore_sim.rpc.identity import caller
from appfunctions_host.access import may_claim
from appfunctions_host.catalog import FunctionName, SearchSpec
from appfunctions_host.dispatch import Execution
from appfunctions_host.host import AppFunctionHost
from appfunctions_host.remote import RemoteProvider

logger = logging.getLogger(__name__)

REGISTER_SECONDS = 10.0
"""How long a new provider may take to say what it provides."""
TAKEOVER_SECONDS = 2.0
"""How long a restarted provider waits for the end of its predecessor to arrive."""


class ManagerServicer(appfunctions_pb2_grpc.AppFunctionManagerServicer):
    """`android.app.appfunctions.AppFunctionManager` for callers."""

    def __init__(self, host: AppFunctionHost) -> None:
        self._host = host

    async def Search(
        self, request: pb.SearchRequest, context: grpc.aio.ServicerContext
    ) -> pb.SearchResponse:
        identity = _verified(request.calling_package)
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
        return pb.SearchResponse(functions=functions, next_page_token=next_page)

    async def GetCallingPackage(
        self, request: pb.GetCallingPackageRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetCallingPackageResponse:
        return pb.GetCallingPackageResponse(package_name=caller().package_name)

    async def GetStates(
        self, request: pb.GetStatesRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetStatesResponse:
        identity = _verified(request.calling_package)
        found = self._host.catalog.states(identity, (_name(name) for name in request.names))
        return pb.GetStatesResponse(
            states=[
                pb.AppFunctionState(
                    name=pb.AppFunctionName(package_name=package, function_identifier=identifier),
                    is_enabled=enabled,
                )
                for (package, identifier), enabled in found
            ]
        )

    async def Execute(
        self, request: pb.ExecuteRequest, context: grpc.aio.ServicerContext
    ) -> pb.ExecuteResponse:
        package_name, identifier = _name(request.name)
        value = await self._host.dispatcher.execute(
            caller(),
            Execution(
                package_name=package_name,
                function_identifier=identifier,
                parameters=request.parameters,
                claimed_package=request.calling_package,
                target_user=request.target_user,
                activity_id=request.activity_id,
            ),
        )
        return pb.ExecuteResponse(return_value=value)

    async def IsEnabled(
        self, request: pb.IsEnabledRequest, context: grpc.aio.ServicerContext
    ) -> pb.IsEnabledResponse:
        identity = _verified(request.calling_package)
        enabled = self._host.catalog.is_enabled(identity, _name(request.name))
        return pb.IsEnabledResponse(is_enabled=enabled)

    async def SetEnabled(
        self, request: pb.SetEnabledRequest, context: grpc.aio.ServicerContext
    ) -> pb.SetEnabledResponse:
        identity = _verified(request.calling_package)
        self._host.catalog.set_enabled(identity, _name(request.name), int(request.state))
        return pb.SetEnabledResponse()

    async def Observe(
        self, request: pb.ObserveRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.ObserveResponse]:
        _unimplemented("Observe")
        yield pb.ObserveResponse()

    async def Explain(
        self, request: pb.ExplainRequest, context: grpc.aio.ServicerContext
    ) -> pb.ExplainResponse:
        _unimplemented("Explain")


class ProviderServicer(appfunctions_pb2_grpc.AppFunctionProviderServicer):
    """Keeps the connections of provider processes."""

    def __init__(self, host: AppFunctionHost) -> None:
        self._host = host
        self._providers: set[RemoteProvider] = set()
        self._readers: set[asyncio.Task[None]] = set()

    async def Connect(
        self, request_iterator: AsyncIterator[pb.ProviderMessage], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.HostMessage]:
        register = await _first(request_iterator)
        provider = await self._accept(caller(), register)
        # The callback also runs when the call ends while an item is being sent, where gRPC does
        # not close this generator at once.
        context.add_done_callback(lambda _: self._leave(provider))
        reader = asyncio.create_task(self._read(request_iterator, provider))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        try:
            names = [item.name.function_identifier for item in register.functions]
            yield pb.HostMessage(registered=pb.HostMessage.Registered(function_identifiers=names))
            async for message in provider.messages():
                yield message
        finally:
            reader.cancel()
            self._leave(provider)

    def close(self) -> None:
        """End all connections, so that the providers see that the host goes."""
        for provider in tuple(self._providers):
            self._leave(provider)

    async def _accept(
        self, identity: Identity, register: pb.ProviderMessage.Register
    ) -> RemoteProvider:
        package = register.package_name or identity.package_name
        if package != identity.package_name:
            raise SimulatorFault(
                FaultKind.FORBIDDEN,
                f"the token of {identity.package_name!r} may not provide functions of {package!r}; "
                f"start the provider with `aicore-sim exec --as {package} -- CMD`",
            )
        names = [item.name.function_identifier for item in register.functions]
        if not names:
            raise SimulatorFault(
                FaultKind.INVALID_REQUEST, f"the provider of {package} registers no function"
            )
        registry = self._host.registry
        await registry.wait_free(package, names, TAKEOVER_SECONDS)
        provider = RemoteProvider(package)
        registry.register(package, register.functions, provider)
        self._providers.add(provider)
        logger.info("%s provides %s functions", package, len(names))
        return provider

    def _leave(self, provider: RemoteProvider) -> None:
        provider.close()
        if provider not in self._providers:
            return
        self._providers.discard(provider)
        dropped = self._host.registry.unregister(provider)
        logger.info("%s went away with %s functions", provider.package_name, len(dropped))

    async def _read(
        self, messages: AsyncIterator[pb.ProviderMessage], provider: RemoteProvider
    ) -> None:
        failure = None
        try:
            async for message in messages:
                match message.WhichOneof("message"):
                    case "result":
                        provider.deliver(message.result)
                    case "unregister":
                        names = message.unregister.function_identifiers
                        self._host.registry.unregister(provider, names)
                    case kind:
                        failure = SimulatorFault(
                            FaultKind.INVALID_REQUEST,
                            f"a registered provider sent {kind}; it may send results and "
                            "unregister functions",
                        )
                        return
        except Exception:
            # gRPC raises various types when the other side dies; all mean the same here.
            logger.debug("the connection of %s broke", provider.package_name, exc_info=True)
        finally:
            provider.close(failure)
            self._leave(provider)


async def _first(messages: AsyncIterator[pb.ProviderMessage]) -> pb.ProviderMessage.Register:
    try:
        async with asyncio.timeout(REGISTER_SECONDS):
            message = await anext(aiter(messages), None)
    except TimeoutError:
        message = None
    if message is None or message.WhichOneof("message") != "register":
        raise SimulatorFault(
            FaultKind.INVALID_REQUEST, "the first message of a provider must be `register`"
        )
    return message.register


def _verified(claimed_package: str) -> Identity:
    identity = caller()
    decision = may_claim(identity, claimed_package)
    if not decision.allowed:
        raise AppFunctionError(decision.error_code, decision.message)
    return identity


def _name(name: pb.AppFunctionName) -> FunctionName:
    return name.package_name, name.function_identifier


def _unimplemented(call: str) -> NoReturn:
    raise SimulatorFault(
        FaultKind.UNIMPLEMENTED, f"AppFunctionManager.{call} is not implemented yet"
    )
