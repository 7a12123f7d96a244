"""A conversation that remembers.

https://developers.google.com/android/reference/com/google/mlkit/genai/agent/AgentSession
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from aicore_client._flow import Emit, cancel, cancel_and_wait
from aicore_client._history import History
from aicore_client._loop import AgentLoop
from aicore_client.content import Content, FunctionCallPart, FunctionResponsePart
from aicore_client.events import AgentEvent
from aicore_client.prompt import Usage

MAX_SESSION_ID_LENGTH: Final = 128
_SESSION_ID = re.compile(r"[a-zA-Z0-9_.-]+")


def require_session_id(session_id: str) -> None:
    """Raises ValueError for an id that a phone refuses.

    https://developers.google.com/ml-kit/genai/agent/manage-sessions
    """
    if (
        len(session_id) > MAX_SESSION_ID_LENGTH
        or not _SESSION_ID.fullmatch(session_id)
        or session_id in (".", "..")
    ):
        raise ValueError(
            f"{session_id!r} is no session id: 1 to {MAX_SESSION_ID_LENGTH} characters of "
            "a-z, A-Z, 0-9, '_', '.' and '-', and neither '.' nor '..'"
        )


def require_user_content(content: Content) -> None:
    """Raises TypeError or ValueError for what cannot start a turn."""
    if not isinstance(content, Content):
        raise TypeError(
            f"content must be a Content, not {type(content).__name__}; "
            "use Content.builder().text(…).build()"
        )
    if content.role is not Content.Role.USER:
        raise ValueError("a turn starts with a content of the role USER")
    if any(isinstance(part, FunctionCallPart | FunctionResponsePart) for part in content.parts):
        raise ValueError("function calls and responses are made by the runner, not by its user")


class Conversation:
    """History and running turns behind one session id. Turns run one after the other."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.history = History()
        self.usage: Usage | None = None
        self._turns: set[asyncio.Task[object]] = set()
        self._lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def run(self, loop: AgentLoop, content: Content, emit: Emit) -> AgentEvent:
        """Remembers the turn when it ends well, and only then."""
        task: asyncio.Task[object] | None = asyncio.current_task()
        assert task is not None
        self._turns.add(task)
        try:
            async with self._turn_lock():
                finished = await loop.run(self.session_id, self.history, content, emit)
                self.history.commit(finished.contents, dropped=finished.dropped)
                if finished.contents:
                    self.usage = finished.usage
        finally:
            self._turns.discard(task)
        return finished.message

    def cancel(self) -> None:
        for task in tuple(self._turns):
            cancel(task)

    async def cancel_and_wait(self) -> None:
        await cancel_and_wait(tuple(self._turns))

    def _turn_lock(self) -> asyncio.Lock:
        running = asyncio.get_running_loop()
        if self._lock is None or self._lock[0] is not running:
            if self._lock is not None and self._lock[1].locked() and not self._lock[0].is_closed():
                raise RuntimeError(
                    f"a turn of the session {self.session_id!r} is running in another event loop; "
                    "wait for its end, or use one of run() and run_async() only"
                )
            self._lock = (running, asyncio.Lock())
        return self._lock[1]
