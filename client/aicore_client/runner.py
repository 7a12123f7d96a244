"""Runs an agent.

https://developers.google.com/android/reference/com/google/mlkit/genai/agent/AgentRunner
"""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import Literal, Self

from aicore_client._flow import Emit
from aicore_client._loop import AgentLoop, Settings, ToolBox
from aicore_client.agent import Agent
from aicore_client.blocking import BlockingEvents
from aicore_client.connection import DeviceConnection
from aicore_client.content import Content
from aicore_client.events import AgentEvent
from aicore_client.flow import AgentEventFlow
from aicore_client.generative_model import Generation, GenerativeModel
from aicore_client.prompt import Usage, require_sampling
from aicore_client.runner_options import RunnerOptions
from aicore_client.session import Conversation, require_session_id, require_user_content


class AgentSession:
    """A handle of one conversation; get it from :meth:`AgentRunner.get_or_create_session`."""

    def __init__(self, runner: AgentRunner, session_id: str) -> None:
        self._runner = runner
        self._session_id = session_id
        self._closed = False

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def usage(self) -> Usage | None:
        """Ours: tokens of the last model call of the last turn that the session remembers.

        `total_tokens` is what the history takes of `GenerativeModel.get_token_limit()`, without
        the next question. None before such a turn, and for a session that is gone.
        """
        conversation = self._runner._conversations.get(self._session_id)
        return None if self._closed or conversation is None else conversation.usage

    def run_async(self, content: Content) -> AgentEventFlow:
        """One user turn, run by iterating the flow.

        Partial texts; for each tool a FunctionCall directly before and a FunctionResponse directly
        after it; at the end one TextMessage that is not partial, with the whole text of the last
        step. After `max_turns` model calls the last tools still run, then GenAiException -112.

        Turns of one session run one after the other. A turn that fails, is cancelled, exceeds its
        limit or ends in an empty answer is forgotten as a whole; the session stays usable.
        """
        require_user_content(content)
        return AgentEventFlow(_SessionTurn(self, content))

    def run(self, content: Content) -> BlockingEvents:
        """Ours: :meth:`run_async` for a plain `for`, from any thread."""
        return BlockingEvents(self.run_async(content))

    def close(self) -> None:
        """Cancels active turns and drops the history, without waiting. Idempotent."""
        self._closed = True
        self._runner._evict(self._session_id)

    async def delete(self) -> None:
        """As :meth:`close`, and returns when the active turns have ended."""
        self._closed = True
        await self._runner.delete_session(self._session_id)

    async def _run(self, content: Content, emit: Emit) -> AgentEvent:
        if self._closed:
            raise RuntimeError(
                f"Session not found: {self._session_id!r} was closed; get_or_create_session() "
                "starts a new one"
            )
        conversation = self._runner._conversation(self._session_id)
        return await conversation.run(self._runner._loop, content, emit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AgentRunner:
    """Hosts the sessions of one agent.

    None for `temperature`, `top_k` and `max_output_tokens` leaves them to the model; 0.0 decodes
    greedily. `generative_model` defaults to `Generation.get_client()`, `connection` to what the
    environment names. `options` and `tool_choice` are ours: "required" makes the first model call
    of every user turn call a tool.

    Raises ValueError for a value outside its range.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        generative_model: GenerativeModel | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        max_output_tokens: int | None = None,
        connection: DeviceConnection | None = None,
        tool_choice: Literal["auto", "required"] = "auto",
        options: RunnerOptions | None = None,
    ) -> None:
        require_sampling(temperature, top_k, max_output_tokens)
        if tool_choice not in ("auto", "required"):
            raise ValueError(f"tool_choice must be 'auto' or 'required', not {tool_choice!r}")
        if tool_choice == "required" and not (agent.tools or agent.has_app_functions):
            raise ValueError("tool_choice='required' needs an agent with tools")
        self._agent = agent
        self._loop = AgentLoop(
            agent,
            generative_model or Generation.get_client(connection=connection),
            ToolBox(agent, connection),
            Settings(
                temperature=temperature,
                top_k=top_k,
                max_output_tokens=max_output_tokens,
                tool_choice=tool_choice,
                options=options or RunnerOptions(),
            ),
        )
        self._conversations: dict[str, Conversation] = {}
        self._single_turns = itertools.count(1)
        self._closed = False

    @property
    def agent(self) -> Agent:
        return self._agent

    @property
    def session_ids(self) -> tuple[str, ...]:
        """Ours: ids of the sessions that are held in memory."""
        return tuple(self._conversations)

    def get_or_create_session(self, session_id: str) -> AgentSession:
        """A handle; a history that exists under this id is continued.

        Raises ValueError for an id that a phone refuses.
        """
        require_session_id(session_id)
        self._conversation(session_id)
        return AgentSession(self, session_id)

    def run_single_turn_async(self, content: Content) -> AgentEventFlow:
        """One turn in a session of its own, which is gone when the iteration ends."""
        require_user_content(content)
        return AgentEventFlow(_SingleTurn(self, content))

    def run_single_turn(self, content: Content) -> BlockingEvents:
        """Ours: :meth:`run_single_turn_async` for a plain `for`, from any thread."""
        return BlockingEvents(self.run_single_turn_async(content))

    async def delete_session(self, session_id: str) -> None:
        """Cancels the session's active turns, waits for their end and drops its history.

        A session that does not exist is no error.
        """
        conversation = self._conversations.pop(session_id, None)
        if conversation is not None:
            await conversation.cancel_and_wait()

    async def clear_all_sessions(self) -> None:
        """As :meth:`delete_session`, for every session."""
        for session_id in self.session_ids:
            await self.delete_session(session_id)

    def close(self) -> None:
        """Cancels every turn and drops every session. Idempotent.

        A model or connection that was passed in stays open.
        """
        self._closed = True
        for session_id in self.session_ids:
            self._evict(session_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _conversation(self, session_id: str) -> Conversation:
        if self._closed:
            raise RuntimeError("this AgentRunner is closed")
        return self._conversations.setdefault(session_id, Conversation(session_id))

    def _evict(self, session_id: str) -> None:
        conversation = self._conversations.pop(session_id, None)
        if conversation is not None:
            conversation.cancel()

    async def _run_single_turn(self, content: Content, emit: Emit) -> AgentEvent:
        session_id = f"single-turn:{next(self._single_turns)}"
        conversation = self._conversation(session_id)
        try:
            return await conversation.run(self._loop, content, emit)
        finally:
            self._conversations.pop(session_id, None)


class _SessionTurn:
    def __init__(self, session: AgentSession, content: Content) -> None:
        self._session = session
        self._content = content

    async def __call__(self, emit: Emit) -> AgentEvent:
        return await self._session._run(self._content, emit)


class _SingleTurn:
    def __init__(self, runner: AgentRunner, content: Content) -> None:
        self._runner = runner
        self._content = content

    async def __call__(self, emit: Emit) -> AgentEvent:
        return await self._runner._run_single_turn(self._content, emit)
