"""ChatML models: a call is a JSON object between ``<tool_call>`` marks.

https://github.com/NousResearch/Hermes-Function-Calling
"""

from __future__ import annotations

from typing import Literal

from aicore_sim.inference.backend import (
    Content,
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
    calls_of,
    is_question,
    merged,
    only_calls,
    plain_value,
    responses_of,
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

    `guided` is for the smallest models. Its wording was chosen by trial with a model of 135 million
    parameters, greedy. Such a model copies an identifier from the question into JSON only after it
    has seen that done, and only when the words also stand in quotation marks; so a turn that has
    to be a call is preceded by worked examples and lists the words of the question, and function
    responses are followed by the question once more. Other models get the conversation as it is.
    """

    name = "hermes"
    notation = JsonNotation()
    call_open = "<tool_call>"
    call_close = "</tool_call>"
    call_separator = "\n"

    def __init__(
        self,
        *,
        guided: bool = False,
        declarations: Declarations = "signatures",
        default_system: str = "",
        system_role: bool = True,
        opening: str = "",
        tokens: AddedTokens | None = None,
    ) -> None:
        tokens = tokens or AddedTokens()
        self._guided = guided
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
        asks_for_call = self._guided and only_calls(request) and is_question(request.contents[-1])
        if asks_for_call:
            for question, name, args in _EXAMPLES:
                call = FunctionCallPart(name=name, args=args)
                messages.append({"role": "user", "content": _with_words(question)})
                messages.append({"role": "assistant", "content": self._part_text(call)})
        question, sent = "", frozenset[str]()
        for content in request.contents:
            text = "\n".join(self._part_text(part) for part in content.parts)
            if content.role == "model":
                sent = _argument_names(content)
            elif is_question(content):
                question = text
            elif question and self._guided:
                # Far from the question, a small model only repeats the data.
                asked = " ".join((question, *_news_asked(content, sent)))
                text = f"{text}\nAnswer in a full sentence: {asked}"
            role = "assistant" if content.role == "model" else "user"
            messages.append({"role": role, "content": text})
        if asks_for_call:
            messages[-1]["content"] = _with_words(messages[-1]["content"])
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
        """Whether the notation of calls is known, from examples or history, or of no use."""
        mode = request.tool_choice.mode
        return shows_calls(request) or mode == "none" or (self._guided and mode != "auto")

    def _part_text(self, part: TextPart | FunctionCallPart | FunctionResponsePart) -> str:
        if isinstance(part, TextPart):
            return self._guarded(part.text)
        if isinstance(part, FunctionCallPart):
            before, after = self.call_frame(part.name)
            return f"{self.call_open}{before}{self._guarded(to_json(part.args))}{after}"
        response = self._guarded(to_json(part.response))
        return f"<tool_response>\n{response}\n</tool_response>"


_EXAMPLES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("Where is the parcel PAR-8801?", "find_parcel", {"parcelId": "PAR-8801"}),
    (
        "Did my booking booking-kb7 go through?",
        "find_booking",
        {"bookingId": "booking-kb7"},
    ),
    ("Is my seat #20b free?", "get_seat", {"seatId": "#20b"}),
)
"""The same for every request: made of no caller's functions and no caller's words."""

_WORDS_LISTED = 64
_VALUES_ASKED = 4


def _with_words(question: str) -> str:
    words = [word.strip("?.,!") for word in question.split()][-_WORDS_LISTED:]
    return f"{question}\n{to_json(words)}"


def _argument_names(content: Content) -> frozenset[str]:
    return frozenset(name for call in calls_of(content) for name in call.args)


def _news_asked(content: Content, sent: frozenset[str]) -> list[str]:
    """A question for each plain value of the responses that the call did not send itself."""
    names = [
        name
        for part in responses_of(content)
        for name, value in part.response.items()
        if name not in sent and plain_value(value)
    ]
    return [f"What is the {name}?" for name in dict.fromkeys(names)][:_VALUES_ASKED]
