"""Answers that have to be JSON of a declared type.

ML Kit reads such an answer when it is whole, and has a code for each way in which that can fail.
https://developers.google.com/android/reference/com/google/mlkit/genai/common/GenAiException.ErrorCode
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

from aicore_sim.inference._codes import InferenceErrorCode
from aicore_sim.inference.backend import (
    BackendError,
    Chunk,
    Finish,
    FunctionCall,
    MalformedCall,
    Schema,
    TextDelta,
)
from aicore_sim.inference.validation import why_not


async def structured(
    chunks: AsyncGenerator[Chunk, None], schema: Schema
) -> AsyncGenerator[Chunk, None]:
    """The chunks of an answer that has to be of `schema`, unless it is calls.

    Raises BackendError in the place of the last chunk: -106 when the answer was cut off by the
    limit of output tokens, -105 when it is not JSON or not of the type.
    """
    text: list[str] = []
    calls = False
    async with aclosing(chunks):
        async for chunk in chunks:
            if isinstance(chunk, TextDelta):
                text.append(chunk.text)
            calls = calls or isinstance(chunk, FunctionCall | MalformedCall)
            if isinstance(chunk, Finish) and not calls:
                _check("".join(text), schema, chunk)
            yield chunk


def _check(text: str, schema: Schema, finish: Finish) -> None:
    if finish.reason == "max_tokens":
        raise BackendError(
            InferenceErrorCode.STRUCTURED_OUTPUT_MAX_TOKENS_ERROR,
            f"The answer was cut off after {finish.usage.output_tokens} tokens; "
            "raise max_output_tokens.",
        )
    if finish.reason == "other":  # it was cancelled
        return
    try:
        wrong = why_not(schema, json.loads(text))
    except (ValueError, RecursionError) as error:
        wrong = f"it is not JSON: {error}"
    if wrong is not None:
        raise BackendError(
            InferenceErrorCode.STRUCTURED_OUTPUT_RESPONSE_ERROR,
            f"The answer is not of the declared type: {wrong}.",
        )
