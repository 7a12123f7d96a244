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
    space next to a call or a thought belongs to the notation and is dropped. With `only_calls` the
    answer was made to be calls, so the start of a mark at its end is a call that was cut off. A
    `thought`, between two marks, can only come first.
    """

    def __init__(
        self,
        calls: CallNotation,
        *,
        only_calls: bool = False,
        thought: tuple[str, str] | None = None,
    ) -> None:
        self._calls = calls
        self._only_calls = only_calls
        self._thoughts = None if thought is None else _ThoughtReader(*thought)
        self._held = ""  # text that may yet turn out to be a mark, or white space before one
        self._after_mark = False
        self._call: CallScanner | None = None

    def feed(self, text: str) -> list[Chunk]:
        chunks: list[Chunk] = []
        if self._thoughts is not None:
            rest = self._thoughts.feed(text, chunks)
            if rest is None:
                return chunks
            self._after_mark = self._thoughts.found
            self._thoughts, text = None, rest
        while text or self._call is None:
            if self._call is None:
                rest = self._feed_text(text, chunks)
                if rest is None:
                    break
                self._call, text = self._calls.scanner(), rest
            else:
                ended = self._call.feed(text)
                if ended is None:
                    break
                text = self._take(self._call, ended, chunks)
        return chunks

    def finish(self) -> list[Chunk]:
        """What is held back: text, or a call that never ended and so is malformed."""
        chunks: list[Chunk] = []
        if self._thoughts is not None:
            thoughts, self._thoughts = self._thoughts, None
            chunks += self.feed(thoughts.finish(chunks))
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
            chunks.append(TextDelta(text=held.lstrip() if self._after_mark else held))
        return chunks

    def _take(self, scanner: CallScanner, rest: str, chunks: list[Chunk]) -> str:
        """Returns what is still to be read as text."""
        self._call = None
        result = scanner.result()
        if isinstance(result, FunctionCall | MalformedCall):
            chunks.append(result)
            self._after_mark = True
            return rest
        chunks.append(TextDelta(text=result))
        self._after_mark = False
        return rest

    def _feed_text(self, text: str, chunks: list[Chunk]) -> str | None:
        """Emits text up to the next call; returns what follows its mark, None without one."""
        opening = self._calls.opening
        before, mark, rest = (self._held + text).partition(opening)
        if mark:
            self._held, ready = "", before.rstrip()
        else:
            ready = before[: len(before) - may_be_mark(before, opening)].rstrip()
            if self._after_mark and not ready:
                before = before.lstrip()
            self._held = before[len(ready) :]
        if ready:
            chunks.append(TextDelta(text=ready.lstrip() if self._after_mark else ready))
            self._after_mark = False
        return rest if mark else None


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
    """The beginning of an answer, up to the end of its thought or to where there is none."""

    def __init__(self, opening: str, closing: str) -> None:
        self._opening = opening
        self._closing = closing
        self._held = ""
        self._said = False
        self.found = False

    def feed(self, text: str, chunks: list[Chunk]) -> str | None:
        """Returns what follows the thought; None while it may still go on."""
        self._held += text
        if not self.found:
            start = self._held.lstrip()
            if not start.startswith(self._opening):
                return None if self._opening.startswith(start) else self._held
            self.found = True
            self._held = start[len(self._opening) :]
        thought, mark, rest = self._held.partition(self._closing)
        if mark:
            self._emit(thought.rstrip(), chunks)
            return rest
        ready = thought[: len(thought) - may_be_mark(thought, self._closing)].rstrip()
        self._held = thought[len(ready) :]
        self._emit(ready, chunks)
        return None

    def finish(self, chunks: list[Chunk]) -> str:
        """Returns text that was held back and is none of a thought."""
        held, self._held = self._held, ""
        if not self.found:
            return held
        self._emit(held.rstrip(), chunks)
        return ""

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
