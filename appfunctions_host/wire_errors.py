"""Failed calls, read back on the caller's side."""

from __future__ import annotations

import grpc.aio
from google.rpc import status_pb2

from aicore_protos import errors_pb2

NEAR_MATCHES_EXTRA = "near_matches"
"""Ours: an extra of 1003 with identifiers like the missing one; the text stays Android's."""
_DETAILS = "grpc-status-details-bin"


def error_detail(error: grpc.aio.AioRpcError) -> errors_pb2.ErrorDetail | None:
    """The typed detail, or None when no daemon answered (a fault of the transport)."""
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS:
            continue
        detail = errors_pb2.ErrorDetail()
        for packed in status_pb2.Status.FromString(value).details:
            if packed.Unpack(detail):
                return detail
    return None


def error_text(error: grpc.aio.AioRpcError) -> str:
    """What went wrong, for a person."""
    detail = error_detail(error)
    match detail.WhichOneof("error") if detail is not None else None:
        case "app_function":
            assert detail is not None
            found = detail.app_function
            return f"[{found.error_code}] {found.error_message}{_hint(found)}"
        case "simulator":
            assert detail is not None
            return detail.simulator.message
        case "gen_ai":
            assert detail is not None
            return f"[{detail.gen_ai.error_code}] {detail.gen_ai.message}"
        case _:
            return f"{error.code().name}: {error.details()}"


def _hint(error: errors_pb2.AppFunctionError) -> str:
    """The near matches of a missing function."""
    for field in error.extras.fields:
        if field.name == NEAR_MATCHES_EXTRA:
            names = ", ".join(item.string_value for item in field.value.list_value.values)
            return f" Did you mean {names}?"
    return ""
