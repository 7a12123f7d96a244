"""The conversation, in a process of the app: `python -m aicore_sim.cli.chat.session TEXT NUMBER`.

TEXT are the agent's instructions, NUMBER is the temperature. Lines of standard input are what the
user says; those that begin with `/` are commands.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Coroutine

from aicore_client import (
    Agent,
    AgentEvent,
    AgentEventFlow,
    AgentRunner,
    AgentSession,
    AppFunctionAgentTools,
    AppFunctionException,
    Content,
    GenAiException,
    Generation,
    SimulatorError,
)
from aicore_sim.cli.chat.lines import Lines

HELP = """\
/tools    the functions that the agent may call
/usage    tokens of this conversation, and how many fit
/cancel   stop the answer, as Ctrl-C does
/new      forget this conversation
/quit     end, as Ctrl-D does"""


class Chat:
    """One user at a terminal, or lines of a file."""

    def __init__(self, runner: AgentRunner, lines: Lines, *, prompt: bool) -> None:
        self._runner = runner
        self._lines = lines
        self._prompt = prompt
        self._asked = False
        self._count = 0
        self._session = self._new()
        self._turn: tuple[AgentEventFlow, asyncio.Task[None]] | None = None
        self._commands: dict[str, Callable[[], Coroutine[None, None, None]]] = {
            "/help": self._help,
            "/tools": self._tools,
            "/usage": self._usage,
            "/cancel": self._cancel,
            "/new": self._begin_anew,
        }

    async def run(self) -> None:
        """Until the input ends, or `/quit`. What was asked last is still answered at its end."""
        await self._greet()
        self._ask()
        async for line in self._lines:
            self._asked = False
            if line == "/quit":
                self.interrupt()
                break
            if line.startswith("/"):
                await self._obey(line)
            elif line:
                await self._idle()
                self._say(line)
                if not self._prompt:
                    await self._idle()  # a file is read at the pace of the answers
                continue
            self._ask()
        await self._idle()

    def interrupt(self) -> bool:
        """Stop the answer under way; False when there is none."""
        if self._turn is None:
            return False
        self._turn[0].cancel()
        return True

    def _say(self, text: str) -> None:
        flow = self._session.run_async(Content.builder().text(text).build())
        self._turn = flow, asyncio.create_task(self._answer(flow))

    async def _answer(self, flow: AgentEventFlow) -> None:
        shown = _Shown()
        try:
            async for event in flow:
                shown.event(event)
        except GenAiException as error:
            shown.failure(error)
        self._turn = None
        self._ask()

    async def _idle(self) -> None:
        if self._turn is not None:
            await self._turn[1]

    async def _obey(self, line: str) -> None:
        command = self._commands.get(line)
        if command is None:
            _print(f"There is no command {line!r}.\n{HELP}")
            return
        try:
            await command()
        except (AppFunctionException, GenAiException) as error:
            _print(f"{error}")

    async def _greet(self) -> None:
        model = Generation.get_client()
        try:
            name, limit = await model.get_base_model_name(), await model.get_token_limit()
        except GenAiException as error:
            _print(f"{error}")
            return
        _print(f"{name}, {limit:,} tokens. /help lists the commands.")

    async def _help(self) -> None:
        _print(HELP)

    async def _tools(self) -> None:
        tools = await AppFunctionAgentTools.discover()
        for tool in tools:
            _print(f"{tool.name}: {tool.description}" if tool.description else tool.name)
        if not tools:
            _print("This app has no functions; `chat --as PACKAGE --app …` gives it some.")

    async def _usage(self) -> None:
        usage = self._session.usage
        limit = await Generation.get_client().get_token_limit()
        if usage is None:
            _print(f"Nothing yet, of {limit:,} tokens.")
            return
        _print(
            f"{usage.total_tokens:,} of {limit:,} tokens: {usage.input_tokens:,} in "
            f"({usage.cached_input_tokens:,} cached), {usage.output_tokens:,} out."
        )

    async def _cancel(self) -> None:
        if not self.interrupt():
            _print("There is no answer to stop.")
        await self._idle()

    async def _begin_anew(self) -> None:
        self.interrupt()
        await self._idle()
        self._session.close()
        self._session = self._new()
        _print("A new conversation.")

    def _new(self) -> AgentSession:
        self._count += 1
        return self._runner.get_or_create_session(f"chat-{self._count}")

    def _ask(self) -> None:
        if self._prompt and self._turn is None and not self._asked:
            print("> ", end="", flush=True)
            self._asked = True


class _Shown:
    """What is on the screen of one answer."""

    def __init__(self) -> None:
        self._open = False

    def event(self, event: AgentEvent) -> None:
        match event:
            case AgentEvent.TextMessage() if event.is_partial:
                print(event.text, end="", flush=True)
                self._open = True
            case AgentEvent.TextMessage():
                self._close()
                if not event.text.strip():
                    _print("(an empty answer; the turn is not remembered)")
            case AgentEvent.FunctionCall():
                self._close()
                _print(f"  → {event.name}({_json(event.args)})")
            case AgentEvent.FunctionResponse():
                _print(f"  ← {_json(event.response)}")

    def failure(self, error: GenAiException) -> None:
        self._close()
        if error.error_code == GenAiException.ErrorCode.CANCELLED:
            _print("(stopped)")
            return
        wait = f" Retry after {error.retry_delay.total_seconds():g} s." if error.retry_delay else ""
        _print(f"{error}{wait}")

    def _close(self) -> None:
        if self._open:
            print(flush=True)
        self._open = False


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _print(text: str) -> None:
    print(text, flush=True)


async def main(instructions: str, temperature: float) -> int:
    agent = Agent.builder().set_instructions(instructions).enable_app_functions(True).build()
    lines = Lines()
    with AgentRunner(agent, temperature=temperature) as runner:
        chat = Chat(runner, lines, prompt=sys.stdin.isatty())

        def interrupt() -> None:
            if not chat.interrupt():
                print(flush=True)
                lines.close()

        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
        try:
            await chat.run()
        except SimulatorError as error:
            print(f"aicore-sim: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], float(sys.argv[2]))))
