"""A model whose answers are written down: strict first in, first out.

A generation without a step, or one that a step did not expect, is an error that names it: a test
whose app asks the model more often than planned must not pass.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import Counter, deque
from collections.abc import AsyncGenerator, Sequence

from aicore_sim.device.clock import Clock, RealClock
from aicore_sim.device.errors import DeviceError, FaultKind, SimulatorFault
from aicore_sim.inference.automatic import automatic_step, echo_step
from aicore_sim.inference.backend import (
    BackendError,
    Chunk,
    Finish,
    FunctionCall,
    GenerateRequest,
    ModelInfo,
    TextDelta,
    Usage,
)
from aicore_sim.inference.request_text import content_text, to_json
from aicore_sim.inference.script import (
    Computed,
    ComputedRule,
    Script,
    Step,
)
from aicore_sim.inference.script_drift import differences, drift

MODEL_NAME = "scripted"
DEFAULT_TOKEN_LIMIT = 8192
REQUESTS_KEPT = 1000

# The scripted tokenizer: a word, or one punctuation mark, is a token; white space is none. It is
# no real model's, so counts are exact and repeatable but only comparable with each other.
_TOKEN = re.compile(r"\w+|[^\w\s]")
_COUNTED_AT_ONCE = 100_000
"""Characters; more are counted in a thread."""


class ScriptedBackend:
    """Answers from a script; always available."""

    def __init__(
        self,
        script: Script | Sequence[Step] = (),
        *,
        clock: Clock | None = None,
        token_limit: int = DEFAULT_TOKEN_LIMIT,
        seed: int = 0,
    ) -> None:
        """`seed` is for answers that the script leaves to `auto`."""
        self._clock = clock or RealClock()
        self._seed = seed
        self._info = ModelInfo(
            name=MODEL_NAME, token_limit=token_limit, dialect=MODEL_NAME, constrained=False
        )
        self.load(script)

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
        """Answers of the steps, taken ones included; a step that repeats counts as often."""
        return len(self._plays)

    @property
    def consumed(self) -> int:
        """Of these, how many generations have taken."""
        return self._consumed

    @property
    def requests(self) -> tuple[GenerateRequest, ...]:
        """What was asked, oldest first: the newest REQUESTS_KEPT requests since the script was
        loaded, those that the script refused included."""
        return tuple(self._requests)

    def remaining(self) -> tuple[str, ...]:
        """The steps that are left, and the rules with `times` that were used less often, each as
        its number and a short description."""
        left = Counter(self._plays[self._consumed :])
        lines = []
        for number, step in enumerate(self._script.steps, 1):
            if count := left[number - 1]:
                often = "" if count == 1 else f" (×{count})"
                lines.append(f"step {number}: {step.describe()}{often}")
        for number, rule in enumerate(self._script.rules, 1):
            count = (rule.times or 0) - self._used[number - 1]
            if count > 0:
                often = "" if count == 1 else f" (×{count})"
                lines.append(f"rule {number}: {rule.describe()}{often}")
        return tuple(lines)

    def assert_complete(self) -> None:
        """Raises AssertionError that names the steps, and the rules with `times`, that are left."""
        if left := self.remaining():
            raise AssertionError(f"the script has {len(left)} left over: {'; '.join(left)}")

    def load(self, script: Script | Sequence[Step]) -> None:
        """Replace the script. A running generation keeps the step it took."""
        self._script = script if isinstance(script, Script) else Script(steps=tuple(script))
        self._plays = [
            place for place, step in enumerate(self._script.steps) for _ in range(step.repeat)
        ]
        self._consumed = 0
        self._used: Counter[int] = Counter()
        self._requests: deque[GenerateRequest] = deque(maxlen=REQUESTS_KEPT)

    async def count_tokens(self, request: GenerateRequest) -> int:
        return await _input_tokens(request)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """Take the next step and play it.

        Like a model, it stops after `max_output_tokens` tokens of text with reason `max_tokens`.
        Sampling, schemas and the tool choice change nothing; a scripted call need not be of a
        declared function.

        Raises SimulatorFault (SCRIPT_DRIFT), and BackendError for a scripted failure.
        """
        self._requests.append(request)
        step = await self._taken(request)
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

    async def _taken(self, request: GenerateRequest) -> Step:
        found = self._take(request)
        if isinstance(found, Step):
            return found
        try:
            made = found.function(request)
            answer = await made if inspect.isawaitable(made) else made
        except (BackendError, DeviceError):
            raise
        except Exception as error:
            raise SimulatorFault(
                FaultKind.SCRIPT_DRIFT,
                f"the function {found.name!r} of the script raised {type(error).__name__}: {error}",
            ) from error
        if isinstance(answer, str):
            return Step(text=answer)
        if not isinstance(answer, Step):
            raise SimulatorFault(
                FaultKind.SCRIPT_DRIFT,
                f"the function {found.name!r} of the script returned {type(answer).__name__}; "
                "return a text or a step",
            )
        return answer

    def _take(self, request: GenerateRequest) -> Step | Computed | ComputedRule:
        for place, rule in enumerate(self._script.rules):
            spent = rule.times is not None and self._used[place] >= rule.times
            if not spent and not differences(rule.when, request):
                self._used[place] += 1
                return rule
        steps = self._script.steps
        if self._consumed < len(self._plays):
            place = self._plays[self._consumed]
            step = steps[place]
            if step.expect is not None and differences(step.expect, request):
                raise drift(steps, place, request, generation=self._consumed + 1)
            self._consumed += 1
            return step
        match self._script.otherwise:
            case "echo":
                return echo_step(request)
            case "auto":
                return automatic_step(request, seed=self._seed)
            case "error":
                raise drift(steps, len(steps), request, generation=self._consumed + 1)


async def _input_tokens(request: GenerateRequest) -> int:
    texts = [request.system_instruction]
    texts += [to_json(tool.model_dump(exclude_defaults=True)) for tool in request.tools]
    texts += [content_text(content) for content in request.contents]
    if sum(map(len, texts)) <= _COUNTED_AT_ONCE:
        return sum(map(_text_tokens, texts))
    # Ten million tokens take seconds, in which the device has other calls to answer.
    return await asyncio.to_thread(lambda: sum(map(_text_tokens, texts)))


def chunk_tokens(chunk: Chunk) -> int:
    """Output tokens of a chunk by the scripted tokenizer; of another model's a close estimate."""
    match chunk:
        case FunctionCall():
            return _text_tokens(f"{chunk.name} {to_json(chunk.args)}")
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
