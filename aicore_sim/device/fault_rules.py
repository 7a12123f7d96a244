"""What a fault rule says: which calls it is for, what it does to them, and how often.

The keys are those of `Fault` in device.proto, and the values may be written as protobuf's JSON
writes them (`"1.5s"`, `"2026-01-01T00:00:00Z"`, names of enum members), so that one reader serves
the control service and scenario files.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    model_validator,
)

from aicore_sim.device.clock import LATEST_NS, NANOS

COUNT_LIMIT = 2**31 - 1
SEED_LIMIT = 2**63 - 1

HOST_RPCS = frozenset(
    {
        "Search",
        "GetStates",
        "GetActivityStates",
        "Execute",
        "CancelExecution",
        "IsEnabled",
        "SetEnabled",
        "Observe",
    }
)
"""Calls of the AppFunction host that faults may be for."""
HOST_ACTIONS = ("error_code", "delay", "drop_after_tokens")

ACTIONS = (
    "error_code",
    "delay",
    "drop_after_tokens",
    "fail_after_tokens",
    "malformed",
    "kill_worker",
)
"""Members of `FaultAction`; a rule has exactly one."""


class FaultError(ValueError):
    """A rule that does not follow the format; the text names the key."""


class Malformed(IntEnum):
    """Members and numbers of `FaultAction.Malformed` in device.proto."""

    BROKEN_CALL = 1
    """Every function call of the answer does not parse."""
    TRUNCATED_CALL = 2
    """The answer ends in the middle of its first function call, at the output limit."""
    EMPTY_OUTPUT = 3
    """The answer has no content."""


def _malformed(value: object) -> object:
    if isinstance(value, str) and value in Malformed.__members__:
        return Malformed[value]
    if type(value) is int and value in list(Malformed):
        return Malformed(value)
    raise ValueError(f"{value!r} is none of {', '.join(Malformed.__members__)}")


def _seconds(value: object) -> object:
    """Seconds as a number, or as protobuf writes a Duration."""
    number = value
    if isinstance(value, str) and value.endswith("s"):
        try:
            number = float(value[:-1])
        except ValueError:
            number = value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{value!r} is no number of seconds, such as 1.5 or '1.5s'")
    if not 0 <= number * NANOS <= LATEST_NS:
        raise ValueError(f"{value!r} must be a number of seconds from 0 up")
    return float(number)


def _instant(value: object) -> object:
    """Nanoseconds since the epoch, from seconds or a Timestamp as protobuf writes it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is no time, such as '2026-01-01T00:00:00Z'")
    if isinstance(value, str):
        found = _from_rfc3339(value)
    else:
        found = round(value * NANOS) if math.isfinite(value) else -1
    if not 0 <= found <= LATEST_NS:
        raise ValueError(f"{value!r} is no time between 1970 and 9999")
    return found


def _from_rfc3339(text: str) -> int:
    # datetime counts microseconds; the digits after the point are read apart.
    whole, _, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :] if digits else ""
    try:
        moment = datetime.datetime.fromisoformat(whole + zone)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or len(digits) > 9 or (rest and not digits):
        raise ValueError(f"{text!r} is no time with a zone, such as '2026-01-01T00:00:00Z'")
    return int(moment.timestamp()) * NANOS + int(digits.ljust(9, "0"))


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_Count = Annotated[StrictInt, Field(ge=0, le=COUNT_LIMIT)]
_Code = Annotated[StrictInt, Field(ge=-COUNT_LIMIT - 1, le=COUNT_LIMIT)]


class FaultMatch(_Table):
    """Calls that a rule is for. Empty means any."""

    rpc: str = ""
    """Bare name of the call, such as "GenerateContent"."""
    package_name: str = ""
    """The calling app."""
    function_identifier: str = ""
    """Whole, or the method alone."""

    @property
    def is_for_host(self) -> bool:
        """Whether the AppFunction host decides, and not AICore."""
        return self.rpc in HOST_RPCS or (not self.rpc and bool(self.function_identifier))

    def fits(self, rpc: str, *, package_name: str, function_identifier: str = "") -> bool:
        """Whether the rule is for this call."""
        return (
            self.rpc in ("", rpc)
            and self.package_name in ("", package_name)
            and self.function_identifier
            in ("", function_identifier, function_identifier.rpartition("#")[2])
        )


class FailAfterTokens(_Table):
    tokens: _Count
    error_code: _Code


class KillWorker(_Table):
    """Takes no values."""


class FaultAction(_Table):
    """Exactly one of ACTIONS."""

    error_code: _Code | None = None
    """The call fails at once with this code of AICore; unknown ones pass through."""
    delay: Annotated[float, BeforeValidator(_seconds)] | None = None
    """Device time that passes first, in seconds."""
    drop_after_tokens: _Count | None = None
    """The stream ends without an answer after so many tokens."""
    fail_after_tokens: FailAfterTokens | None = None
    malformed: Annotated[Malformed, BeforeValidator(_malformed)] | None = None
    kill_worker: KillWorker | None = None
    """The process that runs the model dies when the answer has begun."""

    @model_validator(mode="after")
    def _one(self) -> FaultAction:
        if len(self.model_fields_set) != 1 or getattr(self, self.kind) is None:
            raise ValueError(f"a rule has one action of {', '.join(ACTIONS)}")
        return self

    @property
    def kind(self) -> str:
        """The member of ACTIONS that is set."""
        return next(iter(self.model_fields_set))


class FaultRule(_Table):
    id: str = Field(default="", max_length=100)
    """Empty lets the plan choose one."""
    match: FaultMatch = FaultMatch()
    action: FaultAction
    times: _Count = 0
    """How often it may fire; 0 means without limit."""
    after: _Count = 0
    """Matching calls that pass before it fires."""
    until: Annotated[int, BeforeValidator(_instant)] | None = None
    """Device time, in nanoseconds since the epoch, from which on it does not fire any more."""
    hits: Literal[0] = 0
    """Only the plan counts."""
    probability: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0
    """Chance that a call which is due meets it; 0 means always."""
    seed: Annotated[int, Field(ge=0, le=SEED_LIMIT)] = 0
    """What the chance is drawn from; 0 lets the plan choose."""

    @model_validator(mode="after")
    def _is_possible(self) -> FaultRule:
        if self.seed and not self.probability:
            raise ValueError("a seed is of use only with a probability")
        if self.match.is_for_host and self.action.kind not in HOST_ACTIONS:
            raise ValueError(
                f"a call of the AppFunction host can meet {', '.join(HOST_ACTIONS)}, "
                f"not {self.action.kind}"
            )
        if self.match.rpc and self.match.function_identifier and not self.match.is_for_host:
            raise ValueError(
                f"match.function_identifier: {self.match.rpc!r} is a call of AICore, "
                "which knows no AppFunctions"
            )
        return self

    def draws(self, matched: int) -> bool:
        """Whether the call that matched as number `matched` meets the rule by its chance."""
        if not self.probability or self.probability == 1:
            return True
        return random.Random(self.seed * 1_000_003 + matched).uniform(0, 1) < self.probability

    def to_wire(self, *, hits: int) -> dict[str, Any]:
        """The rule as JSON of `Fault`, for `google.protobuf.json_format.ParseDict`."""
        made = self.model_dump(exclude={"until", "hits", "action"})
        kind = self.action.kind
        value = getattr(self.action, kind)
        if kind == "delay":
            value = f"{value:.9f}s"
        elif isinstance(value, Malformed):
            value = value.name
        elif isinstance(value, BaseModel):
            value = value.model_dump()
        made["action"] = {kind: value}
        if self.until is not None:
            moment = datetime.datetime.fromtimestamp(self.until // NANOS, datetime.UTC)
            made["until"] = f"{moment:%Y-%m-%dT%H:%M:%S}.{self.until % NANOS:09d}Z"
        made["hits"] = hits
        return made


def parse_fault(table: Mapping[str, Any], *, rpcs: frozenset[str]) -> FaultRule:
    """A rule from a table, for example of a scenario file or made by `MessageToDict`.

    `rpcs` are the calls that exist. Raises FaultError naming the key that is wrong.
    """
    try:
        rule = FaultRule.model_validate(dict(table))
    except ValidationError as error:
        raise FaultError("; ".join(_problem(item) for item in error.errors())) from None
    check_rpc(rule, rpcs)
    return rule


def check_rpc(rule: FaultRule, rpcs: frozenset[str]) -> None:
    """Raises FaultError for a rule about a call that does not exist."""
    if rule.match.rpc and rule.match.rpc not in rpcs:
        raise FaultError(
            f"match.rpc: {rule.match.rpc!r} is none of the calls {', '.join(sorted(rpcs))}"
        )


def _problem(item: Any) -> str:
    key = ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        known = f"; the actions are {', '.join(ACTIONS)}" if item["loc"][0] == "action" else ""
        return f"{key}: unknown key{known}"
    text = str(item["msg"]).removeprefix("Value error, ")
    shown = "" if item["type"] in ("missing", "value_error") else f" (found {item['input']!r})"
    return f"{key}: {text}{shown}"
