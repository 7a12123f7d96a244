"""Reads `app_functions.xml` and `app_functions_v2.xml` as an app's build makes them.

Element names are the fields of AppSearch's documents: those of `AppFunctionStaticMetadata` in each
`<appfunction>`, and shared types once in an `<AppFunctionComponentMetadataDocument>`. Repeated
fields are repeated elements. The older file has fewer fields and writes them with underscores.
Only functions that the app registers at run time have a `<scope>`.
https://github.com/androidx/androidx/tree/androidx-main/appfunctions/appfunctions-compiler
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from aicore_protos import appfunctions_pb2 as pb
from appfunctions_host.annotations import AppFunctionMetadata
from appfunctions_host.limits import MAX_METADATA_BYTES, metadata_problem
from appfunctions_host.metadata_files.safe_xml import Element, XmlError, parse
from appfunctions_host.patterns import PatternError, PatternMatcher, PatternType
from appfunctions_host.registry import RUNTIME_SERVICE

LEVELS: Mapping[str, int] = {
    "self": AppFunctionMetadata.ACCESS_LEVEL_SELF,
    "system": AppFunctionMetadata.ACCESS_LEVEL_SYSTEM,
    "androidTrusted": AppFunctionMetadata.ACCESS_LEVEL_ANDROID_TRUSTED,
}
SCOPES: Mapping[str, int] = {
    "global": AppFunctionMetadata.SCOPE_GLOBAL,
    "activity": AppFunctionMetadata.SCOPE_ACTIVITY,
}
PLACEHOLDER = "unused"
"""What the compiler writes into fields that AppSearch demands and nobody reads."""

_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, kw_only=True)
class ReadFunctions:
    """What a file declares, and what of it was left out, one sentence each."""

    functions: tuple[pb.AppFunctionMetadata, ...]
    problems: tuple[str, ...]


class _Skip(Exception):
    """One function cannot be used; the rest can."""


def read_functions(data: bytes, package_name: str) -> ReadFunctions:
    """The functions of a file of the package.

    A function that is wrong is left out, as Android's indexer does; a wrong pattern in the shared
    types takes all functions with it. Raises XmlError for a file that is none.
    """
    return _functions(parse(data), package_name)


def read_app_metadata(data: bytes) -> str | None:
    """The description of `<AppFunctionAppMetadata>`, or None when the file is another one.

    Raises XmlError.
    https://developer.android.com/reference/kotlin/androidx/appfunctions/metadata/AppFunctionAppMetadata
    """
    root = parse(data)
    if root.name != "appfunctionappmetadata":
        return None
    return root.attributes.get("description") or root.value("description") or ""


_KNOWN = frozenset(
    [
        "appfunctions",
        "appfunction",
        "appfunctioncomponentmetadatadocument",
        "id",
        "functionid",
        "packagename",
        "enabledbydefault",
        "schemaname",
        "schemacategory",
        "schemaversion",
        "description",
        "displaynamestringres",
        "restrictcallerswithexecuteappfunctions",
        "mobileapplicationqualifiedid",
        "instruction",
        "parameters",
        "response",
        "deprecation",
        "message",
        "accesslevel",
        "iscompatenforcementenabled",
        "scope",
        "servicename",
        "name",
        "isrequired",
        "datatypemetadata",
        "valuetype",
        "isnullable",
        "type",
        "itemtype",
        "properties",
        "allof",
        "oneof",
        "required",
        "datatypereference",
        "objectqualifiedname",
        "enumvalues",
        "patterns",
        "value",
        "format",
        "datatypes",
    ]
)
"""Folded names of the elements that Android's schema of these files has."""


def _unknown(root: Element) -> Iterator[str]:
    """One sentence for each name that is read by nobody, where it stands first."""
    told: set[str] = set()
    pending = [root]
    while pending:
        element = pending.pop()
        if element.name not in _KNOWN and element.name not in told:
            told.add(element.name)
            yield f"line {element.line}: the element <{element.name}> is unknown, and is not read"
        pending.extend(reversed(element.children))


def _functions(root: Element, package_name: str) -> ReadFunctions:
    listed = root if root.name == "appfunctions" else root.first("appfunctions")
    if listed is None:
        raise XmlError(f"line {root.line}: the root is <{root.name}>, expected <appfunctions>")
    try:
        components = dict(_components(listed))
    except _Skip as problem:
        text = f"no function of {package_name} is used: a shared type is wrong: {problem}"
        return ReadFunctions(functions=(), problems=(text,))
    found: dict[str, pb.AppFunctionMetadata] = {}
    problems = list(_unknown(listed))
    for element in listed.all("appfunction"):
        identifier = _identifier(element, package_name)
        try:
            if not identifier:
                raise _Skip("it has no functionId")
            if identifier in found:
                raise _Skip("another function has the same id")
            found[identifier] = _function(element, package_name, identifier, components)
        except _Skip as problem:
            name = repr(identifier[:80]) if identifier else "a function"
            problems.append(f"line {element.line}: {name} is left out: {problem}")
    return ReadFunctions(functions=tuple(found.values()), problems=tuple(problems))


def _identifier(element: Element, package_name: str) -> str:
    for name in ("functionid", "id"):
        found = element.value(name)
        if found and found != PLACEHOLDER:
            return found.removeprefix(f"{package_name}/")
    return ""


def _function(
    element: Element,
    package_name: str,
    identifier: str,
    components: Mapping[str, pb.DataTypeMetadata],
) -> pb.AppFunctionMetadata:
    owner = element.value("packagename")
    if owner not in (None, "", PLACEHOLDER, package_name):
        raise _Skip(f"it is of the package {owner!r}")
    deprecation = element.first("deprecation")
    made = pb.AppFunctionMetadata(
        name=pb.AppFunctionName(package_name=package_name, function_identifier=identifier),
        description=element.value("description") or "",
        deprecation_message=(deprecation.value("message") or "") if deprecation else "",
        access_level=_of(element, "accesslevel", LEVELS, "androidTrusted"),
        scope=pb.Scope.Name(_of(element, "scope", SCOPES, "global")),
        is_compat_enforcement_enabled=_boolean(element, "iscompatenforcementenabled", True),
        is_enabled_by_default=_boolean(element, "enabledbydefault", True),
        service_name=element.value("servicename")
        or ("" if element.first("scope") is None else RUNTIME_SERVICE),
        instruction=element.value("instruction") or "",
    )
    schema = element.value("schemaname")
    if schema and schema != PLACEHOLDER:
        made.schema.name = schema
        made.schema.category = element.value("schemacategory") or ""
        made.schema.version = _integer(element, "schemaversion", 1)
    for parameter in element.all("parameters"):
        made.parameters.append(_parameter(parameter))
    response = element.first("response")
    if response is not None:
        value_type = response.first("valuetype")
        if value_type is not None:
            made.response.value_type.CopyFrom(_data_type(_inner(value_type)))
            made.response.value_type.is_nullable |= _boolean(response, "isnullable", False)
        made.response.description = response.value("description") or ""
    _add_components(made, components)
    if (problem := metadata_problem(made)) is not None:
        raise _Skip(f"it {problem}")
    return made


def _parameter(element: Element) -> pb.ParameterMetadata:
    name = element.value("name")
    data_type = element.first("datatypemetadata")
    if not name or data_type is None:
        raise _Skip("a parameter has no name or no dataTypeMetadata")
    return pb.ParameterMetadata(
        name=name,
        is_required=_boolean(element, "isrequired", True),
        data_type=_data_type(data_type),
        description=element.value("description") or "",
    )


def _components(listed: Element) -> Iterator[tuple[str, pb.DataTypeMetadata]]:
    for document in listed.all("appfunctioncomponentmetadatadocument"):
        for entry in document.all("datatypes"):
            name = entry.value("name")
            data_type = entry.first("datatypemetadata")
            if name and data_type is not None:
                yield name, _data_type(data_type)


def _data_type(element: Element) -> pb.DataTypeMetadata:
    made = pb.DataTypeMetadata(
        is_nullable=_boolean(element, "isnullable", False),
        description=element.value("description") or "",
        object_qualified_name=element.value("objectqualifiedname") or "",
        data_type_reference=element.value("datatypereference") or "",
        format=element.value("format") or "",
        required=[child.text.strip() for child in element.all("required")],
        enum_values=[child.text.strip() for child in element.all("enumvalues")],
        all_of=[_data_type(_inner(child)) for child in element.all("allof")],
        one_of=[_data_type(_inner(child)) for child in element.all("oneof")],
    )
    item = element.first("itemtype")
    if item is not None:
        made.item_type.CopyFrom(_data_type(_inner(item)))
    for entry in element.all("properties"):
        name, inner = entry.value("name"), entry.first("datatypemetadata")
        if not name or inner is None:
            raise _Skip("a property has no name or no dataTypeMetadata")
        made.properties.add(name=name, data_type=_data_type(inner))
    for pattern in element.all("patterns"):
        made.patterns.append(_pattern(pattern))
    made.type = _kind(element, made)
    return made


def _kind(element: Element, made: pb.DataTypeMetadata) -> pb.DataType:
    if element.first("type") is None:
        if made.data_type_reference:
            return pb.TYPE_REFERENCE
        if made.one_of:
            return pb.TYPE_ONE_OF
        if made.all_of:
            return pb.TYPE_ALL_OF
        if made.properties or made.object_qualified_name:
            return pb.TYPE_OBJECT
        raise _Skip(f"a data type at line {element.line} has no type")
    number = _integer(element, "type", 0)
    for known in pb.DataType.values():
        if known == number:
            return cast("pb.DataType", known)
    raise _Skip(f"the data type {number} at line {element.line} is unknown")


def _pattern(element: Element) -> pb.DataTypeMetadata.StringPattern:
    value, number = element.value("value") or "", _integer(element, "type", 0)
    try:
        PatternMatcher(value, PatternType(number))
    except PatternError as error:
        raise _Skip(f"the pattern at line {element.line} is wrong: {error}") from None
    except ValueError:
        raise _Skip(f"the pattern type {number} at line {element.line} is unknown") from None
    return pb.DataTypeMetadata.StringPattern(value=value, type=number)


def _inner(element: Element) -> Element:
    """The fields of a nested type stand in it, or in a `<dataTypeMetadata>` in it."""
    return element.first("datatypemetadata") or element


def _add_components(
    made: pb.AppFunctionMetadata, components: Mapping[str, pb.DataTypeMetadata]
) -> None:
    """Those that the function refers to, directly or through others."""
    types = [parameter.data_type for parameter in made.parameters]
    types.append(made.response.value_type)
    size = 0
    while types:
        one = types.pop()
        types.extend((*one.all_of, *one.one_of, *(part.data_type for part in one.properties)))
        if one.HasField("item_type"):
            types.append(one.item_type)
        name = one.data_type_reference
        if name and name not in made.components:
            if name not in components:
                raise _Skip(f"it refers to the type {name!r}, which the file does not have")
            size += components[name].ByteSize()
            if size > MAX_METADATA_BYTES:
                raise _Skip(f"the types it refers to have over {MAX_METADATA_BYTES} bytes")
            made.components[name].CopyFrom(components[name])
            types.append(components[name])


def _of(element: Element, name: str, known: Mapping[str, int], default: str) -> int:
    text = element.value(name) or default
    if text not in known:
        raise _Skip(f"its {name} {text!r} is none of {', '.join(known)}")
    return known[text]


def _boolean(element: Element, name: str, default: bool) -> bool:
    text = element.value(name)
    if not text:
        return default
    if text.lower() not in _BOOLEANS:
        raise _Skip(f"its {name} is {text!r}, neither true nor false")
    return _BOOLEANS[text.lower()]


def _integer(element: Element, name: str, default: int) -> int:
    text = element.value(name)
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise _Skip(f"its {name} is {text!r}, no integer") from None
