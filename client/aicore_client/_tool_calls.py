"""Runs what a model called: each call gets exactly one response, whatever happens."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from aicore_client._flow import Emit
from aicore_client._values import to_object
from aicore_client.content import FunctionCall, FunctionCallPart, FunctionResponsePart
from aicore_client.errors import AppFunctionException, SimulatorError
from aicore_client.events import AgentEvent
from aicore_client.prompt import MalformedFunctionCall
from aicore_client.tools import AgentTool, as_response

logger = logging.getLogger(__name__)

MALFORMED_CALL_NAME: Final = "malformed_function_call"
"""Name under which a call that does not parse appears in events and history; ours."""

_SHOWN_MALFORMED_CHARACTERS = 500

Called = FunctionCall | MalformedFunctionCall
Answered = tuple[FunctionCallPart, FunctionResponsePart]
Fit = Callable[[str, dict[str, object]], Awaitable[dict[str, object]]]
"""Name and result of a tool → what of it the model is told."""


@dataclass(frozen=True)
class _Prepared:
    call: FunctionCall
    tool: AgentTool | None
    problem: str = ""
    """Why there is no tool to run."""


class ToolCalls:
    """Runs the calls of one answer."""

    def __init__(self, fit: Fit, *, parallel: bool, timeout: timedelta | None) -> None:
        self._fit = fit
        self._parallel = parallel
        self._timeout = None if timeout is None else timeout.total_seconds()

    async def run(
        self,
        calls: Sequence[Called],
        tools: Mapping[str, AgentTool],
        next_id: Callable[[], str],
        emit: Emit,
    ) -> list[Answered]:
        """Calls and responses in the order of the answer, matched by the ids of `next_id`."""
        if self._parallel and len(calls) > 1:
            return await self._run_together(
                [_prepared(call, tools, next_id) for call in calls], emit
            )
        answered: list[Answered] = []
        for call in calls:
            prepared = _prepared(call, tools, next_id)
            await emit(_called(prepared))
            response = await self._respond(prepared)
            await emit(_responded(prepared, response))
            answered.append(_parts(prepared, response))
        return answered

    async def _run_together(self, calls: Sequence[_Prepared], emit: Emit) -> list[Answered]:
        for prepared in calls:
            await emit(_called(prepared))
        tasks = {asyncio.ensure_future(self._respond(call)): call for call in calls}
        try:
            waiting = set(tasks)
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task in done:
                        await emit(_responded(tasks[task], task.result()))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [_parts(call, task.result()) for task, call in tasks.items()]

    async def _respond(self, prepared: _Prepared) -> dict[str, object]:
        if prepared.tool is None:
            return {"error": prepared.problem}
        args = dict(copy.deepcopy(prepared.call.args))
        return await self._fit(prepared.tool.name, await self._execute(prepared.tool, args))

    async def _execute(self, tool: AgentTool, args: dict[str, object]) -> dict[str, object]:
        """What the tool returned, or its failure as a map; only cancellation and faults of the
        simulator's set-up get out."""
        late = asyncio.timeout(self._timeout)
        try:
            async with late:
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
            if late.expired():
                logger.warning("Tool %s gave no answer in %g s", tool.name, self._timeout)
                return {"error": f"The tool gave no answer within {self._timeout:g} s."}
            logger.warning("Tool %s raised %s", tool.name, type(error).__name__)
            logger.debug("Tool %s raised", tool.name, exc_info=True)
            return {"error": str(error) or type(error).__name__}
        return response


def _prepared(
    call: Called, tools: Mapping[str, AgentTool], next_id: Callable[[], str]
) -> _Prepared:
    if isinstance(call, MalformedFunctionCall):
        shown = call.text[:_SHOWN_MALFORMED_CHARACTERS]
        made = FunctionCall(MALFORMED_CALL_NAME, {"text": shown}, next_id())
        return _Prepared(made, None, f"The function call could not be parsed: {call.reason}")
    made = FunctionCall(call.name, call.args, next_id())
    if call.name in tools:
        return _Prepared(made, tools[call.name])
    allowed = ", ".join(sorted(tools)) or "none"
    return _Prepared(made, None, f"There is no tool {call.name!r}. Allowed tools: {allowed}.")


def _called(prepared: _Prepared) -> AgentEvent:
    call = prepared.call
    return AgentEvent.FunctionCall(call.name, copy.deepcopy(call.args), id=call.id)


def _responded(prepared: _Prepared, response: dict[str, object]) -> AgentEvent:
    call = prepared.call
    return AgentEvent.FunctionResponse(call.name, copy.deepcopy(response), id=call.id)


def _parts(prepared: _Prepared, response: dict[str, object]) -> Answered:
    call = prepared.call
    return FunctionCallPart(call), FunctionResponsePart(call.id, call.name, response)
