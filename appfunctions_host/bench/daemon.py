"""The host that is measured: the real one with an echo beside it, in a process of its own.

`python -m appfunctions_host.bench.daemon DEVICE_DIR`; it prints READY and ends when its standard
input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.database import open_database
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.packages import PackageStore
from aicore_sim.rpc.server import stop_event
from appfunctions_host.bench.app import LOCAL, EchoTools
from appfunctions_host.host import AppFunctionHost
from appfunctions_host.local import LocalProvider
from appfunctions_host.server import start_host

NAME = "appfunctions.host.bench.Echo"
ECHO = f"/{NAME}/Execute"
FACTS = f"/{NAME}/Facts"


def handler() -> Any:
    """The echo takes what Execute takes and gives what Execute gives, behind the same boundary."""
    return grpc.method_handlers_generic_handler(
        NAME,
        {
            "Execute": grpc.unary_unary_rpc_method_handler(
                _execute,
                request_deserializer=pb.ExecuteRequest.FromString,
                response_serializer=pb.ExecuteResponse.SerializeToString,
            ),
            "Facts": grpc.unary_unary_rpc_method_handler(_facts),
        },
    )


async def serve(device_dir: Path) -> None:
    """Serve until standard input ends or a signal comes."""
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    stopping = stop_event()
    home = DeviceHome(device_dir)
    token = home.read_control_token()
    database = open_database(home.database_path, create=False)
    provider = LocalProvider(LOCAL, [EchoTools])
    with contextlib.closing(database) as connection, contextlib.closing(provider):
        packages = PackageStore(connection, control_token=token)
        host = AppFunctionHost(connection, packages)
        host.add_local(provider)
        running = await start_host(
            host,
            packages,
            f"unix:{home.socket_path('appfunctions')}",
            more_services=lambda server: server.add_generic_rpc_handlers((handler(),)),
        )
        try:
            print("READY", running.server.address, flush=True)
            loop = asyncio.get_running_loop()
            loop.add_reader(sys.stdin.fileno(), stopping.set)
            await stopping.wait()
            loop.remove_reader(sys.stdin.fileno())
        finally:
            await running.stop(0.2)


async def _execute(request: pb.ExecuteRequest, context: Any) -> pb.ExecuteResponse:
    return pb.ExecuteResponse(return_value=request.parameters.fields[0].value)


async def _facts(request: bytes, context: Any) -> bytes:
    return json.dumps({"memory_bytes": _memory_bytes()}).encode()


def _memory_bytes() -> int | None:
    """Resident memory; None where /proc is not there."""
    try:
        resident = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return None
    return int(resident) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
