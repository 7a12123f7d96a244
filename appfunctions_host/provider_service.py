"""Providers' streams: who may register which functions, and when they go again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import grpc.aio

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_pb2_grpc
from aicore_sim.device.errors import DeviceError, FaultKind, SimulatorFault
from aicore_sim.device.packages import Identity
from aicore_sim.rpc.identity import caller
from aicore_sim.rpc.status import to_detail
from appfunctions_host.access import Rule, allow, deny
from appfunctions_host.host import AppFunctionHost
from appfunctions_host.registry import RUNTIME_SERVICE
from appfunctions_host.remote import RemoteProvider

logger = logging.getLogger(__name__)

REGISTER_SECONDS = 10.0
"""How long a new provider may take to say what it provides."""
TAKEOVER_SECONDS = 2.0
"""How long a restarted provider waits for the end of its predecessor to arrive."""


class ProviderServicer(appfunctions_pb2_grpc.AppFunctionProviderServicer):
    """Keeps the connections of provider processes."""

    def __init__(self, host: AppFunctionHost) -> None:
        self._host = host
        self._providers: set[RemoteProvider] = set()
        self._readers: set[asyncio.Task[None]] = set()
        host.on_device_change(self.drop_outdated)

    async def Connect(
        self, request_iterator: AsyncIterator[pb.ProviderMessage], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.HostMessage]:
        register = await _first(request_iterator)
        identity = caller()
        provider = await self._accept(identity, bearer_token(context), register)
        # The callback also runs when the call ends while an item is being sent, where gRPC does
        # not close this generator at once.
        context.add_done_callback(lambda _: self._leave(provider))
        reader = asyncio.create_task(self._read(request_iterator, provider))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        try:
            names = [item.name.function_identifier for item in register.functions]
            yield pb.HostMessage(
                registered=pb.HostMessage.Registered(
                    function_identifiers=names,
                    sdk_int_full=self._host.sdk_int_full,
                    uid=identity.uid,
                    ignore_unknown_arguments=self._host.argument_rules.ignore_unknown,
                    ignore_constraints=not self._host.argument_rules.enforce_constraints,
                )
            )
            async for message in provider.messages():
                yield message
        finally:
            reader.cancel()
            self._leave(provider)

    def close(self) -> None:
        """End all connections, so that the providers see that the host goes."""
        for provider in tuple(self._providers):
            self._leave(provider)

    def drop_outdated(self) -> None:
        """End the connections whose token has ended, with its process or its package."""
        for provider in tuple(self._providers):
            if not provider.is_current():
                provider.close(
                    SimulatorFault(
                        FaultKind.UNAUTHENTICATED,
                        f"the token of this provider of {provider.package_name} has ended, with "
                        "the process or the package that it was issued for",
                    )
                )
                self._leave(provider)

    async def _accept(
        self, identity: Identity, token: str, register: pb.ProviderMessage.Register
    ) -> RemoteProvider:
        try:
            provider = await self._registered(identity, token, register)
        except DeviceError:
            self._host.journal.record(
                "register",
                caller=identity.package_name,
                decision=deny(Rule.PROVIDER_REFUSED, 0, ""),
                package_name=register.package_name or identity.package_name,
            )
            raise
        self._host.journal.record(
            "register",
            caller=identity.package_name,
            decision=allow(Rule.PROVIDER_JOINED),
            package_name=provider.package_name,
        )
        return provider

    async def _registered(
        self, identity: Identity, token: str, register: pb.ProviderMessage.Register
    ) -> RemoteProvider:
        package = register.package_name or identity.package_name
        if package != identity.package_name:
            raise SimulatorFault(
                FaultKind.FORBIDDEN,
                f"the token of {identity.package_name!r} may not provide functions of {package!r}; "
                f"start the provider with `aicore-sim exec --as {package} -- CMD`",
            )
        if identity.is_shell:
            raise SimulatorFault(
                FaultKind.FORBIDDEN,
                "the shell provides no functions; start the provider with "
                "`aicore-sim exec --as PACKAGE -- CMD`",
            )
        registry = self._host.registry
        # What the app registers at run time, nobody runs by being connected.
        names = [
            item.name.function_identifier
            for item in register.functions
            if item.service_name != RUNTIME_SERVICE
        ]
        await registry.wait_free(package, names, TAKEOVER_SECONDS)
        provider = RemoteProvider(
            package,
            is_current=lambda: self._host.packages.resolve(token) is not None,
            cancellation_timeout=self._host.cancellation_timeout,
        )
        registry.declare(package, register.functions, provider, uid=identity.uid)
        self._providers.add(provider)
        logger.info("%s provides %s functions", package, len(names))
        return provider

    def _leave(self, provider: RemoteProvider) -> None:
        provider.close()
        if provider not in self._providers:
            return
        self._providers.discard(provider)
        dropped = self._host.registry.unbind(provider)
        self._host.registrations.unregister(provider)
        logger.info("%s went away with %s functions", provider.package_name, len(dropped))
        self._host.journal.record(
            "unregister",
            caller=provider.package_name,
            decision=allow(Rule.PROVIDER_LEFT),
            package_name=provider.package_name,
        )

    def _register(
        self, provider: RemoteProvider, wanted: pb.ProviderMessage.RegisterAppFunctions
    ) -> None:
        error = None
        decision = allow(Rule.REGISTERED)
        try:
            self._host.require_registration()
            self._host.registrations.register(
                provider.package_name, provider, wanted.registration_id, wanted.registrations
            )
        except SimulatorFault as fault:
            error = to_detail(fault)
            decision = deny(Rule.REGISTRATION_REFUSED, 0, "")
        provider.registration_result(wanted.registration_id, error)
        for one in wanted.registrations:
            self._host.journal.record(
                "register",
                caller=provider.package_name,
                decision=decision,
                package_name=provider.package_name,
                function_identifier=one.function_identifier,
            )

    def _unregister(
        self, provider: RemoteProvider, ended: pb.ProviderMessage.UnregisterAppFunctions
    ) -> None:
        self._host.registrations.unregister(provider, ended.registration_id)
        self._host.journal.record(
            "unregister",
            caller=provider.package_name,
            decision=allow(Rule.REGISTRATION_ENDED),
            package_name=provider.package_name,
        )

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
                        self._host.registry.withdraw(provider, names)
                    case "register_app_functions":
                        self._register(provider, message.register_app_functions)
                    case "unregister_app_functions":
                        self._unregister(provider, message.unregister_app_functions)
                    case kind:
                        failure = SimulatorFault(
                            FaultKind.INVALID_REQUEST,
                            f"a registered provider sent {kind}; it may send results, and "
                            "register and unregister functions",
                        )
                        return
        except Exception:
            # gRPC raises various types when the other side dies; all mean the same here.
            logger.debug("the connection of %s broke", provider.package_name, exc_info=True)
        finally:
            provider.close(failure)
            self._leave(provider)


def bearer_token(context: grpc.aio.ServicerContext) -> str:
    """The token with which the interceptor let the call through."""
    found = ""
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            found = str(value).partition(" ")[2]
    return found


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
