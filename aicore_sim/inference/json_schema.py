"""JSON schemas that users write, as the backend's own.

https://json-schema.org/understanding-json-schema/reference
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from aicore_sim.inference.backend import Schema

_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_KEYS = {
    "anyOf": "any_of",
    "minItems": "min_items",
    "maxItems": "max_items",
    "minLength": "min_length",
    "maxLength": "max_length",
}
_SAME_KEYS = (
    *("type", "description", "properties", "required", "items", "enum", "format", "pattern"),
    *("minimum", "maximum"),
)


def read_schema(found: Any, where: str) -> Schema:
    """Raises ValueError that names the place, from `where` on, and the key that is wrong."""
    try:
        return Schema.model_validate(_fields(found, where))
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(map(str, (where, *wrong["loc"])))
        raise ValueError(f"{key}: {wrong['input']!r}: {wrong['msg']}") from None


def _fields(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"{where} is no object")
    unknown = found.keys() - {*_SAME_KEYS, *_KEYS}
    if unknown:
        raise ValueError(f"{where}: unknown keys {sorted(unknown)}")
    made: dict[str, Any] = {str(_KEYS.get(key, key)): value for key, value in found.items()}
    kinds = made.get("type", "string")
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    plain = [name for name in names if name != "null"] or ["null"]
    if len(plain) != 1 or plain[0] not in _TYPES:
        raise ValueError(f"{where}.type: {kinds!r} is not one of {', '.join(_TYPES)}")
    made |= {"type": plain[0], "nullable": "null" in names and plain != ["null"]}
    if "properties" in made:
        made["properties"] = {
            name: _fields(item, f"{where}.properties.{name}")
            for name, item in made["properties"].items()
        }
    if "items" in made:
        made["items"] = _fields(made["items"], f"{where}.items")
    if "any_of" in made:
        made["any_of"] = [
            _fields(item, f"{where}.anyOf[{number}]") for number, item in enumerate(made["any_of"])
        ]
    if "enum" in made:
        made["enum"] = [
            item if isinstance(item, str) else json.dumps(item) for item in made["enum"]
        ]
    return made
