"""Arguments and results between the wire and Python, checked strictly by the declared types.

No conversions, with one exception: an integer stands for a Double or Float, because JSON and
Python write 5.0 as 5. A bool is never a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError
from aicore_sim.rpc.status import TEXT_BYTES, cut
from appfunctions_host.data_types import DataType, Property
from appfunctions_host.proxies import is_of
from appfunctions_host.schema import FunctionDefinition

_RANGES = {pb.TYPE_INT: (-(2**31), 2**31 - 1), pb.TYPE_LONG: (-(2**63), 2**63 - 1)}
_FLOAT_MAX = 3.4028234663852886e38
_KINDS = {
    None: "nothing",
    "null_value": "null",
    "int_value": "Long",
    "double_value": "Double",
    "bool_value": "Boolean",
    "string_value": "String",
    "bytes_value": "ByteArray",
    "list_value": "List",
    "object_value": "object",
}
_SCALAR_KINDS = {
    pb.TYPE_BOOLEAN: "bool_value",
    pb.TYPE_STRING: "string_value",
    pb.TYPE_BYTES: "bytes_value",
}


class _Mismatch(Exception):
    """A value that does not fit; the caller knows which function it is for."""


@dataclass(frozen=True, kw_only=True)
class ArgumentRules:
    """Switches of the platform profile; what a phone's library does is not documented."""

    ignore_unknown: bool = False
    enforce_constraints: bool = True


STRICT = ArgumentRules()


def decode_arguments(
    function: FunctionDefinition,
    parameters: types_pb2.ObjectValue,
    rules: ArgumentRules = STRICT,
) -> dict[str, Any]:
    """The keyword arguments of a call; left-out optional ones get their zero value, as on Android.

    Raises AppFunctionError (1001) naming the function, the parameter, and both types.
    """
    try:
        return _decode_fields(function.parameters, parameters, "Parameter", "", rules)
    except _Mismatch as error:
        raise AppFunctionError(
            AppFunctionCode.INVALID_ARGUMENT, cut(f"{function.identifier}: {error}", TEXT_BYTES)
        ) from None


def encode_result(function: FunctionDefinition, result: object) -> types_pb2.Value:
    """The result as the declared type. Raises AppFunctionError (3000) when it is not of it."""
    try:
        return _encode(function.result, result, "the result")
    except (_Mismatch, ValueError) as error:
        # A ValueError of the result's own properties is no fault of the caller's arguments.
        raise AppFunctionError(
            AppFunctionCode.APP_UNKNOWN_ERROR, cut(f"{function.identifier}: {error}", TEXT_BYTES)
        ) from None


def _decode_fields(
    properties: Sequence[Property],
    value: types_pb2.ObjectValue,
    noun: str,
    prefix: str,
    rules: ArgumentRules,
) -> dict[str, Any]:
    given: dict[str, types_pb2.Value] = {}
    known = {item.name for item in properties}
    for field in value.fields:
        path = prefix + field.name
        if field.name not in known:
            if rules.ignore_unknown:
                continue
            names = ", ".join(item.name for item in properties) or "none"
            raise _Mismatch(f"{noun} {path!r} is unknown; the declared ones are: {names}")
        if field.name in given:
            raise _Mismatch(f"{noun} {path!r} is given twice")
        given[field.name] = field.value
    made = {}
    for item in properties:
        path = prefix + item.name
        if item.name in given:
            made[item.name] = _decode(item.data_type, given[item.name], noun, path, rules)
        elif item.is_required and not item.data_type.is_nullable:
            raise _Mismatch(
                f"{noun} {path!r} should be the type of {item.data_type.kotlin_name}, "
                "but it is missing"
            )
        else:
            made[item.name] = item.data_type.zero_value()
    return made


def _decode(
    data_type: DataType, value: types_pb2.Value, noun: str, path: str, rules: ArgumentRules
) -> Any:
    found = _decode_value(data_type, value, noun, path, rules)
    if data_type.constraint is not None and found is not None and rules.enforce_constraints:
        problem = data_type.constraint.problem(found)
        if problem is not None:
            raise _Mismatch(f"{noun} {path!r} is not allowed: {problem}")
    return found


def _decode_value(
    data_type: DataType, value: types_pb2.Value, noun: str, path: str, rules: ArgumentRules
) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "null_value" and data_type.is_nullable:
        return None
    match data_type.kind:
        case pb.TYPE_INT | pb.TYPE_LONG if kind == "int_value":
            low, high = _RANGES[data_type.kind]
            if low <= value.int_value <= high:
                return value.int_value
            raise _wrong(data_type, noun, path, f"{value.int_value}, which does not fit")
        case pb.TYPE_DOUBLE | pb.TYPE_FLOAT if kind in ("int_value", "double_value"):
            number = float(value.int_value if kind == "int_value" else value.double_value)
            if math.isfinite(number) and _fits_float(data_type, number):
                return number
            raise _wrong(data_type, noun, path, f"{number}, which does not fit")
        case pb.TYPE_BOOLEAN | pb.TYPE_STRING | pb.TYPE_BYTES if (
            kind == _SCALAR_KINDS[data_type.kind]
        ):
            return getattr(value, kind)
        case pb.TYPE_ARRAY if kind == "list_value" and data_type.item is not None:
            item = data_type.item
            return [
                _decode(item, element, noun, f"{path}[{index}]", rules)
                for index, element in enumerate(value.list_value.values)
            ]
        case pb.TYPE_OBJECT if kind == "object_value":
            properties, given = data_type.properties, value.object_value
            fields = _decode_fields(properties, given, noun, f"{path}.", rules)
            try:
                if data_type.proxy is not None:
                    return data_type.proxy.read(fields)
                if data_type.object_class is not None:
                    return data_type.object_class(**fields)
            except (TypeError, ValueError, StopIteration) as error:
                # The last because no future can carry one.
                raise _Mismatch(f"{noun} {path!r} was refused: {_refusal(error)}") from error
            raise _wrong(data_type, noun, path, "object")
        case pb.TYPE_ONE_OF if kind == "object_value":
            return _decode_one_of(data_type, value, noun, path, rules)
        case _:
            got = "Int" if kind == "int_value" and _is_int(value) else _KINDS[kind]
            raise _wrong(data_type, noun, path, got)


def _decode_one_of(
    data_type: DataType, value: types_pb2.Value, noun: str, path: str, rules: ArgumentRules
) -> Any:
    """The first alternative that fits (ours: an object on the wire does not say which it is)."""
    problems = []
    for choice in data_type.choices:
        try:
            return _decode(choice, value, noun, path, rules)
        except _Mismatch as error:
            problems.append(f"{choice.kotlin_name}: {error}")
    raise _Mismatch(f"{noun} {path!r} fits none of its types ({'; '.join(problems)})")


def _refusal(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()
        )
    return str(error)


def _encode(data_type: DataType, value: object, path: str) -> types_pb2.Value:
    if value is None:
        if data_type.is_nullable or data_type.kind == pb.TYPE_UNIT:
            return types_pb2.Value(null_value=types_pb2.NULL_VALUE)
        raise _bad_result(data_type, value, path)
    match data_type.kind:
        case pb.TYPE_INT | pb.TYPE_LONG if type(value) is int:
            low, high = _RANGES[data_type.kind]
            if low <= value <= high:
                return types_pb2.Value(int_value=value)
            hint = "; declare Annotated[int, Long]" if data_type.kind == pb.TYPE_INT else ""
            raise _Mismatch(
                f"{path} {_shown(value)} does not fit into {data_type.kotlin_name}{hint}"
            )
        case pb.TYPE_DOUBLE | pb.TYPE_FLOAT if type(value) in (int, float):
            return types_pb2.Value(double_value=_finite(data_type, value, path))
        case pb.TYPE_BOOLEAN if isinstance(value, bool):
            return types_pb2.Value(bool_value=value)
        case pb.TYPE_STRING if isinstance(value, str):
            return types_pb2.Value(string_value=_utf8(value, path))
        case pb.TYPE_BYTES if isinstance(value, (bytes, bytearray)):
            return types_pb2.Value(bytes_value=bytes(value))
        case pb.TYPE_ARRAY if isinstance(value, list) and data_type.item is not None:
            item = data_type.item
            values = [_encode(item, one, f"{path}[{index}]") for index, one in enumerate(value)]
            return types_pb2.Value(list_value=types_pb2.ListValue(values=values))
        case pb.TYPE_OBJECT if data_type.proxy is not None and is_of(data_type.proxy, value):
            try:
                parts = data_type.proxy.write(value)
            except ValueError as error:
                raise _Mismatch(f"{path}: {error}") from None
            made = types_pb2.ObjectValue()
            for part, inner_value in zip(data_type.properties, parts, strict=True):
                inner = _encode(part.data_type, inner_value, f"{path}.{part.name}")
                made.fields.append(types_pb2.ObjectValue.Field(name=part.name, value=inner))
            return types_pb2.Value(object_value=made)
        case pb.TYPE_ONE_OF:
            for choice in data_type.choices:
                if choice.object_class is not None and type(value) is choice.object_class:
                    return _encode(choice, value, path)
            raise _bad_result(data_type, value, path)
        case pb.TYPE_OBJECT if data_type.object_class is not None and isinstance(
            value, data_type.object_class
        ):
            made = types_pb2.ObjectValue()
            for part in data_type.properties:
                inner = _encode(part.data_type, getattr(value, part.name), f"{path}.{part.name}")
                made.fields.append(types_pb2.ObjectValue.Field(name=part.name, value=inner))
            return types_pb2.Value(object_value=made)
        case _:
            raise _bad_result(data_type, value, path)


def _finite(data_type: DataType, value: Any, path: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not _fits_float(data_type, number):
        raise _Mismatch(f"{path} {_shown(value)} is not a finite {data_type.kotlin_name}")
    return number


def _shown(number: float) -> str:
    """Python writes no integer of more than 4300 digits."""
    if isinstance(number, int) and number.bit_length() > 4096:
        return f"(an integer of {number.bit_length()} bits)"
    return str(number)


def _utf8(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Mismatch(f"{path} holds a lone surrogate, which is no text") from None
    return value


def _fits_float(data_type: DataType, number: float) -> bool:
    return data_type.kind != pb.TYPE_FLOAT or abs(number) <= _FLOAT_MAX


def _is_int(value: types_pb2.Value) -> bool:
    low, high = _RANGES[pb.TYPE_INT]
    return low <= value.int_value <= high


def _wrong(data_type: DataType, noun: str, path: str, got: str) -> _Mismatch:
    return _Mismatch(
        f"{noun} {path!r} should be the type of {data_type.kotlin_name}, but was {got}"
    )


def _bad_result(data_type: DataType, value: object, path: str) -> _Mismatch:
    got = "None" if value is None else type(value).__name__
    return _Mismatch(f"{path} should be the type of {data_type.kotlin_name}, but was {got}")
