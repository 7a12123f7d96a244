"""How values are written in calls: as JSON, or as the Gemma family was trained to write them.

A grammar, a prompt and a parser have to agree on it, so that it is in one place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class UnwritableError(ValueError):
    """Something that the notation has no way to write; the text says what."""


@dataclass(frozen=True, kw_only=True)
class JsonNotation:
    """JSON in one form: one space after `:` and `,`, properties in declared order."""

    separator: str = ", "
    quote: str = '"'

    def text(self, value: Any) -> str:
        """A value in a prompt, which may hold any characters."""
        return to_json(value)

    def opening(self, name: str) -> str:
        """What stands before the value of a property, in ASCII."""
        return f"{json.dumps(name)}: "

    def literal(self, value: Any) -> str:
        """A value that a grammar dictates, in ASCII.

        Where a grammar leaves one way on in the middle of a character's bytes, the library (0.18.0)
        makes U+FFFD of them and then refuses its own token.
        """
        return json.dumps(value)

    def character(self, character: str) -> str:
        """One character of a string."""
        return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]

    def ordered(self, properties: Mapping[str, Any]) -> list[str]:
        """The names in the order in which an object is written."""
        return list(properties)


@dataclass(frozen=True, kw_only=True)
class MarkedNotation:
    """Names stand bare, strings between two equal marks, and there is no other escape.

    Properties are sorted, as the chat templates of these models sort them.
    https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices
    """

    quote: str
    separator: str = ","
    guard: Callable[[str], str] = str
    """Keeps text from being read as a mark."""

    def text(self, value: Any) -> str:
        """A value in a prompt, which may hold any characters."""
        match value:
            case str():
                return f"{self.quote}{self.guard(value)}{self.quote}"
            case dict():
                pairs = (
                    f"{self.guard(name)}:{self.text(value[name])}" for name in self.ordered(value)
                )
                return f"{{{self.separator.join(pairs)}}}"
            case list() | tuple():
                return f"[{self.separator.join(map(self.text, value))}]"
            case _:
                return json.dumps(value)

    def opening(self, name: str) -> str:
        """Raises UnwritableError for a name that could be taken for something else."""
        return f"{self.name(name)}:"

    def name(self, name: str) -> str:
        """The name of a function or property. Raises UnwritableError as `opening`."""
        if not _PLAIN_NAME.fullmatch(name):
            raise UnwritableError(
                f"the name {name!r} has characters other than ASCII letters, digits, '_', '-', '.'"
            )
        return name

    def literal(self, value: Any) -> str:
        """Raises UnwritableError for what a grammar cannot dictate here."""
        if isinstance(value, str):
            for character in value:
                self.character(character)
            if self.quote in value:
                raise UnwritableError(f"{value!r} holds {self.quote!r}")
        return self.text(value)

    def character(self, character: str) -> str:
        """Raises UnwritableError."""
        if not ("\x20" <= character < "\x7f" or character in "\t\n\r"):
            raise UnwritableError(f"{character!r} is not printable ASCII")
        return character

    def ordered(self, properties: Mapping[str, Any]) -> list[str]:
        return sorted(properties, key=lambda name: (name.lower(), name))


Notation = JsonNotation | MarkedNotation


def to_json(value: Any) -> str:
    """JSON with the white space that the grammar also demands."""
    return json.dumps(value, ensure_ascii=False)
