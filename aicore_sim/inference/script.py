"""The format of a script: what a scripted model answers, step by step.

A script is a YAML list of steps; each generation takes the next one::

    - thought: Which order?
      text: Let me look.
      function_calls:
        - name: fetch_order_details
          args: {orderId: ORD-8492}
      expect: {last_message_contains: ORD-8492}
    - text: Your order is in transit.
      chunk_size: 10
    - error: {code: 9}
      repeat: 2

or a table, where rules answer what fits them, in any order, before the steps are asked::

    rules:
      - when: {caller: com.example.notes}
        text: I am the notes app's model.
    steps:
      - text: Your order is in transit.
    otherwise: echo

What a step says comes in the order of its keys, a thought always first.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from aicore_sim.device.errors import GenAiCode
from aicore_sim.inference.backend import (
    Chunk,
    FunctionCall,
    GenerateRequest,
    MalformedCall,
    TextDelta,
    ThoughtDelta,
)

_SAYS = ("thought", "text", "function_calls", "malformed_call", "error", "finish_reason")

MAX_DELAY = 366 * 24 * 3600.0
MAX_REPEAT = 10_000
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1

Otherwise = Literal["error", "echo", "auto"]
"""What answers a request that no rule and no step is left for."""
OTHERWISE: tuple[Otherwise, ...] = get_args(Otherwise)


class ScriptError(ValueError):
    """A script that does not follow the format; the message names source, step and key."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ScriptedCall(_Table):
    name: str = Field(min_length=1)
    args: dict[str, JsonValue] = Field(default_factory=dict)


class ScriptedMalformedCall(_Table):
    text: str
    reason: str = "scripted"


def _code_of(given: object) -> object:
    if isinstance(given, str):
        if given not in GenAiCode.__members__:
            raise ValueError(
                f"{given!r} names no error code; use a number of `aicore-sim errors`, or one of "
                f"{', '.join(GenAiCode.__members__)}"
            )
        return int(GenAiCode[given])
    return int(given) if isinstance(given, GenAiCode) else given


class ScriptedError(_Table):
    """A failure with an AICore or ML Kit integer or its name, after `after_chunks` chunks of the
    step, or after all of them."""

    code: Annotated[int, BeforeValidator(_code_of)] = Field(ge=_INT32_MIN, le=_INT32_MAX)
    message: str = "Scripted failure."
    after_chunks: int | None = Field(default=None, ge=0)


class ScriptedUsage(_Table):
    """Token counts to report in place of the counted ones, and what the quota is charged."""

    input_tokens: int | None = Field(default=None, ge=0, le=_INT32_MAX)
    output_tokens: int | None = Field(default=None, ge=0, le=_INT32_MAX)
    cached_input_tokens: int = Field(default=0, ge=0, le=_INT32_MAX)
    device_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False, strict=False)
    """Device time of the answer; without it, its tokens at the speed of the device's profile."""


def _pattern(given: object) -> object:
    if isinstance(given, str):
        try:
            re.compile(given)
        except re.error as error:
            raise ValueError(f"{given!r} is no regular expression: {error}") from None
    return given


class Expectation(_Table):
    """What a request must look like. Absent keys are not looked at."""

    tool: str | None = None
    """A function that the request declares."""
    last_message_contains: str | None = None
    """Part of the last content: of its text, or of its function responses as JSON."""
    last_message_matches: Annotated[str | None, BeforeValidator(_pattern)] = None
    """A regular expression (Python's `re.search`) for the same text."""
    caller: str | None = None
    """The package that asks."""

    def require_a_key(self) -> None:
        """Raises ValueError for what every request would fit."""
        if not self.model_fields_set:
            raise ValueError(f"'when' needs one of {', '.join(Expectation.model_fields)}")


class Step(_Table):
    """One answer. Made in Python, `order` is that of the arguments."""

    text: str | None = None
    chunks: list[str] | None = None
    """The text as it is streamed. Excludes `chunk_size`; alone, it is also the text."""
    chunk_size: int | None = Field(default=None, ge=1)
    """Characters of a chunk. Without it and `chunks`, each word is a chunk."""
    thought: str | None = None
    function_calls: list[ScriptedCall] = Field(default_factory=list)
    malformed_call: ScriptedMalformedCall | None = None
    error: ScriptedError | None = None
    delay: float = Field(default=0.0, ge=0, le=MAX_DELAY, strict=False)
    """Seconds before the first chunk, on the device's clock."""
    chunk_delay: float = Field(default=0.0, ge=0, le=MAX_DELAY, strict=False)
    """Seconds before each later chunk, on the device's clock."""
    finish_reason: Literal["stop", "max_tokens", "other"] = "stop"
    usage: ScriptedUsage = ScriptedUsage()
    expect: Expectation | None = None
    repeat: int = Field(default=1, ge=1, le=MAX_REPEAT)
    """Generations in a row that the step answers."""
    order: tuple[str, ...] = Field(default=(), exclude=True)
    """What it says, in the order of the keys, `chunks` being `text`; never written in a script."""

    @model_validator(mode="before")
    @classmethod
    def _ordered(cls, data: Any) -> Any:
        if isinstance(data, dict) and "order" not in data:
            keys = dict.fromkeys("text" if key == "chunks" else str(key) for key in data)
            return {**data, "order": tuple(key for key in keys if key in _SAYS)}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Step:
        if self.chunks is not None:
            if self.chunk_size is not None:
                raise ValueError("'chunks' and 'chunk_size' exclude each other")
            if self.text is not None and "".join(self.chunks) != self.text:
                raise ValueError("'chunks' do not add up to 'text'")
        if self.chunk_size is not None and self.text is None:
            raise ValueError("'chunk_size' needs 'text'")
        if not set(self.order) & set(_SAYS):
            raise ValueError(f"the step says nothing; give it one of {', '.join(_SAYS)}")
        return self

    def describe(self) -> str:
        """One short line for messages and listings; long texts are cut."""
        words: list[str] = []
        for key in self.order:
            if key == "text":
                words.append(f"text {shortened(self._whole_text)!r}")
            elif key == "function_calls":
                words.append("calls " + ", ".join(call.name for call in self.function_calls))
            elif key == "error" and self.error is not None:
                words.append(f"error {self.error.code}")
            elif key in ("malformed_call", "thought"):
                words.append(key)
        return "; ".join(words) or "empty answer"

    @property
    def _whole_text(self) -> str:
        return "".join(self.chunks or ()) if self.text is None else self.text

    def _text_chunks(self) -> list[str]:
        if self.chunks is not None:
            return list(self.chunks)
        text = self._whole_text
        if self.chunk_size is None:
            return _words(text)
        return [text[at : at + self.chunk_size] for at in range(0, len(text), self.chunk_size)]

    def spoken(self) -> list[Chunk]:
        """Everything the step says, in order."""
        said: list[Chunk] = []
        if self.thought is not None:
            said += [ThoughtDelta(text=word) for word in _words(self.thought)]
        for key in self.order:
            if key == "text":
                said += [TextDelta(text=chunk) for chunk in self._text_chunks()]
            elif key == "function_calls":
                said += [FunctionCall(name=c.name, args=c.args) for c in self.function_calls]
            elif key == "malformed_call" and self.malformed_call is not None:
                malformed = self.malformed_call
                said.append(MalformedCall(text=malformed.text, reason=malformed.reason))
        return said


class Rule(Step):
    """An answer for every request that fits `when`, or for the first `times` of them."""

    when: Expectation
    times: int | None = Field(default=None, ge=1, le=MAX_REPEAT)

    @model_validator(mode="after")
    def _is_a_rule(self) -> Rule:
        self.when.require_a_key()
        for key in ("expect", "repeat"):
            if key in self.model_fields_set:
                raise ValueError(f"{key!r} belongs to steps; a rule has 'when' and 'times'")
        return self


Answering = Callable[[GenerateRequest], "Step | str | Awaitable[Step | str]"]
"""Makes the answer to a request: a step, or a text."""


@dataclass(frozen=True, kw_only=True)
class _ByFunction:
    """What a Python function answers, in the process of the device."""

    function: Answering

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def describe(self) -> str:
        return f"function {self.name}"


@dataclass(frozen=True, kw_only=True)
class Computed(_ByFunction):
    """A step that a Python function answers."""

    expect: Expectation | None = None
    repeat: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.repeat <= MAX_REPEAT:
            raise ValueError(f"repeat: {self.repeat!r} is not from 1 to {MAX_REPEAT}")


@dataclass(frozen=True, kw_only=True)
class ComputedRule(_ByFunction):
    """A rule that a Python function answers."""

    when: Expectation
    times: int | None = None

    def __post_init__(self) -> None:
        self.when.require_a_key()
        if self.times is not None and not 1 <= self.times <= MAX_REPEAT:
            raise ValueError(f"times: {self.times!r} is not from 1 to {MAX_REPEAT}")


@dataclass(frozen=True, kw_only=True)
class Script:
    """Rules, which answer what fits them; steps, in order; and what answers the rest."""

    steps: tuple[Step | Computed, ...] = ()
    rules: tuple[Rule | ComputedRule, ...] = ()
    otherwise: Otherwise = "error"


def _words(text: str) -> list[str]:
    """`text` cut before each run of white space."""
    return re.findall(r"\s*\S+|\s+$", text)


def shortened(text: str) -> str:
    """`text`, cut for a message."""
    return text if len(text) <= 60 else text[:57] + "..."
