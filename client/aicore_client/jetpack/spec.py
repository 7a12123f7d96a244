"""What metadata says about the keys of one AppFunctionData."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aicore_client.metadata import (
    AppFunctionDataTypeMetadata,
    AppFunctionParameterMetadata,
    AppFunctionResponseMetadata,
    DataType,
)

RETURN_VALUE = "androidAppfunctionsReturnValue"

Components = Mapping[str, AppFunctionDataTypeMetadata]
_OBJECTS = (
    DataType.TYPE_OBJECT,
    DataType.TYPE_ALL_OF,
    DataType.TYPE_ONE_OF,
)
_MAX_REFERENCES = 32
"""References that follow one another, so that a cycle ends."""


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """`properties` by key, and those that must be there. ValueError everywhere is Kotlin's
    IllegalArgumentException."""

    properties: Mapping[str, AppFunctionDataTypeMetadata]
    required: frozenset[str]
    components: Components
    qualified_name: str = ""

    @classmethod
    def of(
        cls,
        metadata: Sequence[AppFunctionParameterMetadata]
        | AppFunctionResponseMetadata
        | AppFunctionDataTypeMetadata,
        components: Components,
    ) -> DataSpec:
        match metadata:
            case AppFunctionResponseMetadata(value_type=value_type):
                properties = {RETURN_VALUE: value_type}
                if value_type.type is DataType.TYPE_UNIT:
                    properties = {}
                return cls(
                    properties=properties, required=frozenset(properties), components=components
                )
            case AppFunctionDataTypeMetadata():
                return _object_spec(metadata, components)
            case _:
                return cls(
                    properties={item.name: item.data_type for item in metadata},
                    required=frozenset(item.name for item in metadata if item.is_required),
                    components=components,
                )

    def data_type(self, key: str) -> AppFunctionDataTypeMetadata | None:
        """With references followed."""
        found = self.properties.get(key)
        return None if found is None else _resolved(found, self.components)

    def is_required(self, key: str) -> bool:
        """A nullable one is not, whatever the list of required ones says."""
        declared = self.properties.get(key)
        return key in self.required and declared is not None and not declared.is_nullable

    def fits(self, value: Mapping[str, object]) -> bool:
        """Whether an object has these keys, and all that are required."""
        required = {key for key in self.required if self.is_required(key)}
        return required <= value.keys() <= self.properties.keys()

    def check_read(
        self, key: str, wanted: DataType, *, is_collection: bool, is_missing: bool
    ) -> None:
        self._check(key, wanted, is_collection=is_collection)
        if is_missing and self.is_required(key):
            raise ValueError(f"The required value of {key} is missing")

    def check_write(
        self, key: str, written: DataType, *, is_collection: bool, values: Sequence[object]
    ) -> None:
        declared = self._check(key, written, is_collection=is_collection)
        allowed = declared.enum_values
        for value in values if allowed else ():
            if str(value) not in allowed:
                raise ValueError(f"The value of {key} must be one of {', '.join(allowed)}")

    def property_spec(self, key: str, value: Mapping[str, object]) -> DataSpec | None:
        """Of the object at `key`, or of the items of a list there. None where the metadata leaves
        open which of several types `value` is."""
        declared = self._item(key)
        if declared.type is DataType.TYPE_ONE_OF:
            specs = [
                _object_spec(_resolved(one, self.components), self.components)
                for one in declared.one_of
            ]
            fitting = [spec for spec in specs if spec.fits(value)]
            return fitting[0] if len(fitting) == 1 else None
        return _object_spec(declared, self.components)

    def require_same_object(self, key: str, other: DataSpec) -> None:
        """ValueError unless `other` is a spec of the object at `key`."""
        declared = self._item(key)
        if declared.type is DataType.TYPE_ONE_OF:
            specs = [
                _object_spec(_resolved(one, self.components), self.components)
                for one in declared.one_of
            ]
        elif declared.type in _OBJECTS:
            specs = [_object_spec(declared, self.components)]
        else:
            return  # `check_write` refuses it, with a better text.
        if all(
            (spec.properties, spec.required) != (other.properties, other.required) for spec in specs
        ):
            raise ValueError(
                f"The value of {key} must be {declared.object_qualified_name or 'its object'}, "
                f"not {other.qualified_name or 'another object'}"
            )

    def _check(
        self, key: str, wanted: DataType, *, is_collection: bool
    ) -> AppFunctionDataTypeMetadata:
        declared = self.data_type(key)
        if declared is None:
            raise ValueError(f"There is no metadata associated with {key}")
        is_array = declared.type is DataType.TYPE_ARRAY
        item = self._item(key)
        found = DataType.TYPE_OBJECT if item.type in _OBJECTS else item.type
        if is_array != is_collection or found is not wanted:
            kind = f"a list of {wanted.name}" if is_collection else wanted.name
            actual = f"a list of {item.type.name}" if is_array else item.type.name
            raise ValueError(f"{key} is {actual} according to the metadata, not {kind}")
        return item

    def _item(self, key: str) -> AppFunctionDataTypeMetadata:
        """The type at `key`, or that of the items of a list there."""
        declared = self.data_type(key)
        if declared is None:
            raise ValueError(f"There is no metadata associated with {key}")
        if declared.type is DataType.TYPE_ARRAY and declared.item_type is not None:
            return _resolved(declared.item_type, self.components)
        return declared


def _resolved(
    declared: AppFunctionDataTypeMetadata, components: Components
) -> AppFunctionDataTypeMetadata:
    for _ in range(_MAX_REFERENCES):
        if declared.type is not DataType.TYPE_REFERENCE:
            return declared
        name = declared.data_type_reference
        if name not in components:
            raise ValueError(f"The metadata has no shared type {name}")
        declared = components[name]
    raise ValueError(f"The shared type {declared.data_type_reference} refers to itself")


def _object_spec(
    declared: AppFunctionDataTypeMetadata, components: Components, depth: int = 0
) -> DataSpec:
    if depth > _MAX_REFERENCES:
        raise ValueError(f"The type {declared.object_qualified_name} contains itself")
    if declared.type is DataType.TYPE_ALL_OF:
        parts = [
            _object_spec(_resolved(one, components), components, depth + 1)
            for one in declared.all_of
        ]
        return DataSpec(
            properties={key: item for part in parts for key, item in part.properties.items()},
            required=frozenset().union(*(part.required for part in parts)),
            components=components,
            qualified_name=declared.object_qualified_name,
        )
    if declared.type is not DataType.TYPE_OBJECT:
        raise ValueError(f"{declared.type.name} is no object")
    return DataSpec(
        properties=declared.properties,
        required=frozenset(declared.required),
        components=components,
        qualified_name=declared.object_qualified_name,
    )
