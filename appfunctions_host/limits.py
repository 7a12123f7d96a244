"""Bounds on what crosses a connection, checked before it is sent.

A message that the other side cannot read ends a gRPC stream, and a provider's stream carries all
of its calls. So the host checks arguments before it dispatches them, and the provider checks
results before it answers: too much fails that call alone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.rpc.server import MAX_MESSAGE_BYTES

MAX_DEPTH = 24
"""Levels of lists and objects in one value. Protobuf reads 100 nested messages, and an object in an
object takes three."""
MAX_PAYLOAD_BYTES = MAX_MESSAGE_BYTES - 64 * 1024
"""Arguments or result of one call; the rest of a message is for names."""
MAX_IDENTIFIER_LENGTH = 1024
MAX_METADATA_BYTES = 1024 * 1024
"""Metadata of one function, which searches return."""
_WALK_IN_LOOP_BYTES = 64 * 1024


def arguments_problem(parameters: types_pb2.ObjectValue) -> str | None:
    """Why these arguments cannot be sent to a provider, or None."""
    return _problem("the arguments take", parameters.ByteSize(), too_deep(parameters))


def result_problem(value: types_pb2.Value) -> str | None:
    """Why this result cannot be sent to a caller, or None."""
    return _problem("the result takes", value.ByteSize(), _walk([(value, 0)]))


async def foreign_result_problem(value: types_pb2.Value) -> str | None:
    """As `result_problem`, for a result that no library of ours encoded."""
    if value.ByteSize() <= _WALK_IN_LOOP_BYTES:
        return _foreign_problem(value)
    return await asyncio.to_thread(_foreign_problem, value)


def _foreign_problem(value: types_pb2.Value) -> str | None:
    problem = result_problem(value)
    if problem is not None:
        return problem
    pending = [value]
    while pending:
        one = pending.pop()
        match one.WhichOneof("kind"):
            case "list_value":
                pending += one.list_value.values
            case "object_value":
                pending += [field.value for field in one.object_value.fields]
            case "double_value" if not math.isfinite(one.double_value):
                return f"the result holds {one.double_value}, which is no finite number"
            case None:
                return "the result holds a value without a kind"
    return None


async def arguments_problem_async(parameters: types_pb2.ObjectValue) -> str | None:
    """As `arguments_problem`, without holding the event loop for large ones."""
    if parameters.ByteSize() <= _WALK_IN_LOOP_BYTES:
        return arguments_problem(parameters)
    return await asyncio.to_thread(arguments_problem, parameters)


def metadata_problem(metadata: pb.AppFunctionMetadata) -> str | None:
    """Why a function cannot be registered with this metadata, or None."""
    name = metadata.name.function_identifier
    if not name:
        return "has no identifier"
    if len(name) > MAX_IDENTIFIER_LENGTH:
        return f"has an identifier of {len(name)} characters; {MAX_IDENTIFIER_LENGTH} are allowed"
    if not 0 <= metadata.timeout_seconds < math.inf:
        return f"has the timeout {metadata.timeout_seconds} s; give a number above zero"
    if metadata.ByteSize() > MAX_METADATA_BYTES:
        return (
            f"has metadata of {metadata.ByteSize()} bytes; {MAX_METADATA_BYTES} are allowed, "
            "so shorten its descriptions"
        )
    return None


def too_deep(parameters: types_pb2.ObjectValue) -> bool:
    """Whether the values nest deeper than MAX_DEPTH."""
    return _walk([(field.value, 0) for field in parameters.fields])


def mapping_too_deep(values: object) -> bool:
    """The same for Python values that are not encoded yet, cyclic ones included."""
    pending = [(values, 0)]
    while pending:
        value, depth = pending.pop()
        if not isinstance(value, (Mapping, list, tuple)):
            continue
        if depth > MAX_DEPTH:
            return True
        inner = value.values() if isinstance(value, Mapping) else value
        pending += [(item, depth + 1) for item in inner]
    return False


def _walk(pending: list[tuple[types_pb2.Value, int]]) -> bool:
    while pending:
        value, depth = pending.pop()
        match value.WhichOneof("kind"):
            case "list_value":
                inner = list(value.list_value.values)
            case "object_value":
                inner = [field.value for field in value.object_value.fields]
            case _:
                continue
        if depth >= MAX_DEPTH:
            return True
        pending += [(item, depth + 1) for item in inner]
    return False


def _problem(takes: str, size: int, deep: bool) -> str | None:
    if size > MAX_PAYLOAD_BYTES:
        return f"{takes} {size} bytes; at most {MAX_PAYLOAD_BYTES} can be sent"
    if deep:
        return f"{takes} more than {MAX_DEPTH} levels of lists and objects"
    return None
