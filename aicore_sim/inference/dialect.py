"""How a conversation with tools is written for a model, and how its answer is read back.

The Hermes dialect is the one ChatML models were trained on: a call is a JSON object between
``<tool_call>`` marks, its result comes back between ``<tool_response>`` marks.
https://github.com/NousResearch/Hermes-Function-Calling
"""

from __future__ import annotations

import json
from typing import Any, Protocol, TypedDict

from aicore_sim.inference.backend import (
    Chunk,
    Content,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    Schema,
    TextPart,
    ToolDeclaration,
)
from aicore_sim.inference.output_parser import CallParser


class ChatMessage(TypedDict):
    """One message as chat templates expect it."""

    role: str
    content: str


class OutputParser(Protocol):
    """Turns the text of one answer into chunks, wherever the text was cut."""

    def feed(self, text: str) -> list[Chunk]: ...

    def finish(self) -> list[Chunk]:
        """What is left when the answer has ended; an unfinished call is malformed."""


class Dialect(Protocol):
    """Everything about a model family's way of calling tools."""

    name: str
    call_open: str
    """What every call starts with. Never part of a text delta."""
    call_separator: str
    """What stands between two calls of one answer."""
    marks: tuple[str, ...]
    """Notation that a text answer must not contain; `call_open` is one of them."""

    def messages(self, request: GenerateRequest) -> list[ChatMessage]: ...

    def call_frame(self, tool_name: str) -> tuple[str, str]:
        """The text between `call_open` and the JSON arguments, and the text after them.

        ASCII only, because a grammar is made of it.
        """

    def parser(self, *, only_calls: bool) -> OutputParser: ...


class HermesDialect:
    """ChatML models: Hermes, Qwen, SmolLM2.

    `guided` is for the smallest models. Its wording was chosen by trial with a model of 135 million
    parameters, greedy. Such a model copies an identifier from the question into JSON only after it
    has seen that done, and only when the words also stand in quotation marks; so a turn that has
    to be a call is preceded by worked examples and lists the words of the question, and function
    responses are followed by the question once more. Other models get the conversation as it is.
    """

    name = "hermes"
    call_open = "<tool_call>"
    call_separator = "\n"
    marks: tuple[str, ...] = (call_open, "</tool_call>", "<tool_response>", "</tool_response>")

    def __init__(self, *, guided: bool = False) -> None:
        self._guided = guided

    def messages(self, request: GenerateRequest) -> list[ChatMessage]:
        messages: list[ChatMessage] = []
        system = _system_text(request, "" if self._told(request) else self.call_open)
        if system:
            messages.append({"role": "system", "content": system})
        demanded = request.tool_choice.mode in ("required", "named")
        asks_for_call = self._guided and demanded and _is_question(request.contents[-1])
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
            elif _is_question(content):
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
        return f'\n{{"name": {json.dumps(tool_name)}, "arguments": ', "}\n</tool_call>"

    def parser(self, *, only_calls: bool) -> OutputParser:
        return CallParser(self.call_open, "</tool_call>", only_calls=only_calls)

    def _told(self, request: GenerateRequest) -> bool:
        """Whether the notation of calls is known, from examples or history, or of no use."""
        shown = any(part.kind != "text" for content in request.contents for part in content.parts)
        mode = request.tool_choice.mode
        return shown or mode == "none" or (self._guided and mode != "auto")

    def _part_text(self, part: TextPart | FunctionCallPart | FunctionResponsePart) -> str:
        if isinstance(part, TextPart):
            return part.text
        if isinstance(part, FunctionCallPart):
            before, after = self.call_frame(part.name)
            return f"{self.call_open}{before}{to_json(part.args)}{after}"
        return f"<tool_response>\n{to_json(part.response)}\n</tool_response>"


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


def _is_question(content: Content) -> bool:
    return content.role == "user" and all(isinstance(part, TextPart) for part in content.parts)


def _argument_names(content: Content) -> frozenset[str]:
    calls = (part for part in content.parts if isinstance(part, FunctionCallPart))
    return frozenset(name for call in calls for name in call.args)


def _news_asked(content: Content, sent: frozenset[str]) -> list[str]:
    """A question for each plain value of the responses that the call did not send itself."""
    responses = (part.response for part in content.parts if isinstance(part, FunctionResponsePart))
    names = [
        name
        for response in responses
        for name, value in response.items()
        if name not in sent and not isinstance(value, dict | list)
    ]
    return [f"What is the {name}?" for name in dict.fromkeys(names)][:_VALUES_ASKED]


def to_json(value: Any) -> str:
    """JSON with the white space that the grammar also demands."""
    return json.dumps(value, ensure_ascii=False)


def _system_text(request: GenerateRequest, call_open: str) -> str:
    sections = [request.system_instruction.strip()]
    if request.tools:
        lines = ["Functions:", *(_signature(tool) for tool in request.tools)]
        if call_open:
            lines.append(
                f"To call a function, answer with {call_open} and JSON with its "
                '"name" and "arguments".'
            )
        sections.append("\n".join(lines))
    return "\n\n".join(section for section in sections if section)


def _signature(tool: ToolDeclaration) -> str:
    """One line per function, one per parameter: a small model loses itself in JSON schemas."""
    schema = tool.parameters
    parameters = ", ".join(
        f"{name}{'' if name in schema.required else '?'}: {_type_text(kind)}"
        for name, kind in schema.properties.items()
    )
    lines = [f"- {tool.name}({parameters})" + (f": {tool.description}" if tool.description else "")]
    lines.extend(
        f"  {name}: {kind.description}"
        for name, kind in schema.properties.items()
        if kind.description
    )
    return "\n".join(lines)


def _type_text(schema: Schema) -> str:
    if schema.any_of:
        text = "|".join(_type_text(option) for option in schema.any_of)
    elif schema.enum:
        text = "|".join(to_json(value) for value in schema.enum)
    elif schema.type == "array":
        text = f"[{_type_text(schema.items)}]" if schema.items else "[]"
    elif schema.type == "object":
        inner = ", ".join(f"{name}: {_type_text(kind)}" for name, kind in schema.properties.items())
        text = f"{{{inner}}}"
    else:
        text = schema.type
    return f"{text}|null" if schema.nullable else text
