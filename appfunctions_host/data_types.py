"""Python type hints as the data types of `androidx.appfunctions.metadata`.

Supported: `int` (Kotlin Int), `Annotated[int, Long]`, `float` (Double), `Annotated[float, Float]`,
`bool`, `str`, `bytes`, lists of `int`, `float`, `bool` and `str`, classes annotated with
`app_function_serializable` and lists of them, each also `| None`; and `None` as a result (Unit).
Everything else is refused when the function is registered.

Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionDeclaration
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from aicore_protos import appfunctions_pb2 as pb
from appfunctions_host.annotations import Float, Long, serializable_of
from appfunctions_host.descriptions import describe_fields

_SCALARS: Mapping[object, pb.DataType] = {
    int: pb.TYPE_INT,
    float: pb.TYPE_DOUBLE,
    bool: pb.TYPE_BOOLEAN,
    str: pb.TYPE_STRING,
    bytes: pb.TYPE_BYTES,
}
_MARKED = {(int, Long): pb.TYPE_LONG, (float, Float): pb.TYPE_FLOAT}
_ITEMS = frozenset(
    {
        pb.TYPE_INT,
        pb.TYPE_LONG,
        pb.TYPE_FLOAT,
        pb.TYPE_DOUBLE,
        pb.TYPE_BOOLEAN,
        pb.TYPE_STRING,
        pb.TYPE_OBJECT,
    }
)
# Kotlin's default expressions are not transported, so only types with a zero value can be left
# out: https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionDeclaration
_OPTIONAL = frozenset(
    {
        pb.TYPE_INT,
        pb.TYPE_LONG,
        pb.TYPE_FLOAT,
        pb.TYPE_DOUBLE,
        pb.TYPE_BOOLEAN,
        pb.TYPE_ARRAY,
    }
)
_HINTS = {
    dict: "use a class annotated with @app_function_serializable",
    set: "use list[str] or another list",
    frozenset: "use list[str] or another list",
    tuple: "use a list, or a class annotated with @app_function_serializable",
    list: "say of what, for example list[str]",
    Any: "name the type",
    object: "name the type",
    types.NoneType: "None is a type of results only",
}
_KOTLIN = {
    pb.TYPE_UNIT: "Unit",
    pb.TYPE_BOOLEAN: "Boolean",
    pb.TYPE_BYTES: "ByteArray",
    pb.TYPE_DOUBLE: "Double",
    pb.TYPE_FLOAT: "Float",
    pb.TYPE_LONG: "Long",
    pb.TYPE_INT: "Int",
    pb.TYPE_STRING: "String",
}


class DefinitionError(TypeError):
    """A declared function that Android's compiler would refuse, with the place and the reason."""


@dataclass(frozen=True, kw_only=True)
class DataType:
    """One data type with what is needed to read and write its Python values."""

    kind: pb.DataType
    is_nullable: bool = False
    item: DataType | None = None
    object_class: type[Any] | None = None
    qualified_name: str = ""
    properties: tuple[Property, ...] = ()
    description: str = ""

    @property
    def kotlin_name(self) -> str:
        """How messages name the type."""
        if self.kind == pb.TYPE_ARRAY and self.item is not None:
            name = f"List<{self.item.kotlin_name}>"
        elif self.object_class is not None:
            name = self.object_class.__name__
        else:
            name = _KOTLIN[self.kind]
        return f"{name}?" if self.is_nullable else name

    def zero_value(self) -> object:
        """What stands for a left-out optional value."""
        if self.is_nullable:
            return None
        return {
            pb.TYPE_ARRAY: [],
            pb.TYPE_BOOLEAN: False,
            pb.TYPE_DOUBLE: 0.0,
            pb.TYPE_FLOAT: 0.0,
        }.get(self.kind, 0)

    def to_proto(self, description: str = "") -> pb.DataTypeMetadata:
        made = pb.DataTypeMetadata(
            type=self.kind,
            is_nullable=self.is_nullable,
            description=description or self.description,
            object_qualified_name=self.qualified_name,
            required=[item.name for item in self.properties if item.is_required],
        )
        if self.item is not None:
            made.item_type.CopyFrom(self.item.to_proto())
        for item in self.properties:
            made.properties.append(
                pb.DataTypeMetadata.Property(
                    name=item.name, data_type=item.data_type.to_proto(item.description)
                )
            )
        return made


@dataclass(frozen=True, kw_only=True)
class Property:
    """A parameter of a function, or a property of a serializable class."""

    name: str
    data_type: DataType
    is_required: bool
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a hint stands, for messages, and the app it belongs to."""

    package: str
    where: str
    classes: tuple[type[Any], ...] = ()

    def at(self, name: str) -> Place:
        return dataclasses.replace(self, where=f"{self.where}, {name}")

    def refuse(self, reason: str) -> DefinitionError:
        return DefinitionError(f"{self.where}: {reason}")


def result_type(hint: object, place: Place) -> DataType:
    """The type of a declared result, where `None` is Unit. Raises DefinitionError."""
    if hint is None or hint is types.NoneType:
        return DataType(kind=pb.TYPE_UNIT)
    return data_type(hint, place)


def data_type(hint: object, place: Place) -> DataType:
    """The data type that `hint` declares. Raises DefinitionError."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _annotated(hint, place)
    if origin is Union or origin is types.UnionType:
        return _union(hint, (), place)
    if origin is list:
        return _list(hint, place)
    if isinstance(hint, type) and origin is None:
        if hint in _SCALARS:
            return DataType(kind=_SCALARS[hint])
        if serializable_of(hint) is not None:
            return _object(hint, place)
    raise place.refuse(f"{_name(hint)} is not supported; {_advice(hint, origin)}")


def make_property(
    name: str, hint: object, *, default: object, description: str, place: Place
) -> Property:
    """A parameter or property; `default` is `inspect.Parameter.empty` when it has none."""
    found = data_type(hint, place)
    required = default is inspect.Parameter.empty
    if not required and not (found.is_nullable or found.kind in _OPTIONAL):
        raise place.refuse(
            f"type {found.kotlin_name} cannot be optional, because AppFunctions do not transport "
            f"default values; remove the default or declare {_name(hint)} | None"
        )
    return Property(name=name, data_type=found, is_required=required, description=description)


def type_hints(target: object, place: Place) -> dict[str, Any]:
    """The resolved hints of a function or class. Raises DefinitionError for one unknown."""
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise place.refuse(
            f"a type hint cannot be resolved ({error}); define the types at module level"
        ) from error


def _annotated(hint: object, place: Place) -> DataType:
    base, *extras = get_args(hint)
    markers = tuple(item for item in extras if item is Long or item is Float)
    if get_origin(base) in (Union, types.UnionType):
        return _union(base, markers, place)
    if not markers:
        return data_type(base, place)
    if (base, markers[0]) not in _MARKED or len(markers) > 1:
        raise place.refuse(
            f"{_name(hint)} is not supported; use Annotated[int, Long] or Annotated[float, Float]"
        )
    return DataType(kind=_MARKED[base, markers[0]])


def _union(hint: object, markers: tuple[object, ...], place: Place) -> DataType:
    members = [member for member in get_args(hint) if member is not types.NoneType]
    if len(members) != 1 or len(get_args(hint)) == 1:
        raise place.refuse(f"{_name(hint)} is not supported; only `T | None` is")
    inner: Any = members[0]
    for marker in markers:
        inner = Annotated[inner, marker]
    return dataclasses.replace(data_type(inner, place), is_nullable=True)


def _list(hint: object, place: Place) -> DataType:
    item = data_type(get_args(hint)[0], place)
    if item.is_nullable or item.kind not in _ITEMS:
        raise place.refuse(
            f"{_name(hint)} is not supported; lists hold int, float, bool, str or serializable "
            "classes, and no None"
        )
    return DataType(kind=pb.TYPE_ARRAY, item=item)


def _object(cls: type[Any], place: Place) -> DataType:
    if cls in place.classes:
        raise place.refuse(f"{cls.__name__} contains itself, which is not supported")
    inner = dataclasses.replace(place, classes=(*place.classes, cls))
    hints = type_hints(cls, inner.at(cls.__name__))
    marker = serializable_of(cls)
    described = marker is not None and marker.is_described_by_kdoc
    description, texts = describe_fields(cls) if described else ("", {})
    properties = []
    for field in dataclasses.fields(cls):
        where = inner.at(f"property {field.name!r} of {cls.__name__}")
        if not field.init:
            raise where.refuse("a field with init=False cannot be read from a call")
        has_default = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        properties.append(
            make_property(
                field.name,
                hints[field.name],
                default=field.default if has_default else inspect.Parameter.empty,
                description=texts.get(field.name, ""),
                place=where,
            )
        )
    return DataType(
        kind=pb.TYPE_OBJECT,
        object_class=cls,
        qualified_name=f"{place.package}.{class_path(cls)}",
        properties=tuple(properties),
        description=description,
    )


def class_path(cls: type[Any]) -> str:
    """The class's name with its enclosing classes, without functions around it."""
    return cls.__qualname__.rpartition("<locals>.")[2]


def _advice(hint: object, origin: object) -> str:
    key: Any = origin or hint
    if isinstance(key, type) and key not in _HINTS and key.__module__ != "builtins":
        return "annotate the class with @app_function_serializable"
    return _HINTS.get(key, "use a primitive, a list, or a serializable class")


def _name(hint: object) -> str:
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__
    return str(hint).replace("typing.", "")
