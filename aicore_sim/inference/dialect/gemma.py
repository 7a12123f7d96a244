"""Gemma 3: no tokens of its own for calls, which are bare JSON at the beginning of an answer.

https://ai.google.dev/gemma/docs/capabilities/function-calling
"""

from __future__ import annotations

from aicore_sim.inference.backend import FunctionCallPart, GenerateRequest, Part, TextPart
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
from aicore_sim.inference.dialect.declarations import function_object
from aicore_sim.inference.dialect.notation import JsonNotation, to_json
from aicore_sim.inference.output_parser import AnswerParser, BareJsonCalls, TextParser

_DECLARED = (
    "You have access to functions. If you decide to invoke any of the function(s), "
    "you MUST put it in the format of\n"
    '{"name": function name, "parameters": dictionary of argument name and its value}\n\n'
    "You SHOULD NOT include any other text in the response if you call a function"
)
"""The words that Google asks to use, because the model knows them."""


class GemmaDialect:
    """Gemma 2 and 3, which know no system role: instructions stand before the first question.

    How a function's result is told to them is not published; it goes back in the form of a call.
    """

    name = "gemma"
    notation = JsonNotation()
    call_open = '{"name":'
    call_separator = "\n"
    marks: frozenset[str] = frozenset()
    control: frozenset[str] = frozenset()

    def __init__(self, *, tokens: AddedTokens | None = None) -> None:
        self._guarded = MarkGuard(self.marks, tokens or AddedTokens()).guarded

    def prompt(self, request: GenerateRequest) -> Prompt:
        messages: list[ChatMessage] = []
        preamble = self._preamble(request)
        if preamble:
            messages.append({"role": "user", "content": preamble})
        for content in request.contents:
            role = "assistant" if content.role == "model" else "user"
            text = "\n".join(self._part_text(part) for part in content.parts)
            messages.append({"role": role, "content": text})
        return Prompt(messages=merged(messages, "\n\n"))

    def call_frame(self, tool_name: str) -> tuple[str, str]:
        return f' {self.notation.literal(tool_name)}, "parameters": ', "}"

    def text_marks(self, request: GenerateRequest) -> frozenset[str]:
        """A bare call is like any JSON: only where a call is possible must text not begin so."""
        possible = request.tools and request.tool_choice.mode != "none"
        return frozenset((self.call_open,)) if possible or shows_calls(request) else frozenset()

    def parser(self, request: GenerateRequest) -> OutputParser:
        if not self.text_marks(request):
            return TextParser()
        calls = BareJsonCalls(self.call_open, arguments="parameters")
        return AnswerParser(calls, only_calls=only_calls(request))

    def _preamble(self, request: GenerateRequest) -> str:
        said = self._guarded(request.system_instruction.strip())
        if not request.tools:
            return said
        functions = self._guarded(to_json([function_object(tool) for tool in request.tools]))
        return sections(said, f"{_DECLARED}\n{functions}")

    def _part_text(self, part: Part) -> str:
        if isinstance(part, TextPart):
            return self._guarded(part.text)
        if isinstance(part, FunctionCallPart):
            before, after = self.call_frame(part.name)
            return f"{self.call_open}{before}{self._guarded(to_json(part.args))}{after}"
        return self._guarded(to_json({"name": part.name, "response": part.response}))
