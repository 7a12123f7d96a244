"""What a runner can be told beyond Android's parameters; all of it is ours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

LEAST_RESULT_TOKENS: Final = 64
"""Less would not hold the note that a result was cut."""


@dataclass(frozen=True, kw_only=True)
class RunnerOptions:
    """How a runner treats its tools and a window that gets full.

    Raises ValueError for a value outside its range.
    """

    parallel_tools: bool = False
    """Whether the calls of one answer run at the same time. Their FunctionCall events then come
    first, in the order of the answer, and the FunctionResponse events as the calls end."""
    tool_timeout: timedelta | None = None
    """Of one call, in the host's time; then the model is told that the tool gave no answer. None
    leaves it to the connection's `long_call_timeout`."""
    tool_result_tokens: int | None = None
    """Most tokens of one result, by the model's own tokenizer; None is a quarter of its window."""
    on_large_tool_result: Literal["cut", "error"] = "cut"
    """`cut`: the model gets the beginning of the result and a note; `error`: the turn fails with
    REQUEST_TOO_LARGE (12)."""
    on_full_window: Literal["error", "trim"] = "error"
    """`error`: the turn fails with REQUEST_TOO_LARGE (12); `trim`: the oldest turns of the session
    are forgotten, whole, until the rest fits. The instructions always stay."""
    final_text: Literal["whole", "empty"] = "whole"
    """What the last message, which is not partial, carries: the whole text of the last step, or no
    text, for code that keeps what was streamed. The history has the text in either case."""

    def __post_init__(self) -> None:
        if self.tool_timeout is not None and self.tool_timeout <= timedelta():
            raise ValueError(f"tool_timeout must be positive, not {self.tool_timeout}")
        if self.tool_result_tokens is not None and self.tool_result_tokens < LEAST_RESULT_TOKENS:
            raise ValueError(
                f"tool_result_tokens must be at least {LEAST_RESULT_TOKENS}, not "
                f"{self.tool_result_tokens!r}"
            )
        if self.on_large_tool_result not in ("cut", "error"):
            raise ValueError(
                f"on_large_tool_result must be 'cut' or 'error', not {self.on_large_tool_result!r}"
            )
        if self.on_full_window not in ("error", "trim"):
            raise ValueError(
                f"on_full_window must be 'error' or 'trim', not {self.on_full_window!r}"
            )
        if self.final_text not in ("whole", "empty"):
            raise ValueError(f"final_text must be 'whole' or 'empty', not {self.final_text!r}")
