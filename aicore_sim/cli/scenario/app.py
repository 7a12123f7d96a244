"""An app's calls, through the library that an app uses, and what they came to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from aicore_client import (
    Agent,
    AgentEvent,
    AgentRunner,
    Content,
    DeviceConnection,
    DownloadStatus,
    GenAiException,
    Generation,
    SimulatorError,
    TextPart,
)
from aicore_sim.cli.scenario.outcome import Outcome

CANCELLED = "cancelled"
_ITEMS: dict[type[DownloadStatus], str] = {
    DownloadStatus.DownloadStarted: "started",
    DownloadStatus.DownloadProgress: "progress",
    DownloadStatus.DownloadCompleted: "completed",
    DownloadStatus.DownloadFailed: "failed",
}


class ScenarioApp:
    """One app of a scenario, on a connection of its own."""

    def __init__(self, connection: DeviceConnection) -> None:
        self._connection = connection
        self._model = Generation.get_client(connection=connection)

    async def close(self) -> None:
        self._model.close()
        await self._connection.close()

    async def check_status(self, outcome: Outcome) -> None:
        outcome.status = int(await self._model.check_status())

    async def generate(self, outcome: Outcome, prompt: str) -> None:
        async with aclosing(self._model.generate_content_stream(prompt)) as chunks:
            async for chunk in chunks:
                for candidate in chunk.candidates:
                    if candidate.finish_reason is None:
                        outcome.text += candidate.text
                        outcome.chunks += 1

    async def agent_turn(self, outcome: Outcome, prompt: str, instructions: str) -> None:
        agent = Agent.builder().set_instructions(instructions).build()
        with AgentRunner(agent, connection=self._connection) as runner:
            turn = runner.run_single_turn_async(Content([TextPart(prompt)]))
            async for event in turn:
                if isinstance(event, AgentEvent.TextMessage) and not event.is_partial:
                    outcome.text = event.text
                _note(outcome.events, _event_name(event))

    async def warmup(self, outcome: Outcome) -> None:
        await self._model.warmup()

    async def download(self, outcome: Outcome) -> None:
        async with aclosing(self._model.download()) as items:
            async for item in items:
                _note(outcome.items, _ITEMS[type(item)])
                if isinstance(item, DownloadStatus.DownloadFailed):
                    raise item.e


async def observe(call: Callable[[Outcome], Awaitable[None]], outcome: Outcome) -> Outcome:
    """Make a call and note in `outcome` how it went. Cancelling the task cancels the call."""
    started = time.monotonic()
    try:
        await call(outcome)
    except GenAiException as error:
        outcome.ok = False
        outcome.code = error.error_code
        outcome.message = error.message
        outcome.retry_delay = error.retry_delay.total_seconds()
    except asyncio.CancelledError:
        outcome.ok = False
        outcome.message = CANCELLED
    except (SimulatorError, ValueError, RuntimeError) as error:
        outcome.ok = False
        outcome.message = f"{type(error).__name__}: {error}"
    finally:
        outcome.real_seconds = time.monotonic() - started
    return outcome


def _event_name(event: AgentEvent) -> str:
    if isinstance(event, AgentEvent.TextMessage):
        return "partial" if event.is_partial else "TextMessage"
    return type(event).__name__


def _note(names: list[str], name: str) -> None:
    """Progress and partial texts in a row count once."""
    if not (names and names[-1] == name and name in ("progress", "partial")):
        names.append(name)
