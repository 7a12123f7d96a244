"""Arguments and results, read and written by type.

https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionData
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeVar

from aicore_client.jetpack.spec import DataSpec
from aicore_client.metadata import (
    AppFunctionDataTypeMetadata,
    AppFunctionParameterMetadata,
    AppFunctionResponseMetadata,
    DataType,
)

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_FLOAT_MAX: Final = 3.4028234663852886e38
_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


class AppFunctionData:
    """Values by key, checked against the metadata that they belong to.

    What is made without metadata (`AppFunctionData(mapping)`, ours) is only checked by type. Every
    getter raises ValueError, Kotlin's IllegalArgumentException, for a key that the metadata lacks,
    another type than the metadata's, and a required value that is missing. Parcelables do not
    exist here. `as_mapping` gives plain values, with a mapping for each nested AppFunctionData.
    """

    EMPTY: ClassVar[AppFunctionData]

    def __init__(
        self, values: Mapping[str, object] | None = None, *, spec: DataSpec | None = None
    ) -> None:
        self._values = {key: _plain(value) for key, value in (values or {}).items()}
        self._spec = spec

    @property
    def qualified_name(self) -> str:
        """Of the serializable class; empty for arguments and responses."""
        return self._spec.qualified_name if self._spec is not None else ""

    def as_mapping(self) -> Mapping[str, object]:
        """Ours: all values, as they are sent."""
        return MappingProxyType(self._values)

    def contains_key(self, key: str) -> bool:
        """Whether there is a value. ValueError for a key that the metadata lacks."""
        if self._spec is not None and self._spec.data_type(key) is None:
            raise ValueError(f"There is no metadata associated with {key}")
        return self._values.get(key) is not None

    def get_boolean(self, key: str, default_value: bool = False) -> bool:
        return self._get(key, DataType.TYPE_BOOLEAN, _boolean, default_value)

    def get_int(self, key: str, default_value: int = 0) -> int:
        return self._get(key, DataType.TYPE_INT, _int, default_value)

    def get_long(self, key: str, default_value: int = 0) -> int:
        return self._get(key, DataType.TYPE_LONG, _long, default_value)

    def get_float(self, key: str, default_value: float = 0.0) -> float:
        return self._get(key, DataType.TYPE_FLOAT, _float, default_value)

    def get_double(self, key: str, default_value: float = 0.0) -> float:
        return self._get(key, DataType.TYPE_DOUBLE, _double, default_value)

    def get_string(self, key: str) -> str | None:
        return self._get(key, DataType.TYPE_STRING, _string, None)

    def get_byte_array(self, key: str) -> bytes | None:
        return self._get(key, DataType.TYPE_BYTES, _bytes, None)

    def get_app_function_data(self, key: str) -> AppFunctionData | None:
        return self._get(key, DataType.TYPE_OBJECT, self._nested(key), None)

    def get_boolean_array(self, key: str) -> list[bool] | None:
        return self._get_list(key, DataType.TYPE_BOOLEAN, _boolean)

    def get_int_array(self, key: str) -> list[int] | None:
        return self._get_list(key, DataType.TYPE_INT, _int)

    def get_long_array(self, key: str) -> list[int] | None:
        return self._get_list(key, DataType.TYPE_LONG, _long)

    def get_float_array(self, key: str) -> list[float] | None:
        return self._get_list(key, DataType.TYPE_FLOAT, _float)

    def get_double_array(self, key: str) -> list[float] | None:
        return self._get_list(key, DataType.TYPE_DOUBLE, _double)

    def get_string_list(self, key: str) -> list[str] | None:
        return self._get_list(key, DataType.TYPE_STRING, _string)

    def get_app_function_data_list(self, key: str) -> list[AppFunctionData] | None:
        return self._get_list(key, DataType.TYPE_OBJECT, self._nested(key))

    def _get(
        self,
        key: str,
        wanted: DataType,
        read: Callable[[str, object], _Value],
        default: _Default,
    ) -> _Value | _Default:
        value = self._values.get(key)
        if self._spec is not None:
            self._spec.check_read(key, wanted, is_collection=False, is_missing=value is None)
        return default if value is None else read(key, value)

    def _get_list(
        self, key: str, wanted: DataType, read: Callable[[str, object], _Value]
    ) -> list[_Value] | None:
        value = self._values.get(key)
        if self._spec is not None:
            self._spec.check_read(key, wanted, is_collection=True, is_missing=value is None)
        if value is None:
            return None
        if not isinstance(value, list):
            raise _mismatch(key, "a list", value)
        return [read(key, item) for item in value]

    def _nested(self, key: str) -> Callable[[str, object], AppFunctionData]:
        def read(name: str, value: object) -> AppFunctionData:
            if not isinstance(value, dict):
                raise _mismatch(name, "an AppFunctionData", value)
            return AppFunctionData(value, spec=self._spec and self._spec.property_spec(key, value))

        return read

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AppFunctionData) and self._values == other._values

    def __repr__(self) -> str:
        return f"AppFunctionData(qualified_name={self.qualified_name!r}, keys={list(self._values)})"

    class Builder:
        """Makes data for the parameters of a function, for a response, or for an object.

        Each setter raises ValueError for a key that the metadata lacks, for another type, and for
        a value that the metadata does not list. A required value that was not set is noticed by
        whoever reads it.
        """

        def __init__(
            self,
            metadata: Sequence[AppFunctionParameterMetadata]
            | AppFunctionResponseMetadata
            | AppFunctionDataTypeMetadata,
            component_metadata: Mapping[str, AppFunctionDataTypeMetadata] | None = None,
        ) -> None:
            self._spec = DataSpec.of(metadata, component_metadata or {})
            self._values: dict[str, object] = {}

        def set_boolean(self, key: str, value: bool) -> Self:
            return self._set(key, DataType.TYPE_BOOLEAN, _boolean(key, value))

        def set_int(self, key: str, value: int) -> Self:
            return self._set(key, DataType.TYPE_INT, _int(key, value))

        def set_long(self, key: str, value: int) -> Self:
            return self._set(key, DataType.TYPE_LONG, _long(key, value))

        def set_float(self, key: str, value: float) -> Self:
            return self._set(key, DataType.TYPE_FLOAT, _float(key, value))

        def set_double(self, key: str, value: float) -> Self:
            return self._set(key, DataType.TYPE_DOUBLE, _double(key, value))

        def set_string(self, key: str, value: str) -> Self:
            return self._set(key, DataType.TYPE_STRING, _string(key, value))

        def set_byte_array(self, key: str, value: bytes) -> Self:
            return self._set(key, DataType.TYPE_BYTES, _bytes(key, value))

        def set_app_function_data(self, key: str, value: AppFunctionData) -> Self:
            return self._set(key, DataType.TYPE_OBJECT, self._object(key, value))

        def set_boolean_array(self, key: str, value: Sequence[bool]) -> Self:
            return self._set_list(key, DataType.TYPE_BOOLEAN, [_boolean(key, one) for one in value])

        def set_int_array(self, key: str, value: Sequence[int]) -> Self:
            return self._set_list(key, DataType.TYPE_INT, [_int(key, one) for one in value])

        def set_long_array(self, key: str, value: Sequence[int]) -> Self:
            return self._set_list(key, DataType.TYPE_LONG, [_long(key, one) for one in value])

        def set_float_array(self, key: str, value: Sequence[float]) -> Self:
            return self._set_list(key, DataType.TYPE_FLOAT, [_float(key, one) for one in value])

        def set_double_array(self, key: str, value: Sequence[float]) -> Self:
            return self._set_list(key, DataType.TYPE_DOUBLE, [_double(key, one) for one in value])

        def set_string_list(self, key: str, value: Sequence[str]) -> Self:
            return self._set_list(key, DataType.TYPE_STRING, [_string(key, one) for one in value])

        def set_app_function_data_list(self, key: str, value: Sequence[AppFunctionData]) -> Self:
            return self._set_list(
                key, DataType.TYPE_OBJECT, [self._object(key, one) for one in value]
            )

        def build(self) -> AppFunctionData:
            return AppFunctionData(self._values, spec=self._spec)

        def _set(self, key: str, written: DataType, value: object) -> Self:
            self._spec.check_write(key, written, is_collection=False, values=[value])
            self._values[key] = value
            return self

        def _set_list(self, key: str, written: DataType, value: list[Any]) -> Self:
            self._spec.check_write(key, written, is_collection=True, values=value)
            self._values[key] = value
            return self

        def _object(self, key: str, value: AppFunctionData) -> object:
            if not isinstance(value, AppFunctionData):
                raise _mismatch(key, "an AppFunctionData", value)
            if value._spec is not None:
                self._spec.require_same_object(key, value._spec)
            return value._values


AppFunctionData.EMPTY = AppFunctionData()


def _plain(value: object) -> object:
    """Nested data as mappings, tuples as lists; the rest is checked when it is sent."""
    match value:
        case AppFunctionData():
            return dict(value.as_mapping())
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value


def _boolean(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _mismatch(key, "a boolean", value)
    return value


def _int(key: str, value: object) -> int:
    return _integer(key, value, _INT_MAX, "an Int")


def _long(key: str, value: object) -> int:
    return _integer(key, value, _LONG_MAX, "a Long")


def _integer(key: str, value: object, limit: int, kind: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -limit - 1 <= value <= limit:
        raise _mismatch(key, kind, value)
    return value


def _double(key: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _mismatch(key, "a Double", value)
    return float(value)


def _float(key: str, value: object) -> float:
    number = _double(key, value)
    if abs(number) > _FLOAT_MAX:
        raise _mismatch(key, "a Float", value)
    return number


def _string(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _mismatch(key, "a String", value)
    return value


def _bytes(key: str, value: object) -> bytes:
    if not isinstance(value, bytes):
        raise _mismatch(key, "a ByteArray", value)
    return value


def _mismatch(key: str, wanted: str, value: object) -> ValueError:
    shown = repr(value) if isinstance(value, int | float) else f"a {type(value).__name__}"
    return ValueError(f"The value of {key} must be {wanted}, not {shown}")
