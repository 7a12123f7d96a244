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

import re
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from aicore_sim.inference.backend import (
    Chunk,
    FunctionCall,
    MalformedCall,
    TextDelta,
    ThoughtDelta,
)

_SAYS = ("thought", "text", "function_calls", "malformed_call", "error", "finish_reason")


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


class ScriptedError(_Table):
    """A failure with an AICore or ML Kit integer, after `after_chunks` chunks of the step, or
    after all of them."""

    code: int
    message: str = "Scripted failure."
    after_chunks: int | None = Field(default=None, ge=0)


class ScriptedUsage(_Table):
    """Token counts to report in place of the counted ones."""

    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    cached_input_tokens: int = Field(default=0, ge=0)


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
    delay: float = Field(default=0.0, ge=0, strict=False)
    """Seconds before the first chunk, on the device's clock."""
    chunk_delay: float = Field(default=0.0, ge=0, strict=False)
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

    Raises ScriptError naming the step, from 1, and the key that is wrong.
    """
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScriptError(f"script {source!r} is not YAML: {error}") from None
    if found is None:
        return ()
    if not isinstance(found, list):
        raise ScriptError(f"script {source!r}: expected a list of steps, not {_kind(found)}")
    return tuple(_step(raw, number, source) for number, raw in enumerate(found, 1))


def load_script(path: Path) -> tuple[Step, ...]:
    """Read a script file. Raises ScriptError, also for a file that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"cannot read script {str(path)!r}: {error}") from None
    return parse_script(text, source=str(path))


def _words(text: str) -> list[str]:
    """`text` cut before each run of white space."""
    return re.findall(r"\s*\S+|\s+$", text)


def shortened(text: str) -> str:
    """`text`, cut for a message."""
    return text if len(text) <= 60 else text[:57] + "..."


def _step(raw: Any, number: int, source: str) -> Step:
    where = f"script {source!r}, step {number}"
    if not isinstance(raw, dict):
        raise ScriptError(f"{where}: expected keys and values, not {_kind(raw)}")
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
