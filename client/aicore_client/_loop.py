"""The loop of one user turn: ask the model, run the tools it calls, tell it what they said."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Literal

from aicore_client._flow import Emit
from aicore_client._history import History, require_answered_calls
from aicore_client._values import to_object
from aicore_client.agent import Agent
from aicore_client.connection import DeviceConnection
from aicore_client.content import (
    Content,
    FunctionCall,
    FunctionCallPart,
    FunctionResponsePart,
    Part,
    TextPart,
)
from aicore_client.errors import (
    BINDING_FAILURE,
    AppFunctionException,
    GenAiException,
    SimulatorError,
)
from aicore_client.events import AgentEvent
from aicore_client.generative_model import GenerativeModel
from aicore_client.prompt import Candidate, GenerateContentRequest, MalformedFunctionCall
from aicore_client.tools import AgentTool, as_response, declaration_of, discover_tools

logger = logging.getLogger(__name__)

MALFORMED_CALL_NAME: Final = "malformed_function_call"
"""Name under which a call that does not parse appears in events and history; ours."""

_SHOWN_MALFORMED_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a runner samples."""

    temperature: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    tool_choice: Literal["auto", "required"] = "auto"


@dataclass(frozen=True, kw_only=True)
class FinishedTurn:
    """`contents` is what the session is to remember; nothing when the answer was empty."""

    contents: tuple[Content, ...]
    message: AgentEvent


@dataclass
class _Step:
    """What the model said in one call."""

    text: str = ""
    calls: list[FunctionCall | MalformedFunctionCall] = field(default_factory=list)


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

    async def run(
        self, session_id: str, history: History, content: Content, emit: Emit
    ) -> FinishedTurn:
        """Raises GenAiException: -112 after `max_turns` model calls, else what the model raised.

        The history is left as it is.
        """
        tools = await self._tool_box.tools()
        turn: list[Content] = [content]
        for number in range(self._agent.max_turns):
            contents = (*history.contents, *turn)
            require_answered_calls(contents)
            step = await self._ask(contents, tools, number, session_id, emit)
            if not step.calls:
                return _finished(turn, step)
            spoken: list[Part] = [TextPart(step.text)] if step.text.strip() else []
            answers: list[Part] = []
            for call in step.calls:
                part, answer = await self._act(call, tools, history.next_call_id(), emit)
                spoken.append(part)
                answers.append(answer)
            turn += [Content(spoken, Content.Role.MODEL), Content(answers, Content.Role.USER)]
        raise GenAiException(
            f"The agent called the model {self._agent.max_turns} times (max_turns) without a "
            "final answer.",
            GenAiException.ErrorCode.MAX_TURNS_EXCEEDED,
        )

    async def _ask(
        self,
        contents: Sequence[Content],
        tools: Mapping[str, AgentTool],
        number: int,
        session_id: str,
        emit: Emit,
    ) -> _Step:
        settings = self._settings
        request = GenerateContentRequest(
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
        step = _Step()
        try:
            async with aclosing(self._model.generate_content_stream(request)) as chunks:
                async for chunk in chunks:
                    for candidate in chunk.candidates[:1]:
                        await _take(candidate, step, emit)
        except GenAiException as error:
            if error.error_code == BINDING_FAILURE:
                raise GenAiException(
                    error.message, GenAiException.ErrorCode.NOT_AVAILABLE
                ) from error
            raise
        return step

    async def _act(
        self,
        call: FunctionCall | MalformedFunctionCall,
        tools: Mapping[str, AgentTool],
        call_id: str,
        emit: Emit,
    ) -> tuple[FunctionCallPart, FunctionResponsePart]:
        if isinstance(call, MalformedFunctionCall):
            problem = f"The function call could not be parsed: {call.reason}"
            shown = call.text[:_SHOWN_MALFORMED_CHARACTERS]
            call = FunctionCall(MALFORMED_CALL_NAME, {"text": shown})
        elif call.name not in tools:
            allowed = ", ".join(sorted(tools)) or "none"
            problem = f"There is no tool {call.name!r}. Allowed tools: {allowed}."
        else:
            problem = ""
        name, args = call.name, call.args
        await emit(AgentEvent.FunctionCall(name, copy.deepcopy(args), id=call_id))
        response: dict[str, object] = {"error": problem}
        if not problem:
            response = await _execute(tools[name], dict(copy.deepcopy(args)))
        await emit(AgentEvent.FunctionResponse(name, copy.deepcopy(response), id=call_id))
        return (
            FunctionCallPart(FunctionCall(name, args, call_id)),
            FunctionResponsePart(call_id, name, response),
        )


async def _take(candidate: Candidate, step: _Step, emit: Emit) -> None:
    step.calls += candidate.function_calls
    step.calls += candidate.malformed_function_calls
    if candidate.text:
        step.text += candidate.text
        await emit(AgentEvent.TextMessage(candidate.text, is_partial=True))


async def _execute(tool: AgentTool, args: dict[str, object]) -> dict[str, object]:
    """What the tool returned, or its failure as a map; only cancellation and faults of the
    simulator's set-up get out."""
    try:
        response = as_response(await tool.execute(args))
        to_object(response)  # what cannot be sent to the model must fail here
    except SimulatorError:
        raise
    except AppFunctionException as error:
        logger.info("Tool %s failed with %d", tool.name, error.error_code)
        return {"error": error.error_message or str(error), "error_code": error.error_code}
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return {"error": "The tool was cancelled."}
    except Exception as error:
        logger.warning("Tool %s raised %s", tool.name, type(error).__name__)
        logger.debug("Tool %s raised", tool.name, exc_info=True)
        return {"error": str(error) or type(error).__name__}
    return response


def _finished(turn: list[Content], step: _Step) -> FinishedTurn:
    message = AgentEvent.TextMessage(step.text)
    if not step.text.strip():
        # An answer without text stored in the history makes later requests fail.
        logger.warning("The model gave an empty answer; the turn is not remembered.")
        return FinishedTurn(contents=(), message=message)
    answer = Content([TextPart(step.text)], Content.Role.MODEL)
    return FinishedTurn(contents=(*turn, answer), message=message)
