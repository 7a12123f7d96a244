"""One answer while it is made: what it costs, when its tokens are due, and whether it is stuck."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

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
        self._paced = paced

    async def kept(self, chunks: AsyncGenerator[Chunk, None]) -> AsyncGenerator[Chunk, None]:
        """The chunks, each when it is due. Closing this closes `chunks`."""
        said = characters = 0
        started = self._clock.monotonic()
        pace = phone_pace(self._speed, input_tokens=self._input_tokens)
        self._charge(said)
        async with aclosing(chunks):
            try:
                async for chunk in chunks:
                    if isinstance(chunk, Finish):
                        self._finished(chunk)
                    else:
                        said += max(1, chunk_tokens(chunk))
                        characters += _characters(chunk)
                    if self._paced:
                        due = started + pace.due(said) - self._clock.monotonic()
                        if due > 0:
                            await self._clock.sleep(due)
                    if self._trace.phase is Phase.PREFILL:
                        self._trace.enter(Phase.DECODING)
                    if not isinstance(chunk, Finish):
                        self._charge(said)
                        self._trace.figures["output_tokens"] = said
                        self._trace.figures["answer_chars"] = characters
                    yield chunk
            except SimulatorFault:
                # The script had no answer: nothing was inferred.
                self._run.device_seconds = 0.0
                raise
            finally:
                self._trace.figures["device_seconds"] = self._run.device_seconds

    def _charge(self, said: int) -> None:
        self._run.device_seconds = device_seconds(
            self._speed, prefill_tokens=self._input_tokens, output_tokens=said
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
