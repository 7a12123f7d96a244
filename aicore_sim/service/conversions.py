"""Requests and answers of the AICore service, between their messages and the backend's objects."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from aicore_protos import aicore_pb2, types_pb2
from aicore_sim.device.errors import GenAiCode
from aicore_sim.inference import backend
from aicore_sim.inference.request_text import to_json
from aicore_sim.policy.failures import aicore_failure
from aicore_sim.policy.features import Preference, ReleaseStage
from aicore_sim.rpc.values import from_object, to_object
from aicore_sim.service.candidates import CandidateChunk
from aicore_sim.service.refusals import invalid, unimplemented
from aicore_sim.service.schemas import to_schema, to_tools

_STAGES: Mapping[int, ReleaseStage] = {
    aicore_pb2.STABLE: "STABLE",
    aicore_pb2.PREVIEW: "PREVIEW",
}
_PREFERENCES: Mapping[int, Preference] = {
    aicore_pb2.MODEL_PREFERENCE_UNSPECIFIED: "FULL",
    aicore_pb2.FAST: "FAST",
    aicore_pb2.FULL: "FULL",
}
_ROLES: Mapping[int, Literal["user", "model"]] = {
    aicore_pb2.USER: "user",
    aicore_pb2.MODEL: "model",
}
_TOOL_CHOICES: Mapping[int, Literal["auto", "none", "required", "named"]] = {
    aicore_pb2.ToolChoice.AUTO: "auto",
    aicore_pb2.ToolChoice.NONE: "none",
    aicore_pb2.ToolChoice.REQUIRED: "required",
    aicore_pb2.ToolChoice.NAMED: "named",
}
_FINISH_REASONS: Mapping[str, aicore_pb2.FinishReason] = {
    "stop": aicore_pb2.STOP,
    "max_tokens": aicore_pb2.MAX_TOKENS,
    "other": aicore_pb2.OTHER,
}


def to_selection(model: aicore_pb2.ModelSelection) -> tuple[ReleaseStage, Preference]:
    """Release stage and preference. Raises SimulatorFault (INVALID_REQUEST)."""
    stage = _STAGES.get(model.release_stage)
    if stage is None:
        raise invalid("model.release_stage", f"{model.release_stage} is not a release stage")
    preference = _PREFERENCES.get(model.preference)
    if preference is None:
        raise invalid("model.preference", f"{model.preference} is not a preference")
    return stage, preference


def to_generate_request(request: aicore_pb2.GenerateContentRequest) -> backend.GenerateRequest:
    """Raises GenAiError -100 for an empty prompt and 16 for a picture; SimulatorFault
    (INVALID_REQUEST, UNIMPLEMENTED) naming the field for anything else that is not possible."""
    _refuse_unimplemented(request)
    _require_prompt(request)
    tools = to_tools(request.tools)
    schema = None
    if request.HasField("response_schema"):
        schema = to_schema(request.response_schema, "response_schema")
    return backend.GenerateRequest(
        contents=tuple(
            _content(content, f"contents[{number}]")
            for number, content in enumerate(request.contents)
        ),
        system_instruction=request.system_instruction,
        tools=tools,
        tool_choice=_tool_choice(request.tool_choice, tools),
        sampling=_sampling(request.sampling),
        response_schema=schema,
    )


def to_response(chunk: backend.Chunk | CandidateChunk) -> aicore_pb2.GenerateContentResponse:
    """A call whose arguments cannot be sent (NaN, an integer beyond 64 bits) is malformed."""
    match chunk:
        case CandidateChunk():
            response = to_response(chunk.chunk)
            response.candidate = chunk.number
            return response
        case backend.TextDelta():
            return aicore_pb2.GenerateContentResponse(text=chunk.text)
        case backend.ThoughtDelta():
            return aicore_pb2.GenerateContentResponse(thought=chunk.text)
        case backend.FunctionCall():
            return _call_response(chunk)
        case backend.MalformedCall():
            return _malformed(chunk.text, chunk.reason)
        case backend.Finish():
            finish = aicore_pb2.Finish(
                reason=_FINISH_REASONS[chunk.reason],
                usage=aicore_pb2.Usage(
                    input_tokens=chunk.usage.input_tokens,
                    cached_input_tokens=chunk.usage.cached_input_tokens,
                    output_tokens=chunk.usage.output_tokens,
                ),
            )
            return aicore_pb2.GenerateContentResponse(finish=finish)


def _refuse_unimplemented(request: aicore_pb2.GenerateContentRequest) -> None:
    if request.enable_thinking:
        raise unimplemented("GenerateContentRequest.enable_thinking")
    if request.cached_context_name and request.prompt_prefix:
        raise invalid("prompt_prefix", "it excludes cached_context_name")
    if request.sampling.HasField("candidate_count"):
        count = request.sampling.candidate_count
        if not 1 <= count <= 8:
            raise invalid("sampling.candidate_count", f"{count} is not in 1 to 8")


def _require_prompt(request: aicore_pb2.GenerateContentRequest) -> None:
    """The last content must hold something besides white space; the rule is ours."""
    last = request.contents[-1].parts if request.contents else ()
    if not any(part.WhichOneof("part") != "text" or part.text.strip() for part in last):
        raise aicore_failure(GenAiCode.REQUEST_TOO_SMALL, "The prompt is empty.")


def _content(content: aicore_pb2.Content, field: str) -> backend.Content:
    role = _ROLES.get(content.role)
    if role is None:
        raise invalid(f"{field}.role", f"{content.role} is not a role")
    if not content.parts:
        raise invalid(f"{field}.parts", "a content needs at least one part")
    parts = tuple(
        _part(part, role, f"{field}.parts[{number}]") for number, part in enumerate(content.parts)
    )
    return backend.Content(role=role, parts=parts)


def _part(part: aicore_pb2.Part, role: Literal["user", "model"], field: str) -> backend.Part:
    match part.WhichOneof("part"):
        case "text":
            return backend.TextPart(text=part.text)
        case "image":
            raise aicore_failure(GenAiCode.NOT_SUPPORTED, "Image input is not supported.")
        case "function_call":
            call = part.function_call
            if role != "model":
                raise invalid(field, "a function call belongs into a content of the model")
            if not call.name:
                raise invalid(f"{field}.function_call.name", "a call needs a name")
            args = _json_object(call.args, f"{field}.function_call.args")
            return backend.FunctionCallPart(id=call.id, name=call.name, args=args)
        case "function_response":
            found = part.function_response
            if role != "user":
                raise invalid(field, "a function response belongs into a content of the user")
            if not found.name:
                raise invalid(f"{field}.function_response.name", "a response needs a name")
            response = _json_object(found.response, f"{field}.function_response.response")
            return backend.FunctionResponsePart(id=found.id, name=found.name, response=response)
        case _:
            raise invalid(field, "the part is empty")


def _tool_choice(
    choice: aicore_pb2.ToolChoice, tools: tuple[backend.ToolDeclaration, ...]
) -> backend.ToolChoice:
    mode = _TOOL_CHOICES.get(choice.mode)
    if mode is None:
        raise invalid("tool_choice.mode", f"{choice.mode} is not a mode")
    if mode == "named":
        if choice.name not in {tool.name for tool in tools}:
            raise invalid("tool_choice.name", f"{choice.name!r} is not a declared function")
    elif choice.name:
        raise invalid("tool_choice.name", "a name needs mode NAMED")
    if mode == "required" and not tools:
        raise invalid("tool_choice.mode", "REQUIRED needs at least one declared function")
    return backend.ToolChoice(mode=mode, name=choice.name)


def _sampling(sampling: aicore_pb2.Sampling) -> backend.Sampling:
    """Ranges: https://developers.google.com/android/reference/com/google/mlkit/genai/prompt/GenerateContentRequest.Builder"""
    temperature = None
    if sampling.HasField("temperature"):
        if not 0.0 <= sampling.temperature <= 1.0:
            raise invalid("sampling.temperature", f"{sampling.temperature} is not in 0.0 to 1.0")
        # The field is a 32-bit float: 0.2 arrives as 0.20000000298.
        temperature = round(sampling.temperature, 6)
    numbers: dict[str, Any] = {}
    for name, least in (("top_k", 1), ("seed", 0), ("max_output_tokens", 1)):
        value = getattr(sampling, name) if sampling.HasField(name) else None
        if value is not None and value < least:
            raise invalid(f"sampling.{name}", f"{value} is below {least}")
        numbers[name] = value
    count = sampling.candidate_count if sampling.HasField("candidate_count") else 1
    return backend.Sampling(temperature=temperature, candidate_count=count, **numbers)


def _json_object(message: types_pb2.ObjectValue, field: str) -> dict[str, Any]:
    try:
        fields = from_object(message)
    except ValueError as error:
        raise invalid(field, str(error)) from None
    return {name: _json(item, f"{field}[{name!r}]") for name, item in fields.items()}


def _json(value: Any, field: str) -> Any:
    """What a model can read: bytes as base64 text. JSON has no NaN and no infinity."""
    match value:
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case float() if not math.isfinite(value):
            raise invalid(field, f"{value} is not a finite number")
        case dict():
            return {name: _json(item, f"{field}[{name!r}]") for name, item in value.items()}
        case list():
            return [_json(item, f"{field}[{number}]") for number, item in enumerate(value)]
        case _:
            return value


def _call_response(call: backend.FunctionCall) -> aicore_pb2.GenerateContentResponse:
    try:
        args = to_object(call.args)
    except ValueError as error:
        text = json.dumps({"name": call.name, "arguments": call.args}, ensure_ascii=False)
        return _malformed(text, str(error))
    return aicore_pb2.GenerateContentResponse(
        function_call=aicore_pb2.FunctionCall(name=call.name, args=args)
    )


def _malformed(text: str, reason: str) -> aicore_pb2.GenerateContentResponse:
    malformed = aicore_pb2.MalformedFunctionCall(text=text, reason=reason)
    return aicore_pb2.GenerateContentResponse(malformed_function_call=malformed)


def longest_tool_result(request: backend.GenerateRequest) -> int:
    """Characters of the longest function response as JSON; 0 without one."""
    return max(
        (
            len(to_json(part.response))
            for content in request.contents
            for part in content.parts
            if isinstance(part, backend.FunctionResponsePart)
        ),
        default=0,
    )
