"""Write what the protos promise into protos/CONTRACT.txt; `--check` fails when it is out of date.

What was promised once is kept: a field, value or call that is gone or different is refused, unless
`--breaking` says that it is meant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aicore_protos import (
    aicore_pb2,
    appfunctions_pb2,
    appfunctions_shell_pb2,
    device_pb2,
    errors_pb2,
    types_pb2,
)

CONTRACT = Path(__file__).resolve().parent.parent / "protos" / "CONTRACT.txt"
FILES = (
    types_pb2,
    errors_pb2,
    aicore_pb2,
    appfunctions_pb2,
    appfunctions_shell_pb2,
    device_pb2,
)
_TYPES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string",
    12: "bytes", 13: "uint32",
}  # fmt: skip


def contract() -> list[str]:
    """A line for each field, enum value and call: name, number and type."""
    lines: list[str] = []
    for module in FILES:
        file = module.DESCRIPTOR
        for message in file.message_types_by_name.values():
            lines += _message(message)
        for enum in file.enum_types_by_name.values():
            lines += _enum(enum)
        for service in file.services_by_name.values():
            lines += [
                f"rpc {service.full_name}/{call.name} "
                f"{_flow(call.client_streaming)}{call.input_type.full_name} -> "
                f"{_flow(call.server_streaming)}{call.output_type.full_name}"
                for call in service.methods
            ]
    return sorted(lines)


def broken(promised: list[str], now: list[str]) -> list[str]:
    """Lines of `promised` that are kept no more."""
    kept = set(now)
    return [line for line in promised if line not in kept]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail on differences")
    parser.add_argument("--breaking", action="store_true", help="what is gone is gone on purpose")
    given = parser.parse_args(arguments)
    now = contract()
    promised = CONTRACT.read_text().splitlines() if CONTRACT.exists() else []
    gone = broken(promised, now)
    if gone and not given.breaking:
        print("the protos keep no longer:", *gone, sep="\n  ", file=sys.stderr)
        return 1
    if given.check:
        if promised != now:
            print("CONTRACT.txt is out of date: run scripts/gen_contract.py", file=sys.stderr)
            return 1
        return 0
    CONTRACT.write_text("".join(f"{line}\n" for line in now))
    print(f"wrote {len(now)} lines")
    return 0


def _message(message: Any) -> Iterator[str]:
    for field in message.fields:
        label = "repeated " if field.is_repeated else ""
        yield f"field {message.full_name}.{field.name} = {field.number} {label}{_type(field)}"
    for inner in message.nested_types:
        yield from _message(inner)
    for enum in message.enum_types:
        yield from _enum(enum)


def _enum(enum: Any) -> Iterator[str]:
    for value in enum.values:
        yield f"value {enum.full_name}.{value.name} = {value.number}"


def _type(field: Any) -> str:
    if field.message_type is not None:
        return str(field.message_type.full_name)
    if field.enum_type is not None:
        return str(field.enum_type.full_name)
    return _TYPES[field.type]


def _flow(streaming: bool) -> str:
    return "stream " if streaming else ""


if __name__ == "__main__":
    sys.exit(main())
