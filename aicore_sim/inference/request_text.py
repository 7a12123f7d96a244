"""What a request says, as text: for scripts that look at it, and for messages about it."""

from __future__ import annotations

import json
from typing import Any

from aicore_sim.inference.backend import (
    Content,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    Part,
    TextPart,
)


def last_text(request: GenerateRequest) -> str:
    """The text of the last content, its calls and responses as name and JSON."""
    return content_text(request.contents[-1]) if request.contents else ""


def content_text(content: Content) -> str:
    """The parts of a content, one below the other."""
    return "\n".join(_part_text(part) for part in content.parts)


def to_json(value: Any) -> str:
    """JSON in one line, as it stands in prompts of the scripted model."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _part_text(part: Part) -> str:
    match part:
        case TextPart():
            return part.text
        case FunctionCallPart():
            return f"{part.name} {to_json(part.args)}"
        case FunctionResponsePart():
            return f"{part.name} {to_json(part.response)}"
