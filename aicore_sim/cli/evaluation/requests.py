"""Cases as requests of the client library, and its answers as answers to cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aicore_client import (
    Content,
    FinishReason,
    FunctionCall,
    FunctionCallPart,
    FunctionDeclaration,
    FunctionResponsePart,
    FunctionSchema,
    FunctionType,
    GenerateContentRequest,
    GenerateContentResponse,
    Part,
    TextPart,
    Usage,
)
from aicore_sim.evaluation.scoring import Answer
from aicore_sim.evaluation.suite import Call, Case, Tool, Turn
from aicore_sim.inference.backend import Schema


def to_request(case: Case, *, seed: int, max_output_tokens: int) -> GenerateContentRequest:
    """Greedy."""
    return GenerateContentRequest(
        contents=[_content(turn) for turn in case.contents],
        system_instruction=case.system,
        tools=[_declaration(tool) for tool in case.tools],
        tool_choice=case.tool_choice,
        temperature=0.0,
        seed=seed,
        max_output_tokens=max_output_tokens,
    )


@dataclass(kw_only=True)
class Heard:
    """An answer while it comes."""

    texts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)
    usage: Usage | None = None
    cut_off: bool = False

    def add(self, chunk: GenerateContentResponse) -> bool:
        """Whether the chunk says anything."""
        said = False
        for candidate in chunk.candidates:
            if candidate.text:
                self.texts.append(candidate.text)
            self.calls += [
                Call(name=call.name, args=_json(dict(call.args)))
                for call in candidate.function_calls
            ]
            self.malformed += [call.text for call in candidate.malformed_function_calls]
            said |= bool(
                candidate.text or candidate.function_calls or candidate.malformed_function_calls
            )
            self.cut_off |= candidate.finish_reason == FinishReason.MAX_TOKENS
        self.usage = chunk.usage or self.usage
        return said

    def answer(self, error: str = "") -> Answer:
        return Answer(
            text="".join(self.texts),
            calls=tuple(self.calls),
            malformed=tuple(self.malformed),
            error=error,
            cut_off=self.cut_off,
        )


def _content(turn: Turn) -> Content:
    if turn.of_model:
        return Content(list(_model_parts(turn)), Content.Role.MODEL)
    if turn.user is not None:
        return Content([TextPart(turn.user)])
    return Content(
        [FunctionResponsePart.create(result.name, result.response) for result in turn.results]
    )


def _model_parts(turn: Turn) -> Iterable[Part]:
    if turn.model is not None:
        yield TextPart(turn.model)
    for call in turn.calls:
        yield FunctionCallPart(FunctionCall(call.name, call.args))


def _declaration(tool: Tool) -> FunctionDeclaration:
    return FunctionDeclaration(
        name=tool.name, description=tool.description, parameters=_schema(tool.parameters)
    )


def _schema(schema: Schema) -> FunctionSchema:
    return FunctionSchema(
        type=FunctionType[schema.type.upper()],
        description=schema.description,
        properties={name: _schema(item) for name, item in schema.properties.items()},
        required=schema.required,
        items=None if schema.items is None else _schema(schema.items),
        enum=schema.enum,
        format=schema.format,
        pattern=schema.pattern,
        nullable=schema.nullable,
        minimum=schema.minimum,
        maximum=schema.maximum,
        min_items=schema.min_items,
        max_items=schema.max_items,
        min_length=schema.min_length,
        max_length=schema.max_length,
        any_of=tuple(_schema(option) for option in schema.any_of),
    )


def _json(value: Any) -> Any:
    """Plain lists and dictionaries, whatever the library hands out."""
    match value:
        case dict():
            return {name: _json(item) for name, item in value.items()}
        case list() | tuple():
            return [_json(item) for item in value]
        case _:
            return value
