"""Reads text and tool calls out of an answer that arrives in pieces."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from aicore_sim.inference.backend import Chunk, FunctionCall, MalformedCall, TextDelta


class CallParser:
    """Splits an answer into text deltas and calls written as JSON between two marks.

    However the answer is cut, the calls are the same and the text deltas join to the same text.
    White space next to a call belongs to the notation and is dropped. With `only_calls` the answer
    was made to be calls, so the start of a mark at its end is a call that was cut off.
    """

    def __init__(self, call_open: str, call_close: str, *, only_calls: bool = False) -> None:
        self._open = call_open
        self._close = call_close
        self._only_calls = only_calls
        self._held = ""  # text that may yet turn out to be a mark, or white space before one
        self._after_call = False
        self._call: _JsonScanner | None = None

    def feed(self, text: str) -> list[Chunk]:
        chunks: list[Chunk] = []
        while text or self._call is None:
            if self._call is None:
                rest = self._feed_text(text, chunks)
                if rest is None:
                    break
                self._call, text = _JsonScanner(self._close), rest
            else:
                ended = self._call.feed(text)
                if ended is None:
                    break
                chunks.append(_read_call(self._call.body))
                self._call, self._after_call, text = None, True, ended
        return chunks

    def finish(self) -> list[Chunk]:
        """What is held back: text, or a call that never ended and so is malformed."""
        chunks: list[Chunk] = []
        while self._call is not None:
            written = self._call.everything
            body, mark, rest = written.partition(self._close)
            self._call = None
            if not mark:
                chunks.append(_cut_off(written))
                return chunks
            # The mark stood inside a JSON string that never ended: what follows it is an answer.
            chunks.append(_read_call(body))
            self._after_call = True
            chunks.extend(self.feed(rest))
        held = self._held
        self._held = ""
        if self._only_calls and held.strip():
            chunks.append(_cut_off(held))
        elif held and not (self._after_call and not held.strip()):
            chunks.append(TextDelta(text=held.lstrip() if self._after_call else held))
        return chunks

    def _feed_text(self, text: str, chunks: list[Chunk]) -> str | None:
        """Emits text up to the next call; returns what follows its mark, None without one."""
        before, mark, rest = (self._held + text).partition(self._open)
        if mark:
            self._held, ready = "", before.rstrip()
        else:
            ready = before[: len(before) - _may_be_mark(before, self._open)].rstrip()
            if self._after_call and not ready:
                before = before.lstrip()
            self._held = before[len(ready) :]
        if ready:
            chunks.append(TextDelta(text=ready.lstrip() if self._after_call else ready))
            self._after_call = False
        return rest if mark else None


class _JsonScanner:
    """Finds the closing mark outside JSON strings."""

    def __init__(self, close: str) -> None:
        self._close = close
        self.everything = ""
        self.body = ""
        self._at = 0
        self._in_string = False

    def feed(self, text: str) -> str | None:
        """Returns what follows the closing mark, or None while it has not come."""
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
            elif not self._in_string and character == self._close[0]:
                here = data[self._at : self._at + len(self._close)]
                if here == self._close:
                    self.body = data[: self._at]
                    return data[self._at + len(self._close) :]
                if self._close.startswith(here):
                    return None
            self._at += 1
        return None


def _may_be_mark(text: str, mark: str) -> int:
    """How many characters at the end of `text` could be the start of `mark`."""
    longest = min(len(text), len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)


def _cut_off(text: str) -> MalformedCall:
    return MalformedCall(text=_printable(text), reason="The call is cut off.")


def _read_call(body: str) -> FunctionCall | MalformedCall:
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
        body.encode()
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # UnicodeEncodeError: a lone surrogate
        return MalformedCall(text=_printable(body), reason=f"The call is not JSON: {error}")
    reason = _why_no_call(value)
    if reason:
        return MalformedCall(text=_printable(body), reason=reason)
    return FunctionCall(name=value["name"], args=value["arguments"])


def _why_no_call(value: Any) -> str | None:
    if not isinstance(value, dict):
        return "The call is not a JSON object."
    if not isinstance(value.get("name"), str) or not value["name"]:
        return 'The call has no "name".'
    if not isinstance(value.get("arguments"), dict):
        return 'The call has no object "arguments".'
    unknown = sorted(value.keys() - {"name", "arguments"})
    return f"The call has unknown keys: {', '.join(unknown)}." if unknown else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _printable(text: str) -> str:
    return text.strip().encode(errors="replace").decode()
