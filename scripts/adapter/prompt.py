"""The prompt that the adapter is trained for: the daemon's own dialect, without its guidance."""

from __future__ import annotations

from collections.abc import Sequence

from aicore_sim.inference.backend import GenerateRequest, Part
from aicore_sim.inference.dialect import HermesDialect


class TrainedDialect(HermesDialect):
    """Says nothing about the notation of calls, which the adapter has learned."""

    def __init__(self) -> None:
        super().__init__(guided=False)

    def _told(self, request: GenerateRequest) -> bool:
        return True

    def answer(self, parts: Sequence[Part]) -> str:
        """What the model writes for these parts."""
        return self.call_separator.join(self._part_text(part) for part in parts)
