"""Calling a daemon from a test, and reading the typed detail of what failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc.aio
from google.rpc import status_pb2

from aicore_protos import (
    aicore_pb2,
    aicore_pb2_grpc,
    device_pb2,
    device_pb2_grpc,
    errors_pb2,
)

TIMEOUT = 5.0


class App:
    """An app, or the shell, with its token on a channel."""

    def __init__(self, channel: grpc.aio.Channel, token: str | None) -> None:
        self.metadata: Sequence[tuple[str, str]] = (
            () if token is None else (("authorization", f"Bearer {token}"),)
        )
        self._stubs = (
            aicore_pb2_grpc.AICoreStub(channel),
            device_pb2_grpc.DeviceControlStub(channel),
            device_pb2_grpc.DeviceClockStub(channel),
        )

    def start(self, name: str, request: Any) -> Any:
        """Begin a call of any of the three services, by the name of the method."""
        method = next(getattr(stub, name) for stub in self._stubs if hasattr(stub, name))
        return method(request, metadata=self.metadata, timeout=TIMEOUT)

    async def call(self, name: str, request: Any) -> Any:
        return await self.start(name, request)

    async def generate(
        self, request: aicore_pb2.GenerateContentRequest | None = None
    ) -> list[aicore_pb2.GenerateContentResponse]:
        return [chunk async for chunk in self.start("GenerateContent", request or prompt("hi"))]

    async def fault(self, name: str, request: Any, *, stream: bool = False) -> Any:
        """The detail of a call that must fail, as its one set member."""
        call = self.start(name, request)
        try:
            if stream:
                async for _ in call:
                    pass
            else:
                await call
        except grpc.aio.AioRpcError as error:
            return only_member(detail_of(error))
        raise AssertionError(f"{name} succeeded")

    async def device(self) -> device_pb2.Device:
        device: device_pb2.Device = await self.call("GetDevice", device_pb2.GetDeviceRequest())
        return device


def prompt(text: str, **fields: Any) -> aicore_pb2.GenerateContentRequest:
    content = aicore_pb2.Content(parts=[aicore_pb2.Part(text=text)])
    return aicore_pb2.GenerateContentRequest(contents=[content], **fields)


def detail_of(error: grpc.aio.AioRpcError) -> errors_pb2.ErrorDetail:
    """The ErrorDetail of a failed call. Fails the test when there is none."""
    detail = errors_pb2.ErrorDetail()
    packed = rich_status(error).details
    assert packed, f"{error.code()} {error.details()!r} has no details"
    assert packed[0].Unpack(detail)
    return detail


def rich_status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    found = [
        value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"
    ]
    assert len(found) == 1, f"{error.code()} {error.details()!r} has no rich status"
    return status_pb2.Status.FromString(found[0])


def only_member(detail: errors_pb2.ErrorDetail) -> Any:
    member = detail.WhichOneof("error")
    assert member is not None
    return getattr(detail, member)


async def eventually(condition: Callable[[], bool], timeout: float = TIMEOUT) -> None:
    """Wait for what happens in another process or task and sets no event."""
    async with asyncio.timeout(timeout):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def texts(chunks: AsyncIterator[aicore_pb2.GenerateContentResponse]) -> list[str]:
    return [chunk.text async for chunk in chunks if chunk.WhichOneof("chunk") == "text"]
