"""Runs a model with ONNX Runtime GenAI. The only module that touches that library.

https://onnxruntime.ai/docs/genai/api/python.html
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
from aicore_sim.inference.call_check import CheckedParser
from aicore_sim.inference.dialect import Dialect, OutputParser
from aicore_sim.inference.dialect.check import TemplateError, check_template
from aicore_sim.inference.dialect.choice import choose_dialect, read_added_tokens
from aicore_sim.inference.dialect_names import DialectName
from aicore_sim.inference.grammar import Grammar, build_grammar
from aicore_sim.inference.model_folder import (
    CONFIG,
    FolderSettings,
    ModelFolderError,
    read_config,
    read_settings,
)
from aicore_sim.inference.sampling import Sampler
from aicore_sim.inference.tokens import PromptEncoder, UnencodableTextError, render_chat
from aicore_sim.inference.warm_states import (
    DEFAULT_PREFIX_MEMORY_MB,
    WarmFigures,
    WarmKey,
    WarmState,
    WarmStates,
    capacity_for,
    common_prefix,
)

PREFILL_CHUNK = 128
"""Tokens that go into the model between two looks at `cancelled`: a cancelled prompt goes on for
as many at the most."""
_SPARE_ROOM = 1024
"""Tokens of room beyond the prompt in a new state, for the answer and the turns that follow."""
_KV_VALUE_BYTES = 4  # float32; for a model that keeps less the bound is on the safe side

_Reason = Literal["stop", "max_tokens", "other"]

logger = logging.getLogger(__name__)


def open_model(folder: str | Path, *, threads: int) -> tuple[Any, Any]:
    """The library's config and model. Raises RuntimeError."""
    config = og.Config(str(folder))
    # Left unset, the library may take one thread; more threads than cores are worse.
    session = {"intra_op_num_threads": threads}
    config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
    return config, og.Model(config)


class TokenCounter:
    """Counts prompt tokens with its own tokenizer, so that it works beside a generation."""

    def __init__(self, config: Any, folder: Path, dialect: Dialect) -> None:
        self._encoder = PromptEncoder(og.Tokenizer(config), folder, marks=dialect.control)
        self._dialect = dialect

    def count(self, request: GenerateRequest) -> int:
        """Input tokens of `request`. Raises BackendError when the chat template refuses it."""
        return len(_encode(self._encoder, self._dialect, request))

    def text(self, request: GenerateRequest) -> str:
        """The prompt of `request` as the model gets it. Raises BackendError as `count`."""
        with _refusals_named():
            return self._encoder.prompt_text(self._dialect.prompt(request))


def open_prompts(folder: Path, *, dialect: DialectName | None = None) -> tuple[TokenCounter, str]:
    """What renders and counts prompts of a folder, without its model; and its dialect's name.

    `dialect` replaces the one that the folder is for. Raises ModelFolderError.
    """
    read_config(folder)
    settings = _settings(folder, dialect)
    try:
        config = og.Config(str(folder))
        tokenizer = og.Tokenizer(config)
    except RuntimeError as error:
        raise ModelFolderError(f"The model folder {str(folder)!r}: {error}") from error
    chosen = _dialect(folder, tokenizer, settings)
    return TokenCounter(config, folder, chosen), chosen.name


@dataclass(frozen=True, kw_only=True)
class _Budget:
    """How far one generation may go, in tokens."""

    prompt: int
    output: int
    max_length: int
    """Prompt, output and what dictated tokens may need beyond it."""
    least: int
    """Room that a state must have to begin with."""
    fast_forward: bool

    @property
    def wanted(self) -> int:
        """Room that a new state is given if it can be."""
        return max(self.least, self.prompt + max(_SPARE_ROOM, self.prompt // 2))


class Engine:
    """One loaded model. Load it and run it on one thread.

    The state of an answered prompt stays warm, and a later prompt of the same app and grammar that
    begins with the same tokens is not computed from the start. `prefix_memory_mb` bounds the
    memory of warm states, in MiB; 0 keeps none. Raises ModelFolderError when `folder` cannot be
    loaded.
    """

    def __init__(
        self,
        folder: Path,
        *,
        threads: int,
        token_limit: int | None = None,
        name: str | None = None,
        prefix_memory_mb: int = DEFAULT_PREFIX_MEMORY_MB,
        dialect: DialectName | None = None,
        guidance: bool = True,
    ) -> None:
        """`dialect` replaces the one that the folder is for; without `guidance` answers follow no
        grammar, and calls are checked when they are written."""
        content = read_config(folder)
        settings = _settings(folder, dialect)
        try:
            self._config, self._model = open_model(folder, threads=threads)
            self._tokenizer = og.Tokenizer(self._model)
        except RuntimeError as error:
            raise ModelFolderError(f"The model folder {str(folder)!r}: {error}") from error
        self._dialect = _dialect(folder, self._tokenizer, settings)
        self._encoder = PromptEncoder(self._tokenizer, folder, marks=self._dialect.control)
        tokens = read_added_tokens(folder)
        # The library hides control tokens when it writes text; these are a part of the notation.
        self.notation_tokens = {tokens.control[mark]: mark for mark in self._dialect.control}
        nul = self._encoder.nul_token
        self._written = self.notation_tokens if nul is None else {**self.notation_tokens, nul: "\0"}
        self._folder = folder
        self._context = int(content["model"]["context_length"])
        self._search: dict[str, Any] = content.get("search", {})
        longest = int(self._search.get("max_length", self._context))
        self._keeps = prefix_memory_mb > 0
        self._warm: WarmStates[Any] = WarmStates(
            max_bytes=prefix_memory_mb * 2**20,
            bytes_per_token=_kv_bytes_per_token(content["model"]["decoder"]),
        )
        limit = min(longest, self._context, token_limit or self._context)
        self.info = ModelInfo(
            name=name or folder.resolve().name,
            token_limit=limit,
            dialect=self._dialect.name,
            constrained=self._try_out() and settings.guidance and guidance,
        )
        if not self.info.constrained:
            logger.warning(
                "%s: answers follow no grammar; calls are checked when they are written",
                self.info.name,
            )

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
        grammar = build_grammar(request, self._dialect) if self.info.constrained else None
        prompt = self.encode(request)
        budget = self._budget(len(prompt), request.sampling, grammar)
        key = WarmKey(
            app=request.app,
            grammar="" if grammar is None else grammar.lark,
            fast_forward=budget.fast_forward,
        )
        try:
            state = self._warm.take(key, prompt, budget.least)
            if state is None:
                state = self._new_state(key, budget)
            cached = _rewind(state, prompt)
            parser = self._dialect.parser(request)
            if not self.info.constrained:
                parser = CheckedParser(parser, request)
            answer = _Answer(self._tokenizer.create_stream(), self._written, parser, emit)
            reason: _Reason = "other"
            if _prefill(state, prompt, cancelled):
                sampler = Sampler(request.sampling, self._search)
                reason = self._decode(state, sampler, budget, answer, cancelled)
        except RuntimeError as error:
            # The state went with the exception: after a failed step it is not to be trusted.
            raise _library_error(error) from error
        self._warm.keep(state)
        if reason != "other":
            answer.finish()
        usage = Usage(
            input_tokens=len(prompt), output_tokens=answer.tokens, cached_input_tokens=cached
        )
        return Finish(reason=reason, usage=usage)

    def encode(self, request: GenerateRequest) -> list[int]:
        """The prompt of `request`. Raises BackendError as `generate` does."""
        return _encode(self._encoder, self._dialect, request)

    def logits(self, tokens: Sequence[int]) -> list[float]:
        """What the model makes of `tokens`, for every token that may follow; for measurements."""
        generator = self._open_generator("", False, len(tokens) + 1)
        generator.append_tokens(list(tokens))
        return [float(value) for value in generator.get_logits().reshape(-1)]

    def prompt_text(self, request: GenerateRequest) -> str:
        """The prompt of `request` for people. Raises BackendError as `generate` does."""
        with _refusals_named():
            return self._encoder.prompt_text(self._dialect.prompt(request))

    @property
    def warm(self) -> WarmFigures:
        """What is kept warm. From any thread."""
        return self._warm.figures

    def forget(self, app: str | None = None) -> None:
        """Give up the warm states of one app, or all of them."""
        self._warm.forget(app)

    def _decode(
        self,
        state: WarmState[Any],
        sampler: Sampler,
        budget: _Budget,
        answer: _Answer,
        cancelled: Callable[[int], bool],
    ) -> _Reason:
        computed = budget.prompt
        try:
            while answer.tokens < budget.output:
                if cancelled(answer.tokens):
                    return "other"
                length = state.generator.token_count()
                if length >= state.capacity and not self._grow(
                    state, budget, lambda: cancelled(answer.tokens)
                ):
                    return "other"
                generator = state.generator
                if generator.is_done():
                    return "stop"
                if not sampler.greedy:
                    generator.set_logits(sampler.noisy(generator.get_logits()))
                generator.generate_next_token()
                computed = length
                # One step appends several tokens when the grammar dictates them.
                sequence = generator.get_sequence(0)[budget.prompt + answer.tokens :]
                answer.add(sequence[: budget.output - answer.tokens])
            return "stop" if state.generator.is_done() else "max_tokens"
        finally:
            if state.generator is not None:
                # What the last step appended has not gone through the model.
                sequence = state.generator.get_sequence(0)[:computed]
                state.tokens = [int(token) for token in sequence]

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
        max_length = min(prompt + output + (room if fast else 1), self._context)
        return _Budget(
            prompt=prompt,
            output=output,
            max_length=max_length,
            # A grammar cannot be taken to a larger state in the middle of an answer.
            least=max_length if grammar is not None else prompt + 1,
            fast_forward=fast,
        )

    def _new_state(self, key: WarmKey, budget: _Budget) -> WarmState[Any]:
        tokens = min(budget.wanted, budget.max_length)
        if self._keeps:
            tokens = capacity_for(budget.wanted, self._context)
            self._warm.make_room(tokens)
        generator = self._open_generator(key.grammar, key.fast_forward, tokens)
        return WarmState(key, generator, tokens)

    def _grow(self, state: WarmState[Any], budget: _Budget, cancelled: Callable[[], bool]) -> bool:
        """Goes on with twice the room; False when it was cancelled meanwhile.

        Nothing but computing the tokens again can move them.
        """
        tokens = [int(token) for token in state.generator.get_sequence(0)]
        state.generator = None  # two at once need not fit into memory
        state.capacity = min(2 * state.capacity, budget.max_length)
        self._warm.make_room(state.capacity)
        state.generator = self._open_generator(state.key.grammar, False, state.capacity)
        for start in range(0, len(tokens), PREFILL_CHUNK):
            if cancelled():
                return False
            state.generator.append_tokens(tokens[start : start + PREFILL_CHUNK])
        return True

    def _open_generator(self, lark: str, fast_forward: bool, max_length: int) -> Any:
        """A generator that takes the likeliest token; `Sampler` makes chance of it."""
        params = og.GeneratorParams(self._model)
        params.set_search_options(max_length=max_length, do_sample=False)
        if lark:
            params.set_guidance("lark_grammar", lark, fast_forward)
        return og.Generator(self._model, params)

    def _try_out(self) -> bool:
        """Whether the library holds answers to grammars; a build without guidance ignores them.

        One token is generated, because wrong names of inputs and outputs show only when the model
        runs. Under a grammar, because the first one of a process is slow to build (about 0.3 s).
        """
        try:
            self._first_token("")
        except RuntimeError as error:
            raise ModelFolderError(
                f"The model does not run as {self._folder / CONFIG} describes it: {error}"
            ) from error
        try:
            found = [self._first_token(f"start: /[{kind}]/") for kind in ("0-9", "a-z")]
        except RuntimeError as error:
            logger.info("the library refuses a grammar: %s", error)
            return False
        return found[0].isdigit() and found[1].isalpha()

    def _first_token(self, lark: str) -> str:
        generator = self._open_generator(lark, False, 4)
        generator.append_tokens([int(self._tokenizer.eos_token_ids[0])])
        generator.generate_next_token()
        return str(self._tokenizer.decode(generator.get_sequence(0)[1:])).strip()


class _Answer:
    """Turns tokens into chunks, holding back characters and marks that are not whole yet."""

    def __init__(
        self,
        stream: Any,
        written: Mapping[int, str],
        parser: OutputParser,
        emit: Callable[[Chunk], None],
    ) -> None:
        """`written`: what tokens are written as that the library would not write."""
        self.tokens = 0
        self._stream = stream
        self._written = written
        self._parser = parser
        self._emit = emit

    def add(self, tokens: Sequence[int]) -> None:
        self.tokens += len(tokens)
        # The library's stream holds back the bytes of an unfinished character.
        text = "".join(
            self._written.get(int(token)) or self._stream.decode(int(token)) for token in tokens
        )
        self._send(self._parser.feed(text.replace("\ufffd", "")))

    def finish(self) -> None:
        self._send(self._parser.finish())

    def _send(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self._emit(chunk)


def _rewind(state: WarmState[Any], prompt: list[int]) -> int:
    """How many tokens of `prompt` the state holds, once it holds nothing else.

    The last token is always computed again, for its logits.
    """
    kept = min(common_prefix(state.tokens, prompt), len(prompt) - 1)
    if state.tokens:
        # To less than what was generated: a rewind to the very end keeps the grammar's state.
        state.generator.rewind_to(kept)
    state.tokens, state.asked = prompt[:kept], len(prompt)
    return kept


def _prefill(state: WarmState[Any], prompt: list[int], cancelled: Callable[[int], bool]) -> bool:
    """Whether the whole prompt was computed; False when it was cancelled."""
    for start in range(len(state.tokens), len(prompt), PREFILL_CHUNK):
        if cancelled(0):
            return False
        state.generator.append_tokens(prompt[start : start + PREFILL_CHUNK])
        state.tokens = prompt[: start + PREFILL_CHUNK]
    return True


def _kv_bytes_per_token(decoder: dict[str, Any]) -> int:
    values = decoder["num_hidden_layers"] * decoder["num_key_value_heads"] * decoder["head_size"]
    return int(values) * 2 * _KV_VALUE_BYTES


def _dialect(folder: Path, tokenizer: Any, settings: FolderSettings) -> Dialect:
    """Raises ModelFolderError when the folder's chat template or stop tokens cannot be used."""
    render = partial(render_chat, tokenizer)
    dialect = choose_dialect(
        folder,
        render,
        override=settings.dialect,
        tuned=settings.prompting == "tuned",
    )
    names = {number: name for name, number in read_added_tokens(folder).control.items()}
    stops = {names.get(int(token), "") for token in tokenizer.eos_token_ids}
    try:
        check_template(dialect, render, stops - {""})
    except TemplateError as error:
        raise ModelFolderError(f"The model folder {str(folder)!r}: {error}") from error
    return dialect


def _settings(folder: Path, dialect: DialectName | None) -> FolderSettings:
    settings = read_settings(folder)
    return settings if dialect is None else settings.model_copy(update={"dialect": dialect})


def _encode(encoder: PromptEncoder, dialect: Dialect, request: GenerateRequest) -> list[int]:
    with _refusals_named():
        return encoder.encode_prompt(dialect.prompt(request))


@contextmanager
def _refusals_named() -> Iterator[None]:
    try:
        yield
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
