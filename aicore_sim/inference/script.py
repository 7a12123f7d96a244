"""The format of a script: what a scripted model answers, step by step.

A script is a YAML list; each generation takes the next step::

    - thought: Which order?
      text: Let me look.
      function_calls:
        - name: fetch_order_details
          args: {orderId: ORD-8492}
      expect: {last_message_contains: ORD-8492}
    - text: Your order is in transit.
      chunk_size: 10
    - error: {code: 9}

What a step says comes in the order of its keys, a thought always first.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from aicore_sim.device.errors import GenAiCode
from aicore_sim.inference.backend import (
    Chunk,
    FunctionCall,
    MalformedCall,
    TextDelta,
    ThoughtDelta,
)

_SAYS = ("thought", "text", "function_calls", "malformed_call", "error", "finish_reason")

MAX_SCRIPT_BYTES = 1024 * 1024
MAX_VALUES = 50_000
"""Of a whole script. It is read while the device waits, so it has to be read in a moment."""
MAX_DEPTH = 30
"""Lists and tables inside one another in the arguments of a call, as on the wire."""
MAX_DELAY = 366 * 24 * 3600.0
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_ARGS_AT = 3
"""How deep the arguments of a call lie in a step: `function_calls`, number, `args`."""
_MAX_NESTING = 200  # what recursive readers bear; a step that is nested deeper is refused by name
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_Path = tuple[str | int, ...]


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
    return given


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


class Expectation(_Table):
    """What the request must look like, or it is not the one the step was written for."""

    tool: str | None = None
    """A function that the request declares."""
    last_message_contains: str | None = None
    """Part of the last content: of its text, or of its function responses as JSON."""


class Step(_Table):
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
    order: tuple[str, ...] = Field(default=(), exclude=True)
    """The keys as they were written, `chunks` being `text`; set by `parse_script`, never by a
    script."""

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


def parse_script(text: str, *, source: str) -> tuple[Step, ...]:
    """Read a script. `source` is what messages call it, for example the file's path.

    Raises ScriptError naming the step, from 1, and the key that is wrong, or the limit that the
    script is over.
    """
    size = len(text.encode(errors="replace"))
    if size > MAX_SCRIPT_BYTES:
        raise _too_big(source, f"it has {size} bytes, at most {MAX_SCRIPT_BYTES} are read")
    try:
        _check_shape(text, source)
        found = yaml.load(text, _LOADER)  # a safe loader
    except yaml.YAMLError as error:
        raise ScriptError(f"script {source!r} is not YAML: {error}") from None
    except ScriptError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        # PyYAML lets such errors out for a value that does not fit its tag, like `!!int x`.
        raise ScriptError(f"script {source!r} has a value that is not YAML: {error}") from None
    if found is None:
        return ()
    if not isinstance(found, list):
        raise ScriptError(f"script {source!r}: expected a list of steps, not {_kind(found)}")
    steps, values = [], 0
    for number, raw in enumerate(found, 1):
        where = f"script {source!r}, step {number}"
        if not isinstance(raw, dict):
            raise ScriptError(f"{where}: expected keys and values, not {_kind(raw)}")
        values += _check_values(raw, where, at_most=MAX_VALUES - values)
        steps.append(_step(raw, where))
    return tuple(steps)


def load_script(path: Path) -> tuple[Step, ...]:
    """Read a script file. Raises ScriptError, also for a file that cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
        if len(data) > MAX_SCRIPT_BYTES:
            raise _too_big(str(path), f"at most {MAX_SCRIPT_BYTES} bytes are read")
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"cannot read script {str(path)!r}: {error}") from None
    return parse_script(text, source=str(path))


def _too_big(source: str, reason: str) -> ScriptError:
    return ScriptError(f"script {source!r} is too big: {reason}; cut it into several scripts")


def _check_shape(text: str, source: str) -> None:
    """Refuses, before anything is built, what would take long or deep recursion to build."""
    depth = values = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and (
            event.tag == _MERGE if event.tag else event.value == "<<" and event.implicit[0]
        ):
            raise ScriptError(f"script {source!r}: merge keys ('<<') are not supported")
        values += isinstance(event, yaml.NodeEvent)
        if depth > _MAX_NESTING:
            line = f", line {event.start_mark.line + 1}" if event.start_mark else ""
            raise ScriptError(f"script {source!r}{line}: nested more than {_MAX_NESTING} levels")
        if values > MAX_VALUES:
            raise _too_big(source, f"it has over {MAX_VALUES} values")


def _words(text: str) -> list[str]:
    """`text` cut before each run of white space."""
    return re.findall(r"\s*\S+|\s+$", text)


def shortened(text: str) -> str:
    """`text`, cut for a message."""
    return text if len(text) <= 60 else text[:57] + "..."


def _step(raw: dict[Any, Any], where: str) -> Step:
    if "order" in raw:
        raise ScriptError(f"{where}, key 'order': unknown key")
    for key, value in raw.items():
        if value is None:
            raise ScriptError(f"{where}, key {key!r}: has no value")
    order = dict.fromkeys("text" if key == "chunks" else str(key) for key in raw)
    try:
        return Step.model_validate({**raw, "order": tuple(order)})
    except ValidationError as error:
        raise ScriptError("; ".join(_problem(where, item) for item in error.errors())) from None


def _check_values(raw: dict[Any, Any], where: str, *, at_most: int) -> int:
    """Refuses what could not be sent to an app, wherever in the step it stands.

    Returns how many values the step has, those that aliases repeat included.
    """
    waiting: list[tuple[_Path, Any]] = [((), raw)]
    seen = 0
    while waiting:
        path, value = waiting.pop()
        seen += 1
        problem = _why_not_sendable(value)
        if len(path) > MAX_DEPTH + _ARGS_AT + 1:
            problem = f"nested more than {MAX_DEPTH} levels deep"
        elif seen > at_most:
            problem = f"here the script has over {MAX_VALUES} values"
        if problem is not None:
            key = ".".join(map(str, path[: _ARGS_AT + 1]))
            raise ScriptError(f"{where}, key {key!r}: {problem}" if key else f"{where}: {problem}")
        if isinstance(value, dict):
            for name in value:
                if problem := _why_not_sendable(name):
                    raise ScriptError(f"{where}, key {name!r}: {problem}")
            waiting += [((*path, name), item) for name, item in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [((*path, at), item) for at, item in enumerate(value)]
    return seen


def _why_not_sendable(value: object) -> str | None:
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        return "text with a lone surrogate cannot be sent"
    if isinstance(value, int) and not _INT64_MIN <= value <= _INT64_MAX:
        return "does not fit into 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} cannot be sent"
    return None


def _problem(where: str, item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        known = sorted(set(Step.model_fields) - {"order"})
        hint = f" (known: {', '.join(known)})" if len(item["loc"]) == 1 else ""
        return f"{where}, key {key!r}: unknown key{hint}"
    message = item["msg"].removeprefix("Value error, ")
    return f"{where}, key {key!r}: {message}" if key else f"{where}: {message}"


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {shortened(repr(value))}"
