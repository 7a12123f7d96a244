"""The loop of one user turn: ask the model, run the tools it calls, tell it what they said."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from aicore_client._flow import Emit
from aicore_client._history import History, require_answered_calls
from aicore_client._tool_calls import ToolCalls
from aicore_client._window import Window
from aicore_client.agent import Agent
from aicore_client.connection import DeviceConnection
from aicore_client.content import (
    Content,
    FunctionCall,
    Part,
    TextPart,
)
from aicore_client.errors import (
    BINDING_FAILURE,
    AppFunctionException,
    GenAiException,
)
from aicore_client.events import AgentEvent
from aicore_client.generative_model import GenerativeModel
from aicore_client.partial_run import PartialRun
from aicore_client.prompt import Candidate, GenerateContentRequest, MalformedFunctionCall, Usage
from aicore_client.runner_options import RunnerOptions
from aicore_client.tools import AgentTool, declaration_of, discover_tools

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a runner samples."""

    temperature: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    tool_choice: Literal["auto", "required"] = "auto"
    options: RunnerOptions = RunnerOptions()


@dataclass(frozen=True, kw_only=True)
class FinishedTurn:
    """`contents` is what the session is to remember; nothing when the answer was empty."""

    contents: tuple[Content, ...]
    message: AgentEvent
    usage: Usage | None
    """Of the last model call."""
    dropped: int
    """How many of the oldest turns the session is to forget for it."""


@dataclass
class _Step:
    """What the model said in one call."""

    text: str = ""
    calls: list[FunctionCall | MalformedFunctionCall] = field(default_factory=list)
    usage: Usage | None = None


@dataclass
class _Progress:
    """How far a turn is."""

    turn: list[Content]
    step: _Step = field(default_factory=_Step)
    """The model call under way, or the last."""
    calls: int = 0
    usage: Usage | None = None

    def partial(self) -> PartialRun:
        return PartialRun(
            transcript=tuple(self.turn),
            text=self.step.text,
            model_calls=self.calls,
            usage=self.step.usage or self.usage,
        )


class ToolBox:
    """The tools of an agent, those behind AppFunction ids included.

    The host is asked again at the start of every turn, so a function that came, went, or was
    changed by a restart is seen. While the host is away, the last known set stays.
    """

    def __init__(self, agent: Agent, connection: DeviceConnection | None) -> None:
        self._agent = agent
        self._connection = connection
        self._discovered: list[AgentTool] | None = None

    async def tools(self) -> Mapping[str, AgentTool]:
        agent = self._agent
        if agent.has_app_functions:
            try:
                self._discovered = await discover_tools(
                    agent.enabled_app_function_ids or None, self._connection, besides=agent.tools
                )
            except AppFunctionException as error:
                if self._discovered is None:
                    raise GenAiException(
                        f"The app's AppFunctions cannot be discovered: {error.error_message}",
                        GenAiException.ErrorCode.NOT_AVAILABLE,
                    ) from error
                logger.warning("AppFunctions cannot be discovered anew: %s", error.error_code)
        return {tool.name: tool for tool in (*agent.tools, *(self._discovered or ()))}


class AgentLoop:
    """Runs turns; knows nothing of sessions."""

    def __init__(
        self, agent: Agent, model: GenerativeModel, tool_box: ToolBox, settings: Settings
    ) -> None:
        self._agent = agent
        self._model = model
        self._tool_box = tool_box
        self._settings = settings
        self._window = Window(model, settings.options)
        self._calls = ToolCalls(
            self._window.fitting,
            parallel=settings.options.parallel_tools,
            timeout=settings.options.tool_timeout,
        )

    async def run(
        self, session_id: str, history: History, content: Content, emit: Emit
    ) -> FinishedTurn:
        """Raises GenAiException: -112 after `max_turns` model calls, 8 when AICore cannot be
        reached, else what the model raised. Its `run` is what was done until then.

        The history is left as it is.
        """
        progress = _Progress(turn=[content])
        try:
            return await self._run(session_id, history, progress, emit)
        except GenAiException as error:
            error.run = progress.partial()
            if error.error_code != BINDING_FAILURE:
                raise
            shown = GenAiException(error.message, GenAiException.ErrorCode.NOT_AVAILABLE)
            shown.run = error.run
            raise shown from error

    async def _run(
        self, session_id: str, history: History, progress: _Progress, emit: Emit
    ) -> FinishedTurn:
        tools = await self._tool_box.tools()
        turn = progress.turn
        dropped = 0
        for number in range(self._agent.max_turns):
            request = partial(self._request, history, turn, tools, number, session_id)
            dropped = await self._window.turns_to_drop(dropped, history.turns, request)
            progress.usage, progress.step = progress.step.usage or progress.usage, _Step()
            progress.calls += 1
            step = await self._ask(request(dropped), progress.step, emit)
            if not step.calls:
                return _finished(turn, step, dropped, self._settings.options)
            spoken: list[Part] = [TextPart(step.text)] if step.text.strip() else []
            answers: list[Part] = []
            for part, answer in await self._calls.run(
                step.calls, tools, history.next_call_id, emit
            ):
                spoken.append(part)
                answers.append(answer)
            turn += [Content(spoken, Content.Role.MODEL), Content(answers, Content.Role.USER)]
        raise GenAiException(
            f"The agent called the model {self._agent.max_turns} times (max_turns) without a "
            "final answer.",
            GenAiException.ErrorCode.MAX_TURNS_EXCEEDED,
        )

    def _request(
        self,
        history: History,
        turn: Sequence[Content],
        tools: Mapping[str, AgentTool],
        number: int,
        session_id: str,
        dropped: int,
    ) -> GenerateContentRequest:
        """Of the model call of that number, without the oldest `dropped` turns."""
        contents = (*history.without_oldest(dropped), *turn)
        require_answered_calls(contents)
        settings = self._settings
        return GenerateContentRequest(
            contents=contents,
            system_instruction=self._agent.instructions,
            tools=[declaration_of(tool) for tool in tools.values()],
            # Forced again after a result, a model calls for ever.
            tool_choice=settings.tool_choice if tools and number == 0 else "auto",
            temperature=settings.temperature,
            top_k=settings.top_k,
            max_output_tokens=settings.max_output_tokens,
            session_id=session_id,
        )

    async def _ask(self, request: GenerateContentRequest, step: _Step, emit: Emit) -> _Step:
        try:
            async with aclosing(self._model.generate_content_stream(request)) as chunks:
                async for chunk in chunks:
                    step.usage = chunk.usage or step.usage
                    for candidate in chunk.candidates[:1]:
                        await _take(candidate, step, emit)
        except GenAiException as error:
            explained = await self._window.explained(error, request)
            if explained is error:
                raise
            raise explained from error
        return step


async def _take(candidate: Candidate, step: _Step, emit: Emit) -> None:
    step.calls += candidate.function_calls
    step.calls += candidate.malformed_function_calls
    if candidate.text:
        step.text += candidate.text
        await emit(AgentEvent.TextMessage(candidate.text, is_partial=True))


def _finished(
    turn: list[Content], step: _Step, dropped: int, options: RunnerOptions
) -> FinishedTurn:
    message = AgentEvent.TextMessage(step.text if options.final_text == "whole" else "")
    if not step.text.strip():
        # An answer without text stored in the history makes later requests fail.
        logger.warning("The model gave an empty answer; the turn is not remembered.")
        return FinishedTurn(contents=(), message=message, usage=step.usage, dropped=dropped)
    answer = Content([TextPart(step.text)], Content.Role.MODEL)
    return FinishedTurn(
        contents=(*turn, answer), message=message, usage=step.usage, dropped=dropped
    )
