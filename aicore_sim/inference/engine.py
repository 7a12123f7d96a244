"""Runs a model with ONNX Runtime GenAI. The only module that touches that library.

https://onnxruntime.ai/docs/genai/api/python.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import onnxruntime_genai as og

from aicore_sim.inference._codes import InferenceErrorCode
from aicore_sim.inference.backend import (
    BackendError,
    Chunk,
    Finish,
    GenerateRequest,
    ModelInfo,
    Sampling,
    Usage,
)
from aicore_sim.inference.dialect import Dialect, HermesDialect, OutputParser
from aicore_sim.inference.grammar import Grammar, build_grammar
from aicore_sim.inference.model_folder import (
    CONFIG,
    ModelFolderError,
    read_config,
    read_prompting,
)
from aicore_sim.inference.tokens import PromptEncoder, UnencodableTextError

_PREFILL_CHUNK = 128
"""Tokens that go into the model between two looks at `cancelled`."""

_Reason = Literal["stop", "max_tokens", "other"]


class TokenCounter:
    """Counts prompt tokens with its own tokenizer, so that it works beside a generation."""

    def __init__(self, config: Any, folder: Path, dialect: Dialect) -> None:
        self._encoder = PromptEncoder(og.Tokenizer(config), folder)
        self._dialect = dialect

    def count(self, request: GenerateRequest) -> int:
        """Input tokens of `request`. Raises BackendError when the chat template refuses it."""
        return len(_encode(self._encoder, self._dialect, request))


@dataclass(frozen=True, kw_only=True)
class _Budget:
    """How far one generation may go, in tokens."""

    output: int
    max_length: int
    fast_forward: bool


class Engine:
    """One loaded model. Load it and run it on one thread.

    Raises ModelFolderError when `folder` cannot be loaded.
    """

    def __init__(
        self,
        folder: Path,
        *,
        threads: int,
        token_limit: int | None = None,
        name: str | None = None,
    ) -> None:
        content = read_config(folder)
        self._dialect = HermesDialect(guided=read_prompting(folder) == "guided")
        try:
            self._config = og.Config(str(folder))
            # Left unset, the library may take one thread; more threads than cores are worse.
            session = {"intra_op_num_threads": threads}
            self._config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
            self._model = og.Model(self._config)
            self._tokenizer = og.Tokenizer(self._model)
        except RuntimeError as error:
            raise ModelFolderError(f"The model folder {str(folder)!r}: {error}") from error
        self._encoder = PromptEncoder(self._tokenizer, folder)
        self._folder = folder
        self._context = int(content["model"]["context_length"])
        self._vocabulary = int(content["model"]["vocab_size"])
        longest = int(content.get("search", {}).get("max_length", self._context))
        limit = min(longest, self._context, token_limit or self._context)
        self.info = ModelInfo(
            name=name or folder.resolve().name,
            token_limit=limit,
            dialect=self._dialect.name,
            constrained=True,
        )
        self._try_out()

    def token_counter(self) -> TokenCounter:
        """A counter for another thread."""
        return TokenCounter(self._config, self._folder, self._dialect)

    def generate(
        self,
        request: GenerateRequest,
        emit: Callable[[Chunk], None],
        cancelled: Callable[[int], bool],
    ) -> Finish:
        """Generates one answer, handing each chunk but the last to `emit` as it comes.

        Asks `cancelled`, with the tokens decoded so far, before each step; the Finish of a
        cancelled answer has the reason `other`. Raises BackendError.
        """
        grammar = build_grammar(request, self._dialect)
        prompt = _encode(self._encoder, self._dialect, request)
        budget = self._budget(len(prompt), request.sampling, grammar)
        try:
            generator = self._open_generator(request.sampling, grammar, budget)
            for start in range(0, len(prompt), _PREFILL_CHUNK):
                if cancelled(0):
                    return _finish("other", len(prompt), 0)
                generator.append_tokens(prompt[start : start + _PREFILL_CHUNK])
            parser = self._dialect.parser(
                only_calls=request.tool_choice.mode in ("required", "named")
            )
            answer = _Answer(self._tokenizer.create_stream(), parser, emit)
            reason = self._decode(generator, len(prompt), budget, answer, cancelled)
        except RuntimeError as error:
            raise _library_error(error) from error
        if reason != "other":
            answer.finish()
        return _finish(reason, len(prompt), answer.tokens)

    def _decode(
        self,
        generator: Any,
        prompt_length: int,
        budget: _Budget,
        answer: _Answer,
        cancelled: Callable[[int], bool],
    ) -> _Reason:
        while answer.tokens < budget.output:
            if cancelled(answer.tokens):
                return "other"
            if generator.is_done():
                return "stop"
            generator.generate_next_token()
            # One step appends several tokens when the grammar dictates them.
            sequence = generator.get_sequence(0)[prompt_length + answer.tokens :]
            answer.add(sequence[: budget.output - answer.tokens])
        return "stop" if generator.is_done() else "max_tokens"

    def _budget(self, prompt: int, sampling: Sampling, grammar: Grammar | None) -> _Budget:
        limit = self.info.token_limit
        if prompt >= limit:
            raise BackendError(
                InferenceErrorCode.REQUEST_TOO_LARGE,
                f"The request has {prompt} tokens; the model takes {limit} of input and output.",
            )
        output = limit - prompt
        if sampling.max_output_tokens is not None:
            output = min(output, sampling.max_output_tokens)
        # Dictated tokens that run past `max_length` corrupt the library's memory (0.18.0), so
        # there is room for the longest such run, or there is no fast-forward.
        room = 0
        if grammar is not None and grammar.fast_forward:
            room = grammar.longest_forced + 1
        spare = self._context - prompt - output
        if sampling.max_output_tokens is None and spare < room <= output // 4:
            output -= room  # the speed is worth the last tokens of a long context
            spare += room
        fast = 0 < room <= spare
        return _Budget(
            output=output,
            max_length=min(prompt + output + (room if fast else 1), self._context),
            fast_forward=fast,
        )

    def _open_generator(self, sampling: Sampling, grammar: Grammar | None, budget: _Budget) -> Any:
        params = og.GeneratorParams(self._model)
        params.set_search_options(max_length=budget.max_length, **self._search(sampling))
        if grammar is not None:
            params.set_guidance("lark_grammar", grammar.lark, budget.fast_forward)
        return og.Generator(self._model, params)

    def _search(self, sampling: Sampling) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if sampling.temperature is not None:
            options["do_sample"] = sampling.temperature > 0
            if sampling.temperature > 0:
                options["temperature"] = sampling.temperature
        if sampling.top_k is not None:
            options["top_k"] = min(sampling.top_k, self._vocabulary)
        if sampling.seed is not None:
            options["random_seed"] = sampling.seed & 0x7FFFFFFF
        return options

    def _try_out(self) -> None:
        """One token, because wrong names of inputs and outputs show only when the model runs.

        Under a grammar, because the first one of a process is slow to build (about 0.3 s).
        """
        anything = Grammar(lark="start: /(?s:.*)/", longest_forced=0, fast_forward=False)
        try:
            budget = _Budget(output=1, max_length=4, fast_forward=False)
            generator = self._open_generator(Sampling(), anything, budget)
            generator.append_tokens([int(self._tokenizer.eos_token_ids[0])])
            generator.generate_next_token()
        except RuntimeError as error:
            raise ModelFolderError(
                f"The model does not run as {self._folder / CONFIG} describes it: {error}"
            ) from error


class _Answer:
    """Turns tokens into chunks, holding back characters and marks that are not whole yet."""

    def __init__(self, stream: Any, parser: OutputParser, emit: Callable[[Chunk], None]) -> None:
        self.tokens = 0
        self._stream = stream
        self._parser = parser
        self._emit = emit

    def add(self, tokens: Sequence[int]) -> None:
        self.tokens += len(tokens)
        # The library's stream holds back the bytes of an unfinished character.
        text = "".join(self._stream.decode(int(token)) for token in tokens)
        self._send(self._parser.feed(text.replace("\ufffd", "")))

    def finish(self) -> None:
        self._send(self._parser.finish())

    def _send(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self._emit(chunk)


def _encode(encoder: PromptEncoder, dialect: Dialect, request: GenerateRequest) -> list[int]:
    try:
        return encoder.encode_chat(dialect.messages(request))
    except UnencodableTextError as error:
        raise BackendError(InferenceErrorCode.REQUEST_TOO_SMALL, str(error)) from error
    except RuntimeError as error:
        raise BackendError(
            InferenceErrorCode.UNKNOWN, f"The model's chat template refused the request: {error}"
        ) from error


def _library_error(error: RuntimeError) -> BackendError:
    text = str(error)
    if "grammar" in text:
        return BackendError(InferenceErrorCode.STRUCTURED_OUTPUT_REQUEST_ERROR, text)
    return BackendError(InferenceErrorCode.UNKNOWN, f"The model failed: {text}")


def _finish(reason: _Reason, input_tokens: int, output_tokens: int) -> Finish:
    return Finish(
        reason=reason, usage=Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    )
