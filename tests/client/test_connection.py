from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from aicore_client import (
    Agent,
    AgentRunner,
    AppFunctionManager,
    Content,
    DeviceConnection,
    DeviceNotConfiguredError,
    GenAiException,
    Generation,
    SimulatorError,
    default_connection,
)
from tests.client.conftest import Device, start_aicore
from tests.client.fakes import TOKEN, FakeAICore, Hold, finish, text

PROMPT = Content.builder().text("x").build()


async def answer(runner: AgentRunner) -> str:
    session = runner.get_or_create_session("s")
    async with asyncio.timeout(5):
        return [message async for message in session.run_async(PROMPT).text_messages()][0]


@pytest.fixture
def serving_elsewhere(socket_folder: Path) -> Iterator[tuple[str, FakeAICore]]:
    """AICore served from an event loop of another thread, as from another process."""
    address, servicer = f"unix:{socket_folder}/aicore.sock", FakeAICore()
    servicer.answer = lambda request: [text(str(len(request.contents))), finish()]
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        server = await start_aicore(address, servicer)
        stop = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
        await server.stop(0)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    loop, stop = started.result(timeout=5)
    yield address, servicer
    loop.call_soon_threadsafe(stop.set)
    thread.join(timeout=5)
    assert not thread.is_alive()


PROGRAM = """
import asyncio
from aicore_client import Agent, AgentRunner, Content

async def main():
    session = runner.get_or_create_session("s")
    async for text in session.run_async(Content.builder().text("x").build()).text_messages():
        print(text)

async def leave():
    async for token in runner.run_single_turn_async(Content.builder().text("x").build()):
        break

runner = AgentRunner(Agent())
asyncio.run(main())
asyncio.run(main())
asyncio.run(leave())
"""


@pytest.mark.requirement("agent.runner.dispatcher")
def test_one_runner_serves_several_event_loops_in_a_row_and_exits_cleanly(
    serving_elsewhere: tuple[str, FakeAICore],
) -> None:
    address, _ = serving_elsewhere

    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", PROGRAM],
        env={
            **os.environ,
            "AICORE_SIM_ADDRESS": address,
            "APPFUNCTIONS_ADDRESS": "unix:/nowhere.sock",
            "AICORE_SIM_TOKEN": TOKEN,
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n3\n", "")


@pytest.mark.parametrize(
    "missing", ["AICORE_SIM_ADDRESS", "APPFUNCTIONS_ADDRESS", "AICORE_SIM_TOKEN"]
)
async def test_a_missing_variable_is_named_with_the_way_to_set_it(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name in ("AICORE_SIM_ADDRESS", "APPFUNCTIONS_ADDRESS", "AICORE_SIM_TOKEN"):
        if name != missing:
            monkeypatch.setenv(name, "unix:/nowhere.sock")

    with pytest.raises(DeviceNotConfiguredError, match=f"{missing} not set.*aicore-sim exec"):
        DeviceConnection.from_environment()
    with pytest.raises(SimulatorError, match=missing):
        await answer(AgentRunner(Agent()))
    with pytest.raises(SimulatorError, match=missing):
        await AppFunctionManager().search_app_functions()


async def test_the_default_connection_is_shared_until_the_environment_changes(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AICORE_SIM_ADDRESS", device.aicore_address)
    monkeypatch.setenv("APPFUNCTIONS_ADDRESS", device.host_address)
    monkeypatch.setenv("AICORE_SIM_TOKEN", TOKEN)
    first = default_connection()

    assert default_connection() is first
    assert await Generation.get_client().get_base_model_name() == "nano-v3"
    await first.close()
    second = default_connection()
    assert second is not first
    monkeypatch.setenv("AICORE_SIM_TOKEN", "other")
    assert default_connection() is not second


async def test_a_closed_connection_says_so_and_closes_twice(device: Device) -> None:
    await device.connection.close()
    await device.connection.close()

    with pytest.raises(SimulatorError, match="closed"):
        await Generation.get_client(connection=device.connection).check_status()


async def test_closing_the_connection_ends_a_running_call_as_cancelled_and_not_its_task(
    device: Device,
) -> None:
    hold = Hold()
    device.aicore.script([text("a"), hold])
    call = asyncio.create_task(
        Generation.get_client(connection=device.connection).generate_content("x")
    )
    await asyncio.wait_for(hold.reached.wait(), 5)
    await device.connection.close()

    with pytest.raises(GenAiException) as raised:
        await asyncio.wait_for(call, 5)
    assert raised.value.error_code == GenAiException.ErrorCode.CANCELLED


def test_a_connection_never_shows_its_token() -> None:
    connection = DeviceConnection("unix:/a.sock", "unix:/b.sock", "secret-token")

    assert "secret" not in repr(connection)
    assert "secret" not in str(vars(AgentRunner(Agent(), connection=connection)))
