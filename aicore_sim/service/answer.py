"""One answer while it is made: what it costs, when its tokens are due, and whether it is stuck."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager

from aicore_sim.device.errors import SimulatorFault
from aicore_sim.device.profile import SpeedProfile
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference.backend import (
    Chunk,
    Finish,
    FunctionCall,
    MalformedCall,
    TextDelta,
    ThoughtDelta,
)
from aicore_sim.inference.scripted import chunk_tokens
from aicore_sim.policy.pacing import device_seconds, phone_pace
from aicore_sim.policy.quota import Inference
from aicore_sim.service.trace import CallTrace, Phase


class Account:
    """Keeps what the answer has used so far in `run`, and what the journal will say in `trace`.

    Until the model reports its usage, tokens are counted by the chunk, and the whole prompt counts
    as worked on.
    """

    def __init__(
        self,
        speed: SpeedProfile,
        run: Inference,
        trace: CallTrace,
        *,
        clock: DeviceClock,
        input_tokens: int,
        paced: bool,
    ) -> None:
        """With `paced` each token comes no earlier than it would on the phone."""
        self._speed = speed
        self._run = run
        self._trace = trace
        self._clock = clock
        self._input_tokens = input_tokens
        self._pace = phone_pace(speed, input_tokens=input_tokens) if paced else None
        self._started = 0.0
        self._said = self._characters = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Around the whole answer."""
        self._started = self._clock.monotonic()
        self._charge()
        try:
            yield
        except SimulatorFault:
            # The script had no answer: nothing was inferred.
            self._run.device_seconds = 0.0
            raise
        finally:
            self._trace.figures["device_seconds"] = self._run.device_seconds

    async def keep(self, chunk: Chunk) -> None:
        """Returns when the chunk is due; until then it has not been said, nor charged."""
        finish = chunk if isinstance(chunk, Finish) else None
        said = self._said + (0 if finish else max(1, chunk_tokens(chunk)))
        if finish:
            self._finished(finish)
        if self._pace is not None:
            due = self._started + self._pace.due(said) - self._clock.monotonic()
            if due > 0:
                await self._clock.sleep(due)
        if self._trace.phase is Phase.PREFILL:
            self._trace.enter(Phase.DECODING)
        if not finish:
            self._said = said
            self._characters += _characters(chunk)
            self._charge()
            self._trace.figures["output_tokens"] = said
            self._trace.figures["answer_chars"] = self._characters
        if isinstance(chunk, MalformedCall):
            figures = self._trace.figures
            figures["malformed_calls"] = figures.get("malformed_calls", 0) + 1

    def _charge(self) -> None:
        self._run.device_seconds = device_seconds(
            self._speed, prefill_tokens=self._input_tokens, output_tokens=self._said
        )

    def _finished(self, finish: Finish) -> None:
        usage = finish.usage
        self._trace.used(usage)
        if usage.device_seconds is not None:
            self._run.device_seconds = usage.device_seconds
            return
        self._run.device_seconds = device_seconds(
            self._speed,
            prefill_tokens=max(0, usage.input_tokens - usage.cached_input_tokens),
            output_tokens=usage.output_tokens,
        )


class Stalled(Exception):
    """A model said nothing for too long."""


async def without_stalls(
    chunks: AsyncGenerator[Chunk, None], seconds: float, stop: Callable[[], None]
) -> AsyncGenerator[Chunk, None]:
    """The chunks; after `seconds` of real time without one, `stop` is called and Stalled raised."""
    async with aclosing(chunks):
        while True:
            try:
                async with asyncio.timeout(seconds):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError:
                stop()
                raise Stalled(f"The model said nothing for {seconds:g} s.") from None
            yield chunk


def _characters(chunk: Chunk) -> int:
    match chunk:
        case TextDelta() | ThoughtDelta() | MalformedCall():
            return len(chunk.text)
        case FunctionCall():
            return len(chunk.name) + len(repr(chunk.args))
        case Finish():
            return 0
