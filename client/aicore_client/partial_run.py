"""What a turn had done before it failed."""

from __future__ import annotations

from dataclasses import dataclass

from aicore_client.content import Content
from aicore_client.prompt import Usage


@dataclass(frozen=True, kw_only=True)
class PartialRun:
    """The failed turn of an agent; ours. The session forgets it: its history stays as it was."""

    transcript: tuple[Content, ...]
    """The question, then each step's calls and the results of all of them, in order."""
    text: str
    """What the model call that failed had said."""
    model_calls: int
    """How many times the model was asked, the failed call included."""
    usage: Usage | None
    """Of the last model call that ended."""
