"""Writes the XML that `reader` reads, as an app's build does."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from aicore_protos import appfunctions_pb2 as pb
from appfunctions_host.metadata_files.reader import LEVELS, PLACEHOLDER, SCOPES
from appfunctions_host.registry import RUNTIME_SERVICE, service_of

_LEVEL_NAMES = {level: name for name, level in LEVELS.items()}
_SCOPE_NAMES = {scope: name for name, scope in SCOPES.items()}


def write_v2(functions: Iterable[pb.AppFunctionMetadata]) -> bytes:
    """`app_functions_v2.xml`: all that an app's build says of them. Shared types stand once."""
    root = ElementTree.Element("appfunctions")
    components: dict[str, pb.DataTypeMetadata] = {}
    services = set()
    for metadata in functions:
        _function(ElementTree.SubElement(root, "appfunction"), metadata)
        components.update(metadata.components)
        services.add(service_of(metadata))
    document = ElementTree.SubElement(root, "AppFunctionComponentMetadataDocument")
    for name in sorted(components):
        entry = _document(document, "dataTypes")
        _data_type(entry, "dataTypeMetadata", components[name])
        _text(entry, "name", name)
    # The class of the service, so that several services of an app each keep theirs.
    _text(document, "id", services.pop() if len(services) == 1 else PLACEHOLDER)
    return _file(root)


def write_v1(functions: Iterable[pb.AppFunctionMetadata]) -> bytes:
    """`app_functions.xml`, for devices that read no parameters."""
    root = ElementTree.Element("appfunctions")
    for metadata in functions:
        made = ElementTree.SubElement(root, "appfunction")
        _text(made, "function_id", metadata.name.function_identifier)
        _text(made, "enabled_by_default", _bool(metadata.is_enabled_by_default))
        if metadata.HasField("schema"):
            _text(made, "schema_name", metadata.schema.name)
            _text(made, "schema_version", str(metadata.schema.version))
            _text(made, "schema_category", metadata.schema.category)
    return _file(root)


def _function(made: ElementTree.Element, metadata: pb.AppFunctionMetadata) -> None:
    identifier = metadata.name.function_identifier
    _text(made, "id", identifier)
    _text(made, "enabledByDefault", _bool(metadata.is_enabled_by_default))
    if metadata.service_name == RUNTIME_SERVICE:
        _text(made, "scope", _SCOPE_NAMES[int(metadata.scope)])
    elif metadata.service_name != identifier.rpartition("#")[0]:
        _text(made, "serviceName", metadata.service_name)
    if metadata.HasField("schema"):
        _text(made, "schemaName", metadata.schema.name)
        _text(made, "schemaVersion", str(metadata.schema.version))
        _text(made, "schemaCategory", metadata.schema.category)
    _text(made, "description", metadata.description)
    _text(made, "instruction", metadata.instruction)
    for parameter in metadata.parameters:
        entry = _document(made, "parameters")
        _data_type(entry, "dataTypeMetadata", parameter.data_type)
        _text(entry, "isRequired", _bool(parameter.is_required))
        _text(entry, "name", parameter.name)
        _text(entry, "description", parameter.description)
    if metadata.HasField("response"):
        response = _document(made, "response")
        _data_type(response, "valueType", metadata.response.value_type)
        _text(response, "description", metadata.response.description)
    if metadata.deprecation_message:
        _text(_document(made, "deprecation"), "message", metadata.deprecation_message)
    _text(made, "accessLevel", _LEVEL_NAMES[metadata.access_level])
    _text(made, "isCompatEnforcementEnabled", _bool(metadata.is_compat_enforcement_enabled))
    _text(made, "functionId", identifier)


def _data_type(parent: ElementTree.Element, tag: str, data: pb.DataTypeMetadata) -> None:
    made = _document(parent, tag)
    for one in data.all_of:
        _data_type(made, "allOf", one)
    for one in data.one_of:
        _data_type(made, "oneOf", one)
    _text(made, "dataTypeReference", data.data_type_reference)
    _text(made, "isNullable", _bool(data.is_nullable))
    _text(made, "objectQualifiedName", data.object_qualified_name)
    _text(made, "description", data.description)
    _text(made, "format", data.format)
    if data.HasField("item_type"):
        _data_type(made, "itemType", data.item_type)
    for part in data.properties:
        entry = _document(made, "properties")
        _data_type(entry, "dataTypeMetadata", part.data_type)
        _text(entry, "name", part.name)
    for name in data.required:
        _text(made, "required", name)
    for value in data.enum_values:
        ElementTree.SubElement(made, "enumValues").text = value
    for pattern in data.patterns:
        entry = _document(made, "patterns")
        _text(entry, "value", pattern.value)
        _text(entry, "type", str(pattern.type))
    _text(made, "type", str(int(data.type)))


def _document(parent: ElementTree.Element, tag: str) -> ElementTree.Element:
    """AppSearch wants an id of every document."""
    made = ElementTree.SubElement(parent, tag)
    _text(made, "id", PLACEHOLDER)
    return made


def _text(parent: ElementTree.Element, tag: str, text: str) -> None:
    if text:
        ElementTree.SubElement(parent, tag).text = text


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _file(root: ElementTree.Element) -> bytes:
    ElementTree.indent(root)
    made: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return made + b"\n"
