"""Several answers to one request.

https://developers.google.com/android/reference/com/google/mlkit/genai/prompt/GenerateContentRequest
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from aicore_sim.inference.backend import Chunk, Finish, TextDelta, Usage


@dataclass(frozen=True)
class CandidateChunk:
    """A chunk of the candidate of that number."""

    number: int
    chunk: Chunk


async def several_answers(
    answer: Callable[[int], AsyncGenerator[Chunk, None]], count: int
) -> AsyncGenerator[CandidateChunk, None]:
    """`answer` is asked with 0 to `count` - 1. Equal answers come back once.

    They come when all are made, since they are not for streams. The last chunk is a Finish with
    the usage of all of them: the prompt is read once, every answer is written.
    """
    made: list[tuple[list[Chunk], Finish]] = []
    input_tokens = output_tokens = cached = 0
    device_seconds: float | None = None
    for number in range(count):
        chunks, finish = await _whole(answer(number))
        usage = finish.usage
        if number == 0:
            input_tokens, cached = usage.input_tokens, usage.cached_input_tokens
        output_tokens += usage.output_tokens
        if usage.device_seconds is not None:
            device_seconds = (device_seconds or 0.0) + usage.device_seconds
        if all(chunks != others for others, _ in made):
            made.append((chunks, finish))
    total = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_input_tokens=cached,
        device_seconds=device_seconds,
    )
    nothing = Usage(input_tokens=0, output_tokens=0)
    for number, (chunks, finish) in enumerate(made):
        for chunk in chunks:
            yield CandidateChunk(number, chunk)
        usage = total if number == len(made) - 1 else nothing
        yield CandidateChunk(number, Finish(reason=finish.reason, usage=usage))


async def _whole(chunks: AsyncGenerator[Chunk, None]) -> tuple[list[Chunk], Finish]:
    """The chunks with neighbouring texts joined, and the last one."""
    said: list[Chunk] = []
    async with aclosing(chunks):
        async for chunk in chunks:
            if isinstance(chunk, Finish):
                return said, chunk
            if isinstance(chunk, TextDelta) and said and isinstance(said[-1], TextDelta):
                said[-1] = TextDelta(text=said[-1].text + chunk.text)
            else:
                said.append(chunk)
    return said, Finish(reason="other", usage=Usage(input_tokens=0, output_tokens=0))
