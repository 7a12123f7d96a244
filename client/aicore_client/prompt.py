"""Requests to the model and its answers.

https://developers.google.com/android/reference/com/google/mlkit/genai/prompt/package-summary
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from aicore_client.content import Content, FunctionCall
from aicore_client.schema import FunctionDeclaration, FunctionSchema


class FeatureStatus(IntEnum):
    """https://developers.google.com/android/reference/com/google/mlkit/genai/common/FeatureStatus"""

    UNAVAILABLE = 0
    DOWNLOADABLE = 1
    DOWNLOADING = 2
    AVAILABLE = 3


class Feature(IntEnum):
    """https://developers.google.com/android/reference/com/google/mlkit/genai/prompt/Feature"""

    SYSTEM_PROMPT = 1
    THINKING_MODE = 2
    PREFIX_CACHING = 3
    STRUCTURED_OUTPUT = 4
    FUNCTION_CALLING = 5


class ModelReleaseStage(IntEnum):
    STABLE = 0
    PREVIEW = 1


class ModelPreference(IntEnum):
    FAST = 1
    FULL = 2


class FinishReason(IntEnum):
    """`Candidate.FinishReason`; the numbers follow ML Kit's order."""

    STOP = 0
    MAX_TOKENS = 1
    OTHER = -100


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    release_stage: ModelReleaseStage = ModelReleaseStage.STABLE
    preference: ModelPreference = ModelPreference.FULL


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    model_config: ModelConfig = field(default_factory=ModelConfig)


@dataclass(frozen=True)
class PromptPrefix:
    """What stands directly before a request's own text, and is kept for requests after it.

    Source: https://developers.google.com/ml-kit/genai/prompt/android/prefix-caching
    """

    text_string: str


@dataclass(frozen=True, kw_only=True)
class GenerateContentRequest:
    """A conversation to continue, oldest content first. None leaves a choice to the model.

    `tool_choice` is ours: `required` makes the model call one of `tools`. `session_id` names the
    exchange for telemetry and caching; the daemon stores no history.

    Raises ValueError for a value outside its range.
    """

    contents: Sequence[Content]
    system_instruction: str = ""
    tools: Sequence[FunctionDeclaration] = ()
    tool_choice: Literal["auto", "required"] = "auto"
    temperature: float | None = None
    """0.0 (greedy) to 1.0."""
    top_k: int | None = None
    seed: int | None = None
    max_output_tokens: int | None = None
    candidate_count: int | None = None
    """1 to 8, not for streams. Equal answers come back once, so that fewer may come."""
    session_id: str = ""
    prompt_prefix: PromptPrefix | None = None
    """An implicit prefix cache."""
    cached_context_name: str | None = None
    """An explicit one, of `GenerativeModel.caches`; excludes `prompt_prefix`."""
    response_schema: FunctionSchema | None = None
    """Ours: the answer is JSON of this type, or fails with -104, -105 or -106."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "contents", tuple(self.contents))
        object.__setattr__(self, "tools", tuple(self.tools))
        if not self.contents:
            raise ValueError("contents must hold at least one Content")
        if self.prompt_prefix is not None and self.cached_context_name is not None:
            raise ValueError("give prompt_prefix or cached_context_name, not both")
        if self.tool_choice == "required" and not self.tools:
            raise ValueError("tool_choice='required' needs at least one tool")
        require_sampling(self.temperature, self.top_k, self.max_output_tokens)
        if self.candidate_count is not None and not 1 <= self.candidate_count <= 8:
            raise ValueError(f"candidate_count must be 1 to 8, not {self.candidate_count!r}")
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"seed must be at least 0, not {self.seed!r}")


@dataclass(frozen=True, kw_only=True)
class MalformedFunctionCall:
    """Ours: the model wrote a call that does not parse."""

    text: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """`finish_reason` is None in every chunk of a stream but the last.

    `malformed_function_calls` is ours; a phone's answer to such output is not published.
    """

    text: str = ""
    finish_reason: FinishReason | None = None
    function_calls: tuple[FunctionCall, ...] = ()
    malformed_function_calls: tuple[MalformedFunctionCall, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Ours: tokens as the daemon counted them."""

    input_tokens: int
    cached_input_tokens: int
    output_tokens: int

    @property
    def total_tokens(self) -> int:
        """Of the token limit, which input and output share."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, kw_only=True)
class GenerateContentResponse:
    """A whole answer, or what is new in one chunk of a stream."""

    candidates: tuple[Candidate, ...] = ()
    thought_process: tuple[Candidate, ...] = ()
    usage: Usage | None = None


@dataclass(frozen=True, kw_only=True)
class CountTokensResponse:
    total_tokens: int


def require_sampling(
    temperature: float | None, top_k: int | None, max_output_tokens: int | None
) -> None:
    """Raises ValueError naming the parameter that is outside its range."""
    if temperature is not None and not 0.0 <= temperature <= 1.0:
        raise ValueError(f"temperature must be between 0.0 and 1.0, not {temperature!r}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, not {top_k!r}")
    if max_output_tokens is not None and max_output_tokens < 1:
        raise ValueError(f"max_output_tokens must be at least 1, not {max_output_tokens!r}")
