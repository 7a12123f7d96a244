"""What a runner can be told beyond Android's parameters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from aicore_client import (
    Agent,
    AgentEvent,
    AgentRunner,
    AgentTool,
    AppFunctionAgentTools,
    Content,
    GenAiException,
    RunnerOptions,
)
from aicore_protos import aicore_pb2
from tests.client.conftest import Device
from tests.client.fakes import call, finish, gen_ai_error, sent_values, text

TOO_LARGE = GenAiException.ErrorCode.REQUEST_TOO_LARGE
TOOLS = "com.example.shop.Tools"


class Slow(AgentTool):
    """Runs until it is let go, and is seen to be cancelled."""

    def __init__(self, delegate: AgentTool) -> None:
        super().__init__(delegate)
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.gates: dict[str, asyncio.Event] = {}
        self.cancelled = 0

    def let_go(self, *names: str) -> None:
        for name in names:
            self.gates.setdefault(name, asyncio.Event()).set()

    async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
        gate = self.gates.setdefault(args["who"], asyncio.Event())
        self.begun.put_nowait(args["who"])
        try:
            await gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {"who": args["who"]}


def say(words: str) -> Content:
    return Content.builder().text(words).build()


def words_of(request: aicore_pb2.GenerateContentRequest) -> int:
    """A tokenizer: a word is a token, and a declaration costs ten."""
    said = " ".join(str(value) for content in request.contents for value in sent_values(content))
    return len(said.split()) + 10 * len(request.tools)


async def events_of(events: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    async with asyncio.timeout(10):
        return [event async for event in events]


async def tools(device: Device) -> list[AgentTool]:
    return await AppFunctionAgentTools.discover(connection=device.connection)


def runner_of(device: Device, *given: AgentTool, **options: Any) -> AgentRunner:
    agent = Agent.builder().add_tools(*given).build()
    return AgentRunner(agent, connection=device.connection, options=RunnerOptions(**options))


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool_timeout": timedelta()},
        {"tool_result_tokens": 63},
        {"on_large_tool_result": "drop"},
        {"on_full_window": "wrap"},
        {"final_text": "half"},
    ],
)
def test_a_wrong_option_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RunnerOptions(**wrong)


@pytest.mark.requirement("agent.loop.tool-timeout")
async def test_a_tool_that_gives_no_answer_in_time_has_exactly_one_response(device: Device) -> None:
    device.host.add(f"{TOOLS}#wait")
    device.aicore.script([call("wait", who="a"), finish()], [text("It took long."), finish()])
    slow = Slow((await tools(device))[0])
    runner = runner_of(device, slow, tool_timeout=timedelta(milliseconds=50))

    events = await events_of(aiter(runner.run_single_turn_async(say("Go"))))

    responses = [event for event in events if isinstance(event, AgentEvent.FunctionResponse)]
    assert [dict(one.response) for one in responses] == [
        {"error": "The tool gave no answer within 0.05 s."}
    ]
    assert slow.cancelled == 1
    assert isinstance(events[-1], AgentEvent.TextMessage)


@pytest.mark.requirement("agent.loop.parallel-tools")
async def test_calls_run_together_when_wanted_and_are_told_in_the_models_order(
    device: Device,
) -> None:
    device.host.add(f"{TOOLS}#wait")
    device.aicore.script(
        [call("wait", who="a"), call("wait", who="b"), finish()], [text("Both."), finish()]
    )
    slow = Slow((await tools(device))[0])
    runner = runner_of(device, slow, parallel_tools=True)
    running = asyncio.create_task(events_of(aiter(runner.run_single_turn_async(say("Go")))))
    async with asyncio.timeout(10):
        assert {await slow.begun.get(), await slow.begun.get()} == {"a", "b"}
        slow.gates["b"].set()
        await asyncio.sleep(0)
        slow.gates["a"].set()
        events = await running

    calls = [event for event in events if isinstance(event, AgentEvent.FunctionCall)]
    responses = [event for event in events if isinstance(event, AgentEvent.FunctionResponse)]
    assert events[:2] == calls
    assert [one.args["who"] for one in calls] == ["a", "b"]
    assert {one.id: one.response["who"] for one in responses} == {
        one.id: one.args["who"] for one in calls
    }
    told = device.aicore.requests[-1].contents[-1]
    assert [part.function_response.id for part in told.parts] == [one.id for one in calls]


async def test_a_turn_that_is_left_cancels_every_call_that_runs(device: Device) -> None:
    device.host.add(f"{TOOLS}#wait")
    device.aicore.script([call("wait", who="a"), call("wait", who="b"), finish()])
    slow = Slow((await tools(device))[0])
    flow = runner_of(device, slow, parallel_tools=True).run_single_turn_async(say("Go"))
    running = asyncio.create_task(events_of(aiter(flow)))
    async with asyncio.timeout(10):
        await slow.begun.get()
        await slow.begun.get()
        flow.cancel()
        with pytest.raises(GenAiException) as stopped:
            await running
    assert stopped.value.error_code == GenAiException.ErrorCode.CANCELLED
    assert slow.cancelled == 2


@pytest.mark.requirement("agent.loop.tool-result-budget")
async def test_a_result_over_its_budget_is_cut_with_a_note(device: Device) -> None:
    words = " ".join(f"word{number}" for number in range(11_000))
    device.host.add(f"{TOOLS}#read", lambda args: {"text": words})
    device.aicore.count = words_of
    device.aicore.script([call("read"), finish()], [text("Long."), finish()])
    runner = runner_of(device, *(await tools(device)))

    events = await events_of(aiter(runner.run_single_turn_async(say("Read it"))))

    [response] = [one for one in events if isinstance(one, AgentEvent.FunctionResponse)]
    shown = dict(response.response)
    assert shown["truncated"] is True
    assert "11001 tokens" in str(shown["note"]) or "more than" in str(shown["note"])
    beginning = str(shown["result"])
    assert beginning.startswith('{"text": "word0 word1 ')
    sent = device.aicore.requests[-1].contents[-1]
    assert 800 < len(str(sent_values(sent)).split()) <= 1024 + 30
    assert isinstance(events[-1], AgentEvent.TextMessage)


@pytest.mark.requirement("agent.loop.tool-result-budget")
async def test_a_result_over_its_budget_fails_the_turn_when_it_must_not_be_cut(
    device: Device,
) -> None:
    device.host.add(f"{TOOLS}#read", lambda args: {"text": "word " * 300})
    device.aicore.count = words_of
    device.aicore.script([call("read"), finish()], [text("Hello."), finish()])
    runner = runner_of(
        device, *(await tools(device)), tool_result_tokens=100, on_large_tool_result="error"
    )
    session = runner.get_or_create_session("s")

    with pytest.raises(GenAiException, match="'read' has 30. tokens; at most 100") as failed:
        await events_of(aiter(session.run_async(say("Read it"))))

    assert failed.value.error_code == TOO_LARGE
    await events_of(aiter(session.run_async(say("Hi"))))
    assert len(device.aicore.requests[-1].contents) == 1  # the failed turn is forgotten


async def test_a_result_that_never_shrinks_is_an_error_and_no_endless_loop(device: Device) -> None:
    device.host.add(f"{TOOLS}#read", lambda args: {"text": "word " * 300})
    device.aicore.count = lambda request: 5000
    device.aicore.script([call("read"), finish()])
    runner = runner_of(device, *(await tools(device)), tool_result_tokens=100)
    with pytest.raises(GenAiException, match="Nothing of the result of 'read'") as failed:
        await events_of(aiter(runner.run_single_turn_async(say("Read it"))))
    assert failed.value.error_code == TOO_LARGE


async def test_a_small_result_of_any_kind_is_told_as_it_is(device: Device) -> None:
    given = {"raw": bytes(200), "list": [1, None, {"a": 2.5}]}
    device.host.add(f"{TOOLS}#read", lambda args: given)
    device.aicore.script([call("read"), finish()], [text("Ok."), finish()])
    runner = runner_of(device, *(await tools(device)))
    events = await events_of(aiter(runner.run_single_turn_async(say("Read it"))))
    [response] = [one for one in events if isinstance(one, AgentEvent.FunctionResponse)]
    assert dict(response.response) == given


@pytest.mark.requirement("agent.session.history-trimmed")
async def test_a_history_that_does_not_fit_loses_its_oldest_turns_whole(device: Device) -> None:
    device.host.add(f"{TOOLS}#look", lambda args: {"found": "something"})
    device.aicore.count = words_of
    device.aicore.token_limit = 100
    answer = [text("word " * 15), finish()]
    device.aicore.script(
        [call("look"), finish()], answer, answer, answer, [call("look"), finish()], answer
    )
    runner = runner_of(device, *(await tools(device)), on_full_window="trim")
    session = runner.get_or_create_session("s")

    for number in range(4):
        await events_of(aiter(session.run_async(say(f"question {number}"))))

    asked = [one for one in device.aicore.requests if words_of(one) + 25 <= 100]
    last = asked[-1].contents
    said = [str(sent_values(content)) for content in last]
    assert "question 0" not in "".join(said)  # its call and its response went with it
    assert "question 3" in "".join(said)
    calls = [part for content in last for part in content.parts if part.HasField("function_call")]
    responses = [
        part for content in last for part in content.parts if part.HasField("function_response")
    ]
    assert [one.function_call.id for one in calls] == [
        one.function_response.id for one in responses
    ]


@pytest.mark.requirement("agent.session.full-window")
async def test_a_full_window_is_request_too_large_unless_trimming_is_wanted(
    device: Device,
) -> None:
    device.aicore.script([gen_ai_error(TOO_LARGE, "too many tokens")])
    with pytest.raises(GenAiException, match="too many tokens") as failed:
        await events_of(aiter(runner_of(device).run_single_turn_async(say("Hi"))))
    assert failed.value.error_code == TOO_LARGE


@pytest.mark.requirement("agent.loop.declarations-too-large")
async def test_declarations_that_fill_the_window_are_named_with_their_tokens(
    device: Device,
) -> None:
    for number in range(12):
        device.host.add(f"{TOOLS}#tool_{number}")
    device.aicore.count = words_of
    device.aicore.token_limit = 100
    device.aicore.script([gen_ai_error(TOO_LARGE, "too many tokens")])
    runner = runner_of(device, *(await tools(device)))

    with pytest.raises(GenAiException) as failed:
        await events_of(aiter(runner.run_single_turn_async(say("Hi"))))

    assert failed.value.error_code == TOO_LARGE
    message = failed.value.message
    assert message.startswith("The declarations of 12 tools alone fill the window of 100 tokens")
    assert "tool_3 10" in message
    assert "add_app_function_ids" in message


@pytest.mark.requirement("agent.loop.final-text")
@pytest.mark.parametrize(("final_text", "last"), [("whole", "abc"), ("empty", "")])
async def test_the_last_message_has_the_whole_text_or_none_and_the_history_has_it(
    device: Device, final_text: str, last: str
) -> None:
    device.aicore.script([text("ab"), text("c"), finish()], [text("More."), finish()])
    session = runner_of(device, final_text=final_text).get_or_create_session("s")

    events = await events_of(aiter(session.run_async(say("Go"))))
    await events_of(aiter(session.run_async(say("On"))))

    assert events == [
        AgentEvent.TextMessage("ab", is_partial=True),
        AgentEvent.TextMessage("c", is_partial=True),
        AgentEvent.TextMessage(last),
    ]
    assert device.aicore.requests[-1].contents[1].parts[0].text == "abc"


@pytest.mark.requirement("agent.loop.own-result")
@pytest.mark.parametrize("parallel", [False, True])
async def test_of_three_calls_one_fails_and_the_others_have_their_results(
    device: Device, parallel: bool
) -> None:
    device.host.add(f"{TOOLS}#wait")
    calls = [call("wait", who="a"), call("nothing_of_the_kind"), call("wait", who="c")]
    device.aicore.script([*calls, finish()], [text("Two of three."), finish()])
    slow = Slow((await tools(device))[0])
    slow.let_go("a", "c")
    runner = runner_of(device, slow, parallel_tools=parallel)

    events = await events_of(aiter(runner.run_single_turn_async(say("Go"))))

    responses = [one for one in events if isinstance(one, AgentEvent.FunctionResponse)]
    assert sorted(str(dict(one.response))[:9] for one in responses) == [
        "{'error':",
        "{'who': '",
        "{'who': '",
    ]
    told = [part.function_response for part in device.aicore.requests[-1].contents[-1].parts]
    assert [one.name for one in told] == ["wait", "nothing_of_the_kind", "wait"]


@pytest.mark.requirement("agent.loop.called-twice")
async def test_the_same_call_twice_is_executed_twice_and_each_is_told(device: Device) -> None:
    device.host.add(f"{TOOLS}#wait")
    device.aicore.script(
        [call("wait", who="a"), call("wait", who="a"), finish()], [text("Done."), finish()]
    )
    slow = Slow((await tools(device))[0])
    slow.let_go("a")
    runner = runner_of(device, slow)

    events = await events_of(aiter(runner.run_single_turn_async(say("Go"))))

    begun = [slow.begun.get_nowait() for _ in range(slow.begun.qsize())]
    responses = [one for one in events if isinstance(one, AgentEvent.FunctionResponse)]
    assert begun == ["a", "a"]
    assert len({one.id for one in responses}) == 2
