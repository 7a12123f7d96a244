from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NullValue(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NULL_VALUE: _ClassVar[NullValue]

class FunctionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FUNCTION_TYPE_UNSPECIFIED: _ClassVar[FunctionType]
    FUNCTION_TYPE_STRING: _ClassVar[FunctionType]
    FUNCTION_TYPE_NUMBER: _ClassVar[FunctionType]
    FUNCTION_TYPE_INTEGER: _ClassVar[FunctionType]
    FUNCTION_TYPE_BOOLEAN: _ClassVar[FunctionType]
    FUNCTION_TYPE_ARRAY: _ClassVar[FunctionType]
    FUNCTION_TYPE_OBJECT: _ClassVar[FunctionType]
    FUNCTION_TYPE_NULL: _ClassVar[FunctionType]
NULL_VALUE: NullValue
FUNCTION_TYPE_UNSPECIFIED: FunctionType
FUNCTION_TYPE_STRING: FunctionType
FUNCTION_TYPE_NUMBER: FunctionType
FUNCTION_TYPE_INTEGER: FunctionType
FUNCTION_TYPE_BOOLEAN: FunctionType
FUNCTION_TYPE_ARRAY: FunctionType
FUNCTION_TYPE_OBJECT: FunctionType
FUNCTION_TYPE_NULL: FunctionType

class Value(_message.Message):
    __slots__ = ("null_value", "int_value", "double_value", "bool_value", "string_value", "bytes_value", "list_value", "object_value")
    NULL_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    BYTES_VALUE_FIELD_NUMBER: _ClassVar[int]
    LIST_VALUE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_VALUE_FIELD_NUMBER: _ClassVar[int]
    null_value: NullValue
    int_value: int
    double_value: float
    bool_value: bool
    string_value: str
    bytes_value: bytes
    list_value: ListValue
    object_value: ObjectValue
    def __init__(self, null_value: _Optional[_Union[NullValue, str]] = ..., int_value: _Optional[int] = ..., double_value: _Optional[float] = ..., bool_value: _Optional[bool] = ..., string_value: _Optional[str] = ..., bytes_value: _Optional[bytes] = ..., list_value: _Optional[_Union[ListValue, _Mapping]] = ..., object_value: _Optional[_Union[ObjectValue, _Mapping]] = ...) -> None: ...

class ListValue(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class ObjectValue(_message.Message):
    __slots__ = ("fields",)
    class Field(_message.Message):
        __slots__ = ("name", "value")
        NAME_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        name: str
        value: Value
        def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedCompositeFieldContainer[ObjectValue.Field]
    def __init__(self, fields: _Optional[_Iterable[_Union[ObjectValue.Field, _Mapping]]] = ...) -> None: ...

class FunctionSchema(_message.Message):
    __slots__ = ("type", "description", "properties", "required", "items", "enum_values", "format", "pattern", "nullable", "minimum", "maximum", "min_items", "max_items", "min_length", "max_length", "any_of")
    class Property(_message.Message):
        __slots__ = ("name", "schema")
        NAME_FIELD_NUMBER: _ClassVar[int]
        SCHEMA_FIELD_NUMBER: _ClassVar[int]
        name: str
        schema: FunctionSchema
        def __init__(self, name: _Optional[str] = ..., schema: _Optional[_Union[FunctionSchema, _Mapping]] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    ENUM_VALUES_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    NULLABLE_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    MIN_ITEMS_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    MIN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    type: FunctionType
    description: str
    properties: _containers.RepeatedCompositeFieldContainer[FunctionSchema.Property]
    required: _containers.RepeatedScalarFieldContainer[str]
    items: FunctionSchema
    enum_values: _containers.RepeatedScalarFieldContainer[str]
    format: str
    pattern: str
    nullable: bool
    minimum: float
    maximum: float
    min_items: int
    max_items: int
    min_length: int
    max_length: int
    any_of: _containers.RepeatedCompositeFieldContainer[FunctionSchema]
    def __init__(self, type: _Optional[_Union[FunctionType, str]] = ..., description: _Optional[str] = ..., properties: _Optional[_Iterable[_Union[FunctionSchema.Property, _Mapping]]] = ..., required: _Optional[_Iterable[str]] = ..., items: _Optional[_Union[FunctionSchema, _Mapping]] = ..., enum_values: _Optional[_Iterable[str]] = ..., format: _Optional[str] = ..., pattern: _Optional[str] = ..., nullable: _Optional[bool] = ..., minimum: _Optional[float] = ..., maximum: _Optional[float] = ..., min_items: _Optional[int] = ..., max_items: _Optional[int] = ..., min_length: _Optional[int] = ..., max_length: _Optional[int] = ..., any_of: _Optional[_Iterable[_Union[FunctionSchema, _Mapping]]] = ...) -> None: ...
