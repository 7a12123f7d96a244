from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aicore_client import (
    Agent,
    AgentEvent,
    AgentEventFlow,
    AgentRunner,
    AgentTool,
    AppFunctionAgentTools,
    Content,
    GenAiException,
)
from aicore_protos import aicore_pb2
from tests.client.conftest import Device
from tests.client.fakes import Hold, Item, call, finish, gen_ai_error, sent_values, text

CANCELLED = GenAiException.ErrorCode.CANCELLED


def say(words: str) -> Content:
    return Content.builder().text(words).build()


async def answer_of(flow: AgentEventFlow) -> str:
    async with asyncio.timeout(5):
        return [message async for message in flow.text_messages()][-1]


def last_conversation(device: Device) -> list[list[object]]:
    return [sent_values(content) for content in device.aicore.requests[-1].contents]


@pytest.fixture
def runner(device: Device) -> AgentRunner:
    return AgentRunner(Agent(), connection=device.connection)


@pytest.mark.requirement("agent.session.usage")
async def test_a_session_tells_what_its_history_takes(device: Device, runner: AgentRunner) -> None:
    device.aicore.script([text("Hi."), finish()], [text(" "), finish()])
    session = runner.get_or_create_session("chat")
    assert session.usage is None

    await answer_of(session.run_async(say("Hi")))

    usage = session.usage
    assert usage is not None
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (7, 3, 2)
    assert usage.total_tokens == 9
    await answer_of(session.run_async(say("An answer that is empty")))
    assert session.usage is usage  # what is not remembered takes nothing
    session.close()
    assert session.usage is None


async def within_time(event: asyncio.Event) -> None:
    async with asyncio.timeout(5):
        await event.wait()


@pytest.mark.requirement(
    "agent.runner.get-or-create-session",
    "agent.session.records-turn",
    "prompt.request.session-id-keeps-no-history",
)
async def test_a_session_remembers_and_a_new_handle_continues_it(
    device: Device, runner: AgentRunner
) -> None:
    device.aicore.script([text("Hi Ann."), finish()], [text("Ann."), finish()])

    await answer_of(runner.get_or_create_session("chat").run_async(say("I am Ann.")))
    await answer_of(runner.get_or_create_session("chat").run_async(say("Who am I?")))

    assert last_conversation(device) == [["I am Ann."], ["Hi Ann."], ["Who am I?"]]
    assert device.aicore.requests[-1].session_id == "chat"


async def test_a_failed_turn_is_forgotten_as_a_whole(device: Device, runner: AgentRunner) -> None:
    device.aicore.script(
        [text("one"), finish()], [text("tw"), gen_ai_error(9)], [text("three"), finish()]
    )
    session = runner.get_or_create_session("s")

    await answer_of(session.run_async(say("1")))
    with pytest.raises(GenAiException):
        await answer_of(session.run_async(say("2")))
    await answer_of(session.run_async(say("3")))

    assert last_conversation(device) == [["1"], ["one"], ["3"]]


@pytest.mark.requirement("agent.loop.cancelled-turn")
async def test_leaving_the_loop_stops_the_model_and_forgets_the_turn(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([text("a"), hold], [text("b"), finish()])
    session = runner.get_or_create_session("s")

    async for _ in session.run_async(say("1")):
        break

    await within_time(hold.cancelled)
    assert await answer_of(session.run_async(say("2"))) == "b"
    assert last_conversation(device) == [["2"]]


async def test_leaving_a_loop_over_text_tokens_stops_the_model_too(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([text("a"), hold])

    async for token in runner.run_single_turn_async(say("1")).text_tokens():
        assert token == "a"
        break

    await within_time(hold.cancelled)


async def test_leaving_the_context_of_a_flow_waits_until_the_turn_has_ended(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([text("a"), hold])

    async with runner.run_single_turn_async(say("1")) as events:
        kept = aiter(events)
        await anext(kept)

    assert runner.session_ids == ()
    await within_time(hold.cancelled)


@pytest.mark.requirement("agent.loop.cancelled-turn")
async def test_a_flow_is_cancelled_from_another_task_and_ends_with_code_7(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([text("a"), hold], [text("b"), finish()])
    session = runner.get_or_create_session("s")
    flow = session.run_async(say("1"))
    seen: asyncio.Queue[AgentEvent] = asyncio.Queue()

    async def consume() -> None:
        async for event in flow:
            seen.put_nowait(event)

    consumer = asyncio.create_task(consume())
    first = await asyncio.wait_for(seen.get(), 5)
    await within_time(hold.reached)
    flow.cancel()
    with pytest.raises(GenAiException) as raised:
        await asyncio.wait_for(consumer, 5)

    assert raised.value.error_code == CANCELLED
    assert first == AgentEvent.TextMessage("a", is_partial=True)
    assert seen.empty()
    await within_time(hold.cancelled)
    assert await answer_of(session.run_async(say("2"))) == "b"
    assert last_conversation(device) == [["2"]]


async def test_cancelling_between_two_events_is_seen_at_the_next_one(
    device: Device, runner: AgentRunner
) -> None:
    device.aicore.script([text("a"), text("b"), finish()])
    flow = runner.run_single_turn_async(say("1"))
    events = aiter(flow)
    await anext(events)

    flow.cancel()
    await asyncio.sleep(0)

    with pytest.raises(GenAiException) as raised:
        await asyncio.wait_for(anext(events), 5)
    assert raised.value.error_code == CANCELLED
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_cancelling_the_consuming_task_stops_the_model(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([hold])
    consumer = asyncio.create_task(answer_of(runner.run_single_turn_async(say("1"))))
    await within_time(hold.reached)

    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer

    assert runner.session_ids == ()
    await within_time(hold.cancelled)


class Waiting(AgentTool):
    """Waits for ever, and tells when it is reached and cancelled."""

    def __init__(self, delegate: AgentTool) -> None:
        super().__init__(delegate)
        self.reached = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
        self.reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        return {}


@pytest.mark.requirement("agent.loop.cancel-mid-tool")
async def test_cancelling_during_a_tool_reaches_the_tool_and_rolls_the_turn_back(
    device: Device,
) -> None:
    device.host.add("com.example.shop.OrderTools#wait")
    (function,) = await AppFunctionAgentTools.discover(connection=device.connection)
    tool = Waiting(function)
    session = AgentRunner(Agent(tools=[tool]), connection=device.connection).get_or_create_session(
        "s"
    )
    device.aicore.script([call("wait"), finish()], [text("b"), finish()])
    flow = session.run_async(say("1"))

    consumer = asyncio.create_task(answer_of(flow))
    await within_time(tool.reached)
    flow.cancel()
    with pytest.raises(GenAiException):
        await asyncio.wait_for(consumer, 5)

    assert tool.cancelled.is_set()
    assert await answer_of(session.run_async(say("2"))) == "b"
    assert last_conversation(device) == [["2"]]


@pytest.mark.requirement("agent.loop.cancel-by-state")
async def test_a_cancelled_turn_that_waits_is_removed_and_one_that_ended_stays(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([text("one"), hold, finish()], [text("three"), finish()])
    session = runner.get_or_create_session("s")
    running, waiting = session.run_async(say("1")), session.run_async(say("2"))
    first = asyncio.create_task(answer_of(running))
    await within_time(hold.reached)
    second = asyncio.create_task(answer_of(waiting))
    for _ in range(20):
        await asyncio.sleep(0)

    waiting.cancel()
    with pytest.raises(GenAiException) as raised:
        await asyncio.wait_for(second, 5)
    assert raised.value.error_code == CANCELLED
    hold.release.set()
    assert await asyncio.wait_for(first, 5) == "one"
    running.cancel()
    assert await answer_of(session.run_async(say("3"))) == "three"

    # The one that waited was never sent, and the one that had ended is remembered.
    assert len(device.aicore.requests) == 2
    assert last_conversation(device) == [["1"], ["one"], ["3"]]


@pytest.mark.requirement("agent.loop.cancel-by-state")
async def test_a_cancelled_turn_that_runs_takes_its_prompt_and_its_reply_along(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([text("one"), finish()], [text("tw"), hold], [text("three"), finish()])
    session = runner.get_or_create_session("s")
    await answer_of(session.run_async(say("1")))
    flow = session.run_async(say("2"))
    running = asyncio.create_task(answer_of(flow))
    await within_time(hold.reached)

    flow.cancel()
    with pytest.raises(GenAiException):
        await asyncio.wait_for(running, 5)
    await within_time(hold.cancelled)
    await answer_of(session.run_async(say("3")))

    assert last_conversation(device) == [["1"], ["one"], ["3"]]


@pytest.mark.requirement("agent.session.turns-serialised")
async def test_two_turns_of_one_session_run_one_after_the_other(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([text("one"), hold, finish()], [text("two"), finish()])
    session = runner.get_or_create_session("s")

    first = asyncio.create_task(answer_of(session.run_async(say("1"))))
    await within_time(hold.reached)
    second = asyncio.create_task(answer_of(session.run_async(say("2"))))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(device.aicore.requests) == 1
    hold.release.set()

    assert list(await asyncio.wait_for(asyncio.gather(first, second), 5)) == ["one", "two"]
    assert last_conversation(device) == [["1"], ["one"], ["2"]]


@pytest.mark.requirement("agent.runner.sessions-isolated")
async def test_five_parallel_sessions_keep_their_secrets_apart(
    device: Device, runner: AgentRunner
) -> None:
    def parrot(request: aicore_pb2.GenerateContentRequest) -> list[Item]:
        said = [str(value) for content in request.contents for value in sent_values(content)]
        return [text(" ".join(said)), finish()]

    device.aicore.answer = parrot

    async def chat(word: str) -> str:
        session = runner.get_or_create_session(word)
        await answer_of(session.run_async(say(word)))
        return await answer_of(session.run_async(say("?")))

    words = ["amber", "birch", "cedar", "delta", "ember"]
    answers = await asyncio.wait_for(asyncio.gather(*map(chat, words)), 5)

    assert answers == [f"{word} {word} ?" for word in words]
    assert set(runner.session_ids) == set(words)


@pytest.mark.requirement("agent.session.close-evicts", "agent.session.closed-refuses-turns")
async def test_closing_a_session_in_mid_stream_cancels_the_turn_and_twice_is_fine(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([hold], [text("new"), finish()])
    session = runner.get_or_create_session("s")
    consumer = asyncio.create_task(answer_of(session.run_async(say("1"))))
    await within_time(hold.reached)

    session.close()
    session.close()
    assert list(runner.session_ids) == []

    with pytest.raises(GenAiException) as raised:
        await asyncio.wait_for(consumer, 5)
    assert raised.value.error_code == CANCELLED
    with pytest.raises(RuntimeError, match="Session not found"):
        await answer_of(session.run_async(say("2")))
    assert await answer_of(runner.get_or_create_session("s").run_async(say("3"))) == "new"
    assert last_conversation(device) == [["3"]]


@pytest.mark.requirement("agent.session.delete-waits")
async def test_deleting_a_session_returns_when_its_turns_have_ended(
    device: Device, runner: AgentRunner
) -> None:
    running, waiting = Hold(), Hold()
    device.aicore.script([running])
    session = runner.get_or_create_session("s")
    first = asyncio.create_task(answer_of(session.run_async(say("1"))))
    await within_time(running.reached)
    second = asyncio.create_task(answer_of(session.run_async(say("2"))))
    await asyncio.sleep(0)

    await asyncio.wait_for(session.delete(), 5)
    await session.delete()

    outcomes = await asyncio.wait_for(asyncio.gather(first, second, return_exceptions=True), 5)
    codes = [item.error_code for item in outcomes if isinstance(item, GenAiException)]
    assert codes == [CANCELLED, CANCELLED]
    assert not waiting.reached.is_set()
    assert runner.session_ids == ()


async def test_a_tool_may_delete_the_session_that_runs_it(device: Device) -> None:
    device.host.add("com.example.shop.OrderTools#forget")
    (function,) = await AppFunctionAgentTools.discover(connection=device.connection)

    class Forget(AgentTool):
        async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
            await session.delete()
            await asyncio.Event().wait()
            return {}

    agent = Agent(tools=[Forget(function)])
    session = AgentRunner(agent, connection=device.connection).get_or_create_session("s")
    device.aicore.script([call("forget"), finish()])

    with pytest.raises(GenAiException) as raised:
        await answer_of(session.run_async(say("1")))

    assert raised.value.error_code == CANCELLED


@pytest.mark.requirement("agent.runner.clear-all-sessions", "agent.runner.delete-session")
async def test_the_runner_deletes_one_session_or_all_and_handles_start_afresh(
    device: Device, runner: AgentRunner
) -> None:
    device.aicore.answer = lambda request: [text("ok"), finish()]
    first, second = (runner.get_or_create_session(name) for name in "ab")
    for session in (first, second):
        await answer_of(session.run_async(say("1")))

    await runner.delete_session("a")
    await runner.delete_session("never-was")
    assert list(runner.session_ids) == ["b"]
    await answer_of(first.run_async(say("2")))
    assert last_conversation(device) == [["2"]]

    await runner.clear_all_sessions()
    assert list(runner.session_ids) == []


@pytest.mark.requirement("agent.runner.single-turn-forgotten")
async def test_single_turns_leave_nothing_behind(device: Device, runner: AgentRunner) -> None:
    device.aicore.answer = lambda request: [text("ok"), finish()]

    flow = runner.run_single_turn_async(say("1"))
    for _ in range(50):
        assert await answer_of(flow) == "ok"
    gc.collect()

    assert runner.session_ids == ()
    assert not [item for item in gc.get_objects() if type(item).__name__ == "Conversation"]
    assert all(len(request.contents) == 1 for request in device.aicore.requests)


async def test_a_session_keeps_no_task_of_its_turns(device: Device, runner: AgentRunner) -> None:
    device.aicore.answer = lambda request: [text("ok"), finish()]
    session = runner.get_or_create_session("s")

    for _ in range(10):
        await answer_of(session.run_async(say("1")))
    gc.collect()

    kept = [item for item in gc.get_objects() if isinstance(item, asyncio.Task) and item.done()]
    assert len(kept) < 10
    assert len(device.aicore.requests[-1].contents) == 19


@pytest.mark.requirement("agent.runner.close")
async def test_closing_the_runner_cancels_its_turns_and_refuses_new_ones(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([hold])
    consumer = asyncio.create_task(answer_of(runner.run_single_turn_async(say("1"))))
    await within_time(hold.reached)

    with runner:
        pass
    runner.close()

    with pytest.raises(GenAiException):
        await asyncio.wait_for(consumer, 5)
    with pytest.raises(RuntimeError, match="closed"):
        runner.get_or_create_session("s")
    with pytest.raises(RuntimeError, match="closed"):
        await answer_of(runner.run_single_turn_async(say("1")))


async def test_stopping_at_the_final_message_keeps_the_turn(
    device: Device, runner: AgentRunner
) -> None:
    device.aicore.script([text("a"), finish()], [text("b"), finish()])
    session = runner.get_or_create_session("s")

    async for event in session.run_async(say("1")):
        if event == AgentEvent.TextMessage("a"):
            break
    await answer_of(session.run_async(say("2")))

    assert last_conversation(device) == [["1"], ["a"], ["2"]]


async def test_a_consumer_cannot_change_the_history_through_an_event(device: Device) -> None:
    device.host.add("com.example.shop.OrderTools#look", lambda args: {"items": ["a"]})
    agent = Agent(is_app_functions_enabled=True)
    runner = AgentRunner(agent, connection=device.connection)
    device.aicore.script([call("look", ids=["x"]), finish()], [text("b"), finish()])

    async def vandal(events: AsyncIterator[AgentEvent]) -> None:
        async for event in events:
            match event:
                case AgentEvent.FunctionCall(_, args):
                    args["ids"].append("y")  # type: ignore[attr-defined]
                case AgentEvent.FunctionResponse(_, response):
                    response["items"].clear()  # type: ignore[attr-defined]

    await asyncio.wait_for(vandal(aiter(runner.run_single_turn_async(say("1")))), 5)

    assert device.host.executed == [("com.example.shop.OrderTools#look", {"ids": ["x"]})]
    assert last_conversation(device)[1:] == [
        [("call", "call_1", "look", {"ids": ["x"]})],
        [("response", "call_1", "look", {"items": ["a"]})],
    ]


@pytest.mark.requirement("agent.session.id-rules")
@pytest.mark.parametrize("session_id", ["", " ", ".", "..", "a b", "a/b", "ä", "a\n", "x" * 129])
def test_a_session_id_that_a_phone_refuses_is_a_value_error(session_id: str) -> None:
    with pytest.raises(ValueError, match="is no session id"):
        AgentRunner(Agent()).get_or_create_session(session_id)


@pytest.mark.requirement("agent.session.id-rules")
@pytest.mark.parametrize("session_id", ["a", "x" * 128, "...", "A-z_0.9"])
def test_a_session_id_of_the_allowed_characters_is_kept(session_id: str) -> None:
    assert AgentRunner(Agent()).get_or_create_session(session_id).session_id == session_id


@pytest.mark.requirement("agent.session.run-async-content")
def test_a_turn_starts_with_a_user_content_only() -> None:
    session = AgentRunner(Agent()).get_or_create_session("s")

    with pytest.raises(ValueError, match="role USER"):
        session.run_async(Content.builder().text("x").role(Content.Role.MODEL).build())
    with pytest.raises(TypeError, match="Content.builder"):
        session.run_async("text")  # type: ignore[arg-type]


@pytest.mark.requirement("agent.runner.sampling-range")
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"temperature": 1.5}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tool_choice": "required"}, "tools"),
    ],
)
def test_a_setting_outside_its_range_is_named(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        AgentRunner(Agent(), **settings)  # type: ignore[arg-type]


@pytest.mark.requirement(
    "agent.session.memory-only",
)
async def test_a_history_is_gone_with_its_runner(device: Device) -> None:
    device.aicore.answer = lambda request: [text("ok"), finish()]

    for _ in range(2):
        runner = AgentRunner(Agent(), connection=device.connection)
        await answer_of(runner.get_or_create_session("s").run_async(say("1")))

    assert last_conversation(device) == [["1"]]
