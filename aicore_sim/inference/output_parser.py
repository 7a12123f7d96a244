"""Reads thoughts, text and tool calls out of an answer that arrives in pieces."""

from __future__ import annotations

from typing import Protocol

from aicore_sim.inference.backend import (
    Chunk,
    FunctionCall,
    MalformedCall,
    TextDelta,
    ThoughtDelta,
)
from aicore_sim.inference.json_calls import (
    BareJsonCalls,
    CallScanner,
    MarkedJsonCalls,
    printable,
)

__all__ = [
    "AnswerParser",
    "BareJsonCalls",
    "CallNotation",
    "EndedByMark",
    "MarkedJsonCalls",
    "TextParser",
]


class CallNotation(Protocol):
    """How one family writes calls."""

    @property
    def opening(self) -> str:
        """What every call begins with."""

    def scanner(self) -> CallScanner:
        """Reads one call from behind its opening."""


class AnswerParser:
    """Splits an answer into thoughts, text deltas and calls.

    However the answer is cut, the calls are the same and the deltas join to the same text. White
    space next to a call or a thought belongs to the notation and is dropped, except between two
    words. With `only_calls` the answer was made to be calls, so the start of a mark at its end is a
    call that was cut off. What stands between the two marks of `thought` is no text, wherever it
    comes; with `thought_first` only at the beginning, for text in which the marks may be data.
    """

    def __init__(
        self,
        calls: CallNotation,
        *,
        only_calls: bool = False,
        thought: tuple[str, str] | None = None,
        thought_first: bool = False,
    ) -> None:
        self._calls = calls
        self._only_calls = only_calls
        self._thought = thought
        self._thought_first = thought_first
        self._held = ""  # text that may yet turn out to be a mark, or white space before one
        self._said = False  # text, since the beginning or the last call
        self._after_mark = False
        self._gap = ""  # white space before a mark, for the case that text goes on behind it
        self._call: CallScanner | None = None
        self._thinking: _ThoughtReader | None = None

    def feed(self, text: str) -> list[Chunk]:
        chunks: list[Chunk] = []
        rest: str | None = text
        while rest is not None:
            if self._call is not None:
                rest = self._call.feed(rest)
                if rest is not None:
                    rest = self._take(self._call, rest, chunks)
            elif self._thinking is not None:
                rest = self._thinking.feed(rest, chunks)
                if rest is not None:
                    self._thinking = None
            else:
                rest = self._feed_text(rest, chunks)
        return chunks

    def finish(self) -> list[Chunk]:
        """What is held back: text, or a call that never ended and so is malformed."""
        chunks: list[Chunk] = []
        if self._thinking is not None:
            self._thinking.finish(chunks)
            self._thinking = None
        while self._call is not None:
            scanner = self._call
            rest = scanner.salvage()
            if rest is None:
                self._call = None
                chunks.append(_cut_off(scanner.everything))
                return chunks
            text = self._take(scanner, rest, chunks)
            chunks += self.feed(text)
        held, self._held = self._held, ""
        if self._only_calls and held.strip():
            chunks.append(_cut_off(held))
        elif held and not (self._after_mark and not held.strip()):
            self._say(held, chunks)
        return chunks

    def _take(self, scanner: CallScanner, rest: str, chunks: list[Chunk]) -> str:
        """Returns what is still to be read as text."""
        self._call = None
        result = scanner.result()
        if isinstance(result, FunctionCall | MalformedCall):
            chunks.append(result)
            self._said, self._after_mark, self._gap = False, True, ""
        else:
            self._say(result, chunks)
        return rest

    def _feed_text(self, text: str, chunks: list[Chunk]) -> str | None:
        """Emits text up to the next call or thought; returns what follows its mark, None without
        one."""
        text = self._held + text
        marks = self._marks(text)
        at, opening = min(
            ((text.find(mark), mark) for mark in marks if mark in text), default=(len(text), "")
        )
        before, self._held = text[:at], ""
        if opening:
            ready = before.rstrip()
        else:
            held = max(may_be_mark(before, mark) for mark in marks)
            ready = before[: len(before) - held].rstrip()
            if self._after_mark and not ready:
                before = before.lstrip()
            self._held = before[len(ready) :]
        if ready:
            self._say(ready, chunks)
        if not opening:
            return None
        if self._said and not self._after_mark:
            self._gap = before[len(ready) :]
        self._after_mark = True
        if opening == self._calls.opening:
            self._call = self._calls.scanner()
        else:
            assert self._thought is not None, "only then its mark is looked for"
            self._thinking = _ThoughtReader(self._thought[1])
        return text[at + len(opening) :]

    def _marks(self, text: str) -> tuple[str, ...]:
        """What may begin something else than text."""
        if self._thought is None:
            return (self._calls.opening,)
        opening = self._thought[0]
        start = text.lstrip()
        first = not self._said and (start.startswith(opening) or opening.startswith(start))
        if self._thought_first and not first:
            return (self._calls.opening,)
        return (self._calls.opening, opening)

    def _say(self, text: str, chunks: list[Chunk]) -> None:
        text = self._gap + text.lstrip() if self._after_mark else text
        self._said, self._after_mark, self._gap = True, False, ""
        chunks.append(TextDelta(text=text))


class TextParser:
    """For an answer in which nothing is a call."""

    def feed(self, text: str) -> list[Chunk]:
        return [TextDelta(text=text)] if text else []

    def finish(self) -> list[Chunk]:
        return []


class EndedByMark:
    """`parser`, up to a mark with which a model goes on to write what is not its part."""

    def __init__(self, parser: AnswerParser, mark: str) -> None:
        self._parser = parser
        self._mark = mark
        self._held = ""
        self._ended = False

    def feed(self, text: str) -> list[Chunk]:
        if self._ended:
            return []
        before, mark, _ = (self._held + text).partition(self._mark)
        self._ended = bool(mark)
        held = 0 if mark else may_be_mark(before, self._mark)
        self._held = before[len(before) - held :]
        return self._parser.feed(before[: len(before) - held])

    def finish(self) -> list[Chunk]:
        held, self._held = self._held, ""
        return [*self._parser.feed(held), *self._parser.finish()]


class _ThoughtReader:
    """A thought, from behind its first mark to its second one."""

    def __init__(self, closing: str) -> None:
        self._closing = closing
        self._held = ""
        self._said = False

    def feed(self, text: str, chunks: list[Chunk]) -> str | None:
        """Returns what follows the thought; None while it may still go on."""
        thought, mark, rest = (self._held + text).partition(self._closing)
        if mark:
            self._emit(thought.rstrip(), chunks)
            return rest
        ready = thought[: len(thought) - may_be_mark(thought, self._closing)].rstrip()
        self._held = thought[len(ready) :]
        self._emit(ready, chunks)
        return None

    def finish(self, chunks: list[Chunk]) -> None:
        """The thought was cut off."""
        self._emit(self._held.rstrip(), chunks)

    def _emit(self, text: str, chunks: list[Chunk]) -> None:
        text = text if self._said else text.lstrip()
        if text:
            self._said = True
            chunks.append(ThoughtDelta(text=text))


def may_be_mark(text: str, mark: str) -> int:
    """How many characters at the end of `text` could be the start of `mark`."""
    longest = min(len(text), len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)


def _cut_off(text: str) -> MalformedCall:
    return MalformedCall(text=printable(text), reason="The call is cut off.")
