"""Python type hints as the data types of `androidx.appfunctions.metadata`.

Supported: `int` (Kotlin Int), `Annotated[int, Long]`, `float` (Double), `Annotated[float, Float]`,
`bool`, `str`, `bytes`, lists of `int`, `float`, `bool` and `str`; dates, times, time zones and
`Uri` (see `proxies`); dataclasses, generic ones too, and pydantic models annotated with
`app_function_serializable`; unions of them and abstract classes above them (one-of); lists of all
these, each also `| None`; and `None` as a result (Unit).
Constraints stand in `Annotated` (see `constraints`). Everything else is refused when the function
is registered.

Source: https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionDeclaration
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

from aicore_protos import appfunctions_pb2 as pb
from appfunctions_host.annotations import Float, Long, serializable_of
from appfunctions_host.constraints import (
    FORMAT_URI,
    AppFunctionIntValueConstraint,
    AppFunctionStringValueConstraint,
    AppFunctionUriValueConstraint,
    Constraint,
)
from appfunctions_host.descriptions import describe_fields
from appfunctions_host.limits import MAX_DEPTH
from appfunctions_host.patterns import PatternType
from appfunctions_host.proxies import INSTANT, PROXIES, URI, Instant, Proxy

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
        pb.TYPE_ONE_OF,
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
    type_arguments: tuple[DataType, ...] = ()
    """Of an OBJECT whose class is generic."""
    properties: tuple[Property, ...] = ()
    description: str = ""
    proxy: Proxy | None = None
    """Of an OBJECT that stands for a type of the standard library."""
    choices: tuple[DataType, ...] = ()
    """Of a ONE_OF, in the order in which they are tried."""
    constraint: Constraint | None = None

    @property
    def kotlin_name(self) -> str:
        """How messages name the type."""
        if self.kind == pb.TYPE_ARRAY and self.item is not None:
            name = f"List<{self.item.kotlin_name}>"
        elif self.proxy is not None:
            name = self.proxy.kotlin_name
        elif self.choices:
            name = " or ".join(choice.kotlin_name for choice in self.choices)
        elif self.object_class is not None:
            name = self.object_class.__name__
            if self.type_arguments:
                name += f"<{', '.join(one.kotlin_name for one in self.type_arguments)}>"
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
            one_of=[choice.to_proto() for choice in self.choices],
        )
        match self.constraint:
            case AppFunctionIntValueConstraint(enum_values=values):
                made.enum_values.extend(map(str, values))
            case AppFunctionStringValueConstraint() as constraint:
                made.enum_values.extend(constraint.enum_values)
                made.format = constraint.format
                for matcher in constraint.pattern_matchers:
                    made.patterns.add(value=matcher.pattern, type=int(matcher.type))
            case AppFunctionUriValueConstraint(allowed_schemes=schemes):
                uri = made.properties[0].data_type if made.properties else made
                for scheme in schemes:
                    uri.patterns.add(value=f"{scheme}:", type=int(PatternType.PREFIX))
        for item in self.properties:
            made.properties.append(
                pb.DataTypeMetadata.Property(
                    name=item.name, data_type=item.data_type.to_proto(item.description)
                )
            )
        if self.item is not None:
            made.item_type.CopyFrom(self.item.to_proto())
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
    classes: tuple[object, ...] = ()
    """The serializable classes around it, outermost first."""

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
        if hint in PROXIES:
            return _proxied(PROXIES[hint])
        if serializable_of(hint) is not None:
            return _sealed(hint, place) if _is_sealed(hint) else _object(hint, hint, place)
    if isinstance(origin, type) and serializable_of(origin) is not None:
        return _object(hint, origin, place)
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
    markers = tuple(item for item in extras if item in (Long, Float, Instant))
    constraints = [item for item in extras if isinstance(item, Constraint)]
    if get_origin(base) in (Union, types.UnionType):
        return _constrained(_union(base, markers, place), constraints, place)
    if not markers:
        return _constrained(data_type(base, place), constraints, place)
    if len(markers) == 1 and (base, markers[0]) == (INSTANT.python_type, Instant):
        return _proxied(INSTANT)
    if (base, markers[0]) not in _MARKED or len(markers) > 1:
        raise place.refuse(
            f"{_name(hint)} is not supported; use Annotated[int, Long], Annotated[float, Float] or "
            "Annotated[datetime, Instant]"
        )
    return _constrained(DataType(kind=_MARKED[base, markers[0]]), constraints, place)


def _constrained(found: DataType, constraints: list[Constraint], place: Place) -> DataType:
    """The type with its constraint, which is for the items of a list."""
    if not constraints:
        return found
    if len(constraints) > 1:
        raise place.refuse("has several constraints; give one")
    if found.kind == pb.TYPE_ARRAY and found.item is not None:
        item = _constrained(found.item, constraints, place)
        return dataclasses.replace(found, item=item)
    constraint = constraints[0]
    fits = {
        AppFunctionStringValueConstraint: found.kind == pb.TYPE_STRING,
        AppFunctionIntValueConstraint: found.kind == pb.TYPE_INT,
        AppFunctionUriValueConstraint: found.proxy is URI,
    }[type(constraint)]
    if not fits:
        raise place.refuse(
            f"{type(constraint).__name__} is not for {found.kotlin_name}; "
            "it stands at a str, an int or a Uri"
        )
    return dataclasses.replace(found, constraint=constraint)


def _proxied(proxy: Proxy) -> DataType:
    return DataType(
        kind=pb.TYPE_OBJECT,
        proxy=proxy,
        qualified_name=proxy.qualified_name,
        properties=tuple(
            Property(
                name=name,
                data_type=DataType(
                    kind=kind,
                    constraint=AppFunctionStringValueConstraint(format=FORMAT_URI)
                    if proxy is URI
                    else None,
                ),
                is_required=True,
            )
            for name, kind in proxy.properties
        ),
    )


def _union(hint: object, markers: tuple[object, ...], place: Place) -> DataType:
    members = [member for member in get_args(hint) if member is not types.NoneType]
    nullable = len(members) < len(get_args(hint))
    if len(members) == 1 and nullable:
        inner: Any = members[0]
        for marker in markers:
            inner = Annotated[inner, marker]
        return dataclasses.replace(data_type(inner, place), is_nullable=True)
    if markers or not all(serializable_of(member) is not None for member in members):
        raise place.refuse(
            f"{_name(hint)} is not supported; only `T | None` is, and unions of classes annotated "
            "with @app_function_serializable"
        )
    names = "Or".join(class_path(member) for member in members)
    return DataType(
        kind=pb.TYPE_ONE_OF,
        is_nullable=nullable,
        qualified_name=f"{place.package}.{names}",
        choices=tuple(
            choice
            for found in (data_type(member, place) for member in members)
            for choice in found.choices or (found,)
        ),
    )


def _list(hint: object, place: Place) -> DataType:
    item = data_type(get_args(hint)[0], place)
    if item.is_nullable or item.kind not in _ITEMS:
        raise place.refuse(
            f"{_name(hint)} is not supported; lists hold int, float, bool, str, dates, times, Uri "
            "or serializable classes, and no None"
        )
    return DataType(kind=pb.TYPE_ARRAY, item=item)


def _is_sealed(cls: type[Any]) -> bool:
    """Python has no sealed classes: an abstract one is read as such (ours)."""
    return abc.ABC in cls.__bases__ or inspect.isabstract(cls)


def _sealed(base: type[Any], place: Place) -> DataType:
    """A one-of of the classes below `base` that are known when the service is defined."""
    # By name: a dataclass with slots is a second class beside one that stays unused, and a module
    # that was loaded again has left its old classes.
    known: dict[tuple[str, str], type[Any]] = {}
    for one in _below(base):
        key = one.__module__, one.__qualname__
        if serializable_of(one) is not None or key not in known:
            known[key] = one
    choices = [one for one in known.values() if not _is_sealed(one)]
    for one in choices:
        if serializable_of(one) is None:
            raise place.refuse(
                f"{one.__name__} derives from {base.__name__} but is not annotated with "
                "@app_function_serializable"
            )
    if not choices:
        raise place.refuse(
            f"{base.__name__} is abstract, and no class annotated with "
            "@app_function_serializable derives from it"
        )
    return DataType(
        kind=pb.TYPE_ONE_OF,
        qualified_name=f"{place.package}.{class_path(base)}",
        choices=tuple(data_type(one, place) for one in choices),
    )


def _below(base: type[Any]) -> Iterator[type[Any]]:
    for one in base.__subclasses__():
        yield one
        yield from _below(one)


def _object(hint: object, cls: type[Any], place: Place) -> DataType:
    """`hint` is `cls`, or `cls` with type arguments."""
    if hint in place.classes:
        raise place.refuse(f"{_name(hint)} contains itself, which is not supported")
    if len(place.classes) >= MAX_DEPTH:
        raise place.refuse(f"{_name(hint)} nests deeper than {MAX_DEPTH} levels")
    arguments = get_args(hint)
    given = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
    inner = dataclasses.replace(place, classes=(*place.classes, hint))
    hints = type_hints(cls, inner.at(cls.__name__))
    marker = serializable_of(cls)
    described = marker is not None and marker.is_described_by_kdoc
    description, texts = describe_fields(cls) if described else ("", {})
    properties = [
        make_property(
            name,
            _substituted(hints[name], given),
            default=default,
            description=texts.get(name, "") or own_text,
            place=inner.at(f"property {name!r} of {cls.__name__}"),
        )
        for name, default, own_text in _fields(cls, inner)
    ]
    found = DataType(
        kind=pb.TYPE_OBJECT,
        object_class=cls,
        type_arguments=tuple(data_type(one, inner.at(_name(hint))) for one in arguments),
        properties=tuple(properties),
        description=description,
    )
    arguments_text = found.kotlin_name.removeprefix(cls.__name__)
    return dataclasses.replace(
        found, qualified_name=f"{place.package}.{class_path(cls)}{arguments_text}"
    )


def _substituted(hint: Any, given: Mapping[object, Any]) -> Any:
    """The hint of a property of a generic class, with the class's type arguments."""
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if isinstance(hint, type) or not parameters:
        return hint
    return hint[tuple(given.get(one, one) for one in parameters)]


def _fields(cls: type[Any], place: Place) -> Iterator[tuple[str, object, str]]:
    """Name, default (or `inspect.Parameter.empty`) and description of each field."""
    if issubclass(cls, BaseModel):
        for name, info in cls.model_fields.items():
            if info.alias is not None:
                raise place.at(f"property {name!r} of {cls.__name__}").refuse(
                    f"has the alias {info.alias!r}, which is not supported"
                )
            default = inspect.Parameter.empty if info.is_required() else info.default
            yield name, default, info.description or ""
        return
    for field in dataclasses.fields(cls):
        if not field.init:
            raise place.at(f"property {field.name!r} of {cls.__name__}").refuse(
                "a field with init=False cannot be read from a call"
            )
        has_default = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        yield field.name, field.default if has_default else inspect.Parameter.empty, ""


def class_path(cls: type[Any]) -> str:
    """The class's name with its enclosing classes, without functions around it."""
    return cls.__qualname__.rpartition("<locals>.")[2]


def _advice(hint: object, origin: object) -> str:
    key: Any = origin or hint
    if isinstance(hint, TypeVar):
        return "give the generic class its type arguments, for example Page[str]"
    if isinstance(hint, type) and issubclass(hint, BaseModel) and "[" in hint.__name__:
        return "a generic pydantic model is none; use a generic dataclass"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return "use str or int with an AppFunctionStringValueConstraint or …IntValueConstraint"
    if isinstance(key, type) and key not in _HINTS and key.__module__ != "builtins":
        return "annotate the class with @app_function_serializable"
    return _HINTS.get(key, "use a primitive, a list, or a serializable class")


def _name(hint: object) -> str:
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__
    return str(hint).replace("typing.", "")
