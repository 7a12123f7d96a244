"""The shop's own agent, in a process of the shop: one question, its events as JSON lines."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aicore_client import Agent, AgentEvent, AgentRunner, Content, GenAiException

INSTRUCTIONS = (
    "You are a helpful assistant for looking up store orders. "
    "Use available tools to fetch order information."
)


async def ask(question: str) -> int:
    """Print each event as a line; an error is the last line. Returns the exit code."""
    agent = (
        Agent.builder()
        .set_name("OrderAssistant")
        .set_instructions(INSTRUCTIONS)
        .enable_app_functions(True)
        .build()
    )
    with AgentRunner(agent, temperature=0.0) as runner:
        session = runner.get_or_create_session("demo")
        try:
            async for event in session.run_async(Content.builder().text(question).build()):
                print(json.dumps(describe(event)), flush=True)
        except GenAiException as error:
            failure = {"event": "Error", "code": error.error_code, "message": str(error)}
            print(json.dumps(failure), flush=True)
            return 1
    return 0


def describe(event: AgentEvent) -> dict[str, Any]:
    match event:
        case AgentEvent.TextMessage():
            return {"event": "TextMessage", "text": event.text, "is_partial": event.is_partial}
        case AgentEvent.FunctionCall():
            return {
                "event": "FunctionCall",
                "id": event.id,
                "name": event.name,
                "args": dict(event.args),
            }
        case AgentEvent.FunctionResponse():
            return {
                "event": "FunctionResponse",
                "id": event.id,
                "name": event.name,
                "response": dict(event.response),
            }
        case _:
            raise TypeError(f"unknown event {event!r}")


if __name__ == "__main__":
    sys.exit(asyncio.run(ask(sys.argv[1])))
