"""Declared types of functions (`com.google.mlkit.genai.schema.tools`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum


class FunctionType(IntEnum):
    """ML Kit's numbers are not published; these are the simulator's."""

    STRING = 1
    NUMBER = 2
    INTEGER = 3
    BOOLEAN = 4
    ARRAY = 5
    OBJECT = 6
    NULL = 7


@dataclass(frozen=True, kw_only=True)
class FunctionSchema:
    """One type. Fields that do not belong to `type` stay at their defaults."""

    type: FunctionType
    description: str = ""
    properties: Mapping[str, FunctionSchema] = field(default_factory=dict)
    """Of an OBJECT, in declaration order."""
    required: tuple[str, ...] = ()
    items: FunctionSchema | None = None
    """Element type of an ARRAY."""
    enum: tuple[str, ...] = ()
    """Allowed values of a STRING or an INTEGER, as text."""
    format: str = ""
    pattern: str = ""
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    any_of: tuple[FunctionSchema, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FunctionDeclaration:
    """A function that the model may call. `parameters` is an OBJECT, None when there are none."""

    name: str
    description: str = ""
    parameters: FunctionSchema | None = None
    response_schema: FunctionSchema | None = None
