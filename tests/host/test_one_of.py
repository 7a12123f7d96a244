"""Sealed hierarchies and generic classes as types of functions."""

from __future__ import annotations

import abc
import re
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest
from pydantic import BaseModel

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.errors import AppFunctionError
from aicore_sim.rpc.values import from_value, to_object
from appfunctions_host import (
    AppFunctionService,
    app_function_declaration,
    app_function_serializable,
)
from appfunctions_host.codec import decode_arguments, encode_result
from appfunctions_host.data_types import DefinitionError, Place, data_type
from appfunctions_host.schema import define_service

T = TypeVar("T")
K = TypeVar("K")
PACKAGE = "com.example.app"
PLACE = Place(package=PACKAGE, where="Tools.run")


@app_function_serializable
class Payment(abc.ABC):
    amount: int


@app_function_serializable
@dataclass(frozen=True, slots=True)
class Card(Payment):
    number: str


@app_function_serializable
class Transfer(Payment, abc.ABC):
    account: str


@app_function_serializable
class Instantly(Transfer):
    fee: int


@app_function_serializable
class Voucher:
    code: str


@app_function_serializable
class Page(Generic[T]):
    items: list[T]
    next: str | None


@app_function_serializable
class Entry(Generic[K, T]):
    key: K
    page: Page[T] | None


class Empty(abc.ABC):  # noqa: B024 - an abstract class without members is the case
    pass


@app_function_serializable
class Lonely(abc.ABC):  # noqa: B024 - as above
    pass


@app_function_serializable
class Open(abc.ABC):  # noqa: B024 - as above
    pass


class Unmarked(Open):
    pass


@app_function_serializable
class Growing(Generic[T]):
    more: Growing[list[T]] | None


@app_function_serializable
class Model(BaseModel, Generic[T]):
    item: T


class Tools(AppFunctionService):
    @app_function_declaration
    def pay(self, how: Payment, others: list[Payment]) -> Payment:
        return how

    @app_function_declaration
    def pay_or_redeem(self, how: Payment | Voucher | None = None) -> Payment | Voucher | None:
        return how

    @app_function_declaration
    def look_up(self, entry: Entry[str, Voucher]) -> Page[Payment]:
        return Page([], None)


FUNCTIONS = {one.method_name: one for one in define_service(Tools, PACKAGE)}
CARD = {"amount": 1, "number": "4"}
INSTANTLY = {"amount": 2, "account": "a", "fee": 3}


@pytest.mark.requirement("jetpack.declaration.generics-and-one-of")
def test_an_abstract_class_is_a_one_of_of_the_concrete_classes_below_it() -> None:
    function = FUNCTIONS["pay"]

    found = decode_arguments(function, to_object({"how": INSTANTLY, "others": [CARD]}))

    assert found == {"how": Instantly(2, "a", 3), "others": [Card(1, "4")]}
    assert from_value(encode_result(function, found["how"])) == INSTANTLY
    how = function.metadata.parameters[0].data_type
    assert (how.type, how.object_qualified_name) == (pb.TYPE_ONE_OF, f"{PACKAGE}.Payment")
    assert [one.object_qualified_name for one in how.one_of] == [
        f"{PACKAGE}.Card",
        f"{PACKAGE}.Instantly",
    ]


def test_an_abstract_class_in_a_union_adds_its_classes() -> None:
    function = FUNCTIONS["pay_or_redeem"]

    for value, wire in ((Card(1, "4"), CARD), (Voucher("x"), {"code": "x"}), (None, None)):
        assert decode_arguments(function, to_object({"how": wire})) == {"how": value}
        assert from_value(encode_result(function, value)) == wire
    how = function.metadata.parameters[0].data_type
    assert (len(how.one_of), how.is_nullable) == (3, True)


def test_a_value_of_none_of_the_classes_is_refused_with_each_reason() -> None:
    with pytest.raises(AppFunctionError, match=r"fits none of its types \(Card: .*Instantly: "):
        decode_arguments(FUNCTIONS["pay"], to_object({"how": {"amount": 1}, "others": []}))
    with pytest.raises(AppFunctionError, match="type of Card or Instantly, but was Voucher") as bad:
        encode_result(FUNCTIONS["pay"], Voucher("x"))
    assert bad.value.error_code == 3000


@pytest.mark.requirement("jetpack.declaration.generics-and-one-of")
def test_a_generic_class_takes_its_type_arguments() -> None:
    page = {"items": [{"code": "x"}], "next": None}
    function = FUNCTIONS["look_up"]

    found = decode_arguments(function, to_object({"entry": {"key": "k", "page": page}}))

    assert found == {"entry": Entry("k", Page([Voucher("x")], None))}
    answer = encode_result(function, Page[Payment]([Card(1, "4")], "2"))
    assert from_value(answer) == {"items": [CARD], "next": "2"}
    with pytest.raises(AppFunctionError, match=r"the result.items\[0\] should be the type of Card"):
        encode_result(function, Page([Voucher("x")], None))
    entry = function.metadata.parameters[0].data_type
    assert entry.object_qualified_name == f"{PACKAGE}.Entry<String, Voucher>"
    inner = entry.properties[1].data_type
    assert inner.properties[0].data_type.item_type.object_qualified_name == f"{PACKAGE}.Voucher"


def test_a_generic_class_may_hold_itself_with_other_arguments() -> None:
    nested = data_type(Page[Page[int]], PLACE)

    assert nested.kotlin_name == "Page<Page<Int>>"


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (Empty, "Empty is not supported; annotate the class"),
        (Lonely, "Lonely is abstract, and no class annotated with"),
        (Open, "Unmarked derives from Open but is not annotated"),
        (Page, "T is not supported; give the generic class its type arguments"),
        (Page[bytes], "list[bytes] is not supported"),
        (Growing[int], "nests deeper than 24 levels"),
        (Model[int], "a generic pydantic model is none; use a generic dataclass"),
    ],
)
def test_what_cannot_be_a_sealed_or_generic_type_is_refused_with_the_reason(
    hint: object, reason: str
) -> None:
    with pytest.raises(DefinitionError, match=re.escape(reason)):
        data_type(hint, PLACE)
