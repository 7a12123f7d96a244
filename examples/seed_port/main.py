"""Everything that the guide shows, one after the other."""

from __future__ import annotations

import asyncio
from typing import Any

from chat_view_model import AgentUiState, ChatViewModel
from hitl_confirmation_tool import HitlConfirmationTool

from aicore_client import Agent, AgentRunner, AppFunctionAgentTools, Content, GenAiException


def order_assistant() -> Agent:
    # Configure the agent with system instructions and enable AppFunctions
    return (
        Agent.builder()
        .set_name("OrderAssistant")
        .set_instructions(
            "You are a helpful assistant for looking up store orders. "
            "Use available tools to fetch order information."
        )
        .enable_app_functions(True)  # Automatically discovers all registered AppFunctions
        .build()
    )


async def chat(runner: AgentRunner, *user_texts: str) -> None:
    def show(state: AgentUiState) -> None:
        if state.active_tool_status:
            print("status:", state.active_tool_status)

    view_model = ChatViewModel(runner, on_state=show)
    for user_text in user_texts:
        await view_model.send_message(user_text)
        print("messages:", *view_model.ui_state.messages, sep="\n  ")
        if view_model.ui_state.error_message:
            print("error:", view_model.ui_state.error_message)
    view_model.on_cleared()


async def stream_tokens(runner: AgentRunner) -> None:
    session = runner.get_or_create_session("tokens")
    content = Content.builder().text("Where is my order 1042?").build()
    async for token in session.run_async(content).text_tokens():
        print(token, end="", flush=True)
    print()
    await session.delete()


async def single_turn(runner: AgentRunner) -> None:
    # Ephemeral single-turn: cleans up session state from RAM automatically upon completion
    content = Content.builder().text("What is the status of order 1042?").build()
    async for token in runner.run_single_turn_async(content).text_tokens():
        print(token, end="", flush=True)
    print()
    assert "tokens" not in runner.session_ids


async def confirm_first() -> None:
    async def on_confirm(tool_name: str, args: dict[str, Any]) -> bool:
        print(f"declined: {tool_name}({args})")
        return False

    discovered = await AppFunctionAgentTools.discover("cancel_order")
    tools = [HitlConfirmationTool(tool, on_confirm) for tool in discovered]
    agent = Agent.builder().set_name("OrderAssistant").add_tools(*tools).build()
    with AgentRunner(agent, temperature=0.0) as runner:
        await chat(runner, "Please cancel order A17-330.")


async def main() -> None:
    # Initialize the runner
    runner = AgentRunner(order_assistant(), temperature=0.0)
    try:
        await chat(runner, "Where is my order ORD-8492?", "Thank you!")
        await stream_tokens(runner)
        await single_turn(runner)
        await confirm_first()
    except GenAiException as e:
        match e.error_code:
            case GenAiException.ErrorCode.MAX_TURNS_EXCEEDED:
                print("Turn limit exceeded")
            case GenAiException.ErrorCode.NOT_AVAILABLE:
                print("Gemini Nano or AICore unavailable")
            case GenAiException.ErrorCode.BUSY:
                print("System busy or rate limit reached")
            case _:
                print("Other GenAiException errors:", e)
    finally:
        runner.close()


if __name__ == "__main__":
    asyncio.run(main())
