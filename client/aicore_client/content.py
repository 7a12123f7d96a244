"""What is said to the model and by it.

https://developers.google.com/android/reference/com/google/mlkit/genai/prompt/Content
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self


@dataclass(frozen=True)
class TextPart:
    text_string: str


@dataclass(frozen=True)
class FunctionCall:
    """A call that the model wants (`com.google.mlkit.genai.common.FunctionCall`)."""

    name: str
    args: Mapping[str, object]
    id: str = ""


@dataclass(frozen=True)
class FunctionCallPart:
    function_call: FunctionCall

    @classmethod
    def create(cls, function_call: FunctionCall) -> Self:
        return cls(function_call)


@dataclass(frozen=True)
class FunctionResponsePart:
    """What a function answered. It travels in a USER content."""

    id: str | None
    name: str
    response: Mapping[str, object]

    @classmethod
    def create(cls, name: str, response: Mapping[str, object], *, id: str | None = None) -> Self:
        return cls(id, name, response)


Part = TextPart | FunctionCallPart | FunctionResponsePart


@dataclass(frozen=True)
class Content:
    """One message of a conversation.

    Raises ValueError when there is nothing in it: no parts, or only blank text.
    """

    class Role(IntEnum):
        """The names are ML Kit's, the numbers follow its order."""

        USER = 0
        MODEL = 1

    parts: Sequence[Part]
    role: Role = Role.USER

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "role", Content.Role(self.role))
        for part in self.parts:
            if not isinstance(part, Part):
                raise TypeError(f"a part must be a TextPart or a function part, not {part!r}")
        if all(isinstance(part, TextPart) and not part.text_string.strip() for part in self.parts):
            raise ValueError("the prompt is empty: a Content needs text that is not blank")

    @staticmethod
    def builder() -> ContentBuilder:
        return ContentBuilder()

    @property
    def text(self) -> str:
        """Its text parts, joined with a newline, as AICore gets them."""
        return "\n".join(part.text_string for part in self.parts if isinstance(part, TextPart))


@dataclass
class ContentBuilder:
    """`Content.Builder`. The role is USER unless set."""

    _parts: list[Part] = field(default_factory=list)
    _role: Content.Role = Content.Role.USER

    def text(self, text: str) -> Self:
        return self.add_part(TextPart(text))

    def add_part(self, part: Part) -> Self:
        self._parts.append(part)
        return self

    def role(self, role: Content.Role) -> Self:
        self._role = role
        return self

    def build(self) -> Content:
        """Raises ValueError when the content would be empty."""
        return Content(self._parts, self._role)
