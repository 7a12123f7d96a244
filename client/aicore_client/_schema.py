"""From the metadata of an AppFunction to the schema that a model is given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum

from aicore_client.metadata import (
    AppFunctionDataTypeMetadata,
    AppFunctionMetadata,
    DataType,
    StringPattern,
)
from aicore_client.schema import FunctionSchema, FunctionType

_SCALARS = {
    DataType.TYPE_UNIT: (FunctionType.NULL, ""),
    DataType.TYPE_BOOLEAN: (FunctionType.BOOLEAN, ""),
    DataType.TYPE_BYTES: (FunctionType.STRING, "byte"),
    DataType.TYPE_DOUBLE: (FunctionType.NUMBER, "double"),
    DataType.TYPE_FLOAT: (FunctionType.NUMBER, "float"),
    DataType.TYPE_LONG: (FunctionType.INTEGER, "int64"),
    DataType.TYPE_INT: (FunctionType.INTEGER, "int32"),
    DataType.TYPE_STRING: (FunctionType.STRING, ""),
}


class _Pattern(IntEnum):
    """`PatternMatcher.PATTERN_*`."""

    LITERAL = 0
    PREFIX = 1
    SIMPLE_GLOB = 2
    ADVANCED_GLOB = 3
    SUFFIX = 4


# Quoted characters, sets, repetitions and wildcards of a glob; all else is literal.
_GLOB_PARTS: Mapping[int, re.Pattern[str]] = {
    _Pattern.SIMPLE_GLOB: re.compile(r"\\(?P<quoted>.)|(?P<kept>[.*])|(?P<literal>.)", re.DOTALL),
    _Pattern.ADVANCED_GLOB: re.compile(
        r"\\(?P<quoted>.)|\[(?P<inverted>\^?)(?P<set>(?:\\.|[^\]\\])+)\]"
        r"|(?P<kept>[.*+]|\{\d+(?:,\d*)?\})|(?P<literal>.)",
        re.DOTALL,
    ),
}


def parameters_schema(function: AppFunctionMetadata) -> FunctionSchema | None:
    """The parameters as one object; None for a function without any.

    Raises ValueError when a reference names a type that the function does not carry.
    """
    if not function.parameters:
        return None
    mapper = _Mapper(function.components)
    return FunctionSchema(
        type=FunctionType.OBJECT,
        properties={
            parameter.name: mapper.described(parameter.data_type, parameter.description)
            for parameter in function.parameters
        },
        required=tuple(item.name for item in function.parameters if item.is_required),
    )


class _Mapper:
    def __init__(self, components: Mapping[str, AppFunctionDataTypeMetadata]) -> None:
        self._components = components
        self._open: list[str] = []

    def described(self, data: AppFunctionDataTypeMetadata, description: str) -> FunctionSchema:
        """A parameter's own text says more than its type's."""
        schema = self.schema(data)
        return replace(schema, description=description) if description else schema

    def schema(self, data: AppFunctionDataTypeMetadata) -> FunctionSchema:
        match data.type:
            case DataType.TYPE_REFERENCE:
                return self._reference(data)
            case DataType.TYPE_ARRAY:
                items = None if data.item_type is None else self.schema(data.item_type)
                return self._of(data, FunctionType.ARRAY, items=items)
            case DataType.TYPE_OBJECT | DataType.TYPE_PARCELABLE:
                return self._of(
                    data,
                    FunctionType.OBJECT,
                    properties={name: self.schema(item) for name, item in data.properties.items()},
                    required=data.required,
                )
            case DataType.TYPE_ALL_OF:
                return self._all_of(data)
            case DataType.TYPE_ONE_OF:
                choices = tuple(self.schema(item) for item in data.one_of)
                return self._of(data, FunctionType.OBJECT, any_of=choices)
            case _:
                kind, number_format = _SCALARS[data.type]
                return FunctionSchema(
                    type=kind,
                    description=data.description,
                    nullable=data.is_nullable,
                    enum=data.enum_values,
                    pattern=_any_of(data.patterns),
                    format=data.format or number_format,
                )

    def _reference(self, data: AppFunctionDataTypeMetadata) -> FunctionSchema:
        name = data.data_type_reference
        if name not in self._components:
            raise ValueError(f"the metadata refers to the type {name!r}, which it does not define")
        if name in self._open:
            # A schema has no way to name itself: the inner level is an object of any shape.
            return self._of(data, FunctionType.OBJECT)
        self._open.append(name)
        try:
            schema = self.schema(self._components[name])
        finally:
            self._open.pop()
        return replace(
            schema,
            description=data.description or schema.description,
            nullable=data.is_nullable or schema.nullable,
        )

    def _all_of(self, data: AppFunctionDataTypeMetadata) -> FunctionSchema:
        properties: dict[str, FunctionSchema] = {}
        required: dict[str, None] = {}
        for schema in map(self.schema, data.all_of):
            properties.update(schema.properties)
            required.update(dict.fromkeys(schema.required))
        return self._of(data, FunctionType.OBJECT, properties=properties, required=tuple(required))

    def _of(
        self,
        data: AppFunctionDataTypeMetadata,
        kind: FunctionType,
        *,
        properties: Mapping[str, FunctionSchema] | None = None,
        required: tuple[str, ...] = (),
        items: FunctionSchema | None = None,
        any_of: tuple[FunctionSchema, ...] = (),
    ) -> FunctionSchema:
        return FunctionSchema(
            type=kind,
            description=data.description,
            nullable=data.is_nullable,
            properties=properties or {},
            required=required,
            items=items,
            any_of=any_of,
        )


def _any_of(patterns: tuple[StringPattern, ...]) -> str:
    """Anchored, so that it means the same whether the whole value or a part of it has to match."""
    if not patterns:
        return ""
    made = f"^(?:{'|'.join(map(_regular_expression, patterns))})$"
    try:
        re.compile(made)
    except re.error:
        # Another app's mistake: the model is told less, and the app checks the value itself.
        return ""
    return made


def _regular_expression(pattern: StringPattern) -> str:
    """https://developer.android.com/reference/android/os/PatternMatcher"""
    match pattern.type:
        case _Pattern.PREFIX:
            return re.escape(pattern.value) + ".*"
        case _Pattern.SUFFIX:
            return ".*" + re.escape(pattern.value)
        case _Pattern.SIMPLE_GLOB | _Pattern.ADVANCED_GLOB:
            return _GLOB_PARTS[pattern.type].sub(_glob_part, pattern.value)
        case _:
            return re.escape(pattern.value)


def _glob_part(found: re.Match[str]) -> str:
    if found["kept"] is not None:
        return found["kept"]
    if (members := found.groupdict().get("set")) is not None:
        escaped = re.sub(
            r"\\(.)|(-)|(.)",
            lambda one: one[2] or re.escape(one[1] or one[3]),
            members,
            flags=re.DOTALL,
        )
        return f"[{found['inverted']}{escaped}]"
    return re.escape(found["quoted"] or found["literal"])
