"""The grammar that an answer has to follow."""

from __future__ import annotations

from aicore_sim.inference.grammar.build import MAX_CALLS, Grammar, build_grammar
from aicore_sim.inference.grammar.formats import FORMATS

__all__ = ["FORMATS", "MAX_CALLS", "Grammar", "build_grammar"]
