"""Answers as objects of a class, and what a model is able to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from aicore_client import (
    Content,
    Feature,
    FinishReason,
    FunctionType,
    GenAiException,
    GenerateContentRequest,
    GenerateTypedContentRequest,
    Generation,
    Guide,
    TextPart,
    generable,
)
from aicore_client._generable import generable_schema
from tests.client.conftest import Device
from tests.client.fakes import call, finish, gen_ai_error, text

Code = GenAiException.ErrorCode


@generable("One line of an order.")
@dataclass(frozen=True)
class Line:
    article: str
    count: Annotated[int, Guide(description="How many.", minimum=1, maximum=99)] = 1


@generable("An order.")
@dataclass(frozen=True)
class Order:
    number: str
    state: Annotated[str, Guide(enum_values=("OPEN", "SHIPPED"))]
    lines: Annotated[list[Line], Guide(min_items=1, max_items=9)]
    total: float
    paid: bool
    note: str | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Unmarked:
    name: str


ORDER = {
    "number": "A-1",
    "state": "OPEN",
    "lines": [{"article": "tea", "count": 2}, {"article": "mug"}],
    "total": 12,
    "paid": True,
}


def asked(output_class: type[Any] = Order, **more: Any) -> GenerateTypedContentRequest[Any]:
    request = GenerateContentRequest(contents=[Content([TextPart("Order A-1?")])], **more)
    return GenerateTypedContentRequest(generate_content_request=request, output_class=output_class)


@pytest.mark.requirement("prompt.structured-output")
async def test_an_answer_is_an_object_of_the_class(device: Device) -> None:
    device.aicore.script([text(json.dumps(ORDER)), finish()])
    model = Generation.get_client(connection=device.connection)

    answer = await model.generate_typed_content(asked(system_instruction="Be brief."))

    [candidate] = answer.candidates
    assert candidate.response == Order(
        number="A-1", state="OPEN", lines=[Line("tea", 2), Line("mug")], total=12.0, paid=True
    )
    assert candidate.finish_reason == FinishReason.STOP
    assert answer.usage is not None
    [sent] = device.aicore.requests
    assert sent.response_schema.properties[0].name == "number"
    before, _, shown = sent.system_instruction.partition("schema: ")
    assert before.startswith("Be brief.\n\n")
    told = json.loads(shown)
    assert told["required"] == ["number", "state", "lines", "total", "paid"]
    assert told["properties"]["lines"]["items"]["properties"]["count"] == {
        "type": "integer",
        "description": "How many.",
        "minimum": 1,
        "maximum": 99,
    }
    assert told["properties"]["note"] == {"type": ["string", "null"]}


async def test_the_schema_may_be_left_out_of_the_prompt_and_is_counted_when_it_is_not(
    device: Device,
) -> None:
    device.aicore.script([text(json.dumps(ORDER)), finish()])
    model = Generation.get_client(connection=device.connection)
    request = asked()
    bare = GenerateTypedContentRequest(
        generate_content_request=request.generate_content_request,
        output_class=Order,
        include_schema_in_prompt=False,
    )

    await model.generate_typed_content(bare)
    await model.count_tokens(request)

    generated, counted = device.aicore.requests
    assert generated.system_instruction == ""
    assert generated.response_schema == counted.response_schema
    assert '"minimum": 1' in counted.system_instruction


@pytest.mark.requirement("prompt.structured-output.errors")
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("no JSON", "Expecting value"),
        ("[]", "Order is list, no object"),
        (json.dumps({**ORDER, "size": 1}), "the unknown field 'size'"),
        (json.dumps({"number": "A-1"}), "lacks the field 'state'"),
        (json.dumps({**ORDER, "paid": 1}), "Order.paid is 1, no bool"),
        (json.dumps({**ORDER, "lines": [{"article": 3}]}), r"Order.lines\[0\].article is 3"),
        (json.dumps({**ORDER, "lines": [{"article": "a", "count": True}]}), "count is True"),
        (json.dumps({**ORDER, "lines": "tea"}), "Order.lines is str, no list"),
        (json.dumps({**ORDER, "total": None}), "Order.total is None"),
    ],
)
async def test_text_that_is_no_such_object_is_minus_105(
    device: Device, said: str, reason: str
) -> None:
    device.aicore.script([text(said), finish()])
    with pytest.raises(GenAiException, match=reason) as failed:
        await Generation.get_client(connection=device.connection).generate_typed_content(asked())
    assert failed.value.error_code == Code.STRUCTURED_OUTPUT_RESPONSE_ERROR


@pytest.mark.requirement("prompt.structured-output.errors")
async def test_a_class_that_is_not_marked_is_minus_104_and_reaches_no_model(
    device: Device,
) -> None:
    with pytest.raises(GenAiException, match="'Unmarked' is not marked") as failed:
        await Generation.get_client(connection=device.connection).generate_typed_content(
            asked(Unmarked)
        )
    assert failed.value.error_code == Code.STRUCTURED_OUTPUT_REQUEST_ERROR
    assert device.aicore.requests == []


async def test_codes_of_the_daemon_come_through_and_a_call_is_no_object(device: Device) -> None:
    device.aicore.script(
        [gen_ai_error(Code.STRUCTURED_OUTPUT_MAX_TOKENS_ERROR, "cut")], [call("look"), finish()]
    )
    model = Generation.get_client(connection=device.connection)
    with pytest.raises(GenAiException) as failed:
        await model.generate_typed_content(asked())
    assert failed.value.error_code == Code.STRUCTURED_OUTPUT_MAX_TOKENS_ERROR
    [candidate] = (await model.generate_typed_content(asked())).candidates
    assert candidate.response is None


@dataclass
class HoldsUnmarked:
    inner: Unmarked


@dataclass
class Either:
    value: int | str


@dataclass
class Raw:
    value: bytes


@generable()
@dataclass
class Tree:
    name: str


Tree.__annotations__["children"] = "list[Tree]"
Recursive = dataclass(Tree)


class Plain:
    pass


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (HoldsUnmarked, "HoldsUnmarked.inner is"),
        (Either, "the only choice"),
        (Raw, "Raw.value is"),
        (Recursive, "'Tree' holds itself"),
        (Plain, "is no dataclass"),
    ],
)
def test_what_no_schema_can_say_is_refused_when_the_class_is_marked(
    cls: type[Any], reason: str
) -> None:
    with pytest.raises(TypeError, match=reason):
        generable()(cls)


def test_a_class_that_names_one_of_a_function_is_refused() -> None:
    @dataclass
    class Inner:
        name: str

    @dataclass
    class Outer:
        inner: Inner

    with pytest.raises(TypeError, match="name 'Inner' is not defined"):
        generable()(Outer)


def test_a_schema_has_what_the_class_says() -> None:
    schema = generable_schema(Order)
    assert schema.description == "An order."
    assert schema.required == ("number", "state", "lines", "total", "paid")
    assert schema.properties["state"].enum == ("OPEN", "SHIPPED")
    lines = schema.properties["lines"]
    assert (lines.type, lines.min_items, lines.max_items) == (FunctionType.ARRAY, 1, 9)
    assert lines.items is not None
    assert lines.items.description == "One line of an order."
    assert schema.properties["note"].nullable


@pytest.mark.requirement("prompt.feature.probes")
async def test_a_client_tells_which_features_the_model_has(device: Device) -> None:
    device.aicore.features = [Feature.SYSTEM_PROMPT, Feature.STRUCTURED_OUTPUT]
    model = Generation.get_client(connection=device.connection)
    assert await model.is_system_prompt_available()
    assert await model.is_structured_output_feature_available()
    assert not await model.is_thinking_mode_available()
    assert not await model.is_caching_feature_available()
    assert not await model.is_feature_available(Feature.FUNCTION_CALLING)
