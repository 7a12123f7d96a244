from __future__ import annotations

import pickle

import pytest

from aicore_client import (
    Agent,
    AgentEvent,
    AgentRunner,
    Content,
    FunctionCall,
    FunctionCallPart,
    FunctionResponsePart,
    TextPart,
)
from tests.client.conftest import Device
from tests.client.fakes import finish, sent_values, text


@pytest.mark.requirement("prompt.content.builder")
def test_the_builder_makes_a_user_content_unless_told_otherwise() -> None:
    assert Content.builder().text("a").build() == Content([TextPart("a")], Content.Role.USER)
    built = Content.builder().add_part(TextPart("a")).role(Content.Role.MODEL).build()
    assert built == Content((TextPart("a"),), Content.Role.MODEL)


@pytest.mark.requirement("prompt.content.roles")
def test_roles_have_the_numbers_of_the_phone() -> None:
    assert [(role.name, role.value) for role in Content.Role] == [("USER", 0), ("MODEL", 1)]


@pytest.mark.requirement("prompt.content.empty-refused")
@pytest.mark.parametrize("parts", [[], [""], [" \n"], ["", "\t"]])
def test_an_empty_prompt_is_a_value_error(parts: list[str]) -> None:
    builder = Content.builder()
    for part in parts:
        builder.text(part)

    with pytest.raises(ValueError, match="empty"):
        builder.build()


@pytest.mark.requirement("prompt.content.function-parts")
def test_function_parts_are_made_as_on_the_phone() -> None:
    wanted = FunctionCall("f", {"x": 1}, "call_1")

    content = Content([FunctionCallPart.create(wanted), TextPart("")], Content.Role.MODEL)

    assert content.parts[0] == FunctionCallPart(wanted)
    assert FunctionResponsePart.create("f", {"y": 2}) == FunctionResponsePart(None, "f", {"y": 2})
    with pytest.raises(TypeError, match="TextPart"):
        Content(["text"])  # type: ignore[list-item]


@pytest.mark.requirement("prompt.content.text-joined")
async def test_several_text_parts_reach_the_model_joined_with_a_newline(device: Device) -> None:
    content = Content.builder().text("a").text("b").build()
    device.aicore.script([text("ok"), finish()])

    runner = AgentRunner(Agent(), connection=device.connection)
    async for _ in runner.run_single_turn_async(content):
        pass

    assert sent_values(device.aicore.requests[0].contents[0]) == ["a\nb"]
    assert content.text == "a\nb"


def describe(event: AgentEvent) -> str:
    match event:
        case AgentEvent.TextMessage(words, is_partial):
            return f"{words} {is_partial}"
        case AgentEvent.FunctionCall(name, args):
            return f"{name} {args}"
        case AgentEvent.FunctionResponse(name, response):
            return f"{name} -> {response}"
        case _:
            raise AssertionError(event)


@pytest.mark.parametrize(
    ("event", "description", "representation"),
    [
        (
            AgentEvent.TextMessage("hi"),
            "hi False",
            "AgentEvent.TextMessage(text='hi', is_partial=False)",
        ),
        (
            AgentEvent.FunctionCall("f", {"x": 1}, id="c"),
            "f {'x': 1}",
            "AgentEvent.FunctionCall(name='f', args={'x': 1}, id='c')",
        ),
        (
            AgentEvent.FunctionResponse("f", {"y": 2}),
            "f -> {'y': 2}",
            "AgentEvent.FunctionResponse(name='f', response={'y': 2}, id='')",
        ),
    ],
)
def test_events_are_matched_printed_and_pickled(
    event: AgentEvent, description: str, representation: str
) -> None:
    assert isinstance(event, AgentEvent)
    assert describe(event) == description
    assert repr(event) == representation
    assert pickle.loads(pickle.dumps(event)) == event


@pytest.mark.requirement("agent.event.ids")
def test_the_id_of_a_call_takes_no_part_in_comparisons() -> None:
    assert AgentEvent.FunctionCall("f", {}, id="a") == AgentEvent.FunctionCall("f", {}, id="b")
    assert AgentEvent.FunctionCall("f", {}) != AgentEvent.FunctionCall("g", {})
