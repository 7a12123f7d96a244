"""Which generators are kept after their answers, and which of them the next prompt continues.

Knows no library: a generator is whatever holds the model's state for a sequence of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_T = TypeVar("_T")

DEFAULT_PREFIX_MEMORY_MB = 512
MAX_STATES = 16
_STEP = 512
_CHEAP = 128
"""Tokens that are computed again so fast that keeping them is not worth the memory."""


@dataclass(frozen=True)
class WarmKey:
    """What has to be equal for a state to be used again.

    A generator's grammar is fixed when it is made. Prefixes are never shared between apps, so
    that none can learn from its first token's delay what another one asked.
    """

    app: str
    grammar: str
    fast_forward: bool


@dataclass
class WarmState(Generic[_T]):
    """A generator, the room it was made with, and the tokens that its state is sure to hold."""

    key: WarmKey
    generator: _T
    capacity: int
    """In tokens."""
    tokens: list[int] = field(default_factory=list)
    asked: int = 0
    """How many of the tokens came from a prompt; the others are its answer."""


@dataclass(frozen=True, kw_only=True)
class WarmFigures:
    """What is kept; a state that works on an answer is not counted."""

    states: int = 0
    bytes: int = 0
    evicted: int = 0
    """States given up for room so far."""


def capacity_for(tokens: int, limit: int) -> int:
    """Room to make a generator with: `tokens` or a little more, but never over `limit`."""
    return min(-(-tokens // _STEP) * _STEP, limit)


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(i for i in range(length) if one[i] != other[i])


class WarmStates(Generic[_T]):
    """States that nobody works on, least recently used first; bounded by memory and number.

    `bytes_per_token` is the memory of one token's state. With `max_bytes` 0 nothing is kept.
    """

    def __init__(
        self, *, max_bytes: int, bytes_per_token: int, max_states: int = MAX_STATES
    ) -> None:
        self._max_bytes = max_bytes
        self._bytes_per_token = bytes_per_token
        self._max_states = max_states
        self._kept: list[WarmState[_T]] = []
        self._evicted = 0

    @property
    def figures(self) -> WarmFigures:
        return WarmFigures(states=len(self._kept), bytes=self._bytes(), evicted=self._evicted)

    def take(self, key: WarmKey, prompt: Sequence[int], needed: int) -> WarmState[_T] | None:
        """The state that saves most of `prompt`, with room for `needed` tokens; now the caller's.

        None when none fits, or when each would lose more of its own prompt than it saves of this
        one: then it is another conversation, and worth more as it is. A short prompt is not worth
        a state of its own.
        """
        best: WarmState[_T] | None = None
        best_rank = (-1, 0)
        for state in self._kept:
            if state.key == key and state.capacity >= needed:
                common = common_prefix(state.tokens, prompt)
                lost = max(0, min(state.asked, len(state.tokens)) - common)
                if lost <= max(common, _CHEAP) and (common, -lost) >= best_rank:
                    best, best_rank = state, (common, -lost)
        if best is not None:
            self._kept.remove(best)
        return best

    def make_room(self, tokens: int) -> None:
        """Give states up until another one of `tokens` fits beside those that are left."""
        self._evict_until(self._max_bytes - tokens * self._bytes_per_token, self._max_states - 1)

    def keep(self, state: WarmState[_T]) -> None:
        """Take a state back, as the one used last. One that is too large alone is dropped."""
        if state.tokens and state.capacity * self._bytes_per_token <= self._max_bytes:
            self.make_room(state.capacity)
            self._kept.append(state)

    def forget(self, app: str | None = None) -> int:
        """Give up the states of one app, or all; how many there were."""
        left = [state for state in self._kept if app is not None and state.key.app != app]
        gone = len(self._kept) - len(left)
        self._kept = left
        return gone

    def _bytes(self) -> int:
        return sum(state.capacity for state in self._kept) * self._bytes_per_token

    def _evict_until(self, max_bytes: int, max_states: int) -> None:
        while self._kept and (self._bytes() > max_bytes or len(self._kept) > max_states):
            del self._kept[0]
            self._evicted += 1
