"""Requests and answers of the model to and from their messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from aicore_client._values import from_object, to_object
from aicore_client.content import (
    Content,
    FunctionCall,
    FunctionCallPart,
    FunctionResponsePart,
    Part,
    TextPart,
)
from aicore_client.prompt import (
    Candidate,
    FinishReason,
    GenerateContentRequest,
    GenerateContentResponse,
    MalformedFunctionCall,
    ModelConfig,
    Usage,
)
from aicore_client.schema import FunctionDeclaration, FunctionSchema
from aicore_protos import aicore_pb2, types_pb2

_TOOL_CHOICES = {"auto": aicore_pb2.ToolChoice.AUTO, "required": aicore_pb2.ToolChoice.REQUIRED}


def request_to_wire(
    request: GenerateContentRequest, model: ModelConfig
) -> aicore_pb2.GenerateContentRequest:
    """Raises ValueError or TypeError for a value that cannot be sent."""
    return aicore_pb2.GenerateContentRequest(
        model=selection_to_wire(model),
        contents=[_content(content) for content in request.contents],
        system_instruction=request.system_instruction,
        tools=[_declaration(tool) for tool in request.tools],
        tool_choice=aicore_pb2.ToolChoice(mode=_TOOL_CHOICES[request.tool_choice]),
        sampling=aicore_pb2.Sampling(
            temperature=request.temperature,
            top_k=request.top_k,
            seed=request.seed,
            max_output_tokens=request.max_output_tokens,
            candidate_count=request.candidate_count,
        ),
        session_id=request.session_id,
        prompt_prefix="" if request.prompt_prefix is None else request.prompt_prefix.text_string,
        cached_context_name=request.cached_context_name or "",
        response_schema=_schema(request.response_schema) if request.response_schema else None,
    )


def selection_to_wire(model: ModelConfig) -> aicore_pb2.ModelSelection:
    return aicore_pb2.ModelSelection(
        release_stage=aicore_pb2.ModelReleaseStage.Name(model.release_stage),
        preference=aicore_pb2.ModelPreference.Name(model.preference),
    )


def response_from_wire(chunk: aicore_pb2.GenerateContentResponse) -> GenerateContentResponse:
    match chunk.WhichOneof("chunk"):
        case "text":
            return _answer(Candidate(text=chunk.text))
        case "thought":
            return GenerateContentResponse(thought_process=(Candidate(text=chunk.thought),))
        case "function_call":
            call = chunk.function_call
            wanted = FunctionCall(call.name, from_object(call.args), call.id)
            return _answer(Candidate(function_calls=(wanted,)))
        case "malformed_function_call":
            broken = chunk.malformed_function_call
            malformed = MalformedFunctionCall(text=broken.text, reason=broken.reason)
            return _answer(Candidate(malformed_function_calls=(malformed,)))
        case "finish":
            usage = chunk.finish.usage
            return GenerateContentResponse(
                candidates=(Candidate(finish_reason=_finish_reason(chunk.finish.reason)),),
                usage=Usage(
                    input_tokens=usage.input_tokens,
                    cached_input_tokens=usage.cached_input_tokens,
                    output_tokens=usage.output_tokens,
                ),
            )
        case _:
            return GenerateContentResponse()


def _answer(candidate: Candidate) -> GenerateContentResponse:
    return GenerateContentResponse(candidates=(candidate,))


def _finish_reason(number: int) -> FinishReason:
    try:
        return FinishReason(number)
    except ValueError:
        return FinishReason.OTHER


def _content(content: Content) -> aicore_pb2.Content:
    return aicore_pb2.Content(
        role=aicore_pb2.Role.Name(content.role), parts=list(_parts(content.parts))
    )


def _parts(parts: Iterable[Part]) -> Iterable[aicore_pb2.Part]:
    """Neighbouring texts become one, joined with a newline, as Google's own callers of the
    library do (https://github.com/firebase/firebase-android-sdk/pull/8617)."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, TextPart):
            texts.append(part.text_string)
            continue
        if texts:
            yield aicore_pb2.Part(text="\n".join(texts))
            texts = []
        yield _function_part(part)
    if texts:
        yield aicore_pb2.Part(text="\n".join(texts))


def _function_part(part: FunctionCallPart | FunctionResponsePart) -> aicore_pb2.Part:
    match part:
        case FunctionCallPart(function_call=call):
            return aicore_pb2.Part(
                function_call=aicore_pb2.FunctionCall(
                    id=call.id, name=call.name, args=to_object(call.args)
                )
            )
        case FunctionResponsePart():
            return aicore_pb2.Part(
                function_response=aicore_pb2.FunctionResponse(
                    id=part.id or "", name=part.name, response=to_object(part.response)
                )
            )
        case _:
            assert_never(part)


def _declaration(tool: FunctionDeclaration) -> aicore_pb2.FunctionDeclaration:
    return aicore_pb2.FunctionDeclaration(
        name=tool.name,
        description=tool.description,
        parameters=_schema(tool.parameters) if tool.parameters else None,
        response_schema=_schema(tool.response_schema) if tool.response_schema else None,
    )


def _schema(schema: FunctionSchema) -> types_pb2.FunctionSchema:
    return types_pb2.FunctionSchema(
        type=types_pb2.FunctionType.Name(schema.type),
        description=schema.description,
        properties=[
            types_pb2.FunctionSchema.Property(name=name, schema=_schema(item))
            for name, item in schema.properties.items()
        ],
        required=schema.required,
        items=_schema(schema.items) if schema.items else None,
        enum_values=schema.enum,
        format=schema.format,
        pattern=schema.pattern,
        nullable=schema.nullable,
        minimum=schema.minimum,
        maximum=schema.maximum,
        min_items=schema.min_items,
        max_items=schema.max_items,
        min_length=schema.min_length,
        max_length=schema.max_length,
        any_of=[_schema(item) for item in schema.any_of],
    )
