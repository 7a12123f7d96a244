"""Metadata and results in the form that `adb shell cmd app_function` prints."""

from __future__ import annotations

import base64
from typing import Any

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.rpc.values import from_value

RETURN_VALUE = "androidAppfunctionsReturnValue"
"""`ExecuteAppFunctionResponse.PROPERTY_RETURN_VALUE`."""

_LEVELS = {100: "self", 200: "system", 300: "androidTrusted"}
_SCOPES = {pb.SCOPE_GLOBAL: "global", pb.SCOPE_ACTIVITY: "activity"}


def metadata_document(metadata: pb.AppFunctionMetadata, *, enabled: bool | None) -> dict[str, Any]:
    """A search result: static metadata by its document names, and the runtime state."""
    name = metadata.name
    document: dict[str, Any] = {
        "functionId": name.function_identifier,
        "packageName": name.package_name,
        "description": metadata.description,
        "enabledByDefault": metadata.is_enabled_by_default,
        "accessLevel": _LEVELS.get(metadata.access_level, str(metadata.access_level)),
        "isCompatEnforcementEnabled": metadata.is_compat_enforcement_enabled,
        "scope": _SCOPES[metadata.scope],
        "parameters": [
            {
                "name": item.name,
                "isRequired": item.is_required,
                "description": item.description,
                "dataTypeMetadata": _type_document(item.data_type),
            }
            for item in metadata.parameters
        ],
        "response": {
            "description": metadata.response.description,
            "valueType": _type_document(metadata.response.value_type),
        },
    }
    if metadata.deprecation_message:
        document["deprecation"] = {"message": metadata.deprecation_message}
    if metadata.HasField("schema"):
        document["schemaCategory"] = metadata.schema.category
        document["schemaName"] = metadata.schema.name
        document["schemaVersion"] = metadata.schema.version
    return {
        "appFunctionStaticMetadata": document,
        "appFunctionRuntimeMetadata": {
            "functionId": name.function_identifier,
            "packageName": name.package_name,
            "enabled": enabled,
        },
    }


def result_document(value: types_pb2.Value) -> dict[str, Any]:
    """The response as JSON prints it: every property is an array, and Unit has none."""
    if value.WhichOneof("kind") in (None, "null_value"):
        return {}
    return {RETURN_VALUE: _arrays(from_value(value))}


def plain_result(value: types_pb2.Value) -> Any:
    """The response for people, without the arrays."""
    return _printable(from_value(value)) if value.WhichOneof("kind") else None


def _type_document(data_type: pb.DataTypeMetadata) -> dict[str, Any]:
    document: dict[str, Any] = {"type": int(data_type.type), "isNullable": data_type.is_nullable}
    if data_type.description:
        document["description"] = data_type.description
    if data_type.HasField("item_type"):
        document["itemType"] = _type_document(data_type.item_type)
    if data_type.properties:
        document["properties"] = [
            {"name": item.name, "dataTypeMetadata": _type_document(item.data_type)}
            for item in data_type.properties
        ]
        document["required"] = list(data_type.required)
    if data_type.object_qualified_name:
        document["objectQualifiedName"] = data_type.object_qualified_name
    if data_type.enum_values:
        document["enumValues"] = list(data_type.enum_values)
    if data_type.format:
        document["format"] = data_type.format
    return document


def _arrays(value: Any) -> list[Any]:
    items = value if isinstance(value, list) else [value]
    return [_document(item) for item in items if item is not None]


def _document(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _arrays(item) for name, item in value.items()}
    return _printable(value)


def _printable(value: Any) -> Any:
    """JSON and YAML of the shell show bytes in Base64."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [_printable(item) for item in value]
        case dict():
            return {name: _printable(item) for name, item in value.items()}
        case _:
            return value
