"""What the dialects of all model families have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypedDict

from aicore_sim.inference.backend import (
    Chunk,
    Content,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    TextPart,
)
from aicore_sim.inference.dialect.notation import Notation

CUT = "\ufdd1"
"""A noncharacter, which stands for no text in any script: text is encoded in pieces around it."""


class ChatMessage(TypedDict):
    """One message as chat templates expect it."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A conversation for the chat template, and how the answer begins."""

    messages: tuple[ChatMessage, ...]
    continues: bool = False
    """Whether the answer goes on in the last message, and not in a turn of its own."""
    opening: str = ""
    """What the answer begins with, said for the model."""


@dataclass(frozen=True, kw_only=True)
class AddedTokens:
    """The tokens that a tokenizer has besides those of plain text, by what they look like."""

    control: Mapping[str, int] = field(default_factory=dict)
    """Those that the tokenizer hides when it writes text."""
    visible: Mapping[str, int] = field(default_factory=dict)


class OutputParser(Protocol):
    """Turns the text of one answer into chunks, wherever the text was cut."""

    def feed(self, text: str) -> list[Chunk]: ...

    def finish(self) -> list[Chunk]:
        """What is left when the answer has ended; an unfinished call is malformed."""


class Dialect(Protocol):
    """Everything about a model family's way of calling tools."""

    @property
    def name(self) -> str: ...

    @property
    def notation(self) -> Notation:
        """How the arguments of a call are written."""

    @property
    def call_open(self) -> str:
        """What every call starts with. Never part of a text delta."""

    @property
    def call_separator(self) -> str:
        """What stands between two calls of one answer."""

    @property
    def marks(self) -> frozenset[str]:
        """The dialect's own notation; where an app's text spells a mark, it is text."""

    @property
    def control(self) -> frozenset[str]:
        """The marks that are control tokens of the model."""

    def prompt(self, request: GenerateRequest) -> Prompt: ...

    def call_frame(self, tool_name: str) -> tuple[str, str]:
        """The text between `call_open` and the arguments, and the text after them.

        ASCII only, because a grammar is made of it. Raises UnwritableError.
        """

    def text_marks(self, request: GenerateRequest) -> frozenset[str]:
        """Notation that a text answer to `request` must not hold, because it could be taken for a
        call; empty where nothing shows the model that notation."""

    def parser(self, request: GenerateRequest) -> OutputParser: ...


class MarkGuard:
    """Keeps text of apps from being read as marks of a dialect.

    Marks that the tokenizer has a token for are cut in two; others are plain text anyhow.
    """

    def __init__(self, marks: frozenset[str], tokens: AddedTokens) -> None:
        known = tokens.control.keys() | tokens.visible.keys()
        self._marks = sorted(marks & known)

    def guarded(self, text: str) -> str:
        text = text.replace(CUT, "")
        for mark in self._marks:
            text = text.replace(mark, mark[0] + CUT + mark[1:])
        return text


def only_calls(request: GenerateRequest) -> bool:
    """Whether the answer has to be calls."""
    return request.tool_choice.mode in ("required", "named")


def shows_calls(request: GenerateRequest) -> bool:
    """Whether the history holds calls or responses, which a model may imitate."""
    return any(part.kind != "text" for content in request.contents for part in content.parts)


def texts_of(content: Content) -> list[str]:
    return [part.text for part in content.parts if isinstance(part, TextPart)]


def calls_of(content: Content) -> list[FunctionCallPart]:
    return [part for part in content.parts if isinstance(part, FunctionCallPart)]


def responses_of(content: Content) -> list[FunctionResponsePart]:
    return [part for part in content.parts if isinstance(part, FunctionResponsePart)]


def merged(messages: list[ChatMessage], joint: str) -> tuple[ChatMessage, ...]:
    """Neighbours of one role as one message, for templates that want roles to alternate."""
    result: list[ChatMessage] = []
    for message in messages:
        if result and result[-1]["role"] == message["role"]:
            text = result[-1]["content"] + joint + message["content"]
            result[-1] = {"role": message["role"], "content": text}
        else:
            result.append(message)
    return tuple(result)


def sections(*texts: str) -> str:
    """The texts that say something, with an empty line between them."""
    return "\n\n".join(text for text in texts if text)
