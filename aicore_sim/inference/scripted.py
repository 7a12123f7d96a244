"""A model whose answers are written down: strict first in, first out.

A generation without a step, or one that a step did not expect, is an error that names it: a test
whose app asks the model more often than planned must not pass.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from aicore_sim.device.clock import Clock, RealClock
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.inference.backend import (
    BackendError,
    Chunk,
    Content,
    Finish,
    FunctionCall,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    ModelInfo,
    Part,
    TextDelta,
    TextPart,
    Usage,
)
from aicore_sim.inference.script import (
    Expectation,
    ScriptError,
    Step,
    load_script,
    parse_script,
    shortened,
)

__all__ = [
    "MODEL_NAME",
    "ScriptError",
    "ScriptedBackend",
    "Step",
    "load_script",
    "parse_script",
]

MODEL_NAME = "scripted"
DEFAULT_TOKEN_LIMIT = 8192

# The scripted tokenizer: a word, or one punctuation mark, is a token; white space is none. It is
# no real model's, so counts are exact and repeatable but only comparable with each other.
_TOKEN = re.compile(r"\w+|[^\w\s]")
_COUNTED_AT_ONCE = 100_000
"""Characters; more are counted in a thread."""


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
        return await _input_tokens(request)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """Take the next step and play it.

        Like a model, it stops after `max_output_tokens` tokens of text with reason `max_tokens`.
        Sampling, schemas and the tool choice change nothing; a scripted call need not be of a
        declared function.

        Raises SimulatorFault (SCRIPT_DRIFT), and BackendError for a scripted failure.
        """
        step = self._take(request)
        if step.delay:
            await self._clock.sleep(step.delay)
        output_tokens = 0
        room = request.sampling.max_output_tokens
        reason = step.finish_reason
        said = step.spoken()
        for number, chunk in enumerate(said[: step.error.after_chunks] if step.error else said):
            if number and step.chunk_delay:
                await self._clock.sleep(step.chunk_delay)
            if room is not None and isinstance(chunk, TextDelta):
                kept = _first_tokens(chunk.text, room - output_tokens)
                if kept != chunk.text:
                    if kept:
                        output_tokens += _text_tokens(kept)
                        yield TextDelta(text=kept)
                    reason = "max_tokens"
                    break
            output_tokens += chunk_tokens(chunk)
            yield chunk
        else:
            if step.error is not None:
                raise BackendError(step.error.code, step.error.message)
        usage = step.usage
        counted = await _input_tokens(request)
        yield Finish(
            reason=reason,
            usage=Usage(
                input_tokens=counted if usage.input_tokens is None else usage.input_tokens,
                output_tokens=output_tokens if usage.output_tokens is None else usage.output_tokens,
                cached_input_tokens=usage.cached_input_tokens,
                device_seconds=usage.device_seconds,
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
    if wanted is not None and wanted not in _last_text(request):
        raise SimulatorFault(
            FaultKind.SCRIPT_DRIFT,
            f"step {number} expects {wanted!r} in the last message; asked was {_describe(request)}",
        )


def _describe(request: GenerateRequest) -> str:
    return (
        f"{len(request.contents)} contents and {len(request.tools)} tools, "
        f"the last content being {shortened(_last_text(request))!r}"
    )


def _last_text(request: GenerateRequest) -> str:
    return _content_text(request.contents[-1]) if request.contents else ""


def _content_text(content: Content) -> str:
    return "\n".join(_part_text(part) for part in content.parts)


def _part_text(part: Part) -> str:
    match part:
        case TextPart():
            return part.text
        case FunctionCallPart():
            return f"{part.name} {_json(part.args)}"
        case FunctionResponsePart():
            return f"{part.name} {_json(part.response)}"


async def _input_tokens(request: GenerateRequest) -> int:
    texts = [request.system_instruction]
    texts += [_json(tool.model_dump(exclude_defaults=True)) for tool in request.tools]
    texts += [_content_text(content) for content in request.contents]
    if sum(map(len, texts)) <= _COUNTED_AT_ONCE:
        return sum(map(_text_tokens, texts))
    # Ten million tokens take seconds, in which the device has other calls to answer.
    return await asyncio.to_thread(lambda: sum(map(_text_tokens, texts)))


def chunk_tokens(chunk: Chunk) -> int:
    """Output tokens of a chunk by the scripted tokenizer; of another model's a close estimate."""
    match chunk:
        case FunctionCall():
            return _text_tokens(f"{chunk.name} {_json(chunk.args)}")
        case Finish():
            return 0
        case _:
            return _text_tokens(chunk.text)


def _text_tokens(text: str) -> int:
    return sum(1 for _ in _TOKEN.finditer(text))  # leaves the interpreter to others in between


def _first_tokens(text: str, count: int) -> str:
    """`text` up to the end of its token number `count`, or all of it when it has no more."""
    end = 0
    for number, token in enumerate(_TOKEN.finditer(text), 1):
        if number > count:
            return text[:end]
        end = token.end()
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
