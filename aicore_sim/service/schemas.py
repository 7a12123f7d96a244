"""Function declarations as the backend takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from aicore_protos import aicore_pb2, types_pb2
from aicore_sim.inference import backend
from aicore_sim.service.refusals import invalid

TypeName = Literal["object", "array", "string", "integer", "number", "boolean", "null"]

_TYPES: Mapping[int, TypeName] = {
    types_pb2.FUNCTION_TYPE_STRING: "string",
    types_pb2.FUNCTION_TYPE_NUMBER: "number",
    types_pb2.FUNCTION_TYPE_INTEGER: "integer",
    types_pb2.FUNCTION_TYPE_BOOLEAN: "boolean",
    types_pb2.FUNCTION_TYPE_ARRAY: "array",
    types_pb2.FUNCTION_TYPE_OBJECT: "object",
    types_pb2.FUNCTION_TYPE_NULL: "null",
}


def to_tools(
    declarations: Iterable[aicore_pb2.FunctionDeclaration],
) -> tuple[backend.ToolDeclaration, ...]:
    """Raises SimulatorFault (INVALID_REQUEST) naming the field that is wrong.

    A declaration's `response_schema` is checked and goes no further: no dialect tells a model the
    type of a result, which it sees when it gets one.
    """
    tools: dict[str, backend.ToolDeclaration] = {}
    for number, declaration in enumerate(declarations):
        field = f"tools[{number}]"
        name = declaration.name
        if not name:
            raise invalid(f"{field}.name", "a function needs a name")
        if name in tools:
            raise invalid(f"{field}.name", f"{name!r} is declared twice")
        if declaration.HasField("response_schema"):
            to_schema(declaration.response_schema, f"{field}.response_schema")
        parameters = backend.Schema(type="object")
        if declaration.HasField("parameters"):
            parameters = to_schema(declaration.parameters, f"{field}.parameters")
            if parameters.type != "object":
                raise invalid(
                    f"{field}.parameters", f"must be an OBJECT schema, not {parameters.type!r}"
                )
        tools[name] = backend.ToolDeclaration(
            name=name, description=declaration.description, parameters=parameters
        )
    return tuple(tools.values())


def to_schema(schema: types_pb2.FunctionSchema, field: str) -> backend.Schema:
    """Raises SimulatorFault (INVALID_REQUEST) naming the field below `field` that is wrong."""
    found = _TYPES.get(schema.type)
    if found is None:
        raise invalid(f"{field}.type", f"{schema.type} is not a function type")
    properties: dict[str, backend.Schema] = {}
    for item in schema.properties:
        if item.name in properties:
            raise invalid(f"{field}.properties", f"{item.name!r} comes twice")
        properties[item.name] = to_schema(item.schema, f"{field}.properties[{item.name!r}]")
    for name in schema.required:
        if name not in properties:
            raise invalid(f"{field}.required", f"{name!r} is not a property")
    return backend.Schema(
        type=found,
        description=schema.description,
        properties=properties,
        required=tuple(schema.required),
        items=to_schema(schema.items, f"{field}.items") if schema.HasField("items") else None,
        enum=tuple(schema.enum_values),
        format=schema.format,
        pattern=schema.pattern,
        nullable=schema.nullable,
        minimum=schema.minimum if schema.HasField("minimum") else None,
        maximum=schema.maximum if schema.HasField("maximum") else None,
        min_items=schema.min_items if schema.HasField("min_items") else None,
        max_items=schema.max_items if schema.HasField("max_items") else None,
        min_length=schema.min_length if schema.HasField("min_length") else None,
        max_length=schema.max_length if schema.HasField("max_length") else None,
        any_of=tuple(
            to_schema(option, f"{field}.any_of[{number}]")
            for number, option in enumerate(schema.any_of)
        ),
    )
