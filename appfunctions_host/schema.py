"""From a service class to the metadata of its functions."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from aicore_protos import appfunctions_pb2 as pb
from appfunctions_host.annotations import (
    AccessLevel,
    AppFunctionMetadata,
    AppFunctionService,
    access_level_of,
    declaration_of,
    entry_point_of,
    instruction_of,
    schema_of,
    signature_scope_of,
)
from appfunctions_host.data_types import (
    DataType,
    DefinitionError,
    Place,
    Property,
    class_path,
    make_property,
    result_type,
    type_hints,
)
from appfunctions_host.descriptions import Description, describe

logger = logging.getLogger(__name__)

_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True, kw_only=True)
class FunctionDefinition:
    """One declared function: what callers read, and what is needed to call it."""

    identifier: str
    method_name: str
    parameters: tuple[Property, ...]
    result: DataType
    is_async: bool
    metadata: pb.AppFunctionMetadata


def class_part(service: type[AppFunctionService], package: str) -> str:
    """The part of the function ids before `#`."""
    entry_point = entry_point_of(service)
    if entry_point is not None and entry_point.class_name is not None:
        return entry_point.class_name
    return f"{package}.{class_path(service)}"


def define_service(
    service: type[AppFunctionService], package: str
) -> tuple[FunctionDefinition, ...]:
    """The functions that `service` declares, in order of declaration.

    Raises DefinitionError for a class that is no AppFunctionService or declares nothing, and for a
    function that Android's compiler would refuse, naming class, method and parameter.
    """
    if not (isinstance(service, type) and issubclass(service, AppFunctionService)):
        raise DefinitionError(f"{service!r} is no service; derive a class from AppFunctionService")
    prefix = class_part(service, package)
    found = tuple(
        _define(service, name, function, prefix=prefix, package=package)
        for name, function in _declared(service)
    )
    if not found:
        raise DefinitionError(
            f"{service.__qualname__} declares no function; "
            "mark its methods with @app_function_declaration"
        )
    return found


def _declared(service: type[AppFunctionService]) -> Iterator[tuple[str, Callable[..., Any]]]:
    names = dict.fromkeys(name for cls in reversed(service.__mro__) for name in vars(cls))
    for name in names:
        raw = inspect.getattr_static(service, name)
        inner = getattr(raw, "__func__", raw)
        if declaration_of(inner) is None:
            if access_level_of(inner) is not None:
                raise DefinitionError(
                    f"{service.__qualname__}.{name}: has an access level but is not declared; "
                    "add @app_function_declaration"
                )
            continue
        if not inspect.isfunction(raw):
            raise DefinitionError(
                f"{service.__qualname__}.{name}: only plain methods can be app functions"
            )
        yield name, raw


def _define(
    service: type[AppFunctionService],
    name: str,
    function: Callable[..., Any],
    *,
    prefix: str,
    package: str,
) -> FunctionDefinition:
    place = Place(package=package, where=f"{service.__qualname__}.{name}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise place.refuse("generators are not supported; return a list")
    declaration = declaration_of(function)
    assert declaration is not None
    described = declaration.is_described_by_kdoc
    texts = describe(function.__doc__ if described else None)
    hints = type_hints(function, place)
    if "return" not in hints:
        raise place.refuse("the result has no type hint; use -> None for a function without one")
    parameters = tuple(_parameters(function, hints, texts, place))
    result = result_type(hints["return"], place.at("result"))
    level = access_level_of(function) or AccessLevel()
    scope = signature_scope_of(service)
    identifier = f"{prefix}#{name}"
    metadata = pb.AppFunctionMetadata(
        name=pb.AppFunctionName(package_name=package, function_identifier=identifier),
        parameters=[
            pb.ParameterMetadata(
                name=item.name,
                is_required=item.is_required,
                data_type=item.data_type.to_proto(),
                description=item.description,
            )
            for item in parameters
        ],
        response=pb.ResponseMetadata(value_type=result.to_proto(), description=texts.result),
        description=texts.text,
        deprecation_message=str(getattr(function, "__deprecated__", "")),
        scope=pb.SCOPE_ACTIVITY if scope == AppFunctionMetadata.SCOPE_ACTIVITY else pb.SCOPE_GLOBAL,
        service_name="" if scope is None else "@null",
        instruction=instruction_of(function),
        access_level=level.level,
        is_compat_enforcement_enabled=level.is_compat_enforcement_enabled,
        is_enabled_by_default=declaration.is_enabled,
        timeout_seconds=declaration.timeout_seconds or 0.0,
    )
    if (schema := schema_of(function)) is not None:
        metadata.schema.category = schema.category
        metadata.schema.name = schema.name
        metadata.schema.version = schema.version
    return FunctionDefinition(
        identifier=identifier,
        method_name=name,
        parameters=parameters,
        result=result,
        is_async=inspect.iscoroutinefunction(function),
        metadata=metadata,
    )


def _parameters(
    function: Callable[..., Any], hints: dict[str, Any], texts: Description, place: Place
) -> Iterator[Property]:
    _self, *rest = inspect.signature(function).parameters.values()
    for parameter in rest:
        where = place.at(f"parameter {parameter.name!r}")
        if parameter.kind not in (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        ):
            raise where.refuse(f"{parameter.kind.description} parameters are not supported")
        if parameter.name not in hints:
            raise where.refuse("has no type hint")
        made = make_property(
            parameter.name,
            hints[parameter.name],
            default=parameter.default,
            description=texts.parameters.get(parameter.name, ""),
            place=where,
        )
        if parameter.default is not _EMPTY and parameter.default != made.data_type.zero_value():
            logger.warning(
                "%s: the default value is not transported; a caller who leaves it out passes %r",
                where.where,
                made.data_type.zero_value(),
            )
        yield made
