"""`android.os.PatternMatcher`, in time proportional to text and pattern.

Source: https://developer.android.com/reference/android/os/PatternMatcher
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

PATTERN_LIMIT = 1000
"""Characters of a pattern, and steps of its longest expansion."""
_STATES_KEPT = 256
_MOVES_KEPT = 256


class PatternType(IntEnum):
    """`PatternMatcher.PATTERN_*`."""

    LITERAL = 0
    PREFIX = 1
    SIMPLE_GLOB = 2
    """`.` is any character, `*` repeats what is before it, a backslash quotes."""
    ADVANCED_GLOB = 3
    """As SIMPLE_GLOB, and sets `[a-z]`, `+`, and repetitions `{2}`, `{2,}`, `{2,5}`."""
    SUFFIX = 4


class PatternError(ValueError):
    """A pattern that Android would refuse; the text says where."""


@dataclass(frozen=True, kw_only=True)
class _Token:
    """One character of a text, so many times."""

    ranges: tuple[tuple[str, str], ...] | None
    """None is any character."""
    inverted: bool = False
    least: int = 1
    most: int | None = 1

    def fits(self, character: str) -> bool:
        if self.ranges is None:
            return True
        return any(low <= character <= high for low, high in self.ranges) is not self.inverted


class _State:
    """All places in the pattern at which a text so far may stand, and where characters lead."""

    __slots__ = ("accepts", "moves", "places")

    def __init__(self, places: frozenset[int], *, accepts: bool) -> None:
        self.places = places
        self.accepts = accepts
        self.moves: dict[str, _State] = {}


class PatternMatcher:
    """One pattern, compiled. Raises PatternError."""

    def __init__(self, pattern: str, kind: PatternType) -> None:
        if len(pattern) > PATTERN_LIMIT:
            raise PatternError(f"the pattern has {len(pattern)} characters, over {PATTERN_LIMIT}")
        self._pattern = pattern
        self._kind = kind
        self._steps: list[tuple[_Token, bool, bool]] = []
        if kind in (PatternType.SIMPLE_GLOB, PatternType.ADVANCED_GLOB):
            for token in _tokens(pattern, advanced=kind is PatternType.ADVANCED_GLOB):
                self._steps.extend(_expanded(token))
            if len(self._steps) > PATTERN_LIMIT:
                raise PatternError(f"{pattern!r} expands to more than {PATTERN_LIMIT} steps")
        # Kept, so that a text of megabytes costs a look-up a character.
        self._states: dict[frozenset[int], _State] = {}
        self._start = self._state({0})

    def matches(self, text: str) -> bool:
        """Whether the whole text fits."""
        match self._kind:
            case PatternType.LITERAL:
                return text == self._pattern
            case PatternType.PREFIX:
                return text.startswith(self._pattern)
            case PatternType.SUFFIX:
                return text.endswith(self._pattern)
            case _:
                return self._glob(text)

    def _glob(self, text: str) -> bool:
        state = self._start
        for character in text:
            following = state.moves.get(character)
            state = following if following is not None else self._move(state, character)
            if not state.places:
                return False
        return state.accepts

    def _move(self, state: _State, character: str) -> _State:
        following = set()
        for place in state.places:
            if place < len(self._steps):
                token, _, repeats = self._steps[place]
                if token.fits(character):
                    following.add(place if repeats else place + 1)
        found = self._state(following)
        if len(state.moves) < _MOVES_KEPT:
            state.moves[character] = found
        return found

    def _state(self, places: set[int]) -> _State:
        reached = frozenset(self._reached(places))
        found = self._states.get(reached)
        if found is None:
            found = _State(reached, accepts=len(self._steps) in reached)
            if len(self._states) < _STATES_KEPT:
                self._states[reached] = found
        return found

    def _reached(self, places: set[int]) -> set[int]:
        """With the steps that may be left out passed over."""
        found = set(places)
        for place in sorted(places):
            at = place
            while at < len(self._steps) and self._steps[at][1] and at + 1 not in found:
                at += 1
                found.add(at)
        return found


def _expanded(token: _Token) -> list[tuple[_Token, bool, bool]]:
    """(token, may be left out, repeats): as many steps as the token has at most."""
    steps = [(token, False, False)] * token.least
    if token.most is None:
        return [*steps, (token, True, True)]
    return [*steps, *([(token, True, False)] * (token.most - token.least))]


def _tokens(pattern: str, *, advanced: bool) -> Iterator[_Token]:
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            if at + 1 == len(pattern):
                raise PatternError(f"{pattern!r} ends with a backslash that quotes nothing")
            made = _Token(ranges=((pattern[at + 1], pattern[at + 1]),))
            at += 2
        elif character == ".":
            made, at = _Token(ranges=None), at + 1
        elif advanced and character == "[":
            made, at = _set(pattern, at)
        elif character == "*" or (advanced and character in "+{"):
            raise PatternError(f"{pattern!r}: nothing to repeat before {character!r} at {at}")
        elif advanced and character in "]}":
            raise PatternError(f"{pattern!r}: {character!r} at {at} closes nothing")
        else:
            made, at = _Token(ranges=((character, character),)), at + 1
        least, most, at = _repetition(pattern, at, advanced=advanced)
        yield _Token(ranges=made.ranges, inverted=made.inverted, least=least, most=most)


def _repetition(pattern: str, at: int, *, advanced: bool) -> tuple[int, int | None, int]:
    following = pattern[at : at + 1]
    if following == "*":
        return 0, None, at + 1
    if advanced and following == "+":
        return 1, None, at + 1
    if not (advanced and following == "{"):
        return 1, 1, at
    end = pattern.find("}", at)
    low, comma, high = pattern[at + 1 : max(end, at)].partition(",")
    if end < 0 or not low.isdecimal() or (high and not high.isdecimal()):
        raise PatternError(f"{pattern!r}: the repetition at {at} is not {{2}}, {{2,}} or {{2,5}}")
    least = int(low)
    most = int(high) if high else None if comma else least
    if (most is not None and most < least) or least > PATTERN_LIMIT or (most or 0) > PATTERN_LIMIT:
        raise PatternError(f"{pattern!r}: the repetition at {at} has a bad range")
    return least, most, end + 1


def _set(pattern: str, at: int) -> tuple[_Token, int]:
    start = at
    at += 1
    inverted = pattern[at : at + 1] == "^"
    at += inverted
    ranges: list[tuple[str, str]] = []
    while at < len(pattern) and pattern[at] != "]":
        low, at = _set_character(pattern, at)
        high = low
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high, at = _set_character(pattern, at + 1)
        if high < low:
            raise PatternError(f"{pattern!r}: the range {low}-{high} is the wrong way round")
        ranges.append((low, high))
    if at >= len(pattern):
        raise PatternError(f"{pattern!r}: the set at {start} is not closed")
    if not ranges:
        raise PatternError(f"{pattern!r}: the set at {start} is empty")
    return _Token(ranges=tuple(ranges), inverted=inverted), at + 1


def _set_character(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\":
        if at + 1 == len(pattern):
            raise PatternError(f"{pattern!r} ends with a backslash that quotes nothing")
        return pattern[at + 1], at + 2
    return pattern[at], at + 1
