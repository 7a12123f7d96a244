"""An echo service beside the daemon's own, so that both are measured on the same server.

It takes the messages of GenerateContent and sends such messages back, so what it costs is gRPC, the
messages, the boundary of the daemon and the event loop: everything but AICore.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from aicore_protos import aicore_pb2

Request = aicore_pb2.GenerateContentRequest
Response = aicore_pb2.GenerateContentResponse

NAME = "aicore.sim.bench.Echo"
STREAM = f"/{NAME}/Stream"
FACTS = f"/{NAME}/Facts"


def handler() -> Any:
    """The service, for `add_generic_rpc_handlers`."""
    return grpc.method_handlers_generic_handler(
        NAME,
        {
            "Stream": grpc.unary_stream_rpc_method_handler(
                _stream,
                request_deserializer=Request.FromString,
                response_serializer=Response.SerializeToString,
            ),
            "Facts": grpc.unary_unary_rpc_method_handler(_facts),
        },
    )


def request(prompt: str, *, max_output_tokens: int | None = None) -> Request:
    """What both services are asked. Of the echo it asks as many chunks as the prompt has words."""
    return Request(
        contents=[aicore_pb2.Content(parts=[aicore_pb2.Part(text=prompt)])],
        sampling=aicore_pb2.Sampling(temperature=0.0, max_output_tokens=max_output_tokens),
    )


async def _stream(request: Request, context: Any) -> AsyncIterator[Response]:
    words = request.contents[0].parts[0].text.split()
    for word in words[:-1]:
        yield Response(text=word)
    yield Response(finish=aicore_pb2.Finish(usage=aicore_pb2.Usage(output_tokens=len(words))))


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
