"""Dataclasses as schemas, and JSON as their objects."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from aicore_client.schema import FunctionSchema, FunctionType

if TYPE_CHECKING:
    from aicore_client.structured import Guide

T = TypeVar("T")

_PLAIN = {
    str: FunctionType.STRING,
    int: FunctionType.INTEGER,
    float: FunctionType.NUMBER,
    bool: FunctionType.BOOLEAN,
}
_UNIONS = (Union, types.UnionType)


def generable_schema(cls: type[Any]) -> FunctionSchema:
    """The schema of a dataclass. Raises TypeError naming the field that has none."""
    return _class_schema(cls, "", ())


def instance_of(cls: type[T], value: object) -> T:
    """An object of the dataclass. Raises ValueError naming the field that does not fit."""
    made: T = _object(cls, value, cls.__name__)
    return made


def _class_schema(cls: type[Any], description: str, outer: tuple[type[Any], ...]) -> FunctionSchema:
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"{cls.__name__!r} is no dataclass, which @generable needs")
    if cls in outer:
        raise TypeError(f"{cls.__name__!r} holds itself, which no schema can say")
    try:
        hints = get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"a field of {cls.__name__!r} has a type that is not found: {error}; classes that name "
            "one another belong to a module, not to a function"
        ) from None
    properties: dict[str, FunctionSchema] = {}
    required: list[str] = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        where = f"{cls.__name__}.{field.name}"
        properties[field.name] = _schema(hints[field.name], where, (*outer, cls))
        if not _has_default(field):
            required.append(field.name)
    return FunctionSchema(
        type=FunctionType.OBJECT,
        description=description or getattr(cls, "__generable_description__", ""),
        properties=properties,
        required=tuple(required),
    )


def _schema(hint: Any, where: str, outer: tuple[type[Any], ...]) -> FunctionSchema:
    hint, guide = _unwrapped(hint)
    inner, nullable = _without_none(hint, where)
    described = guide.description if guide else ""
    if get_origin(inner) is list:
        [element] = get_args(inner)
        made = FunctionSchema(
            type=FunctionType.ARRAY,
            description=described,
            items=_schema(element, f"{where}[]", outer),
            min_items=guide.min_items if guide else None,
            max_items=guide.max_items if guide else None,
        )
    elif inner in _PLAIN:
        made = FunctionSchema(
            type=_PLAIN[inner],
            description=described,
            enum=guide.enum_values if guide else (),
            minimum=guide.minimum if guide else None,
            maximum=guide.maximum if guide else None,
        )
    elif hasattr(inner, "__generable_description__"):
        made = _class_schema(inner, described, outer)
    else:
        raise TypeError(
            f"{where} is {hint!r}; it may be str, int, float, bool, a @generable class, a list of "
            "these, or any of them or None"
        )
    return dataclasses.replace(made, nullable=nullable)


def _unwrapped(hint: Any) -> tuple[Any, Guide | None]:
    if get_origin(hint) is not Annotated:
        return hint, None
    inner, *notes = get_args(hint)
    return inner, next((note for note in notes if type(note).__name__ == "Guide"), None)


def _without_none(hint: Any, where: str) -> tuple[Any, bool]:
    if get_origin(hint) not in _UNIONS:
        return hint, False
    options = [option for option in get_args(hint) if option is not type(None)]
    if len(options) != 1:
        raise TypeError(f"{where} is {hint!r}; the only choice that a field may leave is None")
    return options[0], True


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return (
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )


def _object(cls: Any, value: object, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is {type(value).__name__}, no object")
    hints = get_type_hints(cls, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    unknown = sorted(value.keys() - fields.keys())
    if unknown:
        raise ValueError(f"{where} has the unknown field {unknown[0]!r}")
    missing = [
        name for name, field in fields.items() if name not in value and not _has_default(field)
    ]
    if missing:
        raise ValueError(f"{where} lacks the field {missing[0]!r}")
    return cls(
        **{name: _value(hints[name], item, f"{where}.{name}") for name, item in value.items()}
    )


def _value(hint: Any, value: object, where: str) -> Any:
    hint, _ = _unwrapped(hint)
    inner, nullable = _without_none(hint, where)
    if value is None and nullable:
        return None
    if get_origin(inner) is list:
        if not isinstance(value, list):
            raise ValueError(f"{where} is {type(value).__name__}, no list")
        [element] = get_args(inner)
        return [_value(element, item, f"{where}[{n}]") for n, item in enumerate(value)]
    if inner not in _PLAIN:
        return _object(inner, value, where)
    if inner is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, inner) or (isinstance(value, bool) and inner is not bool):
        raise ValueError(f"{where} is {value!r}, no {inner.__name__}")
    return value
