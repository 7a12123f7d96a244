"""Calls that no grammar saw to are read first and checked afterwards.

A call that does not fit its declaration becomes a malformed one, whose reason the model is told, so
that it may do better in its next turn.
"""

from __future__ import annotations

from aicore_sim.inference.backend import (
    Chunk,
    FunctionCall,
    GenerateRequest,
    MalformedCall,
)
from aicore_sim.inference.dialect import OutputParser, to_json
from aicore_sim.inference.grammar import MAX_CALLS
from aicore_sim.inference.validation import why_not


class CheckedParser:
    """`parser`, with every call held against the tools and the choice of `request`.

    A function that is not declared passes: the app's own answer to it names those that are.
    """

    def __init__(self, parser: OutputParser, request: GenerateRequest) -> None:
        self._parser = parser
        self._choice = request.tool_choice
        self._tools = {tool.name: tool for tool in request.tools}
        self._calls = 0

    def feed(self, text: str) -> list[Chunk]:
        return [self._checked(chunk) for chunk in self._parser.feed(text)]

    def finish(self) -> list[Chunk]:
        return [self._checked(chunk) for chunk in self._parser.finish()]

    def _checked(self, chunk: Chunk) -> Chunk:
        if not isinstance(chunk, FunctionCall):
            return chunk
        self._calls += 1
        reason = self._why_not(chunk)
        if reason is None:
            return chunk
        text = to_json({"name": chunk.name, "arguments": chunk.args})
        return MalformedCall(text=text, reason=reason)

    def _why_not(self, call: FunctionCall) -> str | None:
        if self._choice.mode == "none":
            return "No function may be called now."
        if self._choice.mode == "named" and call.name != self._choice.name:
            return f"Only {self._choice.name!r} may be called now."
        if self._calls > MAX_CALLS:
            return f"One answer may hold {MAX_CALLS} calls."
        tool = self._tools.get(call.name)
        wrong = None if tool is None else why_not(tool.parameters, call.args)
        return None if wrong is None else f"The arguments do not fit: {wrong}."
