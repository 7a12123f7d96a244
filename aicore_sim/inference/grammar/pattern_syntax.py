"""Patterns of schemas, read into a tree.

What is understood is the part of the syntax that all dialects share. Where a pattern leaves the
choice of characters open, only printable ASCII is offered, because the library (0.18.0) cannot be
led through the bytes of others.
https://json-schema.org/understanding-json-schema/reference/regular_expressions
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

PRINTABLE = frozenset(map(chr, range(0x20, 0x7F)))
_DIGITS = frozenset("0123456789")
_WORD = _DIGITS | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_SPACE = frozenset(" \t\n\r")
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_MAX_CHARACTERS = 512
_MAX_REPEAT = 1000
_MAX_DEPTH = 30


class PatternError(ValueError):
    """The pattern is outside of what a grammar can follow; the text says why."""


@dataclass(frozen=True)
class Characters:
    allowed: frozenset[str]


@dataclass(frozen=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    item: Node
    least: int
    most: int | None


@dataclass(frozen=True)
class Anchor:
    at_start: bool


Node: TypeAlias = "Characters | Sequence | Choice | Repeat | Anchor"


class PatternParser:
    """Recursive descent over a pattern that `re` has accepted."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._pattern):
            raise PatternError(f"{self._pattern[self._at]!r} is not understood")
        return node

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise PatternError(f"it is nested deeper than {_MAX_DEPTH} levels")
        options = [self._sequence()]
        while self._taken("|"):
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            items.append(self._repeated(self._atom()))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _repeated(self, item: Node) -> Node:
        found = re.compile(r"([*+?])|\{(\d*)(,?)(\d*)\}").match(self._pattern, self._at)
        if found is None or found.group() in ("{}", "{,}"):
            return item
        self._at = found.end()
        sign, low, comma, high = found.groups()
        if sign:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        else:
            least = int(low or 0)
            most = (int(high) if high else None) if comma else least
        if self._taken("+"):
            raise PatternError("possessive repetition is not supported")
        self._taken("?")  # a lazy repetition matches the same strings
        if isinstance(item, Anchor):
            raise PatternError("an anchor is repeated")
        if max(least, most or 0) > _MAX_REPEAT:
            raise PatternError(f"it repeats something more than {_MAX_REPEAT} times")
        return Repeat(item, least, most)

    def _atom(self) -> Node:
        character = self._next()
        match character:
            case "^" | "$":
                return Anchor(character == "^")
            case ".":
                return Characters(PRINTABLE)
            case "[":
                return self._set()
            case "(":
                return self._group()
            case "\\":
                escaped = self._escaped()
                return Characters(frozenset(escaped))
            case _:
                return Characters(frozenset(character))

    def _group(self) -> Node:
        if self._taken("?"):
            named = re.compile(r"P?<[A-Za-z_]\w*>").match(self._pattern, self._at)
            if named is not None:
                self._at = named.end()
            elif not self._taken(":"):
                kind = self._pattern[self._at : self._at + 1]
                raise PatternError(f"groups that begin with '(?{kind}' are not supported")
        node = self._choice()
        self._next()  # `re` has seen to it that this is the closing parenthesis
        return node

    def _set(self) -> Node:
        inverted = self._taken("^")
        allowed: set[str] = set()
        first = True
        while first or self._pattern[self._at] != "]":
            first = False
            low = self._member()
            if isinstance(low, frozenset):
                allowed |= low
            elif self._pattern[self._at] == "-" and self._pattern[self._at + 1] != "]":
                self._at += 1
                high = self._member()
                if isinstance(high, frozenset):
                    raise PatternError("a range ends with a class")
                if ord(high) - ord(low) >= _MAX_CHARACTERS:
                    raise PatternError(f"a range has more than {_MAX_CHARACTERS} characters")
                allowed |= set(map(chr, range(ord(low), ord(high) + 1)))
            else:
                allowed.add(low)
        self._at += 1
        return Characters(PRINTABLE - allowed if inverted else frozenset(allowed))

    def _member(self) -> str | frozenset[str]:
        character = self._next()
        return self._escaped(in_set=True) if character == "\\" else character

    def _escaped(self, *, in_set: bool = False) -> str | frozenset[str]:
        character = self._next()
        if character.lower() in _CLASSES:
            found = _CLASSES[character.lower()]
            return found if character.islower() else PRINTABLE - found
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "b" and in_set:
            return "\b"
        if character in "xuU":
            digits = {"x": 2, "u": 4, "U": 8}[character]
            self._at += digits
            return chr(int(self._pattern[self._at - digits : self._at], 16))
        if character.isalnum():
            raise PatternError(f"'\\{character}' is not supported")
        return character

    def _next(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1]

    def _taken(self, character: str) -> bool:
        found = self._pattern.startswith(character, self._at)
        self._at += found
        return found
