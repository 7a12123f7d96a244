"""The Hermes dialect's prompts."""

from __future__ import annotations

from typing import Literal

import pytest

from aicore_sim.inference.backend import (
    Content,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    Schema,
    TextPart,
    ToolChoice,
    ToolDeclaration,
)
from aicore_sim.inference.dialect import ChatMessage, HermesDialect
from aicore_sim.inference.dialect.hermes import Declarations
from tests.inference.requests import ORDER_TOOL, ask, ask_with_tools, said, user

DIALECT = HermesDialect()
CALLING: tuple[Literal["auto", "required", "named"], ...] = ("auto", "required", "named")
INSTRUCTIONS = "You look up orders."
CALL = FunctionCallPart(name="fetch_order_details", args={"orderId": "Ä-1"})


def messages(request: GenerateRequest) -> list[ChatMessage]:
    return DIALECT.messages(request)


def with_system(request: GenerateRequest) -> GenerateRequest:
    return request.model_copy(update={"system_instruction": INSTRUCTIONS})


def history(*contents: Content, choice: ToolChoice) -> GenerateRequest:
    return GenerateRequest(contents=contents, tools=(ORDER_TOOL,), tool_choice=choice)


def test_a_plain_conversation_is_rendered_as_it_is() -> None:
    request = GenerateRequest(
        contents=(
            user("Hi"),
            said("model", TextPart(text="Hello.")),
            said("user", TextPart(text="One"), TextPart(text="two")),
        ),
        system_instruction=f" {INSTRUCTIONS}\n",
    )

    assert messages(request) == [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "One\ntwo"},
    ]
    assert messages(ask("Hi")) == [{"role": "user", "content": "Hi"}]


@pytest.mark.requirement("aicore.generate.tools-in-prompt")
def test_the_system_message_declares_every_function_in_one_signature() -> None:
    tool = ToolDeclaration(
        name="plan",
        parameters=Schema(
            type="object",
            properties={
                "when": Schema(type="string", enum=("now", "later")),
                "stops": Schema(type="array", items=Schema(type="integer"), nullable=True),
                "place": Schema(type="object", properties={"lat": Schema(type="number")}),
                "who": Schema(
                    type="string", any_of=(Schema(type="string"), Schema(type="boolean"))
                ),
            },
            required=("when",),
        ),
    )

    system = messages(with_system(ask_with_tools("Hi", ORDER_TOOL, tool, mode="none")))[0]

    assert system == {
        "role": "system",
        "content": (
            f"{INSTRUCTIONS}\n\nFunctions:\n"
            "- fetch_order_details(orderId: string): "
            "Fetches details and delivery status for an in-app order.\n"
            "  orderId: The alphanumeric order identifier\n"
            '- plan(when: "now"|"later", stops?: [integer]|null, place?: {lat: number}, '
            "who?: string|boolean)"
        ),
    }


def test_the_model_is_told_how_to_call_when_it_may_choose_and_has_not_seen_a_call() -> None:
    told = messages(ask_with_tools("Hi", mode="auto"))[0]["content"]
    response = said("user", FunctionResponsePart(name="fetch_order_details", response={}))
    seen = messages(history(user("Hi"), said("model", CALL), response, choice=ToolChoice()))

    assert "<tool_call>" in told
    assert "<tool_call>" not in seen[0]["content"]


def test_calls_and_responses_of_the_history_are_rendered_in_the_notation() -> None:
    response = FunctionResponsePart(
        name="fetch_order_details",
        response={"orderId": "Ä-1", "status": "Shipped", "items": [1], "late": False},
    )
    request = history(
        user("Where is Ä-1?"),
        said("model", TextPart(text="I will look."), CALL),
        said("user", response),
        choice=ToolChoice(mode="none"),
    )

    assert messages(request)[1:] == [
        {"role": "user", "content": "Where is Ä-1?"},
        {
            "role": "assistant",
            "content": (
                "I will look.\n<tool_call>\n"
                '{"name": "fetch_order_details", "arguments": {"orderId": "Ä-1"}}\n</tool_call>'
            ),
        },
        {
            "role": "user",
            "content": (
                "<tool_response>\n"
                '{"orderId": "Ä-1", "status": "Shipped", "items": [1], "late": false}\n'
                "</tool_response>"
            ),
        },
    ]


def test_a_tuned_model_reads_functions_in_the_form_of_their_calls() -> None:
    place = Schema(type="object", properties={"lat": Schema(type="number")}, required=("lat",))
    tool = ToolDeclaration(
        name="plan",
        description="Plans a trip.",
        parameters=Schema(
            type="object",
            properties={
                "when": Schema(type="string", enum=("now", "later"), description="The time."),
                "stops": Schema(type="array", items=Schema(type="integer"), nullable=True),
                "place": place,
            },
            required=("when", "place"),
        ),
    )
    tuned = HermesDialect(declarations="calls")

    system = tuned.messages(with_system(ask_with_tools("Hi", tool, mode="auto")))[0]["content"]

    assert system == (
        f"{INSTRUCTIONS}\n\nFunctions:\n"
        '{"name": "plan", "arguments": {"when": "now"|"later", "stops": [integer]|null?, '
        '"place": {"lat": number}}}: Plans a trip.\n'
        '  "when": The time.'
    )


@pytest.mark.parametrize(
    ("declarations", "shown"),
    [("json", '"enum": [1, 2.5]'), ("calls", '"size": 1|2.5'), ("signatures", "size: 1|2.5")],
)
def test_choices_that_are_numbers_are_shown_as_numbers(
    declarations: Declarations, shown: str
) -> None:
    size = Schema(type="number", enum=("1", "2.5"))
    parameters = Schema(type="object", properties={"size": size}, required=("size",))
    tool = ToolDeclaration(name="order", parameters=parameters)
    dialect = HermesDialect(declarations=declarations)

    system = dialect.messages(ask_with_tools("Hi", tool, mode="auto"))[0]["content"]

    assert shown in system


def test_a_demanded_call_is_told_the_notation_until_it_has_been_seen() -> None:
    response = said("user", FunctionResponsePart(name="fetch_order_details", response={}))
    shown = history(user("Hi"), said("model", CALL), response, choice=ToolChoice(mode="required"))

    told = [messages(ask_with_tools("Hi", mode=mode))[0]["content"] for mode in CALLING]

    assert all("<tool_call>" in text for text in told)
    assert "<tool_call>" not in messages(ask_with_tools("Hi", mode="none"))[0]["content"]
    assert "<tool_call>" not in messages(shown)[0]["content"]
