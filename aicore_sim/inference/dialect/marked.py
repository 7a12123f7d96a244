"""FunctionGemma and Gemma 4: calls, declarations and responses between control tokens.

Both write values in the same way and have tokens of different names for it.
https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aicore_sim.inference.backend import (
    Content,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
)
from aicore_sim.inference.dialect.base import (
    AddedTokens,
    ChatMessage,
    MarkGuard,
    OutputParser,
    Prompt,
    calls_of,
    only_calls,
    responses_of,
    shows_calls,
    texts_of,
)
from aicore_sim.inference.dialect.declarations import marked_declaration
from aicore_sim.inference.dialect.notation import MarkedNotation
from aicore_sim.inference.marked_calls import MarkedCalls
from aicore_sim.inference.output_parser import AnswerParser, EndedByMark


@dataclass(frozen=True, kw_only=True)
class MarkSet:
    """The tokens of one model family."""

    name: str
    declaration: tuple[str, str]
    call: tuple[str, str]
    response: tuple[str, str]
    quote: str
    system_role: str
    trigger: str = ""
    """What the model was trained to read before declarations."""
    thought: tuple[str, str] | None = None

    @property
    def all(self) -> frozenset[str]:
        pairs = (self.declaration, self.call, self.response, self.thought or ())
        return frozenset((self.quote, *(mark for pair in pairs for mark in pair)))


FUNCTION_GEMMA: Final = MarkSet(
    name="functiongemma",
    declaration=("<start_function_declaration>", "<end_function_declaration>"),
    call=("<start_function_call>", "<end_function_call>"),
    response=("<start_function_response>", "<end_function_response>"),
    quote="<escape>",
    system_role="developer",
    trigger="You are a model that can do function calling with the following functions",
)
GEMMA_4: Final = MarkSet(
    name="gemma4",
    declaration=("<|tool>", "<tool|>"),
    call=("<|tool_call>", "<tool_call|>"),
    response=("<|tool_response>", "<tool_response|>"),
    quote='<|"|>',
    system_role="system",
    thought=("<|channel>", "<channel|>"),
)


class MarkedDialect:
    """A family whose tokens are `marks_of`.

    Calls, their responses and the answer that follows are one turn of the model, as in its
    training: after a response the answer goes on where the response ended.
    """

    call_separator = ""

    def __init__(self, marks_of: MarkSet, *, tokens: AddedTokens | None = None) -> None:
        tokens = tokens or AddedTokens()
        self.name = marks_of.name
        self.call_open = marks_of.call[0]
        self.marks = marks_of.all
        self.control = self.marks & tokens.control.keys()
        self._of = marks_of
        self._guarded = MarkGuard(self.marks, tokens).guarded
        self.notation = MarkedNotation(quote=marks_of.quote, guard=self._guarded)

    def prompt(self, request: GenerateRequest) -> Prompt:
        messages: list[ChatMessage] = []
        system = self._system_text(request)
        if system:
            messages.append({"role": self._of.system_role, "content": system})
        open_turn = False
        for content in request.contents:
            text = self._text(content)
            responses = "".join(map(self._response, responses_of(content)))
            if content.role == "model":
                said = "".join((text, *map(self._call, calls_of(content))))
                if open_turn:
                    messages[-1]["content"] += said
                else:
                    messages.append({"role": "assistant", "content": said})
                open_turn = bool(calls_of(content))
                continue
            if responses:
                if not open_turn:
                    messages.append({"role": "assistant", "content": ""})
                messages[-1]["content"] += responses
                open_turn = True
            if text:
                messages.append({"role": "user", "content": text})
                open_turn = False
        return Prompt(messages=tuple(messages), continues=open_turn)

    def call_frame(self, tool_name: str) -> tuple[str, str]:
        return f"call:{self.notation.name(tool_name)}", self._of.call[1]

    def text_marks(self, request: GenerateRequest) -> frozenset[str]:
        return self.marks if request.tools or shows_calls(request) else frozenset()

    def parser(self, request: GenerateRequest) -> OutputParser:
        thought = self._of.thought and (f"{self._of.thought[0]}thought\n", self._of.thought[1])
        calls = MarkedCalls(*self._of.call, quote=self._of.quote)
        parser = AnswerParser(
            calls,
            only_calls=only_calls(request),
            thought=thought,
            thought_first=request.response_schema is not None,
        )
        # Left to itself such a model would make up the response to its own call.
        return EndedByMark(parser, self._of.response[0])

    def _system_text(self, request: GenerateRequest) -> str:
        said = self._guarded(request.system_instruction.strip())
        if not request.tools:
            return said
        opened, closed = self._of.declaration
        return "\n".join(text for text in (said, self._of.trigger) if text) + "".join(
            f"{opened}{marked_declaration(tool, self.notation)}{closed}" for tool in request.tools
        )

    def _text(self, content: Content) -> str:
        return "\n".join(map(self._guarded, texts_of(content)))

    def _call(self, call: FunctionCallPart) -> str:
        opened, closed = self._of.call
        return f"{opened}call:{self._guarded(call.name)}{self.notation.text(call.args)}{closed}"

    def _response(self, part: FunctionResponsePart) -> str:
        opened, closed = self._of.response
        written = self.notation.text(part.response)
        return f"{opened}response:{self._guarded(part.name)}{written}{closed}"
