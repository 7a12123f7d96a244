"""The host's side of a provider's stream, with the test as the host."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from aicore_client import DeviceConnection
from aicore_client._values import from_object, from_value, to_object
from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_pb2_grpc, errors_pb2
from tests.client.fakes import SHOP, TOKEN, FakeHost, check_token

WAIT = 5.0


class FakeProviderHost(appfunctions_pb2_grpc.AppFunctionProviderServicer):
    """Answers registrations with `refusal` or, when that is None, by accepting them; everything
    else that the app sends waits in `inbound`. `end` ends the stream as a host that stops."""

    def __init__(self) -> None:
        self.refusal: errors_pb2.ErrorDetail | None = None
        self.answers_registrations = True
        self.registrations: list[tuple[int, list[tuple[str, str]]]] = []
        self.inbound: asyncio.Queue[pb.ProviderMessage | None] = asyncio.Queue()
        self.outbound: asyncio.Queue[pb.HostMessage | None] = asyncio.Queue()
        self.streams = 0
        self.asked = asyncio.Event()
        """Set by each registration."""

    async def Connect(
        self, request_iterator: AsyncIterator[pb.ProviderMessage], context: Any
    ) -> AsyncIterator[pb.HostMessage]:
        await check_token(context)
        first = await anext(request_iterator)
        assert first.WhichOneof("message") == "register", first
        assert not first.register.functions
        self.streams += 1
        yield pb.HostMessage(registered=pb.HostMessage.Registered())
        reader = asyncio.create_task(self._read(request_iterator))
        try:
            while (message := await self.outbound.get()) is not None:
                yield message
        finally:
            reader.cancel()

    async def _read(self, messages: AsyncIterator[pb.ProviderMessage]) -> None:
        async for message in messages:
            if message.WhichOneof("message") != "register_app_functions":
                self.inbound.put_nowait(message)
                continue
            asked = message.register_app_functions
            names = [(one.function_identifier, one.activity_id) for one in asked.registrations]
            self.registrations.append((asked.registration_id, names))
            self.asked.set()
            if self.answers_registrations:
                result = pb.HostMessage.RegistrationResult(
                    registration_id=asked.registration_id, error=self.refusal
                )
                self.outbound.put_nowait(pb.HostMessage(registration_result=result))
        self.inbound.put_nowait(None)
        self.outbound.put_nowait(None)

    def call(
        self,
        number: int,
        identifier: str,
        *,
        activity_id: str = "",
        verification: pb.CallerVerification | None = None,
        **arguments: object,
    ) -> None:
        call = pb.HostMessage.Call(
            call_id=number,
            function_identifier=identifier,
            parameters=to_object(arguments),
            activity_id=activity_id,
            calling_package="com.example.agent",
            verification=verification,
        )
        self.outbound.put_nowait(pb.HostMessage(call=call))

    def cancel(self, number: int) -> None:
        self.outbound.put_nowait(pb.HostMessage(cancel=pb.HostMessage.Cancel(call_id=number)))

    def end(self) -> None:
        self.outbound.put_nowait(None)

    async def received(self) -> Any:
        """The next message: a value or (code, text, extras) for a result, the id of an ended
        registration, None for the end of the stream."""
        async with asyncio.timeout(WAIT):
            message = await self.inbound.get()
        if message is None:
            return None
        if message.WhichOneof("message") == "unregister_app_functions":
            return "unregister", message.unregister_app_functions.registration_id
        result = message.result
        if result.WhichOneof("outcome") == "return_value":
            return result.call_id, from_value(result.return_value)
        error = result.error
        return result.call_id, (error.error_code, error.error_message, from_object(error.extras))


@contextlib.asynccontextmanager
async def running_fakes(
    folder: Path, host: FakeHost, provider: FakeProviderHost, *, call_timeout: float = WAIT
) -> AsyncIterator[DeviceConnection]:
    address = f"unix:{folder}/host.sock"
    server = grpc.aio.server()
    appfunctions_pb2_grpc.add_AppFunctionManagerServicer_to_server(host, server)
    appfunctions_pb2_grpc.add_AppFunctionProviderServicer_to_server(provider, server)
    server.add_insecure_port(address)
    await server.start()
    try:
        async with DeviceConnection(
            f"unix:{folder}/none.sock", address, TOKEN, call_timeout=call_timeout
        ) as connection:
            yield connection
    finally:
        await server.stop(0)


def declared(identifier: str, scope: int = 0, level: int = 300) -> pb.AppFunctionMetadata:
    """A function that the shop registers at run time."""
    return pb.AppFunctionMetadata(
        name=pb.AppFunctionName(package_name=SHOP, function_identifier=identifier),
        access_level=level,
        scope=scope,  # type: ignore[arg-type]
        service_name="@null",
        is_compat_enforcement_enabled=True,
        is_enabled_by_default=True,
        parameters=[
            pb.ParameterMetadata(
                name="n", is_required=True, data_type=pb.DataTypeMetadata(type=pb.TYPE_INT)
            )
        ],
        response=pb.ResponseMetadata(value_type=pb.DataTypeMetadata(type=pb.TYPE_INT)),
    )
