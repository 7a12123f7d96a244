"""Patterns of schemas, as expressions over the way a string is written in an answer.

A pattern speaks of a string's characters, a grammar of what the model writes: JSON writes some
characters as escapes. So a pattern is read and written anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from aicore_sim.inference.grammar.pattern_syntax import (
    PRINTABLE,
    Anchor,
    Characters,
    Choice,
    Node,
    PatternError,
    PatternParser,
    Repeat,
    Sequence,
)

__all__ = ["PatternError", "WrittenPattern", "characters_expression", "written_pattern"]

_MAX_SIZE = 4000
_ANYTHING = Repeat(Characters(PRINTABLE), 0, None)

WriteCharacter: TypeAlias = Callable[[str], str]
"""How one character is written in an answer; raises PatternError when it cannot be."""


@dataclass(frozen=True, kw_only=True)
class WrittenPattern:
    """`expression` matches a whole written string, without its quotes."""

    expression: str
    shortest: int
    """Characters of the shortest string that matches."""
    longest: int | None
    """Characters of the longest one; None when there is no limit."""
    forced: int
    """Bytes: no stretch that the pattern dictates is longer."""


def written_pattern(pattern: str, write: WriteCharacter) -> WrittenPattern:
    """As in JSON Schema the pattern may match anywhere in the string, unless it is anchored.

    Raises PatternError.
    """
    try:
        re.compile(pattern)
    except re.error as error:
        raise PatternError(f"it is no regular expression: {error}") from None
    node = _whole(PatternParser(pattern).parse())
    if _size(node) > _MAX_SIZE:
        raise PatternError(f"written out it has more than {_MAX_SIZE} characters")
    shortest, longest = _lengths(node)
    return WrittenPattern(
        expression=_expression(node, write),
        shortest=shortest,
        longest=longest,
        forced=_forced(node, write),
    )


def _whole(node: Node) -> Node:
    """The pattern for whole strings: what is not anchored may have anything around it."""
    if isinstance(node, Choice):
        return Choice(tuple(_whole(option) for option in node.options))
    items = list(node.items) if isinstance(node, Sequence) else [node]
    if len(items) == 1 and isinstance(items[0], Choice):
        return _whole(items[0])
    starts = bool(items) and items[0] == Anchor(at_start=True)
    ends = bool(items) and items[-1] == Anchor(at_start=False)
    body = items[1 if starts else 0 : len(items) - 1 if ends else len(items)]
    if any(_anchored(item) for item in body):
        raise PatternError("it has an anchor that is not at its beginning or end")
    return Sequence((*(() if starts else (_ANYTHING,)), *body, *(() if ends else (_ANYTHING,))))


def _anchored(node: Node) -> bool:
    match node:
        case Anchor():
            return True
        case Sequence(items) | Choice(items):
            return any(_anchored(item) for item in items)
        case Repeat(item, _, _):
            return _anchored(item)
        case _:
            return False


def _size(node: Node) -> int:
    """Characters of the pattern with every repetition written out."""
    match node:
        case Sequence(items) | Choice(items):
            return 1 + sum(map(_size, items))
        case Repeat(item, least, most):
            return _size(item) * max(least, most or 0, 1)
        case _:
            return 1


def _lengths(node: Node) -> tuple[int, int | None]:
    match node:
        case Sequence(items):
            pairs = [_lengths(item) for item in items]
            return sum(low for low, _ in pairs), _sum(high for _, high in pairs)
        case Choice(options):
            pairs = [_lengths(option) for option in options]
            highs = [high for _, high in pairs if high is not None]
            unlimited = len(highs) < len(pairs)
            return min(low for low, _ in pairs), None if unlimited else max(highs)
        case Repeat(item, least, most):
            low, high = _lengths(item)
            return low * least, None if most is None or high is None else high * most
        case Characters(allowed):
            if not allowed:
                raise PatternError("it asks for a character that is not printable ASCII")
            return 1, 1
        case Anchor():
            return 0, 0


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def _forced(node: Node, write: WriteCharacter) -> int:
    """A dictated stretch is never longer than the shortest way to the end of the string from where
    it begins, and that is never longer than every part of the pattern once."""
    match node:
        case Sequence(items):
            return sum(_forced(item, write) for item in items)
        case Choice(options):
            return max(_forced(option, write) for option in options)
        case Repeat(item, least, _):
            return _forced(item, write) * max(least, 1)
        case Characters(allowed):
            return max(len(write(character)) for character in allowed)
        case Anchor():
            return 0


def _expression(node: Node, write: WriteCharacter) -> str:
    match node:
        case Sequence(items):
            return "".join(_expression(item, write) for item in items)
        case Choice(options):
            return f"({'|'.join(_expression(option, write) for option in options)})"
        case Repeat(item, least, most):
            return f"({_expression(item, write)}){{{least},{'' if most is None else most}}}"
        case Characters(allowed):
            return characters_expression(allowed, write)
        case Anchor():
            return ""


def characters_expression(allowed: Iterable[str], write: WriteCharacter) -> str:
    """One character of those allowed, as it is written."""
    plain: list[str] = []
    escaped: list[str] = []
    for character in sorted(allowed):
        written = write(character)
        (plain if written == character else escaped).append(written)
    options = [f"[{''.join(map(quoted_for_expression, plain))}]"] if plain else []
    options += ["".join(map(quoted_for_expression, text)) for text in escaped]
    return options[0] if len(options) == 1 else f"({'|'.join(options)})"


def quoted_for_expression(character: str) -> str:
    """An ASCII character that stands for itself, in sets and outside of them."""
    return character if character.isalnum() else f"\\x{ord(character):02X}"
