"""ChatML models: a call is a JSON object between ``<tool_call>`` marks.

https://github.com/NousResearch/Hermes-Function-Calling
"""

from __future__ import annotations

from typing import Literal

from aicore_sim.inference.backend import (
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    TextPart,
)
from aicore_sim.inference.dialect.base import (
    AddedTokens,
    ChatMessage,
    MarkGuard,
    OutputParser,
    Prompt,
    merged,
    only_calls,
    sections,
    shows_calls,
)
from aicore_sim.inference.dialect.declarations import call_form, function_object, signature
from aicore_sim.inference.dialect.notation import JsonNotation, to_json
from aicore_sim.inference.output_parser import AnswerParser, MarkedJsonCalls

Declarations = Literal["signatures", "json", "calls"]

_THOUGHT = ("<think>", "</think>")


class HermesDialect:
    """Hermes, Qwen, SmolLM2.

    `declarations`: `json` is how Qwen was trained to read functions, and models whose chat
    template declares functions so; `calls` is for a model that was trained to call functions shown
    as their calls are written; others get short signatures. `default_system` is what the chat
    template says where there is no system message; without `system_role` instructions stand before
    the first question. `opening` is what an answer without thoughts has to begin with.
    """

    name = "hermes"
    notation = JsonNotation()
    call_open = "<tool_call>"
    call_close = "</tool_call>"
    call_separator = "\n"

    def __init__(
        self,
        *,
        declarations: Declarations = "signatures",
        default_system: str = "",
        system_role: bool = True,
        opening: str = "",
        tokens: AddedTokens | None = None,
    ) -> None:
        tokens = tokens or AddedTokens()
        self._declarations = declarations
        self._default_system = default_system
        self._system_role = system_role
        self._opening = opening
        self._notations = frozenset(
            (self.call_open, self.call_close, "<tool_response>", "</tool_response>")
        )
        self.marks = self._notations | frozenset(_THOUGHT)
        self.control = self.marks & tokens.control.keys()
        self._guarded = MarkGuard(self.marks, tokens).guarded

    def prompt(self, request: GenerateRequest) -> Prompt:
        messages = self.messages(request)
        if not self._system_role and messages[0]["role"] == "system":
            first: ChatMessage = {"role": "user", "content": messages[0]["content"]}
            return Prompt(messages=merged([first, *messages[1:]], "\n\n"), opening=self._opening)
        return Prompt(messages=tuple(messages), opening=self._opening)

    def messages(self, request: GenerateRequest) -> list[ChatMessage]:
        messages: list[ChatMessage] = []
        system = self._system_text(request)
        if system:
            messages.append({"role": "system", "content": system})
        for content in request.contents:
            text = "\n".join(self._part_text(part) for part in content.parts)
            role = "assistant" if content.role == "model" else "user"
            messages.append({"role": role, "content": text})
        return messages

    def call_frame(self, tool_name: str) -> tuple[str, str]:
        name = self.notation.literal(tool_name)
        return f'\n{{"name": {name}, "arguments": ', f"}}\n{self.call_close}"

    def text_marks(self, request: GenerateRequest) -> frozenset[str]:
        return self._notations if request.tools or shows_calls(request) else frozenset()

    def parser(self, request: GenerateRequest) -> OutputParser:
        calls = MarkedJsonCalls(self.call_open, self.call_close, arguments="arguments")
        return AnswerParser(
            calls,
            only_calls=only_calls(request),
            thought=_THOUGHT,
            thought_first=request.response_schema is not None,
        )

    def _system_text(self, request: GenerateRequest) -> str:
        said = self._guarded(request.system_instruction.strip())
        if not request.tools:
            return said
        if self._declarations == "json":
            return sections(said or self._default_system, self._json_declarations(request))
        shown = call_form if self._declarations == "calls" else signature
        lines = ["Functions:", *(self._guarded(shown(tool)) for tool in request.tools)]
        if self._declarations == "signatures" and not self._told(request):
            lines.append(
                f"To call a function, answer with {self.call_open} and JSON with its "
                '"name" and "arguments".'
            )
        return sections(said, "\n".join(lines))

    def _json_declarations(self, request: GenerateRequest) -> str:
        """In the words that Qwen's chat template has for it.

        https://github.com/QwenLM/Qwen2.5
        """
        tools = [
            self._guarded(to_json({"type": "function", "function": function_object(tool)}))
            for tool in request.tools
        ]
        return "\n".join(
            (
                "# Tools\n\nYou may call one or more functions to assist with the user query.\n",
                "You are provided with function signatures within <tools></tools> XML tags:",
                "<tools>",
                *tools,
                "</tools>\n",
                "For each function call, return a json object with function name and arguments "
                f"within {self.call_open}{self.call_close} XML tags:",
                self.call_open,
                '{"name": <function-name>, "arguments": <args-json-object>}',
                self.call_close,
            )
        )

    def _told(self, request: GenerateRequest) -> bool:
        """Whether the notation of calls is known, from the history, or of no use."""
        mode = request.tool_choice.mode
        return shows_calls(request) or mode == "none"

    def _part_text(self, part: TextPart | FunctionCallPart | FunctionResponsePart) -> str:
        if isinstance(part, TextPart):
            return self._guarded(part.text)
        if isinstance(part, FunctionCallPart):
            before, after = self.call_frame(part.name)
            return f"{self.call_open}{before}{self._guarded(to_json(part.args))}{after}"
        response = self._guarded(to_json(part.response))
        return f"<tool_response>\n{response}\n</tool_response>"
