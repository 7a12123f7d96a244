"""What people write on the command line and in scenarios: durations, sizes, codes, states."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from typing import Any, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from aicore_protos import aicore_pb2
from aicore_sim.cli.control import CommandError
from aicore_sim.cli.errors_command import ERRORS
from aicore_sim.device.errors import AppFunctionCode

BAD_INPUT = 2
NANOS = 1_000_000_000

_UNITS = {
    "d": 86_400 * NANOS,
    "h": 3_600 * NANOS,
    "m": 60 * NANOS,
    "s": NANOS,
    "ms": 1_000_000,
    "us": 1_000,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|m|us|s)")
_SIZES = {"": 1, "B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?B)?", re.IGNORECASE)
_LONGEST = 10_000 * 366 * 86_400 * NANOS
_CODES = {error.name: error.code for error in ERRORS} | {
    f"ERROR_{error.name}": error.value for error in AppFunctionCode
}
"""Of AICore by their names, of AppFunctionException by those of its constants."""
_NAMES = {code: name for name, code in _CODES.items()}
_INT32 = 2**31

_T = TypeVar("_T")


class FeatureStatus(IntEnum):
    """FeatureStatus; the numbers are ML Kit's."""

    UNAVAILABLE = aicore_pb2.UNAVAILABLE
    DOWNLOADABLE = aicore_pb2.DOWNLOADABLE
    DOWNLOADING = aicore_pb2.DOWNLOADING
    AVAILABLE = aicore_pb2.AVAILABLE


def nanoseconds(text: str) -> int:
    """`3h`, `1.5s` or `2m30s` in nanoseconds. Raises ValueError, without the value's name."""
    total, place, smallest = 0, 0, _LONGEST
    while place < len(text):
        found = _DURATION.match(text, place)
        if found is None or _UNITS[found[2]] >= smallest:
            break
        smallest = _UNITS[found[2]]
        total += int(Decimal(found[1]) * smallest)
        place = found.end()
    if not text or place < len(text):
        raise ValueError(
            f"{text!r} is no duration; write numbers with units from d, h, m, s and ms, the "
            "largest first, for example 3h, 1.5s or 2m30s"
        )
    if total > _LONGEST:
        raise ValueError(f"{text!r} is longer than any clock can count")
    return total


def seconds(text: str) -> float:
    """As `nanoseconds`, in seconds."""
    return nanoseconds(text) / NANOS


def size(text: str) -> int:
    """`1500`, `250MB` or `1.5GB` in bytes. Raises ValueError."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size; write bytes or a unit: 1500, 250MB or 1.5GB")
    return int(Decimal(found[1]) * _SIZES[(found[2] or "").upper()])


def error_code(value: str | int) -> int:
    """A code by its number or its name in `aicore-sim errors`. Raises ValueError.

    Any 32-bit number will do: an app must survive codes that it does not know.
    """
    text = str(value)
    if text.upper() in _CODES:
        return _CODES[text.upper()]
    if re.fullmatch(r"-?\d{1,10}", text) and -_INT32 <= int(text) < _INT32:
        return int(text)
    raise ValueError(
        f"{text!r} is no error code; use a number, a name of `aicore-sim errors`, "
        "or a constant of AppFunctionException such as ERROR_DENIED"
    )


def code_name(code: int) -> str:
    """The name of a code, or its number where it has none; `ok` for no error at all is not here."""
    return _NAMES.get(code, str(code))


def status(text: str) -> FeatureStatus:
    """A FeatureStatus by its name or number. Raises ValueError."""
    name = text.upper()
    if name in FeatureStatus.__members__:
        return FeatureStatus[name]
    if name in {str(int(known)) for known in FeatureStatus}:
        return FeatureStatus(int(name))
    known = ", ".join(f"{one.name} ({one.value})" for one in FeatureStatus)
    raise ValueError(f"{text!r} is no feature status; use one of {known}")


def one_of(*known: str) -> Callable[[str], str]:
    """A reader that takes one of `known`, in any case, with - for _."""

    def read(text: str) -> str:
        found = text.lower().replace("_", "-")
        if found not in known:
            raise ValueError(f"{text!r} is not one of {', '.join(known)}")
        return found

    return read


def read(name: str, text: str, reader: Callable[[str], _T]) -> _T:
    """What `reader` makes of a word of the command line. Raises CommandError naming `name`."""
    try:
        return reader(text)
    except ValueError as error:
        raise CommandError(f"{name}: {error}", exit_code=BAD_INPUT) from None


def timestamp(text: str) -> Timestamp:
    """A time with a zone, as in `2026-01-01T00:00:00Z`. Raises ValueError."""
    made = Timestamp()
    try:
        made.FromJsonString(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time with a zone, for example 2026-01-01T00:00:00Z"
        ) from None
    return made


def shown_time(time: Timestamp) -> str:
    """As RFC 3339 writes it."""
    return time.ToJsonString()


def shown_duration(in_seconds: float) -> str:
    """For people: `2m 30s`, `1.5s`, `20ms`."""
    if 0 < in_seconds < 1:
        return f"{in_seconds * 1000:.3g}ms"
    if in_seconds < 60:
        return f"{round(in_seconds, 3):g}s"
    span = datetime.timedelta(seconds=round(in_seconds))
    hours, rest = divmod(span.seconds, 3600)
    minutes, left = divmod(rest, 60)
    parts = ((span.days, "d"), (hours, "h"), (minutes, "m"), (left, "s"))
    return " ".join(f"{number}{unit}" for number, unit in parts if number)


def shown_size(count: int) -> str:
    """For people: `3.0 GB`."""
    for unit in ("GB", "MB", "KB"):
        if count >= _SIZES[unit]:
            return f"{count / _SIZES[unit]:.1f} {unit}"
    return f"{count} B"


def enum_name(enum: Any, number: int) -> str:
    """The name of a member, or the number that this version has no name for."""
    return enum.Name(number) if number in enum.values() else str(number)
