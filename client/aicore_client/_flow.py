"""One run of a turn, handed over event by event.

The run lives in a task of its own and goes on only when the next event is asked for, as a Kotlin
flow does. A task can be cancelled from anywhere, which an async generator that is being iterated
cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from aicore_client.errors import GenAiException
from aicore_client.events import AgentEvent

Emit = Callable[[AgentEvent], Awaitable[None]]
Run = Callable[[Emit], Coroutine[Any, Any, AgentEvent]]
"""Emits the events of a turn and returns the last one."""

_STOP_SECONDS = 5.0


class TurnIterator(AsyncIterator[AgentEvent]):
    """The events of one run. Dropping the iterator stops the run."""

    def __init__(self, run: Run, started: Callable[[asyncio.Task[AgentEvent]], None]) -> None:
        self._task: asyncio.Task[AgentEvent] | None = None
        self._run = run
        self._started = started
        self._shared = _HandOver()
        self._ended = False

    def __aiter__(self) -> TurnIterator:
        return self

    async def __anext__(self) -> AgentEvent:
        if self._ended:
            raise StopAsyncIteration
        if self._shared.ready is not None:
            raise RuntimeError("the next event of this turn is already being waited for")
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(self._shared.emit))
            self._task.add_done_callback(self._shared.run_ended)
            self._started(self._task)
        if self._task.done():
            return self._last(self._task)
        self._shared.ready = asyncio.get_running_loop().create_future()
        self._shared.wanted.set()
        try:
            event = await self._shared.ready
        except asyncio.CancelledError:
            await self.aclose()
            raise
        finally:
            self._shared.ready = None
        return self._last(self._task) if event is None else event

    def _last(self, task: asyncio.Task[AgentEvent]) -> AgentEvent:
        self._ended = True
        if task.cancelled():
            raise GenAiException("The turn was cancelled.", GenAiException.ErrorCode.CANCELLED)
        return task.result()

    async def aclose(self) -> None:
        """Stops the run and waits until it has ended. Idempotent."""
        self._ended = True
        if self._task is not None:
            await cancel_and_wait([self._task])

    def __del__(self) -> None:
        if self._task is not None:
            cancel(self._task)


class _HandOver:
    """What the run and its consumer share. Nothing here refers to the iterator: that it is
    dropped is how a `break` is noticed."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.ready: asyncio.Future[AgentEvent | None] | None = None

    async def emit(self, event: AgentEvent) -> None:
        self._put(event)
        await self.wanted.wait()

    def run_ended(self, task: asyncio.Task[AgentEvent]) -> None:
        if not task.cancelled():
            task.exception()  # marks it as seen: nobody may be left to ask for it
        self._put(None)

    def _put(self, event: AgentEvent | None) -> None:
        self.wanted.clear()
        if self.ready is not None and not self.ready.done():
            self.ready.set_result(event)


def cancel(task: asyncio.Task[Any]) -> None:
    """From any thread, with or without a running loop."""
    loop = task.get_loop()
    if task.done() or loop.is_closed():
        return
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        task.cancel()
    else:
        with suppress(RuntimeError):  # the loop was closed in between
            loop.call_soon_threadsafe(task.cancel)


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels and waits, at most five seconds.

    When the caller's own task is among them, its wait ends at once in the cancellation.
    """
    running = asyncio.get_running_loop()
    mine: list[asyncio.Task[Any]] = []
    for task in tasks:
        cancel(task)
        if task.get_loop() is running:
            mine.append(task)
    if mine:
        await asyncio.wait(mine, timeout=_STOP_SECONDS)
