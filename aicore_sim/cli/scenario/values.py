"""Words of a scenario file as pydantic types; the same words as on the command line."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from aicore_sim.cli.ctl import values
from aicore_sim.cli.ctl.importance import LEVELS


def _nanoseconds(value: object) -> int:
    if value == 0 and not isinstance(value, bool):
        return 0
    if not isinstance(value, str):
        raise ValueError(f"{value!r} has no unit; write for example 3h, 1.5s or 20ms")
    return values.nanoseconds(value)


def _bytes(value: object) -> int:
    return values.size(str(value))


def error_code(value: object) -> int:
    """A code by its number or name. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is no error code")
    return values.error_code(value)


def _status(value: object) -> values.FeatureStatus:
    return values.status(str(value))


def _importance(value: object) -> str:
    return values.one_of(*LEVELS)(str(value))


def _switch(*known: str) -> Any:
    """YAML reads a bare `on` and `off` as true and false."""

    def read(value: object) -> str:
        word = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
        return values.one_of(*known)(str(word))

    return BeforeValidator(read)


def _quota_model(value: object) -> str:
    if value is False:
        return "off"
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no name of a quota model")
    return value


def _range(value: object) -> tuple[int, int]:
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value
    if (
        isinstance(value, list)
        and len(value) == 2
        and all(type(end) is int for end in value)
        and value[0] <= value[1]
    ):
        return value[0], value[1]
    raise ValueError(f"{value!r} is neither a number nor a range such as [36, 41]")


Nanoseconds = Annotated[int, BeforeValidator(_nanoseconds)]
Bytes = Annotated[int, BeforeValidator(_bytes)]
Code = Annotated[int, BeforeValidator(error_code)]
Status = Annotated[values.FeatureStatus, BeforeValidator(_status)]
Importance = Annotated[str, BeforeValidator(_importance)]
OnOff = Annotated[str, _switch("on", "off")]
FullOk = Annotated[str, _switch("full", "ok")]
ExclusiveFree = Annotated[str, _switch("exclusive", "free")]
QuotaModel = Annotated[str, BeforeValidator(_quota_model)]
Range = Annotated[tuple[int, int], BeforeValidator(_range)]
