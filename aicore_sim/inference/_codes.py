"""The error integers that inference itself reports.

https://developers.google.com/android/reference/com/google/mlkit/genai/common/GenAiException.ErrorCode
"""

from __future__ import annotations

from enum import IntEnum


class InferenceErrorCode(IntEnum):
    UNKNOWN = 0
    CANCELLED = 7
    NOT_AVAILABLE = 8
    REQUEST_TOO_LARGE = 12
    CONNECTION_LOST = 29
    """Ours: the process that ran the model died or hung. Android publishes no number for it."""
    REQUEST_TOO_SMALL = -100
    """Ours too for text that the model cannot be given, such as a lone surrogate."""
    STRUCTURED_OUTPUT_REQUEST_ERROR = -104
    STRUCTURED_OUTPUT_RESPONSE_ERROR = -105
    STRUCTURED_OUTPUT_MAX_TOKENS_ERROR = -106
