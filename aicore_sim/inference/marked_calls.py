"""Calls as FunctionGemma and Gemma 4 write them: `call:NAME{key:value,…}` between marks."""

from __future__ import annotations

import json
import re
from typing import Any

from aicore_sim.inference.backend import FunctionCall, MalformedCall
from aicore_sim.inference.json_calls import CallScanner, printable, require_sendable

_HEAD = re.compile(r"\s*call:\s*([^\s{}:,]+)\s*(?=\{)")
_KEY = re.compile(r"\s*([^\s{}\[\]:,]+)\s*:\s*")
_SCALAR = re.compile(r"[^\s{}\[\],]+")
_MAX_DEPTH = 100


class MarkedCalls:
    """`quote` stands around strings, in which other marks do not count."""

    def __init__(self, opening: str, closing: str, *, quote: str) -> None:
        self.opening = opening
        self._closing = closing
        self._quote = quote

    def scanner(self) -> CallScanner:
        return _Scanner(self._closing, self._quote)


class _Scanner:
    """Finds the closing mark outside strings."""

    def __init__(self, closing: str, quote: str) -> None:
        self.everything = ""
        self._closing = closing
        self._quote = quote
        self._body = ""
        self._at = 0
        self._in_string = False

    def feed(self, text: str) -> str | None:
        self.everything += text
        data = self.everything
        while self._at < len(data):
            if data.startswith(self._quote, self._at):
                self._in_string = not self._in_string
                self._at += len(self._quote)
            elif not self._in_string and data.startswith(self._closing, self._at):
                self._body = data[: self._at]
                return data[self._at + len(self._closing) :]
            elif self._may_go_on():
                return None
            else:
                self._at += 1
        return None

    def _may_go_on(self) -> bool:
        """Whether what is left could be the start of a mark."""
        left = len(self.everything) - self._at
        marks = [mark for mark in (self._quote, self._closing) if left < len(mark)]
        return any(mark.startswith(self.everything[self._at :]) for mark in marks)

    def salvage(self) -> str | None:
        self._body, mark, rest = self.everything.partition(self._closing)
        return rest if mark else None

    def result(self) -> FunctionCall | MalformedCall:
        return read_marked_call(self._body, self._quote)


def read_marked_call(body: str, quote: str) -> FunctionCall | MalformedCall:
    """A call from the text between its marks."""
    head = _HEAD.match(body)
    if head is None:
        return MalformedCall(
            text=printable(body), reason="The call does not begin with 'call:', a name and '{'."
        )
    reader = _Reader(body, head.end(), quote)
    try:
        args = reader.value(0)
        reader.end()
        require_sendable(body, args)
    except ValueError as error:
        return MalformedCall(text=printable(body), reason=f"The call cannot be read: {error}")
    return FunctionCall(name=head.group(1), args=args)


class _Reader:
    """Recursive descent. Every method raises ValueError."""

    def __init__(self, text: str, at: int, quote: str) -> None:
        self._text = text
        self._at = at
        self._quote = quote

    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels")
        self._skip_space()
        if self._taken(self._quote):
            end = self._text.find(self._quote, self._at)
            if end < 0:
                raise ValueError(f"a string without its second {self._quote}")
            text, self._at = self._text[self._at : end], end + len(self._quote)
            return text
        if self._taken("{"):
            return self._object(depth)
        if self._taken("["):
            return self._list(depth)
        found = _SCALAR.match(self._text, self._at)
        if found is None:
            raise ValueError(f"no value at character {self._at}")
        self._at = found.end()
        return _scalar(found.group())

    def end(self) -> None:
        self._skip_space()
        if self._at < len(self._text):
            raise ValueError(f"more text after the arguments at character {self._at}")

    def _object(self, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        while not self._closed("}", first=not result):
            found = _KEY.match(self._text, self._at)
            if found is None:
                raise ValueError(f"no name at character {self._at}")
            if found.group(1) in result:
                raise ValueError(f"{found.group(1)!r} comes twice")
            self._at = found.end()
            result[found.group(1)] = self.value(depth + 1)
        return result

    def _list(self, depth: int) -> list[Any]:
        result: list[Any] = []
        while not self._closed("]", first=not result):
            result.append(self.value(depth + 1))
        return result

    def _closed(self, bracket: str, *, first: bool) -> bool:
        self._skip_space()
        if self._taken(bracket):
            return True
        if not first and not self._taken(","):
            raise ValueError(f"no ',' and no {bracket!r} at character {self._at}")
        return False

    def _skip_space(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _taken(self, mark: str) -> bool:
        found = self._text.startswith(mark, self._at)
        self._at += len(mark) if found else 0
        return found


def _scalar(text: str) -> Any:
    """A number or a word; anything else that is not between marks is no value."""
    try:
        value = json.loads(text, parse_constant=lambda name: text)
    except ValueError:
        value = text
    if isinstance(value, str):
        raise ValueError(f"{text!r} is no number, true, false or null")
    return value
