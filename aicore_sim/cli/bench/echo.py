"""An echo service beside the daemon's own, so that both are measured on the same server.

It takes and returns bytes: what it costs is gRPC, the boundary of the daemon and the event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

NAME = "aicore.sim.bench.Echo"
STREAM = f"/{NAME}/Stream"
FACTS = f"/{NAME}/Facts"


def handler() -> Any:
    """The service, for `add_generic_rpc_handlers`."""
    return grpc.method_handlers_generic_handler(
        NAME,
        {
            "Stream": grpc.unary_stream_rpc_method_handler(_stream),
            "Facts": grpc.unary_unary_rpc_method_handler(_facts),
        },
    )


def stream_request(messages: int, size: int) -> bytes:
    """Asks for a stream of so many messages of so many bytes."""
    return json.dumps([messages, size]).encode()


async def _stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
    messages, size = json.loads(request)
    for _ in range(messages):
        yield bytes(size)


async def _facts(request: bytes, context: Any) -> bytes:
    """What must not grow."""
    return json.dumps(
        {
            "tasks": len(asyncio.all_tasks()),
            "descriptors": _descriptors(),
            "memory_bytes": _memory_bytes(),
        }
    ).encode()


def _descriptors() -> int | None:
    folder = Path("/dev/fd")
    return len(os.listdir(folder)) if folder.exists() else None


def _memory_bytes() -> int | None:
    """Resident memory; None where /proc is not there."""
    try:
        resident = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return None
    return int(resident) * os.sysconf("SC_PAGE_SIZE")
