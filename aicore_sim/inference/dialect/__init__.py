"""How a conversation with tools is written for a model, and how its answer is read back."""

from __future__ import annotations

from aicore_sim.inference.dialect.base import (
    CUT,
    AddedTokens,
    ChatMessage,
    Dialect,
    OutputParser,
    Prompt,
)
from aicore_sim.inference.dialect.gemma import GemmaDialect
from aicore_sim.inference.dialect.hermes import HermesDialect
from aicore_sim.inference.dialect.marked import FUNCTION_GEMMA, GEMMA_4, MarkedDialect
from aicore_sim.inference.dialect.notation import (
    JsonNotation,
    MarkedNotation,
    UnwritableError,
    to_json,
)

__all__ = [
    "CUT",
    "FUNCTION_GEMMA",
    "GEMMA_4",
    "AddedTokens",
    "ChatMessage",
    "Dialect",
    "GemmaDialect",
    "HermesDialect",
    "JsonNotation",
    "MarkedDialect",
    "MarkedNotation",
    "OutputParser",
    "Prompt",
    "UnwritableError",
    "to_json",
]
