from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest

from aicore_client import DeviceConnection
from aicore_protos import aicore_pb2_grpc, appfunctions_pb2_grpc
from tests.client.fakes import TOKEN, FakeAICore, FakeHost


@dataclass
class Device:
    """The two fakes, each behind a server of its own, and a connection to them."""

    aicore: FakeAICore
    host: FakeHost
    aicore_address: str
    host_address: str
    connection: DeviceConnection
    aicore_server: Any
    host_server: Any


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """Short, because the path of a Unix socket is."""
    with TemporaryDirectory(prefix="aicore-") as folder:
        yield Path(folder)


_OPTIONS = (
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)


async def start_aicore(address: str, servicer: FakeAICore) -> Any:
    server = grpc.aio.server(options=_OPTIONS)
    aicore_pb2_grpc.add_AICoreServicer_to_server(servicer, server)
    server.add_insecure_port(address)
    await server.start()
    return server


async def start_host(address: str, servicer: FakeHost) -> Any:
    server = grpc.aio.server(options=_OPTIONS)
    appfunctions_pb2_grpc.add_AppFunctionManagerServicer_to_server(servicer, server)
    server.add_insecure_port(address)
    await server.start()
    return server


@pytest.fixture
async def device(socket_folder: Path) -> AsyncIterator[Device]:
    aicore, host = FakeAICore(), FakeHost()
    aicore_address = f"unix:{socket_folder}/aicore.sock"
    host_address = f"unix:{socket_folder}/host.sock"
    aicore_server = await start_aicore(aicore_address, aicore)
    host_server = await start_host(host_address, host)
    async with DeviceConnection(aicore_address, host_address, TOKEN) as connection:
        yield Device(
            aicore, host, aicore_address, host_address, connection, aicore_server, host_server
        )
    await aicore_server.stop(0)
    await host_server.stop(0)
    assert not aicore.steps, f"{len(aicore.steps)} steps of the script are left over"
