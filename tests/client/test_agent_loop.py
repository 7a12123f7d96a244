from __future__ import annotations

import asyncio
import re
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
    FunctionCallPart,
    GenAiException,
    Generation,
    PartialRun,
)
from aicore_protos import aicore_pb2
from tests.client.conftest import Device
from tests.client.fakes import (
    app_function_error,
    call,
    finish,
    gen_ai_error,
    malformed,
    parameter,
    sent_values,
    simulator_error,
    text,
)

TextMessage = AgentEvent.TextMessage
FunctionCall = AgentEvent.FunctionCall
FunctionResponse = AgentEvent.FunctionResponse

ORDER = {"orderId": "ORD-8492", "status": "Out for delivery", "eta": "2:30 PM"}


def say(words: str) -> Content:
    return Content.builder().text(words).build()


async def collect(flow: AgentEventFlow) -> list[AgentEvent]:
    async with asyncio.timeout(5):
        return [event async for event in flow]


async def collect_failing(flow: AgentEventFlow) -> tuple[list[AgentEvent], GenAiException]:
    """The events before the error, and the error."""
    events: list[AgentEvent] = []
    try:
        async with asyncio.timeout(5):
            async for event in flow:
                events.append(event)  # noqa: PERF401 - the events before the error count
    except GenAiException as error:
        return events, error
    raise AssertionError(f"the turn ended well: {events}")


def shop_runner(device: Device, **settings: object) -> AgentRunner:
    agent = Agent.builder().set_instructions("Help.").enable_app_functions(True).build()
    return AgentRunner(agent, connection=device.connection, **settings)  # type: ignore[arg-type]


@pytest.fixture
def shop(device: Device) -> Device:
    device.host.add(
        "com.example.shop.OrderTools#fetch_order_details",
        lambda args: {**ORDER, "orderId": args["orderId"]},
        parameters=[parameter("orderId", description="The order identifier")],
        description="Fetches details.",
    )
    return device


@pytest.mark.requirement(
    "agent.builder.enable-app-functions",
    "agent.event.final-text-once",
    "agent.event.function-call-before",
    "agent.event.function-response-after",
    "agent.event.ids",
    "agent.event.partial-text",
    "agent.loop.history-invariant",
    "agent.loop.observe-reason-act-evaluate",
    "agent.loop.text-before-call",
    "agent.session.records-turn",
    "agent.tool.args",
    "prompt.content.function-parts",
    "prompt.request.system-instruction",
    "prompt.request.tools-run-by-app",
)
async def test_a_turn_with_a_tool_gives_call_response_partials_and_one_final_text(
    shop: Device,
) -> None:
    shop.aicore.script(
        [text("Let me "), text("look."), call("fetch_order_details", orderId="ORD-8492"), finish()],
        [text("It is out "), text("for delivery."), finish()],
    )
    session = shop_runner(shop).get_or_create_session("chat")

    events = await collect(session.run_async(say("Where is my order ORD-8492?")))

    assert events == [
        TextMessage("Let me ", is_partial=True),
        TextMessage("look.", is_partial=True),
        FunctionCall("fetch_order_details", {"orderId": "ORD-8492"}),
        FunctionResponse("fetch_order_details", ORDER),
        TextMessage("It is out ", is_partial=True),
        TextMessage("for delivery.", is_partial=True),
        TextMessage("It is out for delivery."),
    ]
    first, second = shop.aicore.requests
    assert first.system_instruction == "Help."
    assert [sent_values(content) for content in second.contents] == [
        ["Where is my order ORD-8492?"],
        ["Let me look.", ("call", "call_1", "fetch_order_details", {"orderId": "ORD-8492"})],
        [("response", "call_1", "fetch_order_details", ORDER)],
    ]
    assert [content.role for content in second.contents] == [0, 1, 0]
    assert [event.id for event in events if isinstance(event, FunctionCall | FunctionResponse)] == [
        "call_1",
        "call_1",
    ]


@pytest.mark.requirement("prompt.request.tools")
async def test_the_declaration_that_the_model_gets_follows_the_metadata(shop: Device) -> None:
    shop.aicore.script([text("Hi."), finish()])

    await collect(shop_runner(shop).run_single_turn_async(say("Hello")))

    (tool,) = shop.aicore.requests[0].tools
    assert (tool.name, tool.description) == ("fetch_order_details", "Fetches details.")
    (order_id,) = tool.parameters.properties
    assert (order_id.name, order_id.schema.description) == ("orderId", "The order identifier")
    assert list(tool.parameters.required) == ["orderId"]


@pytest.mark.requirement("agent.runner.temperature-default")
async def test_sampling_is_left_to_the_model_unless_the_runner_is_told(shop: Device) -> None:
    shop.aicore.script([text("a"), finish()], [text("b"), finish()])

    await collect(shop_runner(shop).run_single_turn_async(say("x")))
    told = shop_runner(shop, temperature=0.0, top_k=3, max_output_tokens=50)
    await collect(told.run_single_turn_async(say("x")))

    silent, spoken = (request.sampling for request in shop.aicore.requests)
    assert not silent.HasField("temperature")
    assert not silent.HasField("top_k")
    assert spoken == aicore_pb2.Sampling(temperature=0.0, top_k=3, max_output_tokens=50)


@pytest.mark.requirement("agent.event.ids", "agent.loop.sequential-tools")
async def test_several_calls_of_one_answer_run_in_order_under_ids_of_their_own(
    shop: Device,
) -> None:
    shop.aicore.script(
        [
            call("fetch_order_details", orderId="A"),
            call("fetch_order_details", orderId="B"),
            finish(),
        ],
        [text("Both."), finish()],
    )

    events = await collect(shop_runner(shop).run_single_turn_async(say("A and B?")))

    kinds = [(type(event).__name__, getattr(event, "id", "")) for event in events[:4]]
    assert kinds == [
        ("FunctionCall", "call_1"),
        ("FunctionResponse", "call_1"),
        ("FunctionCall", "call_2"),
        ("FunctionResponse", "call_2"),
    ]
    assert [args["orderId"] for _, args in shop.host.executed] == ["A", "B"]


@pytest.mark.requirement("agent.loop.forced-first-call", "prompt.request.tool-choice")
async def test_a_forced_call_is_forced_only_at_the_first_model_call_of_each_turn(
    shop: Device,
) -> None:
    step = [call("fetch_order_details", orderId="A"), finish()]
    shop.aicore.script(step, [text("1"), finish()], step, [text("2"), finish()])
    session = shop_runner(shop, tool_choice="required").get_or_create_session("s")

    await collect(session.run_async(say("one")))
    await collect(session.run_async(say("two")))

    modes = [request.tool_choice.mode for request in shop.aicore.requests]
    required, auto = aicore_pb2.ToolChoice.REQUIRED, aicore_pb2.ToolChoice.AUTO
    assert modes == [required, auto, required, auto]


@pytest.mark.requirement(
    "agent.max-turns.counts-model-calls",
    "agent.max-turns.exceeded",
    "agent.max-turns.session-usable",
    "common.error.max-turns-number",
)
async def test_max_turns_runs_the_last_tools_and_then_raises_and_the_session_lives(
    shop: Device,
) -> None:
    endless = [call("fetch_order_details", orderId="A"), finish()]
    shop.aicore.script(endless, endless, [text("Fine."), finish()])
    agent = Agent(max_turns=2, is_app_functions_enabled=True)
    session = AgentRunner(agent, connection=shop.connection).get_or_create_session("s")

    events, error = await collect_failing(session.run_async(say("Loop")))

    assert error.error_code == GenAiException.ErrorCode.MAX_TURNS_EXCEEDED
    assert [type(event) for event in events] == [FunctionCall, FunctionResponse] * 2
    assert len(shop.host.executed) == 2
    assert error.run is not None
    assert error.run.model_calls == 2
    assert [content.role for content in error.run.transcript] == [
        Content.Role.USER,
        *[Content.Role.MODEL, Content.Role.USER] * 2,
    ]
    assert (await collect(session.run_async(say("And now?"))))[-1] == TextMessage("Fine.")
    assert [sent_values(content) for content in shop.aicore.requests[-1].contents] == [["And now?"]]


@pytest.mark.requirement(
    "agent.loop.app-function-error-shape",
    "agent.loop.tool-exception-reflected",
)
@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (app_function_error(1001, "Parameter orderId"), ("Parameter orderId", 1001)),
        (app_function_error(3000, "no such order"), ("no such order", 3000)),
        (app_function_error(1002), ("[1002]", 1002)),
    ],
)
async def test_a_failing_app_function_is_told_to_the_model(
    shop: Device, outcome: object, told: tuple[str, int]
) -> None:
    shop.host.bodies["com.example.shop.OrderTools#fetch_order_details"] = lambda args: outcome
    shop.aicore.script([call("fetch_order_details"), finish()], [text("Sorry."), finish()])

    events = await collect(shop_runner(shop).run_single_turn_async(say("?")))

    response = {"error": told[0], "error_code": told[1]}
    assert events[1:] == [
        FunctionResponse("fetch_order_details", response),
        TextMessage("Sorry.", is_partial=True),
        TextMessage("Sorry."),
    ]
    assert sent_values(shop.aicore.requests[1].contents[2]) == [
        ("response", "call_1", "fetch_order_details", response)
    ]


class Misbehaving(AgentTool):
    """Does what it is told instead of running the function."""

    def __init__(self, delegate: AgentTool, outcome: object) -> None:
        super().__init__(delegate)
        self._outcome = outcome

    async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome  # type: ignore[return-value]


@pytest.mark.requirement(
    "agent.loop.tool-exception-reflected",
    "agent.loop.tool-exception-shape",
    "agent.loop.tool-result-wrapped",
)
@pytest.mark.parametrize(
    ("outcome", "response"),
    [
        (ValueError("no such order"), {"error": "no such order"}),
        (KeyError(), {"error": "KeyError"}),
        (asyncio.CancelledError(), {"error": "The tool was cancelled."}),
        ({"n": 2**63 - 1, "raw": b"\x00"}, {"n": 2**63 - 1, "raw": b"\x00"}),
        ({"n": 2**63}, {"error": "9223372036854775808 does not fit into a 64-bit integer"}),
        ({"x": object()}, {"error": "a value of type object cannot cross processes"}),
        (None, {}),
        (True, {"result": True}),
        (["a", "b"], {"result": ["a", "b"]}),
    ],
)
async def test_whatever_a_tool_does_the_model_gets_one_map(
    shop: Device, outcome: object, response: dict[str, object]
) -> None:
    (tool,) = await AppFunctionAgentTools.discover(connection=shop.connection)
    agent = Agent(tools=[Misbehaving(tool, outcome)])
    shop.aicore.script([call("fetch_order_details"), finish()], [text("Ok."), finish()])

    runner = AgentRunner(agent, connection=shop.connection)
    events = await collect(runner.run_single_turn_async(say("?")))

    assert events[1] == FunctionResponse("fetch_order_details", response)
    assert sent_values(shop.aicore.requests[1].contents[2])[0] == (
        ("response", "call_1", "fetch_order_details", response)
    )


async def test_a_fault_of_the_simulator_inside_a_tool_ends_the_run(shop: Device) -> None:
    shop.host.bodies["com.example.shop.OrderTools#fetch_order_details"] = lambda args: (
        simulator_error("UNAUTHENTICATED", "The token has expired.")
    )
    shop.aicore.script([call("fetch_order_details"), finish()])

    with pytest.raises(Exception, match="The token has expired") as raised:
        await collect(shop_runner(shop).run_single_turn_async(say("?")))

    assert type(raised.value).__name__ == "UnauthenticatedError"


@pytest.mark.requirement("agent.loop.unknown-tool")
@pytest.mark.parametrize(
    "name", ["get_wether", "arguments", "bar", "name", '{"k":3} | fetch_order_details']
)
async def test_an_unknown_tool_is_answered_with_the_allowed_names(shop: Device, name: str) -> None:
    shop.aicore.script([call(name), finish()], [text("Ok."), finish()])

    events = await collect(shop_runner(shop).run_single_turn_async(say("?")))

    assert events[:2] == [
        FunctionCall(name, {}),
        FunctionResponse(
            name, {"error": f"There is no tool {name!r}. Allowed tools: fetch_order_details."}
        ),
    ]
    assert shop.host.executed == []


@pytest.mark.requirement("agent.loop.thoughts-dropped")
async def test_a_thought_of_the_model_is_in_no_event_and_in_no_history(shop: Device) -> None:
    shop.aicore.script(
        [
            aicore_pb2.GenerateContentResponse(thought="An order?"),
            call("fetch_order_details", orderId="A"),
            finish(),
        ],
        [aicore_pb2.GenerateContentResponse(thought="It is out."), text("Out."), finish()],
        [text("Yes."), finish()],
    )
    session = shop_runner(shop).get_or_create_session("s")

    events = await collect(session.run_async(say("Where?")))
    await collect(session.run_async(say("Sure?")))

    assert events[2:] == [TextMessage("Out.", is_partial=True), TextMessage("Out.")]
    assert [type(event) for event in events[:2]] == [FunctionCall, FunctionResponse]
    assert [sent_values(content) for content in shop.aicore.requests[-1].contents] == [
        ["Where?"],
        [("call", "call_1", "fetch_order_details", {"orderId": "A"})],
        [("response", "call_1", "fetch_order_details", {**ORDER, "orderId": "A"})],
        ["Out."],
        ["Sure?"],
    ]


@pytest.mark.requirement("agent.loop.malformed-call")
async def test_a_call_that_does_not_parse_is_fed_back_and_counts_as_a_turn(shop: Device) -> None:
    broken = [malformed('{"name": "fetch', "unterminated string"), finish()]
    shop.aicore.script(broken, [text("Ok."), finish()], broken)
    runner = shop_runner(shop)

    events = await collect(runner.run_single_turn_async(say("?")))

    assert events[:2] == [
        FunctionCall("malformed_function_call", {"text": '{"name": "fetch'}),
        FunctionResponse(
            "malformed_function_call",
            {"error": "The function call could not be parsed: unterminated string"},
        ),
    ]
    once = AgentRunner(Agent(max_turns=1), connection=shop.connection)
    with pytest.raises(GenAiException) as raised:
        await collect(once.run_single_turn_async(say("?")))
    assert raised.value.error_code == -112


@pytest.mark.requirement("agent.loop.empty-answer")
async def test_an_empty_answer_ends_the_turn_once_and_is_not_remembered(shop: Device) -> None:
    shop.aicore.script([finish()], [text("Hello."), finish()])
    session = shop_runner(shop).get_or_create_session("s")

    assert await collect(session.run_async(say("one"))) == [TextMessage("")]
    await collect(session.run_async(say("two")))

    assert [sent_values(content) for content in shop.aicore.requests[1].contents] == [["two"]]


@pytest.mark.requirement("agent.loop.broken-answer")
async def test_an_answer_without_a_finish_is_an_error(shop: Device) -> None:
    shop.aicore.script([text("It is")])

    with pytest.raises(GenAiException) as raised:
        await collect(shop_runner(shop).run_single_turn_async(say("?")))

    assert raised.value.error_code == GenAiException.ErrorCode.UNKNOWN


@pytest.mark.requirement("agent.event.errors-raised")
async def test_an_error_in_mid_stream_reaches_the_caller_after_the_partials(shop: Device) -> None:
    shop.aicore.script([text("It "), gen_ai_error(30, "background")])
    events, error = await collect_failing(shop_runner(shop).run_single_turn_async(say("?")))

    assert events == [TextMessage("It ", is_partial=True)]
    assert error.error_code == GenAiException.ErrorCode.BACKGROUND_USE_BLOCKED
    assert error.run == PartialRun(transcript=(say("?"),), text="It ", model_calls=1, usage=None)


@pytest.mark.requirement("agent.partial-run")
async def test_an_error_after_a_tool_tells_what_was_done_and_the_session_forgets_it(
    shop: Device,
) -> None:
    called = [call("fetch_order_details", orderId="A"), finish()]
    shop.aicore.script(called, [gen_ai_error(9, "busy")], [text("Fine."), finish()])
    session = shop_runner(shop).get_or_create_session("s")

    events, error = await collect_failing(session.run_async(say("?")))

    run = error.run
    assert run is not None
    assert (run.model_calls, run.text, len(events)) == (2, "", 2)
    asked, calls, results = run.transcript
    assert asked == say("?")
    assert [
        part.function_call.name for part in calls.parts if isinstance(part, FunctionCallPart)
    ] == ["fetch_order_details"]
    assert len(results.parts) == 1
    assert "A" in repr(results)
    await collect(session.run_async(say("Again")))
    assert [sent_values(content) for content in shop.aicore.requests[-1].contents] == [["Again"]]


@pytest.mark.requirement("agent.event.function-call-before")
async def test_a_tool_does_not_start_before_its_call_event_was_taken(shop: Device) -> None:
    shop.aicore.script([call("fetch_order_details", orderId="A"), finish()])

    async for event in shop_runner(shop).run_single_turn_async(say("?")):
        assert isinstance(event, FunctionCall)
        break

    assert shop.host.executed == []


async def test_a_slow_consumer_holds_the_turn_back_and_misses_nothing(shop: Device) -> None:
    shop.aicore.script(
        [text("a"), text("b"), call("fetch_order_details", orderId="A"), finish()],
        [text("c"), text("d"), finish()],
    )
    model = Generation.get_client(connection=shop.connection)
    seen: list[tuple[str, int]] = []

    async with asyncio.timeout(5):
        async for event in shop_runner(shop).run_single_turn_async(say("?")):
            for _ in range(3):
                await model.check_status()
            shown = event.text if isinstance(event, TextMessage) else type(event).__name__
            seen.append((shown, len(shop.host.executed)))

    assert seen == [
        ("a", 0),
        ("b", 0),
        ("FunctionCall", 0),
        ("FunctionResponse", 1),
        ("c", 1),
        ("d", 1),
        ("cd", 1),
    ]


@pytest.mark.requirement("agent.event.text-messages", "agent.event.text-tokens")
async def test_text_tokens_are_the_partials_and_text_messages_the_completed(
    shop: Device,
) -> None:
    step = [text("He"), text("llo"), finish()]
    shop.aicore.script(step, step)
    flow = shop_runner(shop).run_single_turn_async(say("Hi"))

    tokens = [token async for token in flow.text_tokens()]
    messages = [message async for message in flow.text_messages()]

    assert (tokens, messages) == (["He", "llo"], ["Hello"])


@pytest.mark.requirement("agent.loop.cold-flow")
async def test_a_flow_is_cold_and_every_iteration_runs_the_turn_again(shop: Device) -> None:
    session = shop_runner(shop).get_or_create_session("s")
    flow = session.run_async(say("again"))
    assert shop.aicore.requests == []

    shop.aicore.script([text("1"), finish()], [text("2"), finish()])
    assert (await collect(flow))[-1] == TextMessage("1")
    assert (await collect(flow))[-1] == TextMessage("2")

    assert len(shop.aicore.requests[1].contents) == 3


@pytest.mark.requirement(
    "agent.discover.decorated-not-twice",
    "agent.tool.args",
    "agent.tool.decorator",
)
async def test_a_decorator_with_another_name_is_called_by_it(shop: Device) -> None:
    (tool,) = await AppFunctionAgentTools.discover(connection=shop.connection)

    class Renamed(AgentTool):
        async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
            assert self.delegate is not None
            return await self.delegate.execute(args)

    wrapped = Renamed(tool, name="lookup", description="Looks an order up.")
    agent = Agent(tools=[wrapped], is_app_functions_enabled=True)
    shop.aicore.script([call("lookup", orderId="A"), finish()], [text("Ok."), finish()])

    runner = AgentRunner(agent, connection=shop.connection)
    events = await collect(runner.run_single_turn_async(say("?")))

    (declared,) = shop.aicore.requests[0].tools
    assert (declared.name, declared.description) == ("lookup", "Looks an order up.")
    assert [item.name for item in declared.parameters.properties] == ["orderId"]
    assert events[1] == FunctionResponse("lookup", {**ORDER, "orderId": "A"})


@pytest.mark.requirement("agent.tool.confirmation-declined")
async def test_a_declined_tool_never_runs_and_the_model_learns_why(shop: Device) -> None:
    (tool,) = await AppFunctionAgentTools.discover(connection=shop.connection)
    declined = {"status": "CANCELLED_BY_USER", "message": "Action was declined by the user."}
    agent = Agent(tools=[Misbehaving(tool, declined)])
    shop.aicore.script([call("fetch_order_details"), finish()], [text("Ok."), finish()])

    runner = AgentRunner(agent, connection=shop.connection)
    events = await collect(runner.run_single_turn_async(say("?")))

    assert events[1] == FunctionResponse("fetch_order_details", declined)
    assert shop.host.executed == []


@pytest.mark.requirement("agent.loop.tool-exception-shape")
async def test_tool_errors_carry_no_trace_and_no_path(shop: Device) -> None:
    shop.aicore.script([call("fetch_order_details"), finish()], [text("Ok."), finish()])
    (tool,) = await AppFunctionAgentTools.discover(connection=shop.connection)
    agent = Agent(tools=[Misbehaving(tool, RuntimeError("gone"))])

    await collect(AgentRunner(agent, connection=shop.connection).run_single_turn_async(say("?")))

    assert not re.search(r"Traceback|\.py|/", str(sent_values(shop.aicore.requests[1].contents[2])))
