from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from aicore_client import (
    Agent,
    AgentRunner,
    AgentTool,
    AppFunctionAgentTools,
    Content,
)
from aicore_client.tools import declaration_of
from tests.client.conftest import Device, start_host
from tests.client.fakes import BareStatus, FakeHost, call, finish, parameter, text

ORDERS = "com.example.shop.OrderTools"
CARTS = "com.example.shop.CartTools"


class PassOn(AgentTool):
    async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
        assert self.delegate is not None
        return await self.delegate.execute(args)


class Unrooted(AgentTool):
    """A tool from nowhere: it skips the constructor."""

    def __init__(self) -> None:
        self._name = "free"

    async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
        return {}


async def discover(device: Device, ids: str | Sequence[str] | None = None) -> list[AgentTool]:
    return await AppFunctionAgentTools.discover(ids, connection=device.connection)


@pytest.fixture
def shop(device: Device) -> Device:
    device.host.add("com.example.other.Mail#send", package="com.example.other")
    device.host.add(f"{ORDERS}#fetch_order_details", lambda args: {"status": "here"})
    device.host.add(f"{ORDERS}#cancel_order")
    return device


@pytest.mark.requirement("agent.discover.all-own-functions", "agent.tool.root-has-no-delegate")
async def test_discover_finds_the_functions_of_the_own_package_only(shop: Device) -> None:
    assert [tool.name for tool in await discover(shop)] == ["fetch_order_details", "cancel_order"]
    assert all(tool.delegate is None for tool in await discover(shop))


async def test_discover_reads_every_page(shop: Device) -> None:
    shop.host.page_size = 1

    assert len(await discover(shop)) == 2


async def test_an_app_without_functions_of_its_own_discovers_none(shop: Device) -> None:
    shop.host.own = "com.example.assistant"

    assert await discover(shop) == []
    with pytest.raises(ValueError, match="none registered"):
        await discover(shop, "cancel_order")


@pytest.mark.requirement("agent.discover.by-ids")
@pytest.mark.parametrize(
    ("ids", "names"),
    [
        ("cancel_order", ["cancel_order"]),
        ([f"{ORDERS}#cancel_order", "cancel_order"], ["cancel_order"]),
        (["cancel_order", "fetch_order_details"], ["cancel_order", "fetch_order_details"]),
        ([], []),
    ],
)
async def test_ids_are_full_or_bare_and_keep_their_order(
    shop: Device, ids: str | list[str], names: list[str]
) -> None:
    assert [tool.name for tool in await discover(shop, ids)] == names


@pytest.mark.requirement("agent.discover.unknown-id-refused")
@pytest.mark.parametrize("wrong", ["fetch_order_detail", f"{ORDERS}#fetch_order_detials"])
async def test_an_unknown_id_is_an_error_that_names_what_is_near(shop: Device, wrong: str) -> None:
    with pytest.raises(ValueError, match=r"did you mean .*fetch_order_details"):
        await discover(shop, wrong)


async def test_the_id_of_another_package_is_unknown(shop: Device) -> None:
    with pytest.raises(ValueError, match="there is no AppFunction"):
        await discover(shop, "com.example.other.Mail#send")


@pytest.mark.requirement("agent.discover.ambiguous-id-refused", "agent.discover.name-made-unique")
async def test_a_bare_name_of_two_classes_is_ambiguous_and_gets_the_class_in_its_tool_name(
    shop: Device,
) -> None:
    shop.host.add(f"{CARTS}#cancel_order")

    with pytest.raises(ValueError, match=f"ambiguous.*{ORDERS}#cancel_order, {CARTS}#cancel"):
        await discover(shop, "cancel_order")
    assert [tool.name for tool in await discover(shop)] == [
        "fetch_order_details",
        "OrderTools_cancel_order",
        "CartTools_cancel_order",
    ]
    assert [tool.name for tool in await discover(shop, f"{CARTS}#cancel_order")] == ["cancel_order"]


@pytest.mark.requirement("agent.discover.name-made-unique")
async def test_equal_classes_of_two_modules_get_their_whole_id(device: Device) -> None:
    device.host.add("a.Tools#run")
    device.host.add("b.Tools#run")

    assert [tool.name for tool in await discover(device)] == ["a_Tools_run", "b_Tools_run"]


@pytest.mark.requirement("agent.tool.decorator")
async def test_a_decorator_keeps_name_text_and_schema_of_what_it_wraps(device: Device) -> None:
    device.host.add(f"{ORDERS}#f", parameters=[parameter("n", "TYPE_INT")], description="Does f.")
    (tool,) = await discover(device)

    outer = PassOn(PassOn(tool), name="g")

    assert (outer.name, outer.description) == ("g", "Does f.")
    assert isinstance(outer.delegate, PassOn)
    assert declaration_of(outer).parameters == declaration_of(tool).parameters
    assert declaration_of(outer).parameters is not None


@pytest.mark.requirement("agent.loop.tool-result-wrapped", "agent.tool.args")
@pytest.mark.parametrize(
    ("value", "response"),
    [(None, {}), (3, {"result": 3}), ({"a": 1}, {"a": 1}), ([1], {"result": [1]})],
)
async def test_what_a_function_returns_becomes_a_map(
    device: Device, value: object, response: dict[str, object]
) -> None:
    device.host.add(f"{ORDERS}#f", lambda args: value)
    (tool,) = await discover(device)

    assert await tool.execute({"x": 2**62}) == response
    assert device.host.executed == [(f"{ORDERS}#f", {"x": 2**62})]


@pytest.mark.requirement("agent.builder.foreign-tools-refused")
async def test_an_agent_refuses_tools_that_wrap_no_app_function(shop: Device) -> None:
    with pytest.raises(ValueError, match="Unrooted"):
        Agent(tools=[Unrooted()])
    with pytest.raises(TypeError, match="must be an AgentTool"):
        Agent.builder().add_tool(len).build()  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="delegate"):
        PassOn(len)  # type: ignore[arg-type]


@pytest.mark.requirement("agent.builder.duplicate-tool-names-refused")
async def test_an_agent_refuses_two_tools_of_one_name(shop: Device) -> None:
    tools = await discover(shop)

    with pytest.raises(ValueError, match="two tools are named 'cancel_order'"):
        Agent(tools=[*tools, PassOn(tools[1])])
    Agent(tools=[*tools, PassOn(tools[1], name="other")])


@pytest.mark.requirement(
    "agent.builder.add-app-function-id",
    "agent.builder.add-app-function-ids",
    "agent.builder.add-tool",
    "agent.builder.add-tools",
    "agent.builder.enable-app-functions",
    "agent.builder.set-instructions",
    "agent.builder.set-max-turns",
    "agent.builder.set-name",
    "agent.builder.setters-return-builder",
    "agent.constructor-order",
    "agent.value-class",
)
async def test_the_builder_takes_tools_and_ids_one_by_one_and_as_lists(shop: Device) -> None:
    first, second = await discover(shop)

    agent = (
        Agent.builder()
        .set_name("OrderAssistant")
        .set_instructions("Assist.")
        .set_max_turns(3)
        .enable_app_functions(True)
        .add_app_function_id("a")
        .add_app_function_ids("b", "a")
        .add_app_function_ids(["c"])
        .add_tools([first])
        .add_tools(PassOn(second))
        .build()
    )

    assert agent == Agent(
        name="OrderAssistant",
        instructions="Assist.",
        max_turns=3,
        is_app_functions_enabled=True,
        enabled_app_function_ids=("a", "b", "c"),
        tools=agent.tools,
    )
    assert [tool.name for tool in agent.tools] == ["fetch_order_details", "cancel_order"]


@pytest.mark.requirement(
    "agent.app-functions-off",
    "agent.has-app-functions",
    "agent.instructions.default",
    "agent.max-turns.default",
    "agent.name.default",
    "agent.value-class",
)
def test_an_agent_has_the_defaults_of_the_phone() -> None:
    agent = Agent.builder().build()

    assert agent == Agent()
    assert (agent.max_turns, agent.tools, agent.instructions) == (10, (), "")
    assert not agent.has_app_functions
    assert Agent(enabled_app_function_ids=["x"]).has_app_functions


@pytest.mark.requirement("agent.builder.bad-max-turns-refused")
@pytest.mark.parametrize(
    ("settings", "named"),
    [({"max_turns": 0}, "max_turns"), ({"enabled_app_function_ids": [" "]}, "blank")],
)
def test_an_agent_refuses_a_wrong_setting(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Agent(**settings)  # type: ignore[arg-type]


async def declared_names(device: Device, runner: AgentRunner) -> list[str]:
    device.aicore.script([text("ok"), finish()])
    content = Content.builder().text("x").build()
    async for _ in runner.run_single_turn_async(content):
        pass
    return [tool.name for tool in device.aicore.requests[-1].tools]


@pytest.mark.requirement("agent.builder.add-app-function-ids")
async def test_an_agent_limited_by_ids_declares_only_those(shop: Device) -> None:
    agent = Agent(enabled_app_function_ids=["cancel_order"], is_app_functions_enabled=True)
    runner = AgentRunner(agent, connection=shop.connection)

    assert await declared_names(shop, runner) == ["cancel_order"]


@pytest.mark.requirement("agent.discover.unknown-id-refused")
async def test_an_id_that_names_nothing_ends_the_run_before_the_model_is_asked(
    shop: Device,
) -> None:
    runner = AgentRunner(Agent(enabled_app_function_ids=["nope"]), connection=shop.connection)

    with pytest.raises(ValueError, match="'nope'"):
        async for _ in runner.run_single_turn_async(Content.builder().text("x").build()):
            pass
    assert shop.aicore.requests == []


@pytest.mark.requirement("agent.discover.decorated-not-twice")
async def test_a_decorated_function_is_not_offered_a_second_time_undecorated(
    shop: Device,
) -> None:
    (cancel,) = await discover(shop, "cancel_order")
    agent = Agent(tools=[PassOn(cancel, name="ask_first")], is_app_functions_enabled=True)
    runner = AgentRunner(agent, connection=shop.connection)

    assert await declared_names(shop, runner) == ["ask_first", "fetch_order_details"]


async def test_a_discovered_function_gives_way_to_a_tool_that_has_its_name(shop: Device) -> None:
    (cancel,) = await discover(shop, "cancel_order")
    agent = Agent(tools=[PassOn(cancel, name="fetch_order_details")], is_app_functions_enabled=True)
    runner = AgentRunner(agent, connection=shop.connection)

    assert await declared_names(shop, runner) == [
        "fetch_order_details",
        "OrderTools_fetch_order_details",
    ]


@pytest.mark.requirement("agent.discover.asked-each-turn")
async def test_a_restarted_host_is_asked_anew_and_a_dead_one_leaves_the_known_tools(
    shop: Device,
) -> None:
    runner = AgentRunner(Agent(is_app_functions_enabled=True), connection=shop.connection)
    assert await declared_names(shop, runner) == ["fetch_order_details", "cancel_order"]

    await shop.host_server.stop(0)
    assert await declared_names(shop, runner) == ["fetch_order_details", "cancel_order"]
    shop.aicore.script([call("cancel_order"), finish()], [text("Sorry."), finish()])
    async for _ in runner.run_single_turn_async(Content.builder().text("x").build()):
        pass
    told = shop.aicore.requests[-1].contents[-1].parts[0].function_response.response
    assert [field.name for field in told.fields] == ["error", "error_code"]

    back = FakeHost()
    back.add(f"{ORDERS}#track_order")
    server = await start_host(shop.host_address, back)
    try:
        async with asyncio.timeout(5):
            while await declared_names(shop, runner) != ["track_order"]:
                pass
    finally:
        await server.stop(0)


async def test_discovery_does_not_hide_a_failure_of_the_host(shop: Device) -> None:
    shop.host.failure = BareStatus(grpc.StatusCode.INTERNAL, "broken")

    with pytest.raises(Exception, match="broken"):
        await discover(shop)


@pytest.mark.requirement(
    "agent.app-functions-off",
    "agent.instructions.default",
)
async def test_an_agent_without_app_functions_declares_no_tool_and_no_instruction(
    shop: Device,
) -> None:
    assert await declared_names(shop, AgentRunner(Agent(), connection=shop.connection)) == []
    assert shop.aicore.requests[0].system_instruction == ""
    assert shop.host.searches == []


@pytest.mark.requirement(
    "agent.constructor-order",
)
def test_an_agent_takes_its_settings_by_keyword_only() -> None:
    with pytest.raises(TypeError):
        Agent("OrderAssistant", "Assist.")  # type: ignore[call-arg]


@pytest.mark.requirement(
    "agent.runner.dispatcher",
)
async def test_a_tool_runs_in_the_event_loop_that_iterates_the_flow(shop: Device) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    class Noting(AgentTool):
        async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
            loops.append(asyncio.get_running_loop())
            return {}

    (cancel,) = await discover(shop, "cancel_order")
    shop.aicore.script([call("cancel_order"), finish()], [text("ok"), finish()])
    runner = AgentRunner(Agent(tools=[Noting(cancel)]), connection=shop.connection)

    async for _ in runner.run_single_turn_async(Content.builder().text("x").build()):
        pass

    assert loops == [asyncio.get_running_loop()]
