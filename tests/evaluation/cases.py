"""Cases that several tests judge."""

from __future__ import annotations

from typing import Any

from aicore_sim.evaluation.scoring import Answer
from aicore_sim.evaluation.suite import Call, Case

TOOLS: list[dict[str, Any]] = [
    {
        "name": "book_table",
        "description": "Books a table.",
        "parameters": {
            "type": "object",
            "properties": {
                "guests": {"type": "integer"},
                "at": {"type": "string"},
                "price": {"type": "number"},
                "wishes": {"type": "array", "items": {"type": "string"}},
                "contact": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                    "required": ["name"],
                },
            },
            "required": ["guests", "at"],
        },
    },
    {"name": "cancel_table"},
]
BOOKED = {"guests": 4, "at": "19:00"}


def case(expect: dict[str, Any], **changes: Any) -> Case:
    """A question with two tools."""
    return Case.model_validate(
        {
            "id": "one",
            "category": "some",
            "tools": TOOLS,
            "contents": [{"user": "A table for four at seven, please."}],
            "expect": expect,
            **changes,
        }
    )


def booking(**changes: Any) -> Case:
    """Expects a call with BOOKED and the changes."""
    return case({"calls": [{"name": "book_table", "args": {**BOOKED, **changes}}]})


def called(*calls: tuple[str, dict[str, Any]], text: str = "") -> Answer:
    return Answer(text=text, calls=tuple(Call(name=name, args=args) for name, args in calls))


def said(text: str) -> Answer:
    return Answer(text=text)
