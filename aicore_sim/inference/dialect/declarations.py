"""How functions are declared to a model."""

from __future__ import annotations

from typing import Any

from aicore_sim.inference.backend import Schema, ToolDeclaration
from aicore_sim.inference.dialect.notation import MarkedNotation, to_json


def signature(tool: ToolDeclaration) -> str:
    """One line per function, one per parameter: a small model loses itself in JSON schemas."""
    schema = tool.parameters
    parameters = ", ".join(
        f"{name}{'' if name in schema.required else '?'}: {_type_text(kind)}"
        for name, kind in schema.properties.items()
    )
    lines = [f"- {tool.name}({parameters})" + (f": {tool.description}" if tool.description else "")]
    lines.extend(
        f"  {name}: {kind.description}"
        for name, kind in schema.properties.items()
        if kind.description
    )
    return "\n".join(lines)


def call_form(tool: ToolDeclaration) -> str:
    """A function as its call is written, with types in place of values.

    A small model copies names far better from a form whose tokens are those of the call.
    """
    form = f'{{"name": {to_json(tool.name)}, "arguments": {_object_form(tool.parameters)}}}'
    lines = [f"{form}: {tool.description}" if tool.description else form]
    lines.extend(
        f"  {to_json(name)}: {kind.description}"
        for name, kind in tool.parameters.properties.items()
        if kind.description
    )
    return "\n".join(lines)


def _object_form(schema: Schema) -> str:
    inner = ", ".join(
        f"{to_json(name)}: {_form(kind)}{'' if name in schema.required else '?'}"
        for name, kind in schema.properties.items()
    )
    return f"{{{inner}}}"


def _form(schema: Schema) -> str:
    if schema.any_of:
        text = "|".join(_form(option) for option in schema.any_of)
    elif schema.enum:
        text = "|".join(to_json(value) for value in schema.enum_values)
    elif schema.type == "array":
        text = f"[{_form(schema.items)}]" if schema.items else "[]"
    elif schema.type == "object":
        text = _object_form(schema)
    else:
        text = schema.type
    return f"{text}|null" if schema.nullable else text


def _type_text(schema: Schema) -> str:
    if schema.any_of:
        text = "|".join(_type_text(option) for option in schema.any_of)
    elif schema.enum:
        text = "|".join(to_json(value) for value in schema.enum_values)
    elif schema.type == "array":
        text = f"[{_type_text(schema.items)}]" if schema.items else "[]"
    elif schema.type == "object":
        inner = ", ".join(f"{name}: {_type_text(kind)}" for name, kind in schema.properties.items())
        text = f"{{{inner}}}"
    else:
        text = schema.type
    return f"{text}|null" if schema.nullable else text


def function_object(tool: ToolDeclaration) -> dict[str, Any]:
    """Name, description and JSON schema, as function declarations are written elsewhere."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": json_schema(tool.parameters),
    }


def json_schema(schema: Schema) -> dict[str, Any]:
    """https://json-schema.org/understanding-json-schema/reference"""
    if schema.any_of:
        made: dict[str, Any] = {"anyOf": [json_schema(option) for option in schema.any_of]}
        if schema.nullable:
            made["anyOf"].append({"type": "null"})
    else:
        made = {"type": [schema.type, "null"] if schema.nullable else schema.type}
    if schema.description:
        made["description"] = schema.description
    if schema.type == "object" and not schema.any_of:
        made["properties"] = {name: json_schema(item) for name, item in schema.properties.items()}
        made["required"] = list(schema.required)
    if schema.items is not None:
        made["items"] = json_schema(schema.items)
    if schema.enum:
        made["enum"] = list(schema.enum_values)
    made |= {
        name: value
        for name, value in (
            ("format", schema.format or None),
            ("pattern", schema.pattern or None),
            ("minimum", schema.minimum),
            ("maximum", schema.maximum),
            ("minItems", schema.min_items),
            ("maxItems", schema.max_items),
            ("minLength", schema.min_length),
            ("maxLength", schema.max_length),
        )
        if value is not None
    }
    return made


def marked_declaration(tool: ToolDeclaration, notation: MarkedNotation) -> str:
    """As FunctionGemma reads it: keys bare, texts between marks, the type of a value last.

    https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices
    """
    parts = [f"description:{notation.text(tool.description)}"]
    schema = tool.parameters
    if schema.properties:
        inner = [f"properties:{_marked_properties(schema, notation)}"]
        if schema.required:
            inner.append(f"required:{notation.text(schema.required)}")
        inner.append(f"type:{notation.text('OBJECT')}")
        parts.append(f"parameters:{{{','.join(inner)}}}")
    return f"declaration:{notation.guard(tool.name)}{{{','.join(parts)}}}"


def _marked_properties(schema: Schema, notation: MarkedNotation) -> str:
    pairs = (
        f"{notation.guard(name)}:{_marked_type(schema.properties[name], notation)}"
        for name in notation.ordered(schema.properties)
    )
    return f"{{{','.join(pairs)}}}"


def _marked_type(schema: Schema, notation: MarkedNotation) -> str:
    parts = []
    if schema.description:
        parts.append(f"description:{notation.text(schema.description)}")
    if schema.enum:
        parts.append(f"enum:{notation.text(schema.enum)}")
    if schema.any_of:
        options = ",".join(_marked_type(option, notation) for option in schema.any_of)
        parts.append(f"anyOf:[{options}]")
    if schema.items is not None:
        parts.append(f"items:{_marked_type(schema.items, notation)}")
    if schema.properties:
        parts.append(f"properties:{_marked_properties(schema, notation)}")
        if schema.required:
            parts.append(f"required:{notation.text(schema.required)}")
    if schema.nullable:
        parts.append("nullable:true")
    parts.append(f"type:{notation.text(schema.type.upper())}")
    return f"{{{','.join(parts)}}}"
