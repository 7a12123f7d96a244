"""One caller of the grid as a process of its own; prints what it could do as JSON lines.

Run as `python -m tests.host.grid_caller`, with the variables of an app.
"""

from __future__ import annotations

import json
import os
from typing import Any

import grpc

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_pb2_grpc
from appfunctions_host.compat import attached_by_jetpack
from appfunctions_host.wire_errors import error_detail
from tests.host.grid import LEVELS, function_id
from tests.host.rig import name_of

SECONDS = 10.0


def row(stub: Any, metadata: Any, *, compat: bool) -> dict[str, list[Any]]:
    """The cells of this caller. A Jetpack app reads its platform from its own system."""
    system = stub.GetCallingPackage(
        pb.GetCallingPackageRequest(), metadata=metadata, timeout=SECONDS
    )
    library = pb.CALLER_LIBRARY_JETPACK
    found = stub.Search(pb.SearchRequest(library=library), metadata=metadata, timeout=SECONDS)
    visible = {item.name.function_identifier for item in found.functions}
    identifiers = [function_id(level, compat) for level in LEVELS]
    request = pb.GetStatesRequest(names=[name_of(one) for one in identifiers], library=library)
    states = stub.GetStates(request, metadata=metadata, timeout=SECONDS).states
    shown = {item.name.function_identifier for item in states}
    codes = []
    for identifier, access_level in zip(identifiers, (100, 200, 300), strict=True):
        verification = attached_by_jetpack(
            pb.AppFunctionMetadata(access_level=access_level), system.sdk_int_full
        )
        call = pb.ExecuteRequest(name=name_of(identifier), verification=verification)
        codes.append(_code(stub, call, metadata))
    return {
        "discovered": [identifier in visible for identifier in identifiers],
        "shown": [identifier in shown for identifier in identifiers],
        "codes": codes,
    }


def _code(stub: Any, call: pb.ExecuteRequest, metadata: Any) -> int:
    try:
        stub.Execute(call, metadata=metadata, timeout=SECONDS)
    except grpc.RpcError as error:
        detail = error_detail(error)
        return detail.app_function.error_code if detail else -1
    return 0


def main() -> None:
    metadata = (("authorization", f"Bearer {os.environ['AICORE_SIM_TOKEN']}"),)
    with grpc.insecure_channel(os.environ["APPFUNCTIONS_ADDRESS"]) as channel:
        stub = appfunctions_pb2_grpc.AppFunctionManagerStub(channel)
        for compat in (True, False):
            print(json.dumps({"compat": compat, **row(stub, metadata, compat=compat)}))


if __name__ == "__main__":
    main()
