"""Keeps what a model is sent within its window, counted by its own tokenizer."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from aicore_client.content import Content, TextPart
from aicore_client.errors import GenAiException
from aicore_client.generative_model import GenerativeModel
from aicore_client.prompt import GenerateContentRequest
from aicore_client.runner_options import LEAST_RESULT_TOKENS, RunnerOptions

_ANSWER_TOKENS = 256
"""Room that a trimmed history leaves for an answer of which nothing else is known."""
_SHORTER = 0.9
_MOST_CHARACTERS = 32
"""Of a result for each token of its budget; what is longer is not counted to its end."""
_TOO_LARGE = GenAiException.ErrorCode.REQUEST_TOO_LARGE


class Window:
    """The window of one model. Raises GenAiException as `count_tokens` does."""

    def __init__(self, model: GenerativeModel, options: RunnerOptions) -> None:
        self._model = model
        self._options = options
        self._limit: int | None = None

    async def fitting(self, name: str, response: dict[str, object]) -> dict[str, object]:
        """A tool's result, or as much of it as its budget allows.

        Raises GenAiException (12) where results are not to be cut.
        """
        text = json.dumps(response, ensure_ascii=False, default=_plain)
        size = len(text.encode())  # a token is a byte at least
        if size <= LEAST_RESULT_TOKENS:
            return response
        budget = self._options.tool_result_tokens or await self._token_limit() // 4
        if size <= budget:
            return response
        beginning = text[: budget * _MOST_CHARACTERS]
        tokens = await self._count(beginning)
        more = "more than " if len(beginning) < len(text) else ""
        if tokens <= budget and not more:
            return response
        if self._options.on_large_tool_result == "error":
            raise GenAiException(
                f"The result of {name!r} has {more}{tokens} tokens; at most {budget} are given "
                "to the model. Return less, or let the runner cut it.",
                _TOO_LARGE,
            )
        length = len(beginning) * budget // max(tokens, budget)
        while length:
            cut: dict[str, object] = {
                "truncated": True,
                "note": f"The result has {more}{tokens} tokens; this is the beginning of it.",
                "result": text[:length],
            }
            if await self._count(json.dumps(cut, ensure_ascii=False)) <= budget:
                return cut
            length = int(length * _SHORTER)
        raise GenAiException(
            f"Nothing of the result of {name!r} ({tokens} tokens) fits into {budget} tokens.",
            _TOO_LARGE,
        )

    async def turns_to_drop(
        self, least: int, turns: int, request: Callable[[int], GenerateContentRequest]
    ) -> int:
        """How many of the oldest `turns` must go, `least` of which have gone already; `request` is
        what is sent without that many."""
        if self._options.on_full_window == "error":
            return least
        limit = await self._token_limit()
        for dropped in range(least, turns):
            asked = request(dropped)
            room = min(asked.max_output_tokens or _ANSWER_TOKENS, limit // 4)
            counted = await self._model.count_tokens(asked)
            if counted.total_tokens + room <= limit:
                return dropped
        return turns  # only the question itself is left; the model says what it thinks of it

    async def explained(
        self, error: GenAiException, request: GenerateContentRequest
    ) -> GenAiException:
        """A REQUEST_TOO_LARGE that names the tools where they alone fill the window."""
        if error.error_code != _TOO_LARGE or not request.tools:
            return error
        bare = replace(request, contents=[Content([TextPart("?")])], tools=(), tool_choice="auto")
        least = (await self._model.count_tokens(bare)).total_tokens
        sizes: dict[str, int] = {}
        for tool in request.tools:
            with_one = await self._model.count_tokens(replace(bare, tools=[tool]))
            sizes[tool.name] = with_one.total_tokens - least
        limit = await self._token_limit()
        if least + sum(sizes.values()) < limit:
            return error
        return GenAiException(
            f"The declarations of {len(sizes)} tools alone fill the window of {limit} tokens: "
            f"{_listed(sizes)}. Name fewer with add_app_function_ids, or describe them in fewer "
            "words.",
            _TOO_LARGE,
        )

    async def _count(self, text: str) -> int:
        return (await self._model.count_tokens(text)).total_tokens

    async def _token_limit(self) -> int:
        if self._limit is None:
            self._limit = await self._model.get_token_limit()
        return self._limit


def _plain(value: object) -> object:
    """What JSON has no form for, as the model is shown it."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be told to a model")


def _listed(sizes: Mapping[str, int]) -> str:
    largest = sorted(sizes.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {tokens}" for name, tokens in largest)
