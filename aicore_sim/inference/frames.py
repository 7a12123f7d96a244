"""What the daemon and the inference worker say to each other, and how it is put into bytes.

A frame is four bytes of length (big-endian) and that many bytes of JSON.
"""

from __future__ import annotations

from typing import Annotated, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json

from aicore_sim.inference.backend import Chunk, GenerateRequest, ModelInfo
from aicore_sim.inference.model_folder import PromptOptions
from aicore_sim.inference.warm_states import WarmFigures

HEADER = 4
MAX_FRAME = 16 * 1024 * 1024
WINDOW = 64
"""Chunks of one stream that may be under way; the worker waits when nobody takes them."""
_NESTING = 100
"""Up to here every level of JSON is read back; the reader's own limit is about 190."""


class FrameError(Exception):
    """The other side sent bytes that are no frame."""


class NotSendableError(FrameError):
    """A frame that cannot be made of its content, such as text with a lone surrogate."""


class _Frame(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Load(_Frame):
    """The first command of a worker."""

    op: Literal["load"] = "load"
    model_dir: str
    threads: int
    token_limit: int | None
    name: str | None
    prefix_memory_mb: int
    """MiB that warm prefixes may take; 0 keeps none."""
    chunk_seconds: float
    """Text that comes sooner after a chunk waits to be sent with what follows."""
    prompts: PromptOptions = PromptOptions()


class Generate(_Frame):
    op: Literal["generate"] = "generate"
    id: int
    request: GenerateRequest


class Count(_Frame):
    op: Literal["count"] = "count"
    id: int
    request: GenerateRequest


class Cancel(_Frame):
    """End the generation `id`; it still answers with one `Ended`."""

    op: Literal["cancel"] = "cancel"
    id: int


class Taken(_Frame):
    """`count` more chunks of the generation `id` have been taken by its consumer."""

    op: Literal["taken"] = "taken"
    id: int
    count: int


class Forget(_Frame):
    """Give up the warm prefixes of `app`, or all of them, once the engine is free."""

    op: Literal["forget"] = "forget"
    id: int
    app: str | None


class Ping(_Frame):
    """Asks for a `Pong`, to see whether commands are still obeyed."""

    op: Literal["ping"] = "ping"


class Shutdown(_Frame):
    op: Literal["shutdown"] = "shutdown"


class Loaded(_Frame):
    event: Literal["loaded"] = "loaded"
    info: ModelInfo


class LoadFailed(_Frame):
    event: Literal["load_failed"] = "load_failed"
    reason: str


class Pong(_Frame):
    event: Literal["pong"] = "pong"
    working: bool
    """Whether the engine computes; False while it waits for a request or a slow consumer."""
    steps: int
    """Steps of the engine so far."""
    warm: WarmFigures = WarmFigures()


class Forgotten(_Frame):
    event: Literal["forgotten"] = "forgotten"
    id: int


class Progress(_Frame):
    """The generation `id` is about to do a step of its prefill, or has left the prefill."""

    event: Literal["progress"] = "progress"
    id: int
    prefill: bool
    """In a prefill step the library holds the interpreter's lock: no command is obeyed."""


class Produced(_Frame):
    event: Literal["produced"] = "produced"
    id: int
    chunk: Chunk


class Prompted(_Frame):
    """The prompt of the generation `id` as text, where the load asked to be shown prompts."""

    event: Literal["prompted"] = "prompted"
    id: int
    text: str


class Counted(_Frame):
    event: Literal["counted"] = "counted"
    id: int
    tokens: int


class Failed(_Frame):
    """The answer to a command that raised BackendError. Nothing follows for its id."""

    event: Literal["failed"] = "failed"
    id: int
    error_code: int
    message: str


class Ended(_Frame):
    """A cancelled generation is over. Nothing follows for its id."""

    event: Literal["ended"] = "ended"
    id: int
    output_tokens: int
    tokens_after_cancel: int
    """Tokens decoded after the command to cancel had been read."""


Command = Annotated[
    Load | Generate | Count | Cancel | Taken | Forget | Ping | Shutdown,
    Field(discriminator="op"),
]
Event = Annotated[
    Loaded
    | LoadFailed
    | Pong
    | Forgotten
    | Progress
    | Prompted
    | Produced
    | Counted
    | Failed
    | Ended,
    Field(discriminator="event"),
]
_COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
_EVENTS: TypeAdapter[Event] = TypeAdapter(Event)


def encode(frame: BaseModel) -> bytes:
    """Raises FrameError when the frame is over MAX_FRAME, NotSendableError when it is no JSON."""
    try:
        body = frame.model_dump_json().encode()
    except (PydanticSerializationError, UnicodeEncodeError, RecursionError) as error:
        raise NotSendableError(_why_not_sendable(error)) from None
    if body.count(b"}") + body.count(b"]") > _NESTING:
        try:
            from_json(body)  # written deeper than it can be read, it would end the worker
        except ValueError as error:
            raise NotSendableError(_why_not_sendable(error)) from None
    if len(body) > MAX_FRAME:
        raise FrameError(f"A frame of {len(body)} bytes is over {MAX_FRAME}.")
    return len(body).to_bytes(HEADER, "big") + body


def _why_not_sendable(error: Exception) -> str:
    if "surrogate" in str(error):
        return "Text with a lone surrogate (U+D800 to U+DFFF) cannot be given to the model."
    return f"A request of this form cannot be given to the model: {type(error).__name__}."


def body_length(header: bytes) -> int:
    """Raises FrameError for a length that no frame has."""
    length = int.from_bytes(header, "big")
    if not 0 < length <= MAX_FRAME:
        raise FrameError(f"The header {header!r} starts no frame.")
    return length


def parse_command(body: bytes) -> Command:
    """Raises FrameError."""
    try:
        return _COMMANDS.validate_json(body)
    except ValidationError as error:
        raise FrameError(f"The frame is no command: {_without_content(error)}") from None


def parse_event(body: bytes) -> Event:
    """Raises FrameError."""
    try:
        return _EVENTS.validate_json(body)
    except ValidationError as error:
        raise FrameError(f"The frame is no event: {_without_content(error)}") from None


def _without_content(error: ValidationError) -> str:
    """What is wrong and where, without the prompt or answer that the frame holds."""
    return str(error.errors(include_input=False, include_url=False, include_context=False))


def read_command(stream: BinaryIO) -> Command | None:
    """The next command of a buffered stream, or None at its end. Raises FrameError."""
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    length = body_length(header)
    body = stream.read(length)
    return parse_command(body) if len(body) == length else None
