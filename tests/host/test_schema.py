"""From annotated classes to metadata."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Optional, Union

import pytest
from google.protobuf import text_format

from aicore_protos import appfunctions_pb2 as pb
from appfunctions_host import (
    AppFunctionMetadata,
    AppFunctionService,
    Float,
    Long,
    app_function_access_level,
    app_function_declaration,
    app_function_serializable,
    app_function_service_entry_point,
)
from appfunctions_host.data_types import DefinitionError, Place, data_type
from appfunctions_host.schema import define_service
from tests.host.shop import PACKAGE, OrderTools

NO_TAGS: list[str] = []
PLACE = Place(package="com.example.app", where="Tools.run")


class Colour(enum.Enum):
    RED = 1


class Plain:
    pass


@app_function_serializable
class Item:
    name: str
    count: int = 0
    tags: list[str] = dataclasses.field(default_factory=list)


@app_function_serializable
class Basket:
    items: list[Item]
    note: str | None


@app_function_serializable
class Tree:
    children: list[Tree]


@app_function_serializable
class Greedy:
    name: str = "x"


def _parsed(text: str) -> pb.DataTypeMetadata:
    return text_format.Parse(text, pb.DataTypeMetadata())


@pytest.mark.requirement(
    "jetpack.access-level.default-trusted",
    "jetpack.declaration.described-by-kdoc",
    "jetpack.identifier.form",
    "jetpack.metadata.defaults",
)
def test_a_declared_function_has_the_metadata_of_its_annotations_hints_and_docstring() -> None:
    fetch = define_service(OrderTools, PACKAGE)[0]

    assert fetch.metadata == text_format.Parse(
        """
        name {
          package_name: "com.example.shop"
          function_identifier: "com.example.shop.OrderTools#fetch_order_details"
        }
        parameters {
          name: "orderId"
          is_required: true
          data_type { type: TYPE_STRING }
          description: "The alphanumeric order identifier (for example, ORD-8492)"
        }
        response {
          value_type {
            type: TYPE_OBJECT
            object_qualified_name: "com.example.shop.OrderDetails"
            description: "Structured details for an order."
            properties {
              name: "orderId"
              data_type { type: TYPE_STRING description: "The order\\'s id" }
            }
            properties { name: "status" data_type { type: TYPE_STRING } }
            properties { name: "itemCount" data_type { type: TYPE_INT } }
            properties { name: "eta" data_type { type: TYPE_STRING is_nullable: true } }
            required: "orderId"
            required: "status"
            required: "itemCount"
          }
        }
        description: "Fetches details and delivery status for a customer order by ID."
        access_level: 300
        is_compat_enforcement_enabled: true
        is_enabled_by_default: true
        """,
        pb.AppFunctionMetadata(),
    )


@pytest.mark.requirement(
    "jetpack.access-level.compat-enforcement",
    "jetpack.declaration.defaults",
    "jetpack.declaration.disabled",
)
def test_levels_and_states_come_from_the_annotations_in_either_order() -> None:
    found = [
        (
            item.method_name,
            item.metadata.access_level,
            item.metadata.is_compat_enforcement_enabled,
            item.metadata.is_enabled_by_default,
        )
        for item in define_service(OrderTools, PACKAGE)
    ]

    assert found == [
        ("fetch_order_details", 300, True, True),
        ("reset_order_cache", 200, False, True),
        ("cancel_order", 100, True, True),
        ("switched_off", 300, True, False),
    ]


@pytest.mark.requirement("jetpack.metadata.data-types", "jetpack.types.supported")
@pytest.mark.parametrize(
    ("hint", "number"),
    [
        (bool, 1),
        (bytes, 2),
        (float, 4),
        (Annotated[float, Float], 5),
        (Annotated[int, Long], 6),
        (int, 7),
        (str, 8),
        (Annotated[str, "a remark"], 8),
        (Item, 3),
    ],
)
def test_each_supported_hint_has_jetpacks_type_number(hint: Any, number: int) -> None:
    found = data_type(hint, PLACE)

    assert (int(found.kind), found.is_nullable) == (number, False)


@pytest.mark.parametrize(
    ("hint", "number"),
    [
        (Optional[str], 8),  # noqa: UP045 - the older spelling must work, too
        (int | None, 7),
        (Annotated[int, Long] | None, 6),
        (Annotated[int | None, Long], 6),
        (list[int] | None, 10),
    ],
)
def test_none_in_a_union_makes_the_type_nullable(hint: Any, number: int) -> None:
    found = data_type(hint, PLACE)

    assert (int(found.kind), found.is_nullable) == (number, True)


@pytest.mark.requirement("jetpack.serializable.nested")
def test_serializable_classes_nest_and_name_their_required_properties() -> None:
    assert data_type(Basket, PLACE).to_proto() == _parsed(
        """
        type: TYPE_OBJECT
        object_qualified_name: "com.example.app.Basket"
        required: "items"
        required: "note"
        properties {
          name: "items"
          data_type {
            type: TYPE_ARRAY
            item_type {
              type: TYPE_OBJECT
              object_qualified_name: "com.example.app.Item"
              required: "name"
              properties { name: "name" data_type { type: TYPE_STRING } }
              properties { name: "count" data_type { type: TYPE_INT } }
              properties {
                name: "tags"
                data_type { type: TYPE_ARRAY item_type { type: TYPE_STRING } }
              }
            }
          }
        }
        properties { name: "note" data_type { type: TYPE_STRING is_nullable: true } }
        """
    )


@pytest.mark.requirement("jetpack.types.unsupported-refused")
@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (dict[str, int], "@app_function_serializable"),
        (set, "set is not supported; use list[str]"),
        (tuple[int, int], "use a list"),
        (list, "say of what"),
        (list[bytes], "lists hold"),
        (list[list[int]], "lists hold"),
        (list[str | None], "lists hold"),
        (Colour, "use str or int with an AppFunctionStringValueConstraint"),
        (Plain, "Plain is not supported"),
        (Any, "name the type"),
        (object, "name the type"),
        (None, "None is not supported"),
        (type(None), "None is a type of results only"),
        (Union[int, str], "only `T | None` is"),  # noqa: UP007 - the older spelling, too
        (int | str | None, "only `T | None` is"),
        (Annotated[str, Long], "use Annotated[int, Long], Annotated[float, Float] or"),
        (Annotated[bool, Long], "use Annotated[int, Long], Annotated[float, Float] or"),
        (Tree, "Tree contains itself"),
        (Greedy, "property 'name' of Greedy: type String cannot be optional"),
        (complex, "use a primitive, a list, or a serializable class"),
    ],
)
def test_every_other_hint_is_refused_with_the_place_and_the_reason(hint: Any, reason: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        data_type(hint, PLACE)

    assert str(refused.value).startswith("Tools.run")
    assert reason in str(refused.value)


class WithDefaults(AppFunctionService):
    @app_function_declaration
    def run(
        self,
        a: int = 5,
        b: list[str] = NO_TAGS,
        c: str | None = None,
        *,
        d: bool = False,
    ) -> None: ...


@pytest.mark.requirement("jetpack.optional.zero-value")
def test_parameters_with_a_default_are_optional_and_a_lost_default_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (function,) = define_service(WithDefaults, PACKAGE)

    assert [(item.name, item.is_required) for item in function.parameters] == [
        ("a", False),
        ("b", False),
        ("c", False),
        ("d", False),
    ]
    assert [item.data_type.zero_value() for item in function.parameters] == [0, [], None, False]
    assert [record.args for record in caplog.records] == [("WithDefaults.run, parameter 'a'", 0)]


def _service(function: Callable[..., Any]) -> type[AppFunctionService]:
    declared = app_function_declaration(function)
    return type("Tools", (AppFunctionService,), {"run": declared})


def _string_default(self: object, name: str = "x") -> None: ...
def _variadic(self: object, *names: str) -> None: ...
def _positional(self: object, name: str, /) -> None: ...
def _unhinted(self: object, name) -> None: ...  # type: ignore[no-untyped-def]
def _resultless(self: object): ...  # type: ignore[no-untyped-def]
def _unknown(self: object) -> Missing: ...  # type: ignore[name-defined]  # noqa: F821
def _set_result(self: object) -> set[str]: ...  # type: ignore[empty-body]
async def _generator(self: object) -> AsyncIterator[int]:
    yield 1


@pytest.mark.requirement(
    "jetpack.declaration.only-plain-methods",
    "jetpack.optional.no-default-for-strings",
)
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_string_default, "Tools.run, parameter 'name': type String cannot be optional"),
        (_variadic, "Tools.run, parameter 'names': variadic positional parameters are not"),
        (_positional, "Tools.run, parameter 'name': positional-only parameters are not"),
        (_unhinted, "Tools.run, parameter 'name': has no type hint"),
        (_resultless, "Tools.run: the result has no type hint; use -> None"),
        (_unknown, "Tools.run: a type hint cannot be resolved (name 'Missing' is not defined)"),
        (_set_result, "Tools.run, result: set[str] is not supported; use list[str]"),
        (_generator, "Tools.run: generators are not supported; return a list"),
    ],
)
def test_a_function_that_android_would_not_compile_is_refused_at_registration(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        define_service(_service(function), PACKAGE)

    assert str(refused.value).startswith(message)


class Undeclared(AppFunctionService):
    @app_function_access_level(level=100, is_compat_enforcement_enabled=True)
    def run(self) -> None: ...


class Static(AppFunctionService):
    @staticmethod
    @app_function_declaration
    def run(self: object) -> None: ...


@pytest.mark.parametrize(
    ("service", "message"),
    [
        (Undeclared, "has an access level but is not declared"),
        (Static, "only plain methods can be app functions"),
        (AppFunctionService, "declares no function"),
        (Plain, "derive a class from AppFunctionService"),
    ],
)
def test_a_class_that_is_no_usable_service_is_refused(service: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        define_service(service, PACKAGE)


class Sphinx(AppFunctionService):
    @app_function_declaration(is_described_by_kdoc=True)
    def run(self, orderId: str, reason: str | None) -> bool:
        """Requests a cancellation.

        Only for active orders.

        :param orderId: The order to cancel
        :param reason: Why, in the
            user's words
        :returns: Whether it worked
        """
        return True


class Google(AppFunctionService):
    @app_function_declaration(is_described_by_kdoc=True)
    def run(self, orderId: str, reason: str | None) -> bool:
        """Requests a cancellation.

        Only for active orders.

        Args:
            orderId: The order to cancel
            reason: Why, in the
                user's words

        Returns:
            Whether it worked
        """
        return True


class KDoc(AppFunctionService):
    @app_function_declaration(is_described_by_kdoc=True)
    def run(self, orderId: str, reason: str | None) -> bool:
        """
        Requests a cancellation.

        Only for active orders.

        @param orderId The order to cancel
        @param reason Why, in the
            user's words
        @return Whether it worked
        """
        return True


@pytest.mark.requirement("jetpack.declaration.described-by-kdoc")
@pytest.mark.parametrize("service", [Sphinx, Google, KDoc])
def test_docstrings_of_each_style_give_the_same_descriptions(
    service: type[AppFunctionService],
) -> None:
    metadata = define_service(service, PACKAGE)[0].metadata

    assert metadata.description == "Requests a cancellation. Only for active orders."
    assert [item.description for item in metadata.parameters] == [
        "The order to cancel",
        "Why, in the user's words",
    ]
    assert metadata.response.description == "Whether it worked"


class Silent(AppFunctionService):
    @app_function_declaration
    def run(self, orderId: str) -> bool:
        """Secret.

        Args:
            orderId: Secret
        """
        return True


@pytest.mark.requirement("jetpack.declaration.defaults")
def test_without_is_described_by_kdoc_no_description_is_published() -> None:
    metadata = define_service(Silent, PACKAGE)[0].metadata

    assert (metadata.description, metadata.parameters[0].description) == ("", "")


@app_function_service_entry_point(
    service_name="S", app_function_xml_file_name="f", class_name="com.other.KotlinTools"
)
class Renamed(AppFunctionService):
    class Inner(AppFunctionService):
        @app_function_declaration
        def deep(self) -> None: ...

    @app_function_declaration
    def run(self) -> None: ...


class Derived(Renamed):
    def run(self) -> None: ...

    @app_function_declaration
    def more(self) -> None: ...


@pytest.mark.requirement("jetpack.identifier.form", "jetpack.identifier.python-class")
@pytest.mark.parametrize(
    ("service", "identifiers"),
    [
        (Renamed, ["com.other.KotlinTools#run"]),
        (Renamed.Inner, ["com.example.shop.Renamed.Inner#deep"]),
        # Neither the entry point nor a declaration passes to a subclass that says otherwise.
        (Derived, ["com.example.shop.Derived#more"]),
    ],
)
def test_function_ids_are_made_of_the_class_and_the_method(
    service: type[AppFunctionService], identifiers: list[str]
) -> None:
    assert [item.identifier for item in define_service(service, PACKAGE)] == identifiers


@pytest.mark.requirement(
    "appfunctions.constants.access-levels",
    "jetpack.access-level.unknown-refused",
)
def test_access_levels_have_androids_numbers_and_others_are_refused() -> None:
    levels = (
        AppFunctionMetadata.ACCESS_LEVEL_SELF,
        AppFunctionMetadata.ACCESS_LEVEL_SYSTEM,
        AppFunctionMetadata.ACCESS_LEVEL_ANDROID_TRUSTED,
    )

    assert levels == (100, 200, 300)
    with pytest.raises(ValueError, match="level=150"):
        app_function_access_level(level=150, is_compat_enforcement_enabled=True)


@pytest.mark.requirement("jetpack.entry-point.names")
@pytest.mark.parametrize(
    ("service_name", "file_name", "class_name"),
    [("", "f", None), ("S", "f.xml", None), ("S", "", None), ("S", "f", "a#b")],
)
def test_an_entry_point_with_unusable_names_is_refused(
    service_name: str, file_name: str, class_name: str | None
) -> None:
    with pytest.raises(ValueError, match="name"):
        app_function_service_entry_point(
            service_name=service_name,
            app_function_xml_file_name=file_name,
            class_name=class_name,
        )


def test_a_serializable_class_is_a_frozen_dataclass_unless_it_was_a_dataclass_before() -> None:
    @app_function_serializable
    @dataclasses.dataclass
    class Mutable:
        name: str

    mutable = Mutable("a")
    mutable.name = "b"  # type: ignore[misc]

    assert mutable == Mutable("b")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Item("a").name = "b"  # type: ignore[misc]


def test_a_declared_method_is_still_called_as_before() -> None:
    text: str = OrderTools().cancel_order("7")

    assert text == "cancelled 7"


@pytest.mark.requirement("jetpack.declaration.only-plain-methods")
def test_only_methods_can_be_declared() -> None:
    with pytest.raises(TypeError, match="declare a plain method"):
        app_function_declaration(property(lambda self: 1))  # type: ignore[call-overload]
