"""Calls that are JSON objects: between marks, or bare."""

from __future__ import annotations

import json
from typing import Any, NoReturn, Protocol

from aicore_sim.inference.backend import FunctionCall, MalformedCall


class CallScanner(Protocol):
    """Finds the end of one call in pieces of text."""

    everything: str
    """What was fed so far."""

    def feed(self, text: str) -> str | None:
        """What follows the call, or None while it has not ended."""

    def salvage(self) -> str | None:
        """After the last piece: what follows the call if it can be taken to have ended earlier."""

    def result(self) -> FunctionCall | MalformedCall | str:
        """The call that has ended; text when it turned out to be none."""


class MarkedJsonCalls:
    """`OPENING {"name": …, ARGUMENTS: …} CLOSING`."""

    def __init__(self, opening: str, closing: str, *, arguments: str) -> None:
        self.opening = opening
        self._closing = closing
        self._arguments = arguments

    def scanner(self) -> CallScanner:
        return _MarkScanner(self._closing, self._arguments)


class BareJsonCalls:
    """`{"name": …, ARGUMENTS: …}`, where `opening` is how such an object begins.

    An object of other keys is no call but part of the text.
    """

    def __init__(self, opening: str, *, arguments: str) -> None:
        self.opening = opening
        self._arguments = arguments

    def scanner(self) -> CallScanner:
        return _BraceScanner(self.opening, self._arguments)


class _MarkScanner:
    """Finds the closing mark outside JSON strings."""

    def __init__(self, closing: str, arguments: str) -> None:
        self.everything = ""
        self._closing = closing
        self._arguments = arguments
        self._body = ""
        self._at = 0
        self._in_string = False

    def feed(self, text: str) -> str | None:
        self.everything += text
        data = self.everything
        while self._at < len(data):
            character = data[self._at]
            if self._in_string and character == "\\":
                if self._at + 1 == len(data):
                    return None
                self._at += 1
            elif character == '"':
                self._in_string = not self._in_string
            elif not self._in_string and character == self._closing[0]:
                here = data[self._at : self._at + len(self._closing)]
                if here == self._closing:
                    self._body = data[: self._at]
                    return data[self._at + len(self._closing) :]
                if self._closing.startswith(here):
                    return None
            self._at += 1
        return None

    def salvage(self) -> str | None:
        # The mark stood inside a JSON string that never ended: what follows it is an answer.
        self._body, mark, rest = self.everything.partition(self._closing)
        return rest if mark else None

    def result(self) -> FunctionCall | MalformedCall:
        return read_json_call(self._body, self._arguments)


class _BraceScanner:
    """Finds the brace that closes the object whose beginning was read already."""

    def __init__(self, opening: str, arguments: str) -> None:
        self.everything = opening
        self._arguments = arguments
        self._at = len(opening)
        self._depth = 1
        self._in_string = False

    def feed(self, text: str) -> str | None:
        self.everything += text
        data = self.everything
        while self._at < len(data):
            character = data[self._at]
            if self._in_string and character == "\\":
                if self._at + 1 == len(data):
                    return None
                self._at += 1
            elif character == '"':
                self._in_string = not self._in_string
            elif not self._in_string and character in "{}[]":
                self._depth += 1 if character in "{[" else -1
            self._at += 1
            if self._depth == 0:
                self.everything = data[: self._at]
                return data[self._at :]
        return None

    def salvage(self) -> None:
        return None

    def result(self) -> FunctionCall | MalformedCall | str:
        try:
            value = json.loads(self.everything)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and self._arguments not in value:
            return self.everything
        return read_json_call(self.everything, self._arguments)


def read_json_call(body: str, arguments: str) -> FunctionCall | MalformedCall:
    """A call from the text of its object, whose arguments are under the key `arguments`."""
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
        require_sendable(body, value)
    except (ValueError, RecursionError) as error:
        return MalformedCall(text=printable(body), reason=f"The call is not JSON: {error}")
    reason = _why_no_call(value, arguments)
    if reason:
        return MalformedCall(text=printable(body), reason=reason)
    return FunctionCall(name=value["name"], args=value[arguments])


def require_sendable(body: str, value: Any) -> None:
    """Raises ValueError for a lone surrogate, which no message can carry."""
    body.encode()
    json.dumps(value, ensure_ascii=False).encode()


def printable(text: str) -> str:
    """What the model wrote, as it can be shown."""
    return text.strip().encode(errors="replace").decode()


def _why_no_call(value: Any, arguments: str) -> str | None:
    if not isinstance(value, dict):
        return "The call is not a JSON object."
    if not isinstance(value.get("name"), str) or not value["name"]:
        return 'The call has no "name".'
    if not isinstance(value.get(arguments), dict):
        return f'The call has no object "{arguments}".'
    unknown = sorted(value.keys() - {"name", arguments})
    return f"The call has unknown keys: {', '.join(unknown)}." if unknown else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
