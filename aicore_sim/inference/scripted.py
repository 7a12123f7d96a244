"""A model whose answers are written down: strict first in, first out.

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

What a step says comes in the order of its keys (a thought always first). A generation without a
step, or one that a step did not expect, is an error that names it: a test whose app asks the model
more often than planned must not pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from aicore_sim.device.clock import Clock, RealClock
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.inference.backend import (
    BackendError,
    Chunk,
    Content,
    Finish,
    FunctionCall,
    FunctionCallPart,
    GenerateRequest,
    MalformedCall,
    ModelInfo,
    TextDelta,
    TextPart,
    ThoughtDelta,
    Usage,
)

MODEL_NAME = "scripted"
DEFAULT_TOKEN_LIMIT = 8192

# The scripted tokenizer: a word, or one punctuation mark, is a token; white space is none. It is
# no real model's, so counts are exact and repeatable but only comparable with each other.
_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD_WITH_SPACE = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+")


class ScriptError(ValueError):
    """A script that does not follow the format; the message names source, step and key."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ScriptedCall(_Table):
    name: str = Field(min_length=1)
    args: dict[str, Any] = Field(default_factory=dict)


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
    """The keys as they were written; set by `parse_script`, never by a script."""

    @model_validator(mode="after")
    def _consistent(self) -> Step:
        if self.chunks is not None:
            if self.chunk_size is not None:
                raise ValueError("'chunks' and 'chunk_size' exclude each other")
            if self.text is not None and "".join(self.chunks) != self.text:
                raise ValueError("'chunks' do not add up to 'text'")
        if self.chunk_size is not None and self.text is None:
            raise ValueError("'chunk_size' needs 'text'")
        if not set(self.order) & {*_SPOKEN, "thought", "error", "finish_reason"}:
            raise ValueError(
                "the step says nothing; give it 'text', 'chunks', 'thought', 'function_calls', "
                "'malformed_call', 'error' or 'finish_reason'"
            )
        return self

    def describe(self) -> str:
        """One short line for messages and listings; long texts are cut."""
        words: list[str] = []
        for key in self.order:
            if key in ("text", "chunks") and not any(word.startswith("text") for word in words):
                words.append(f"text {_shortened(self.whole_text)!r}")
            elif key == "function_calls":
                words.append("calls " + ", ".join(call.name for call in self.function_calls))
            elif key == "error" and self.error is not None:
                words.append(f"error {self.error.code}")
            elif key in ("malformed_call", "thought"):
                words.append(key)
        return "; ".join(words) or "empty answer"

    @property
    def whole_text(self) -> str:
        return "".join(self.chunks or ()) if self.text is None else self.text

    def text_chunks(self) -> list[str]:
        if self.chunks is not None:
            return list(self.chunks)
        text = self.whole_text
        if self.chunk_size is None:
            return _words(text)
        return [text[at : at + self.chunk_size] for at in range(0, len(text), self.chunk_size)]

    def spoken(self) -> list[Chunk]:
        """Everything the step says, in order."""
        said: list[Chunk] = []
        if self.thought is not None:
            said += [ThoughtDelta(text=word) for word in _words(self.thought)]
        has_text = False
        for key in self.order:
            if key in ("text", "chunks") and not has_text:
                has_text = True
                said += [TextDelta(text=chunk) for chunk in self.text_chunks()]
            elif key == "function_calls":
                said += [FunctionCall(name=c.name, args=c.args) for c in self.function_calls]
            elif key == "malformed_call" and self.malformed_call is not None:
                malformed = self.malformed_call
                said.append(MalformedCall(text=malformed.text, reason=malformed.reason))
        return said


_SPOKEN = ("text", "chunks", "function_calls", "malformed_call")


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


class ScriptedBackend:
    """Answers from a script; always available."""

    def __init__(
        self,
        script: Sequence[Step] = (),
        *,
        clock: Clock | None = None,
        token_limit: int = DEFAULT_TOKEN_LIMIT,
    ) -> None:
        self._steps = tuple(script)
        self._consumed = 0
        self._clock = clock or RealClock()
        self._info = ModelInfo(
            name=MODEL_NAME, token_limit=token_limit, dialect=MODEL_NAME, constrained=False
        )

    async def start(self) -> None:
        """Nothing to load."""

    async def stop(self) -> None:
        """Nothing to release."""

    @property
    def unavailable_reason(self) -> str | None:
        return None

    @property
    def info(self) -> ModelInfo:
        return self._info

    @property
    def steps(self) -> int:
        """Steps of the script, taken ones included."""
        return len(self._steps)

    @property
    def consumed(self) -> int:
        """Steps that generations have taken."""
        return self._consumed

    def remaining(self) -> tuple[str, ...]:
        """The steps that are left, each as its number and a short description."""
        return tuple(
            f"step {number}: {step.describe()}"
            for number, step in enumerate(self._steps, 1)
            if number > self._consumed
        )

    def load(self, script: Sequence[Step]) -> None:
        """Replace the script. A running generation keeps the step it took."""
        self._steps = tuple(script)
        self._consumed = 0

    async def count_tokens(self, request: GenerateRequest) -> int:
        return _input_tokens(request)

    async def generate(self, request: GenerateRequest) -> AsyncIterator[Chunk]:
        """Take the next step and play it.

        Like a model, it stops after `max_output_tokens` tokens of text with reason `max_tokens`.
        Sampling, schemas and the tool choice change nothing; a scripted call need not be of a
        declared function.

        Raises SimulatorFault (SCRIPT_DRIFT), and BackendError for a scripted failure.
        """
        step = self._take(request)
        await self._clock.sleep(step.delay)
        said = step.spoken()
        fails_at = len(said) if step.error is None else step.error.after_chunks
        output_tokens = 0
        room = request.sampling.max_output_tokens
        reason = step.finish_reason
        for number, chunk in enumerate(said):
            if step.error is not None and number == fails_at:
                break
            if number:
                await self._clock.sleep(step.chunk_delay)
            if room is not None and isinstance(chunk, TextDelta):
                kept = _first_tokens(chunk.text, room - output_tokens)
                if kept != chunk.text:
                    if kept:
                        output_tokens += _text_tokens(kept)
                        yield TextDelta(text=kept)
                    reason = "max_tokens"
                    break
            output_tokens += _chunk_tokens(chunk)
            yield chunk
        if step.error is not None and reason != "max_tokens":
            raise BackendError(step.error.code, step.error.message)
        usage = step.usage
        counted = _input_tokens(request)
        yield Finish(
            reason=reason,
            usage=Usage(
                input_tokens=counted if usage.input_tokens is None else usage.input_tokens,
                output_tokens=output_tokens if usage.output_tokens is None else usage.output_tokens,
                cached_input_tokens=usage.cached_input_tokens,
            ),
        )

    def _take(self, request: GenerateRequest) -> Step:
        number = self._consumed + 1
        if number > len(self._steps):
            raise SimulatorFault(
                FaultKind.SCRIPT_DRIFT,
                f"generation {number} has no step: the script has {len(self._steps)} steps; "
                f"asked was {_describe(request)}; add a step, or find out why the app asks again",
            )
        step = self._steps[self._consumed]
        if step.expect is not None:
            _check(step.expect, request, number)
        self._consumed = number
        return step


def _check(expect: Expectation, request: GenerateRequest, number: int) -> None:
    declared = [tool.name for tool in request.tools]
    if expect.tool is not None and expect.tool not in declared:
        raise SimulatorFault(
            FaultKind.SCRIPT_DRIFT,
            f"step {number} expects the tool {expect.tool!r}, "
            f"the request declares {', '.join(declared) or 'none'}",
        )
    wanted = expect.last_message_contains
    if wanted is not None and wanted not in _content_text(request.contents[-1]):
        raise SimulatorFault(
            FaultKind.SCRIPT_DRIFT,
            f"step {number} expects {wanted!r} in the last message; asked was {_describe(request)}",
        )


def _describe(request: GenerateRequest) -> str:
    last = request.contents[-1]
    return (
        f"{len(request.contents)} contents with {len(request.tools)} tools, "
        f"the last from the {last.role}: {_shortened(_content_text(last))!r}"
    )


def _content_text(content: Content) -> str:
    return "\n".join(_part_text(part) for part in content.parts)


def _part_text(part: Any) -> str:
    match part:
        case TextPart():
            return part.text
        case FunctionCallPart():
            return f"{part.name} {_json(part.args)}"
        case _:
            return f"{part.name} {_json(part.response)}"


def _input_tokens(request: GenerateRequest) -> int:
    texts = [request.system_instruction]
    texts += [_json(tool.model_dump(exclude_defaults=True)) for tool in request.tools]
    texts += [_content_text(content) for content in request.contents]
    return sum(_text_tokens(text) for text in texts)


def _chunk_tokens(chunk: Chunk) -> int:
    match chunk:
        case FunctionCall():
            return _text_tokens(f"{chunk.name} {_json(chunk.args)}")
        case Finish():
            return 0
        case _:
            return _text_tokens(chunk.text)


def _text_tokens(text: str) -> int:
    return len(_TOKEN.findall(text))


def _first_tokens(text: str, count: int) -> str:
    """`text` up to its token number `count`, or all of it when it has no more."""
    for number, token in enumerate(_TOKEN.finditer(text), 1):
        if number > count:
            return text[: token.start()]
    return text


def _words(text: str) -> list[str]:
    """`text` cut before each run of white space."""
    return re.findall(r"\s*\S+|\s+$", text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _step(raw: Any, number: int, source: str) -> Step:
    where = f"script {source!r}, step {number}"
    if not isinstance(raw, dict):
        raise ScriptError(f"{where}: expected keys and values, not {_kind(raw)}")
    if "order" in raw:
        raise ScriptError(f"{where}, key 'order': unknown key")
    try:
        return Step.model_validate({**raw, "order": tuple(str(key) for key in raw)})
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
    return "nothing" if value is None else f"{type(value).__name__} {_shortened(repr(value))}"
