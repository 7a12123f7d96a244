"""What happens in one turn of an agent.

https://developers.google.com/android/reference/com/google/mlkit/genai/agent/AgentEvent
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias


class AgentEvent:
    """Sealed: a `TextMessage`, a `FunctionCall` or a `FunctionResponse`.

    Errors are not events; they are raised by the flow.
    """

    if TYPE_CHECKING:
        TextMessage: TypeAlias = "_TextMessage"
        FunctionCall: TypeAlias = "_FunctionCall"
        FunctionResponse: TypeAlias = "_FunctionResponse"


@dataclass(frozen=True)
class _TextMessage(AgentEvent):
    """Text of the model.

    Partial: the text that is new. Not partial: the whole text of the last step, once, at the end
    of the turn; empty when the model said nothing.
    """

    text: str
    is_partial: bool = False


@dataclass(frozen=True)
class _FunctionCall(AgentEvent):
    """Directly before the runner runs a tool. `id` is not on a phone: it pairs the call with its
    response and takes no part in comparisons."""

    name: str
    args: Mapping[str, object]
    id: str = field(default="", compare=False, kw_only=True)


@dataclass(frozen=True)
class _FunctionResponse(AgentEvent):
    """Directly after the tool has ended: what it returned, or `{"error": …}`. `id` is the call's
    and not on a phone."""

    name: str
    response: Mapping[str, object]
    id: str = field(default="", compare=False, kw_only=True)


def _nest(event: type[AgentEvent]) -> None:
    # A class body cannot name the class that it defines, so the members are put in afterwards.
    event.__name__ = event.__name__.removeprefix("_")
    event.__qualname__ = f"AgentEvent.{event.__name__}"
    setattr(AgentEvent, event.__name__, event)


for _event in (_TextMessage, _FunctionCall, _FunctionResponse):
    _nest(_event)
