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

    def messages(self, request: GenerateRequest) -> list[ChatMessage]: ...

    def call_frame(self, tool_name: str) -> tuple[str, str]:
        """The text between `call_open` and the JSON arguments, and the text after them."""

    def parser(self, *, only_calls: bool) -> OutputParser: ...


class HermesDialect:
    """ChatML models: Hermes, Qwen, SmolLM2."""

    name = "hermes"
    call_open = "<tool_call>"
    call_separator = "\n"
    _call_close = "</tool_call>"

    def messages(self, request: GenerateRequest) -> list[ChatMessage]:
        messages: list[ChatMessage] = []
        system = _system_text(request)
        if system:
            messages.append({"role": "system", "content": system})
        for content in request.contents:
            role = "assistant" if content.role == "model" else "user"
            messages.append({"role": role, "content": self._content_text(content)})
        return messages

    def call_frame(self, tool_name: str) -> tuple[str, str]:
        return f'\n{{"name": {to_json(tool_name)}, "arguments": ', f"}}\n{self._call_close}"

    def parser(self, *, only_calls: bool) -> OutputParser:
        return CallParser(self.call_open, self._call_close, only_calls=only_calls)

    def _content_text(self, content: Content) -> str:
        return "\n".join(self._part_text(part) for part in content.parts)

    def _part_text(self, part: TextPart | FunctionCallPart | FunctionResponsePart) -> str:
        if isinstance(part, TextPart):
            return part.text
        if isinstance(part, FunctionCallPart):
            before, after = self.call_frame(part.name)
            return f"{self.call_open}{before}{to_json(part.args)}{after}"
        return f"<tool_response>\n{to_json(part.response)}\n</tool_response>"


def to_json(value: Any) -> str:
    """JSON with the white space that the grammar also demands."""
    return json.dumps(value, ensure_ascii=False)


def _system_text(request: GenerateRequest) -> str:
    sections = [request.system_instruction.strip()]
    if request.tools and request.tool_choice.mode != "none":
        sections.append(_tools_text(request.tools))
    return "\n\n".join(section for section in sections if section)


def _tools_text(tools: tuple[ToolDeclaration, ...]) -> str:
    lines = [
        "You can call these functions:",
        *(_signature(tool) for tool in tools),
        "To call one, answer with JSON inside <tool_call></tool_call>, like "
        '{"name": "function_name", "arguments": {"argument": "value copied from the user"}}',
    ]
    return "\n".join(lines)


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
