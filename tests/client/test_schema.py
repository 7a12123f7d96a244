from __future__ import annotations

import re

import pytest

from aicore_client._schema import parameters_schema
from aicore_client.metadata import (
    AppFunctionDataTypeMetadata,
    AppFunctionMetadata,
    AppFunctionName,
    AppFunctionParameterMetadata,
    AppFunctionResponseMetadata,
    DataType,
    StringPattern,
)
from aicore_client.schema import FunctionSchema, FunctionType

Type = AppFunctionDataTypeMetadata
STRING = Type(type=DataType.TYPE_STRING)


def schema_of(data: Type, **components: Type) -> FunctionSchema:
    function = AppFunctionMetadata(
        name=AppFunctionName("p", "A#f"),
        parameters=(AppFunctionParameterMetadata(name="x", is_required=True, data_type=data),),
        response=AppFunctionResponseMetadata(value_type=Type(type=DataType.TYPE_UNIT)),
        components=components,
    )
    schema = parameters_schema(function)
    assert schema is not None
    return schema.properties["x"]


@pytest.mark.parametrize(
    ("data_type", "expected", "number_format"),
    [
        (DataType.TYPE_UNIT, FunctionType.NULL, ""),
        (DataType.TYPE_BOOLEAN, FunctionType.BOOLEAN, ""),
        (DataType.TYPE_BYTES, FunctionType.STRING, "byte"),
        (DataType.TYPE_DOUBLE, FunctionType.NUMBER, "double"),
        (DataType.TYPE_FLOAT, FunctionType.NUMBER, "float"),
        (DataType.TYPE_LONG, FunctionType.INTEGER, "int64"),
        (DataType.TYPE_INT, FunctionType.INTEGER, "int32"),
        (DataType.TYPE_STRING, FunctionType.STRING, ""),
        (DataType.TYPE_OBJECT, FunctionType.OBJECT, ""),
        (DataType.TYPE_PARCELABLE, FunctionType.OBJECT, ""),
    ],
)
def test_a_plain_type_has_one_counterpart(
    data_type: DataType, expected: FunctionType, number_format: str
) -> None:
    data = Type(type=data_type, description="Meaning.", is_nullable=True)

    assert schema_of(data) == FunctionSchema(
        type=expected, description="Meaning.", nullable=True, format=number_format
    )


def test_nested_types_keep_order_and_required_properties() -> None:
    line = Type(
        type=DataType.TYPE_OBJECT,
        properties={"sku": STRING, "note": Type(type=DataType.TYPE_STRING, is_nullable=True)},
        required=("sku",),
    )

    schema = schema_of(Type(type=DataType.TYPE_ARRAY, item_type=line))

    assert schema.items is not None
    assert list(schema.items.properties) == ["sku", "note"]
    assert schema.items.required == ("sku",)
    assert schema.items.properties["note"].nullable


def test_required_parameters_are_named_and_their_own_text_wins() -> None:
    described = Type(type=DataType.TYPE_STRING, description="A string.")
    function = AppFunctionMetadata(
        name=AppFunctionName("p", "A#f"),
        parameters=(
            AppFunctionParameterMetadata(name="a", is_required=True, data_type=described),
            AppFunctionParameterMetadata(
                name="b", is_required=False, data_type=described, description="The reason."
            ),
        ),
        response=AppFunctionResponseMetadata(value_type=STRING),
    )

    schema = parameters_schema(function)

    assert schema is not None
    assert schema.required == ("a",)
    assert [item.description for item in schema.properties.values()] == ["A string.", "The reason."]


def test_a_reference_is_replaced_by_the_shared_type() -> None:
    shared = Type(type=DataType.TYPE_OBJECT, properties={"n": STRING}, description="Shared.")
    reference = Type(type=DataType.TYPE_REFERENCE, data_type_reference="Order", is_nullable=True)

    schema = schema_of(reference, Order=shared)

    assert (schema.type, list(schema.properties)) == (FunctionType.OBJECT, ["n"])
    assert (schema.description, schema.nullable) == ("Shared.", True)


def test_a_type_that_contains_itself_ends_in_an_open_object() -> None:
    reference = Type(type=DataType.TYPE_REFERENCE, data_type_reference="Node")
    node = Type(type=DataType.TYPE_OBJECT, properties={"value": STRING, "next": reference})

    schema = schema_of(reference, Node=node)

    assert list(schema.properties) == ["value", "next"]
    assert schema.properties["next"] == FunctionSchema(type=FunctionType.OBJECT)


def test_a_reference_to_nothing_is_an_error_with_the_name() -> None:
    with pytest.raises(ValueError, match="'Order'"):
        schema_of(Type(type=DataType.TYPE_REFERENCE, data_type_reference="Order"))


def test_all_of_is_merged_and_one_of_is_a_choice() -> None:
    first = Type(type=DataType.TYPE_OBJECT, properties={"a": STRING}, required=("a",))
    second = Type(type=DataType.TYPE_OBJECT, properties={"b": STRING}, required=("b",))

    merged = schema_of(Type(type=DataType.TYPE_ALL_OF, all_of=(first, second)))
    choice = schema_of(Type(type=DataType.TYPE_ONE_OF, one_of=(first, second)))

    assert (list(merged.properties), merged.required) == (["a", "b"], ("a", "b"))
    assert [list(item.properties) for item in choice.any_of] == [["a"], ["b"]]


def test_allowed_values_keep_their_order() -> None:
    data = Type(type=DataType.TYPE_INT, enum_values=("10", "2"), description="Size.")

    assert schema_of(data) == FunctionSchema(
        type=FunctionType.INTEGER, description="Size.", enum=("10", "2"), format="int32"
    )


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (StringPattern("a.b", 0), "a.b", "axb"),
        (StringPattern("ORD-", 1), "ORD-7", "XORD-7"),
        (StringPattern("a.*b+", 2), "axyb+", "axyb"),
        (StringPattern("[0-9]+", 3), "42", "x"),
        (StringPattern(".pdf", 4), "a.pdf", "a.pdfs"),
        (StringPattern(r"\d(|)+", 2), "d(|)+", "1"),
        (StringPattern(r"(a|b){2,}[^x\]-]$", 3), "(a|b))y$", "ay"),
        (StringPattern("[a-c&&b]+", 3), "a&b", "d"),
    ],
)
def test_string_patterns_become_regular_expressions(
    pattern: StringPattern, matching: str, other: str
) -> None:
    constrained = Type(type=DataType.TYPE_STRING, patterns=(pattern,), enum_values=("a",))

    schema = schema_of(constrained)

    for found in (re.fullmatch, re.search):
        assert found(schema.pattern, matching)
        assert not found(schema.pattern, other)
    assert schema.enum == ("a",)


@pytest.mark.requirement("appfunctions.pattern.foreign")
@pytest.mark.parametrize("pattern", ["*a", "a{3,2}", "a+*+"])
def test_a_pattern_that_android_would_refuse_is_left_to_the_app(pattern: str) -> None:
    broken = Type(type=DataType.TYPE_STRING, patterns=(StringPattern(pattern, 3),))

    assert schema_of(broken) == FunctionSchema(type=FunctionType.STRING)
