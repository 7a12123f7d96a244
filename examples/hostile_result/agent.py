"""An agent reads a note that tells it what to call next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aicore_client import (
    Agent,
    AgentEvent,
    AgentRunner,
    AgentTool,
    AppFunctionAgentTools,
    Content,
    Declined,
    HitlConfirmationTool,
)

READ, CANCEL = "com.example.shop.Shop#read_note", "com.example.shop.Shop#cancel_order"


async def confirm(tool: str, args: Mapping[str, Any]) -> Declined:
    return Declined("I did not ask for that.")


async def run(title: str, tools: Sequence[AgentTool]) -> None:
    print(f"{title}: {', '.join(tool.name for tool in tools)}")
    agent = Agent.builder().set_instructions("You read notes.").add_tools(*tools).build()
    async with AgentRunner(agent, temperature=0.0) as runner:
        content = Content.builder().text("What does the note of A-1 say?").build()
        async for event in runner.run_single_turn_async(content):
            match event:
                case AgentEvent.FunctionCall(name=name, args=args):
                    print(f"  call {name}({dict(args)})")
                case AgentEvent.FunctionResponse(response=response):
                    print(f"  {dict(response)}")
                case AgentEvent.TextMessage(text=text, is_partial=False):
                    print(f"  {text}")


async def main() -> None:
    await run("only what the task needs", await AppFunctionAgentTools.discover([READ]))
    tools = await AppFunctionAgentTools.discover([READ, CANCEL])
    asked = [
        HitlConfirmationTool(tool, confirm) if tool.name == "cancel_order" else tool
        for tool in tools
    ]
    await run("more, with a question before anything changes", asked)


asyncio.run(main())
