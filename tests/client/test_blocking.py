"""The client without `await`, from threads other than that of a loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from aicore_client import (
    Agent,
    AgentEvent,
    AgentRunner,
    Content,
    GenAiException,
    Generation,
    iterate_blocking,
    run_blocking,
)
from tests.client.conftest import Device
from tests.client.fakes import Hold, finish, gen_ai_error, text

T = TypeVar("T")


def say(words: str) -> Content:
    return Content.builder().text(words).build()


async def elsewhere(work: Callable[[], T]) -> T:
    async with asyncio.timeout(10):
        return await asyncio.to_thread(work)


@pytest.fixture
def runner(device: Device) -> AgentRunner:
    return AgentRunner(Agent(), connection=device.connection)


@pytest.mark.requirement("simulator.client.blocking")
async def test_turns_are_plain_loops_and_the_session_remembers(
    device: Device, runner: AgentRunner
) -> None:
    device.aicore.script(
        [text("Hi "), text("Ann."), finish()], [text("Ann."), finish()], [text("Bye."), finish()]
    )

    def script() -> tuple[list[AgentEvent], list[str], list[str]]:
        session = runner.get_or_create_session("s")
        events = list(session.run(say("I am Ann")))
        tokens = list(session.run(say("Who am I?")).text_tokens())
        return events, tokens, list(runner.run_single_turn(say("Bye")).text_messages())

    events, tokens, messages = await elsewhere(script)

    assert events[-1] == AgentEvent.TextMessage("Hi Ann.")
    assert len(events) == 3
    assert (tokens, messages) == (["Ann."], ["Bye."])
    assert [len(request.contents) for request in device.aicore.requests] == [1, 3, 1]


async def test_a_call_and_a_stream_of_the_model_need_no_loop(device: Device) -> None:
    device.aicore.script([text("a"), text("b"), finish()])
    model = Generation.get_client(connection=device.connection)

    def script() -> tuple[int, str]:
        counted = run_blocking(model.count_tokens("Hi"))
        stream = iterate_blocking(model.generate_content_stream("Hi"))
        said = "".join(one.text for chunk in stream for one in chunk.candidates)
        return counted.total_tokens, said

    assert await elsewhere(script) == (11, "ab")


async def test_an_error_is_the_one_that_await_would_raise(
    device: Device, runner: AgentRunner
) -> None:
    device.aicore.script([gen_ai_error(9, "busy")])
    with pytest.raises(GenAiException, match="busy") as failed:
        await elsewhere(lambda: list(runner.run_single_turn(say("Hi"))))
    assert failed.value.error_code == GenAiException.ErrorCode.BUSY


@pytest.mark.requirement("simulator.client.blocking")
async def test_leaving_the_loop_and_cancelling_from_a_thread_stop_the_model(
    device: Device, runner: AgentRunner
) -> None:
    left, stopped = Hold(), Hold()
    device.aicore.script([text("Once"), left], [text("Once"), stopped])
    session = runner.get_or_create_session("s")

    def leave() -> None:
        for _ in session.run(say("A story")):
            break

    await elsewhere(leave)
    async with asyncio.timeout(10):
        await left.cancelled.wait()

    seen = threading.Event()
    turn = session.run(say("A story"))

    def listen() -> int:
        try:
            for _ in turn:
                seen.set()
        except GenAiException as error:
            return int(error.error_code)
        return 0

    listening = asyncio.create_task(elsewhere(listen))
    await elsewhere(lambda: seen.wait(10))
    turn.cancel()
    assert await listening == GenAiException.ErrorCode.CANCELLED
    async with asyncio.timeout(10):
        await stopped.cancelled.wait()


async def test_a_session_is_not_run_in_two_loops_at_once(
    device: Device, runner: AgentRunner
) -> None:
    hold = Hold()
    device.aicore.script([text("Once"), hold])
    session = runner.get_or_create_session("s")
    events = aiter(session.run_async(say("A story")))
    async with asyncio.timeout(10):
        await anext(events)
        with pytest.raises(RuntimeError, match="'s' is running in another event loop"):
            await elsewhere(lambda: list(session.run(say("Another"))))
        await events.aclose()


async def test_the_clients_own_loop_is_never_blocked() -> None:
    async def inner() -> None:
        return None

    async def outer() -> None:
        run_blocking(inner())

    with pytest.raises(RuntimeError, match="inside the client's own event loop"):
        await elsewhere(lambda: run_blocking(outer()))


def test_a_script_ends_without_noise() -> None:
    code = (
        "import asyncio\n"
        "from aicore_client import run_blocking\n"
        "async def one(): return 1\n"
        "async def two(): return run_blocking(one()) + 1\n"
        "print(run_blocking(one()), asyncio.run(two()), asyncio.run(two()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 2 2\n", "")
