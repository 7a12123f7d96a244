"""Metadata of AppFunctions, as the host publishes it.

https://developer.android.com/reference/androidx/appfunctions/metadata/package-summary
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

from aicore_protos import appfunctions_pb2


class DataType(IntEnum):
    """Jetpack's internal type constants."""

    TYPE_UNIT = 0
    TYPE_BOOLEAN = 1
    TYPE_BYTES = 2
    TYPE_OBJECT = 3
    TYPE_DOUBLE = 4
    TYPE_FLOAT = 5
    TYPE_LONG = 6
    TYPE_INT = 7
    TYPE_STRING = 8
    TYPE_ARRAY = 10
    TYPE_REFERENCE = 11
    TYPE_ALL_OF = 12
    TYPE_PARCELABLE = 13
    TYPE_ONE_OF = 14


@dataclass(frozen=True)
class AppFunctionName:
    """The global key of a function; `function_identifier` is `Class#method`."""

    package_name: str
    function_identifier: str


@dataclass(frozen=True)
class StringPattern:
    """`type` is `android.os.PatternMatcher`'s: 0 literal, 1 prefix, 2 and 3 globs."""

    value: str
    type: int


@dataclass(frozen=True, kw_only=True)
class AppFunctionDataTypeMetadata:
    """One type. Fields that do not belong to `type` stay at their defaults."""

    type: DataType
    is_nullable: bool = False
    description: str = ""
    item_type: AppFunctionDataTypeMetadata | None = None
    properties: Mapping[str, AppFunctionDataTypeMetadata] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    object_qualified_name: str = ""
    data_type_reference: str = ""
    all_of: tuple[AppFunctionDataTypeMetadata, ...] = ()
    one_of: tuple[AppFunctionDataTypeMetadata, ...] = ()
    enum_values: tuple[str, ...] = ()
    patterns: tuple[StringPattern, ...] = ()
    format: str = ""


@dataclass(frozen=True, kw_only=True)
class AppFunctionParameterMetadata:
    name: str
    is_required: bool
    data_type: AppFunctionDataTypeMetadata
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class AppFunctionResponseMetadata:
    value_type: AppFunctionDataTypeMetadata
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class AppFunctionSchemaMetadata:
    category: str
    name: str
    version: int


@dataclass(frozen=True, kw_only=True)
class AppFunctionMetadata:
    """One function. `deprecation_message` is None for a function that is not deprecated."""

    ACCESS_LEVEL_SELF: ClassVar[int] = 100
    ACCESS_LEVEL_SYSTEM: ClassVar[int] = 200
    ACCESS_LEVEL_ANDROID_TRUSTED: ClassVar[int] = 300
    SCOPE_GLOBAL: ClassVar[int] = 0
    SCOPE_ACTIVITY: ClassVar[int] = 1

    name: AppFunctionName
    parameters: tuple[AppFunctionParameterMetadata, ...]
    response: AppFunctionResponseMetadata
    schema: AppFunctionSchemaMetadata | None = None
    components: Mapping[str, AppFunctionDataTypeMetadata] = field(default_factory=dict)
    """Shared types that a REFERENCE names."""
    description: str = ""
    deprecation_message: str | None = None
    scope: int = SCOPE_GLOBAL
    access_level: int = ACCESS_LEVEL_ANDROID_TRUSTED
    is_compat_enforcement_enabled: bool = True
    is_enabled_by_default: bool = True
    instruction: str = ""


@dataclass(frozen=True, kw_only=True)
class AppFunctionState:
    """`activity_ids` is None unless the function belongs to activities that registered it."""

    name: AppFunctionName
    is_enabled: bool
    activity_ids: frozenset[str] | None = None


def name_to_wire(name: AppFunctionName) -> appfunctions_pb2.AppFunctionName:
    return appfunctions_pb2.AppFunctionName(
        package_name=name.package_name, function_identifier=name.function_identifier
    )


def name_from_wire(message: appfunctions_pb2.AppFunctionName) -> AppFunctionName:
    return AppFunctionName(message.package_name, message.function_identifier)


def function_from_wire(message: appfunctions_pb2.AppFunctionMetadata) -> AppFunctionMetadata:
    schema = message.schema
    return AppFunctionMetadata(
        name=name_from_wire(message.name),
        parameters=tuple(
            AppFunctionParameterMetadata(
                name=parameter.name,
                is_required=parameter.is_required,
                data_type=_data_type(parameter.data_type),
                description=parameter.description,
            )
            for parameter in message.parameters
        ),
        response=AppFunctionResponseMetadata(
            value_type=_data_type(message.response.value_type),
            description=message.response.description,
        ),
        schema=AppFunctionSchemaMetadata(
            category=schema.category, name=schema.name, version=schema.version
        )
        if message.HasField("schema")
        else None,
        components={name: _data_type(shared) for name, shared in message.components.items()},
        description=message.description,
        deprecation_message=message.deprecation_message or None,
        scope=message.scope,
        access_level=message.access_level,
        is_compat_enforcement_enabled=message.is_compat_enforcement_enabled,
        is_enabled_by_default=message.is_enabled_by_default,
        instruction=message.instruction,
    )


def state_from_wire(message: appfunctions_pb2.AppFunctionState) -> AppFunctionState:
    return AppFunctionState(
        name=name_from_wire(message.name),
        is_enabled=message.is_enabled,
        activity_ids=frozenset(message.activity_ids) or None,
    )


def _data_type(message: appfunctions_pb2.DataTypeMetadata) -> AppFunctionDataTypeMetadata:
    return AppFunctionDataTypeMetadata(
        type=DataType(message.type),
        is_nullable=message.is_nullable,
        description=message.description,
        item_type=_data_type(message.item_type) if message.HasField("item_type") else None,
        properties={item.name: _data_type(item.data_type) for item in message.properties},
        required=tuple(message.required),
        object_qualified_name=message.object_qualified_name,
        data_type_reference=message.data_type_reference,
        all_of=tuple(_data_type(item) for item in message.all_of),
        one_of=tuple(_data_type(item) for item in message.one_of),
        enum_values=tuple(message.enum_values),
        patterns=tuple(StringPattern(item.value, item.type) for item in message.patterns),
        format=message.format,
    )
