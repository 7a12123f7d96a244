"""Whatever happens to the turns of a session, its history is what was said and answered.

`AICORE_SIM_MACHINE_STEPS=10000 pytest tests/client/test_session_machine.py` goes that far.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import grpc
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aicore_client import (
    Agent,
    AgentEvent,
    AgentRunner,
    AppFunctionAgentTools,
    Content,
    DeviceConnection,
    GenAiException,
    HitlConfirmationTool,
)
from aicore_client._flow import TurnIterator
from aicore_client.content import FunctionCallPart, FunctionResponsePart
from tests.client.conftest import start_aicore, start_host
from tests.client.fakes import (
    TOKEN,
    BareStatus,
    FakeAICore,
    FakeHost,
    Hold,
    Item,
    call,
    finish,
    gen_ai_error,
    text,
)

T = TypeVar("T")

STEPS_OF_AN_EXAMPLE = 40
STEPS = int(os.environ.get("AICORE_SIM_MACHINE_STEPS", "800"))
BOUND = 10.0
CODES = (4, 8, 9, 11, 12, 15, 27, 30, 601, 606, 999)
NAMES = st.sampled_from(("a", "b", "c"))
OK: list[Item] = [text("Fine."), finish()]


def say(words: str) -> Content:
    return Content.builder().text(words).build()


class SessionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = TemporaryDirectory(prefix="aicore-")
        self.number = 0
        self.remembered: dict[str, list[str]] = {}
        """Questions that a session must remember."""
        self.slow: dict[str, tuple[TurnIterator, Hold]] = {}
        self.allow = True
        self.run(self.begin())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, BOUND))

    async def begin(self) -> None:
        self.aicore, self.host = FakeAICore(), FakeHost()
        self.host.add("com.example.shop.Tools#cancel", lambda args: {"done": True})
        folder = Path(self.folder.name)
        aicore_address, host_address = f"unix:{folder}/aicore.sock", f"unix:{folder}/host.sock"
        self.servers = [
            await start_aicore(aicore_address, self.aicore),
            await start_host(host_address, self.host),
        ]
        self.connection = DeviceConnection(aicore_address, host_address, TOKEN)

        async def confirm(name: str, args: Any) -> bool:
            return self.allow

        tools = await AppFunctionAgentTools.discover(connection=self.connection)
        guarded = [HitlConfirmationTool(tool, confirm) for tool in tools]
        agent = Agent.builder().add_tools(*guarded).set_max_turns(3).build()
        self.runner = AgentRunner(agent, connection=self.connection)

    def question(self) -> str:
        self.number += 1
        return f"question {self.number}"

    async def turn(
        self, name: str, question: str, *steps: Sequence[Item]
    ) -> tuple[list[AgentEvent], GenAiException | None]:
        self.aicore.script(*steps)
        events: list[AgentEvent] = []
        flow = self.runner.get_or_create_session(name).run_async(say(question))
        try:
            async for event in flow:
                events += [event]  # what came before an error counts, too
        except GenAiException as error:
            self.aicore.steps.clear()
            return events, error
        return events, None

    def check(self, name: str, question: str) -> None:
        """What the model was asked last is what the session remembers, and the new question."""
        contents = self.aicore.generated[-1].contents
        asked = [
            part.text
            for content in contents
            for part in content.parts
            if part.text.startswith("question")
        ]
        assert asked == [*self.remembered.get(name, ()), question]

    def free(self, name: str) -> bool:
        return name not in self.slow

    @rule(name=NAMES, calls=st.integers(0, 2), allow=st.booleans())
    def answered(self, name: str, calls: int, allow: bool) -> None:
        if not self.free(name):
            return
        question, self.allow = self.question(), allow
        executed = len(self.host.executed)
        called: list[list[Item]] = [
            [text("Let me see."), call("cancel"), finish()] for _ in range(calls)
        ]
        events, error = self.run(self.turn(name, question, *called, OK))
        assert error is None
        assert events[-1] == AgentEvent.TextMessage("Fine.")
        assert len(self.host.executed) - executed == (calls if allow else 0)
        responses = [one for one in events if isinstance(one, AgentEvent.FunctionResponse)]
        assert len(responses) == calls
        self.check(name, question)
        self.remembered.setdefault(name, []).append(question)

    @rule(name=NAMES, code=st.sampled_from(CODES), after=st.integers(0, 2))
    def failed(self, name: str, code: int, after: int) -> None:
        if not self.free(name):
            return
        question = self.question()
        called: list[list[Item]] = [[call("cancel"), finish()] for _ in range(after)]
        broken: list[Item] = [text("I "), gen_ai_error(code)]
        _, error = self.run(self.turn(name, question, *called, broken))
        assert error is not None
        assert error.error_code == (8 if code == 601 else code)
        self.check(name, question)

    @rule(name=NAMES)
    def endless(self, name: str) -> None:
        if not self.free(name):
            return
        question = self.question()
        steps = [[call("cancel"), finish()]] * 3
        _, error = self.run(self.turn(name, question, *steps))
        assert error is not None
        assert error.error_code == GenAiException.ErrorCode.MAX_TURNS_EXCEEDED
        self.check(name, question)

    @rule(name=NAMES)
    def empty(self, name: str) -> None:
        if not self.free(name):
            return
        events, error = self.run(self.turn(name, self.question(), [text(" "), finish()]))
        assert error is None
        assert events[-1] == AgentEvent.TextMessage(" ")

    @rule(name=NAMES)
    def worker_died(self, name: str) -> None:
        if not self.free(name):
            return
        lost = BareStatus(grpc.StatusCode.UNAVAILABLE)
        _, error = self.run(self.turn(name, self.question(), [text("On"), lost]))
        assert error is not None
        assert error.error_code == GenAiException.ErrorCode.NOT_AVAILABLE

    @rule(name=NAMES)
    def begin_slow(self, name: str) -> None:
        if not self.free(name):
            return
        hold = Hold()
        self.aicore.script([text("Once"), hold, finish()])
        flow = self.runner.get_or_create_session(name).run_async(say(self.question()))
        events = aiter(flow)
        self.run(anext_of(events))
        self.slow[name] = (events, hold)

    @precondition(lambda self: self.slow)
    @rule(data=st.data(), how=st.sampled_from(("close", "drop", "delete", "evict")))
    def end_slow(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.slow)))
        events, hold = self.slow.pop(name)
        if how == "close":
            self.run(events.aclose())
        elif how == "delete":
            self.run(self.runner.delete_session(name))
            self.remembered.pop(name, None)
        elif how == "evict":
            self.runner.get_or_create_session(name).close()
            self.remembered.pop(name, None)
        del events
        self.run(hold.cancelled.wait())

    @precondition(lambda self: self.slow)
    @rule(data=st.data())
    def wait_behind_slow(self, data: st.DataObject) -> None:
        """A second turn of the session waits for the first, and then goes its way."""
        name = data.draw(st.sampled_from(sorted(self.slow)))
        events, hold = self.slow.pop(name)
        question = self.question()

        async def both() -> None:
            second = asyncio.ensure_future(self.turn(name, question, OK))
            await asyncio.sleep(0)
            assert not second.done()
            await events.aclose()
            _, error = await second
            assert error is None

        self.run(both())
        self.run(hold.cancelled.wait())
        self.check(name, question)
        self.remembered.setdefault(name, []).append(question)

    @rule(name=NAMES)
    def forget(self, name: str) -> None:
        if self.free(name):
            self.run(self.runner.delete_session(name))
            self.remembered.pop(name, None)

    @rule()
    def single_turn(self) -> None:
        before = self.runner.session_ids
        self.aicore.script(OK)

        async def once() -> list[str]:
            flow = self.runner.run_single_turn_async(say(self.question()))
            return [message async for message in flow.text_messages()]

        assert self.run(once()) == ["Fine."]
        assert self.runner.session_ids == before

    @invariant()
    def every_call_has_its_response(self) -> None:
        for conversation in self.runner._conversations.values():
            waiting: list[str] = []
            for content in conversation.history.contents:
                responses = [
                    part.id for part in content.parts if isinstance(part, FunctionResponsePart)
                ]
                assert responses == waiting
                waiting = [
                    part.function_call.id
                    for part in content.parts
                    if isinstance(part, FunctionCallPart)
                ]
            assert waiting == []

    @invariant()
    def nothing_is_left_over(self) -> None:
        running = {turn for one in self.runner._conversations.values() for turn in one._turns}
        assert len(running) == len(self.slow)
        assert not self.aicore.steps

    def teardown(self) -> None:
        async def end() -> None:
            for events, _ in self.slow.values():
                await events.aclose()
            self.runner.close()
            await self.connection.close()
            for server in self.servers:
                await server.stop(0)

        self.run(end())
        self.loop.close()
        self.folder.cleanup()


async def anext_of(events: TurnIterator) -> AgentEvent:
    return await anext(events)


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(
    max_examples=max(1, STEPS // STEPS_OF_AN_EXAMPLE),
    stateful_step_count=STEPS_OF_AN_EXAMPLE,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
