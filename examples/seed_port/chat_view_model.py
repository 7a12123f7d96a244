"""The chat screen's state, as the view model of the guide keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from aicore_client import AgentEvent, AgentRunner, AgentSession, Content, GenAiException


@dataclass(frozen=True)
class AgentUiState:
    messages: tuple[str, ...] = ()
    current_response: str = ""
    active_tool_status: str | None = None
    is_loading: bool = False
    error_message: str | None = None


class ChatViewModel:
    def __init__(
        self,
        runner: AgentRunner,
        session_id: str = "chat_session",
        on_state: Callable[[AgentUiState], None] = lambda state: None,
    ) -> None:
        self._runner = runner
        # Scoped session preserves conversation history across configuration changes
        self._session: AgentSession = runner.get_or_create_session(session_id)
        self._ui_state = AgentUiState()
        self._on_state = on_state
        self._scope: set[asyncio.Task[None]] = set()

    @property
    def ui_state(self) -> AgentUiState:
        return self._ui_state

    def send_message(self, user_text: str) -> asyncio.Task[None]:
        """Returns the launched work; a screen has no use for it."""
        self._update(
            messages=(*self._ui_state.messages, user_text),
            current_response="",
            active_tool_status=None,
            is_loading=True,
            error_message=None,
        )
        task = asyncio.create_task(self._run(user_text))
        self._scope.add(task)
        task.add_done_callback(self._scope.discard)
        return task

    async def _run(self, user_text: str) -> None:
        content = Content.builder().text(user_text).build()
        try:
            async for event in self._session.run_async(content):
                match event:
                    case AgentEvent.TextMessage():
                        self._update(
                            current_response=self._ui_state.current_response + event.text
                            if event.is_partial
                            else event.text or self._ui_state.current_response,
                            active_tool_status=None,
                        )
                    case AgentEvent.FunctionCall():
                        self._update(active_tool_status=f"Executing {event.name}...")
                    case AgentEvent.FunctionResponse():
                        self._update(active_tool_status=f"Received data from {event.name}")
        except GenAiException as e:
            match e.error_code:
                case GenAiException.ErrorCode.MAX_TURNS_EXCEEDED:
                    message = "Agent exceeded the maximum reasoning turns allowed."
                case GenAiException.ErrorCode.NOT_AVAILABLE:
                    message = "On-device AI is currently unavailable."
                case GenAiException.ErrorCode.BUSY:
                    message = "On-device AI is busy. Please try again."
                case _:
                    message = e.message or "Agent error"
            self._update(is_loading=False, active_tool_status=None, error_message=message)
        # Finalize message once stream completes
        self._update(
            messages=(*self._ui_state.messages, self._ui_state.current_response),
            current_response="",
            active_tool_status=None,
            is_loading=False,
        )

    def on_cleared(self) -> None:
        for task in self._scope:
            task.cancel()
        # Cleanly evicts conversation memory from RAM when ViewModel is destroyed
        self._session.close()

    def _update(self, **changes: object) -> None:
        self._ui_state = replace(self._ui_state, **changes)  # type: ignore[arg-type]
        self._on_state(self._ui_state)
