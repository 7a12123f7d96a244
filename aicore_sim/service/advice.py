"""What a developer should know about a request that is allowed."""

from __future__ import annotations

import logging
from typing import Final

HIGH_TEMPERATURE: Final = 0.4
"""https://developers.google.com/android/reference/com/google/mlkit/genai/agent/AgentRunner"""

logger = logging.getLogger(__name__)


class TemperatureAdvice:
    """Says once to each app that its temperature is higher than is good for calls and JSON."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def note(self, app: str, temperature: float | None) -> None:
        if temperature is None or temperature <= HIGH_TEMPERATURE or app in self._told:
            return
        self._told.add(app)
        logger.warning(
            "%s asks with temperature %s: above %s a small model invents more and breaks the form "
            "of calls and JSON more often; this is said once",
            app,
            temperature,
            HIGH_TEMPERATURE,
        )
