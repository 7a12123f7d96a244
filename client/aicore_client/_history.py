"""What a session remembers, and the one rule that it must keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from aicore_client.content import Content, FunctionCallPart, FunctionResponsePart


class History:
    """Turns that ended well. A turn comes in whole or not at all."""

    def __init__(self) -> None:
        self._turns: tuple[tuple[Content, ...], ...] = ()
        self._calls = 0

    @property
    def contents(self) -> tuple[Content, ...]:
        return self.without_oldest(0)

    @property
    def turns(self) -> int:
        return len(self._turns)

    def without_oldest(self, turns: int) -> tuple[Content, ...]:
        """What is left when that many turns are left out."""
        return tuple(content for turn in self._turns[turns:] for content in turn)

    def commit(self, turn: Sequence[Content], *, dropped: int = 0) -> None:
        """Remembers a turn, and forgets as many of the oldest as `dropped`."""
        require_answered_calls((*self.without_oldest(dropped), *turn))
        self._turns = (*self._turns[dropped:], *([tuple(turn)] if turn else []))

    def next_call_id(self) -> str:
        """Unique in the session, rolled-back turns included."""
        self._calls += 1
        return f"call_{self._calls}"


def require_answered_calls(contents: Sequence[Content]) -> None:
    """Every call has exactly one response, directly after it, under its id.

    Raises RuntimeError: a conversation that breaks this is refused by models for good.
    """
    waiting: Counter[str] = Counter()
    for content in contents:
        responses: Counter[str] = Counter(
            part.id or "" for part in content.parts if isinstance(part, FunctionResponsePart)
        )
        if responses != waiting:
            raise RuntimeError(
                f"the history is broken: calls {sorted(waiting)} got the responses "
                f"{sorted(responses)}"
            )
        waiting = Counter(
            part.function_call.id for part in content.parts if isinstance(part, FunctionCallPart)
        )
        if any(uses > 1 for uses in waiting.values()):
            raise RuntimeError(f"the history is broken: a call id is used twice in {waiting}")
    if waiting:
        raise RuntimeError(f"the history is broken: calls {sorted(waiting)} got no response")
