"""Answers that are objects of a class of the app's own (structured output).

https://developers.google.com/android/reference/com/google/mlkit/genai/prompt/GenerateTypedContentRequest
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from aicore_client._generable import generable_schema, instance_of
from aicore_client.errors import GenAiException
from aicore_client.prompt import (
    Candidate,
    FinishReason,
    GenerateContentRequest,
    Usage,
)
from aicore_client.schema import FunctionSchema

T = TypeVar("T")

_DESCRIPTION = "__generable_description__"


@dataclass(frozen=True, kw_only=True)
class Guide:
    """What a model is told of a field, and held to: `Annotated[int, Guide(minimum=1)]`.

    `enum_values` are for text, `minimum` and `maximum` for numbers, the rest for lists.
    """

    description: str = ""
    minimum: float | None = None
    maximum: float | None = None
    enum_values: tuple[str, ...] = ()
    min_items: int | None = None
    max_items: int | None = None


def generable(description: str = "") -> Any:
    """Marks a dataclass whose objects a model may be asked for (`@Generable`).

    Fields may be str, int, float, bool, another such class, lists of these, and each of them
    `| None`; a field with a default may be left out by the model. Raises TypeError for a class that
    is no dataclass, and for a field of another type, naming it.
    """

    def mark(cls: type[T]) -> type[T]:
        setattr(cls, _DESCRIPTION, description)
        generable_schema(cls)
        return cls

    return mark


@dataclass(frozen=True, kw_only=True)
class GenerateTypedContentRequest(Generic[T]):
    """A request whose answer is an object of `output_class`.

    With `include_schema_in_prompt` the JSON schema is also a part of the instructions, as in ML
    Kit; the answer is held to it in any case where the model can be.
    """

    generate_content_request: GenerateContentRequest
    output_class: type[T]
    include_schema_in_prompt: bool = True

    def plain(self) -> GenerateContentRequest:
        """What is really asked. Raises GenAiException (-104) for a class without `@generable`."""
        schema = self._schema()
        request = replace(self.generate_content_request, response_schema=schema)
        if not self.include_schema_in_prompt:
            return request
        shown = json.dumps(json_schema(schema), ensure_ascii=False)
        told = f"Answer with JSON of this schema: {shown}"
        instruction = "\n\n".join(part for part in (request.system_instruction, told) if part)
        return replace(request, system_instruction=instruction)

    def _schema(self) -> FunctionSchema:
        if not hasattr(self.output_class, _DESCRIPTION):
            raise GenAiException(
                f"The class {self.output_class.__name__!r} is not marked with @generable.",
                GenAiException.ErrorCode.STRUCTURED_OUTPUT_REQUEST_ERROR,
            )
        return generable_schema(self.output_class)


@dataclass(frozen=True, kw_only=True)
class TypedCandidate(Generic[T]):
    """`response` is None only where the model called a function instead."""

    response: T | None
    finish_reason: FinishReason | None


@dataclass(frozen=True, kw_only=True)
class GenerateTypedContentResponse(Generic[T]):
    candidates: tuple[TypedCandidate[T], ...]
    usage: Usage | None = None


def typed_candidate(candidate: Candidate, output_class: type[T]) -> TypedCandidate[T]:
    """Raises GenAiException (-105) for text that is no such object."""
    if candidate.function_calls:
        return TypedCandidate(response=None, finish_reason=candidate.finish_reason)
    try:
        made = instance_of(output_class, json.loads(candidate.text))
    except (ValueError, TypeError, RecursionError) as error:
        raise GenAiException(
            f"The answer is no {output_class.__name__!r}: {error}",
            GenAiException.ErrorCode.STRUCTURED_OUTPUT_RESPONSE_ERROR,
        ) from error
    return TypedCandidate(response=made, finish_reason=candidate.finish_reason)


def json_schema(schema: FunctionSchema) -> dict[str, Any]:
    """https://json-schema.org/understanding-json-schema/reference"""
    name = schema.type.name.lower()
    made: dict[str, Any] = {"type": [name, "null"] if schema.nullable else name}
    if schema.description:
        made["description"] = schema.description
    if schema.properties:
        made["properties"] = {key: json_schema(item) for key, item in schema.properties.items()}
        made["required"] = list(schema.required)
    if schema.items is not None:
        made["items"] = json_schema(schema.items)
    if schema.enum:
        made["enum"] = list(schema.enum)
    made |= {
        key: value
        for key, value in (
            ("minimum", schema.minimum),
            ("maximum", schema.maximum),
            ("minItems", schema.min_items),
            ("maxItems", schema.max_items),
        )
        if value is not None
    }
    return made
