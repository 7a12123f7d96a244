"""What the daemon asks of a model, whatever runs it.

A backend turns one :class:`GenerateRequest` into a stream of chunks. It knows nothing about
callers, quotas or gRPC; the same objects travel to the inference worker as JSON.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

JsonValue = Any  # JSON as `json.loads` returns it


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Schema(_Message):
    """A declared type, after `com.google.mlkit.genai.schema.tools.FunctionSchema`."""

    type: Literal["object", "array", "string", "integer", "number", "boolean", "null"]
    description: str = ""
    properties: dict[str, Schema] = Field(default_factory=dict)
    """Properties of an object, in declaration order."""
    required: tuple[str, ...] = ()
    items: Schema | None = None
    enum: tuple[str, ...] = ()
    format: str = ""
    pattern: str = ""
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    any_of: tuple[Schema, ...] = ()

    @property
    def enum_values(self) -> tuple[JsonValue, ...]:
        """The values that `enum` spells, which are texts whatever their type.

        A text that spells no JSON stays what it is.
        """
        return self.enum if self.type == "string" else tuple(map(_parsed, self.enum))


def _parsed(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value


class ToolDeclaration(_Message):
    """A function that the model may call; `parameters` is an object schema."""

    name: str
    description: str = ""
    parameters: Schema


class TextPart(_Message):
    kind: Literal["text"] = "text"
    text: str


class FunctionCallPart(_Message):
    kind: Literal["function_call"] = "function_call"
    id: str = ""
    name: str
    args: dict[str, JsonValue]


class FunctionResponsePart(_Message):
    kind: Literal["function_response"] = "function_response"
    id: str = ""
    name: str
    response: dict[str, JsonValue]


Part = Annotated[TextPart | FunctionCallPart | FunctionResponsePart, Field(discriminator="kind")]


class Content(_Message):
    """One turn of a conversation. Function responses travel in a `user` content."""

    role: Literal["user", "model"]
    parts: tuple[Part, ...]


class ToolChoice(_Message):
    """`auto`: text or calls; `none`: text only; `required`: a call; `named`: a call of `name`."""

    mode: Literal["auto", "none", "required", "named"] = "auto"
    name: str = ""


class Sampling(_Message):
    """`None` means the model's own default, as in the Prompt API."""

    temperature: float | None = None
    top_k: int | None = None
    seed: int | None = None
    seed_drawn: bool = Field(default=False, exclude=True)
    """The device drew the seed, since the app gave none. The model need not know."""
    max_output_tokens: int | None = None
    candidate_count: int = 1
    """Answers wanted; a backend gives one, whoever asks it asks again for more."""


class GenerateRequest(_Message):
    contents: tuple[Content, ...]
    system_instruction: str = ""
    tools: tuple[ToolDeclaration, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    sampling: Sampling = Sampling()
    response_schema: Schema | None = None
    app: str = ""
    """Who asks. Prompts of one app may continue each other's prefixes, never another app's."""


class Usage(_Message):
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    """Input tokens that a warm prefix saved."""
    device_seconds: float | None = None
    """What the answer costs on the phone, where a script says so; it does not travel to apps."""


class TextDelta(_Message):
    kind: Literal["text"] = "text"
    text: str


class ThoughtDelta(_Message):
    kind: Literal["thought"] = "thought"
    text: str


class FunctionCall(_Message):
    kind: Literal["function_call"] = "function_call"
    name: str
    args: dict[str, JsonValue]


class MalformedCall(_Message):
    """The model wrote a call that does not parse; `text` is what it wrote."""

    kind: Literal["malformed_call"] = "malformed_call"
    text: str
    reason: str


class Finish(_Message):
    """The last chunk of every stream that did not fail."""

    kind: Literal["finish"] = "finish"
    reason: Literal["stop", "max_tokens", "other"]
    usage: Usage


Chunk = Annotated[
    TextDelta | ThoughtDelta | FunctionCall | MalformedCall | Finish, Field(discriminator="kind")
]


class ModelInfo(_Message):
    """What a loaded model says of itself."""

    name: str
    token_limit: int
    """Input and output together, in tokens."""
    dialect: str
    constrained: bool
    """Whether output is constrained by a grammar."""


class BackendError(Exception):
    """Why a generation failed.

    `error_code` is an ML Kit or AICore integer (for example 12, REQUEST_TOO_LARGE).
    """

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


@runtime_checkable
class KeepsPrefixes(Protocol):
    """A backend that keeps prompts warm."""

    async def forget_prefixes(self, app: str | None = None) -> None:
        """Give up what is warm for one app, or for all, after the answer under way."""


class Backend(Protocol):
    """One model. `start` must have returned before anything else is called."""

    async def start(self) -> None:
        """Make the backend usable. A model that cannot be loaded is a state, not an exception:
        afterwards `unavailable_reason` names the file and the key that are wrong."""

    async def stop(self) -> None:
        """End every stream and release everything, within five seconds. Idempotent."""

    @property
    def unavailable_reason(self) -> str | None:
        """Why the model cannot be used now, or None when it is ready."""

    @property
    def info(self) -> ModelInfo:
        """Raises RuntimeError while `unavailable_reason` is not None."""

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Input tokens of the rendered prompt, exactly as `generate` would use them."""

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """Stream one answer. Closing the iterator stops the model within two tokens.

        Raises BackendError.
        """
