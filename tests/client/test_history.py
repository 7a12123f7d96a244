from __future__ import annotations

import pytest

from aicore_client import Content, FunctionCall, FunctionCallPart, FunctionResponsePart, TextPart
from aicore_client._history import History

QUESTION = Content([TextPart("?")])
ANSWER = Content([TextPart("!")], Content.Role.MODEL)


def calls(*ids: str) -> Content:
    parts = [FunctionCallPart(FunctionCall("f", {}, call_id)) for call_id in ids]
    return Content(parts, Content.Role.MODEL)


def responses(*ids: str) -> Content:
    return Content([FunctionResponsePart(call_id, "f", {}) for call_id in ids])


@pytest.mark.requirement("agent.loop.history-invariant")
@pytest.mark.parametrize(
    "turn",
    [
        [QUESTION, calls("a")],
        [QUESTION, calls("a"), ANSWER],
        [QUESTION, calls("a", "b"), responses("a"), ANSWER],
        [QUESTION, calls("a"), responses("b"), ANSWER],
        [QUESTION, calls("a"), responses("a", "a"), ANSWER],
        [QUESTION, calls("a", "a"), responses("a", "a"), ANSWER],
        [responses("a"), ANSWER],
    ],
)
def test_a_history_refuses_a_call_without_exactly_one_response(turn: list[Content]) -> None:
    history = History()
    history.commit([QUESTION, ANSWER])

    with pytest.raises(RuntimeError, match="the history is broken"):
        history.commit(turn)

    assert history.contents == (QUESTION, ANSWER)


@pytest.mark.requirement("agent.loop.history-invariant")
def test_a_history_takes_answered_calls_in_any_order_of_the_responses() -> None:
    history = History()
    turn = [QUESTION, calls("a", "b"), responses("b", "a"), ANSWER]

    history.commit(turn)

    assert history.contents == tuple(turn)
