"""Cold streams of what an agent does.

https://developers.google.com/android/reference/com/google/mlkit/genai/agent/AgentEventKt
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from aicore_client._flow import Run, TurnIterator, cancel, cancel_and_wait
from aicore_client.events import AgentEvent


class AgentEventFlow:
    """The events of one turn. Nothing happens before the iteration, and iterating twice runs the
    turn twice, as collecting a Kotlin flow does.

    Leaving the loop stops the turn soon; `async with` around the loop also waits until it has
    ended:

        async with session.run_async(content) as events:
            async for event in events:
                break

    The iteration raises GenAiException; CANCELLED (7) after :meth:`cancel`, which may be called
    from any task.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._tasks: set[asyncio.Task[AgentEvent]] = set()

    def __aiter__(self) -> TurnIterator:
        return TurnIterator(self._run, self._track)

    def text_tokens(self) -> TextFlow:
        """Only the texts of partial messages."""
        return TextFlow(self, is_partial=True)

    def text_messages(self) -> TextFlow:
        """Only the texts of completed messages."""
        return TextFlow(self, is_partial=False)

    def cancel(self) -> None:
        """Stops every running iteration of this flow."""
        for task in self._tasks:
            cancel(task)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await cancel_and_wait(list(self._tasks))

    def _track(self, task: asyncio.Task[AgentEvent]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class TextFlow:
    """Texts of an :class:`AgentEventFlow`; as cold as the flow itself."""

    def __init__(self, flow: AgentEventFlow, *, is_partial: bool) -> None:
        self._flow = flow
        self._is_partial = is_partial

    def __aiter__(self) -> AsyncIterator[str]:
        return _TextIterator(aiter(self._flow), is_partial=self._is_partial)

    def cancel(self) -> None:
        """As :meth:`AgentEventFlow.cancel`."""
        self._flow.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._flow.__aexit__(exc_type, exc, traceback)


class _TextIterator(AsyncIterator[str]):
    def __init__(self, events: TurnIterator, *, is_partial: bool) -> None:
        self._events = events
        self._is_partial = is_partial

    async def __anext__(self) -> str:
        async for event in self._events:
            if isinstance(event, AgentEvent.TextMessage) and event.is_partial == self._is_partial:
                return event.text
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._events.aclose()
