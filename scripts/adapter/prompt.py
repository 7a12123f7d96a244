"""The prompt that the adapter is trained for: the daemon's own dialect, without its guidance."""

from __future__ import annotations

from collections.abc import Sequence

from aicore_sim.inference.backend import FunctionCallPart, Part, TextPart
from aicore_sim.inference.dialect import HermesDialect, to_json

DIALECT = HermesDialect(declarations="calls")
"""What `prompting: "tuned"` in a model folder chooses."""


def answer_text(parts: Sequence[Part]) -> str:
    """What the model writes for these parts."""
    return DIALECT.call_separator.join(_written(part) for part in parts)


def _written(part: Part) -> str:
    if isinstance(part, TextPart):
        return part.text
    assert isinstance(part, FunctionCallPart)
    before, after = DIALECT.call_frame(part.name)
    return f"{DIALECT.call_open}{before}{to_json(part.args)}{after}"
