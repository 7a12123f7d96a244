"""Requests become what the backend takes, or are refused by the field that is wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest
from google.protobuf import json_format

from aicore_protos import aicore_pb2, types_pb2
from aicore_sim.device.errors import FaultKind, GenAiError, SimulatorFault
from aicore_sim.inference import backend
from aicore_sim.rpc.values import from_object
from aicore_sim.service.conversions import to_generate_request, to_response, to_selection

USER_TEXT = {"parts": [{"text": "hi"}]}
NAN = {"fields": [{"name": "a", "value": {"doubleValue": "NaN"}}]}


def message(**fields: Any) -> aicore_pb2.GenerateContentRequest:
    """A request from its JSON form; without contents it gets a prompt."""
    fields.setdefault("contents", [USER_TEXT])
    return json_format.ParseDict(fields, aicore_pb2.GenerateContentRequest())


def tool(parameters: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    declaration = {"name": "f", **fields}
    if parameters is not None:
        declaration["parameters"] = {"type": "FUNCTION_TYPE_OBJECT", **parameters}
    return declaration


def test_a_full_request_reaches_the_backend_whole() -> None:
    request = message(
        contents=[
            {"role": "USER", "parts": [{"text": "Where is it?"}, {"text": "ORD-1"}]},
            {
                "role": "MODEL",
                "parts": [
                    {
                        "functionCall": {
                            "id": "c1",
                            "name": "fetch",
                            "args": {
                                "fields": [
                                    {"name": "id", "value": {"intValue": "9007199254740993"}},
                                    {"name": "blob", "value": {"bytesValue": "AAE="}},
                                ]
                            },
                        }
                    }
                ],
            },
            {
                "parts": [
                    {
                        "functionResponse": {
                            "id": "c1",
                            "name": "fetch",
                            "response": {"fields": [{"name": "ok", "value": {"boolValue": True}}]},
                        }
                    }
                ]
            },
        ],
        systemInstruction="Be brief.",
        tools=[
            tool(
                {
                    "properties": [
                        {
                            "name": "ids",
                            "schema": {
                                "type": "FUNCTION_TYPE_ARRAY",
                                "items": {
                                    "type": "FUNCTION_TYPE_STRING",
                                    "enumValues": ["a", "b"],
                                    "maxLength": "3",
                                    "pattern": "[ab]",
                                },
                                "minItems": "0",
                                "maxItems": "9",
                            },
                        },
                        {
                            "name": "limit",
                            "schema": {
                                "type": "FUNCTION_TYPE_NUMBER",
                                "description": "How many.",
                                "nullable": True,
                                "minimum": 0,
                                "anyOf": [{"type": "FUNCTION_TYPE_INTEGER"}],
                            },
                        },
                    ],
                    "required": ["ids"],
                },
                description="Fetches.",
                responseSchema={"type": "FUNCTION_TYPE_BOOLEAN"},
            ),
            tool(name="bare"),
        ],
        toolChoice={"mode": "NAMED", "name": "bare"},
        sampling={"temperature": 0.2, "topK": 16, "seed": 0, "maxOutputTokens": 256},
        responseSchema={"type": "FUNCTION_TYPE_NULL"},
        sessionId="any",
    )
    ids = backend.Schema(
        type="array",
        items=backend.Schema(type="string", enum=("a", "b"), max_length=3, pattern="[ab]"),
        min_items=0,
        max_items=9,
    )
    limit = backend.Schema(
        type="number",
        description="How many.",
        nullable=True,
        minimum=0.0,
        any_of=(backend.Schema(type="integer"),),
    )
    assert to_generate_request(request) == backend.GenerateRequest(
        contents=(
            backend.Content(
                role="user",
                parts=(backend.TextPart(text="Where is it?"), backend.TextPart(text="ORD-1")),
            ),
            backend.Content(
                role="model",
                parts=(
                    backend.FunctionCallPart(
                        id="c1", name="fetch", args={"id": 9007199254740993, "blob": "AAE="}
                    ),
                ),
            ),
            backend.Content(
                role="user",
                parts=(backend.FunctionResponsePart(id="c1", name="fetch", response={"ok": True}),),
            ),
        ),
        system_instruction="Be brief.",
        tools=(
            backend.ToolDeclaration(
                name="f",
                description="Fetches.",
                parameters=backend.Schema(
                    type="object", properties={"ids": ids, "limit": limit}, required=("ids",)
                ),
            ),
            backend.ToolDeclaration(name="bare", parameters=backend.Schema(type="object")),
        ),
        tool_choice=backend.ToolChoice(mode="named", name="bare"),
        sampling=backend.Sampling(temperature=0.2, top_k=16, seed=0, max_output_tokens=256),
        response_schema=backend.Schema(type="null"),
    )


def test_what_a_request_leaves_out_is_the_models_default() -> None:
    content = backend.Content(role="user", parts=(backend.TextPart(text="hi"),))
    assert to_generate_request(message()) == backend.GenerateRequest(contents=(content,))
    assert to_generate_request(message(sampling={"candidateCount": 1})).sampling == (
        backend.Sampling()
    )


@pytest.mark.requirement("aicore.request.strict")
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"contents": [{"role": 5, **USER_TEXT}]}, "contents[0].role: 5 is not a role"),
        ({"contents": [{}, USER_TEXT]}, "contents[0].parts: a content needs at least one part"),
        ({"contents": [{"parts": [{"text": "a"}, {}]}]}, "contents[0].parts[1]: the part is empty"),
        (
            {"contents": [{"parts": [{"functionCall": {"name": "f"}}]}]},
            "contents[0].parts[0]: a function call belongs into a content of the model",
        ),
        (
            {"contents": [{"role": "MODEL", "parts": [{"functionResponse": {"name": "f"}}]}]},
            "contents[0].parts[0]: a function response belongs into a content of the user",
        ),
        (
            {"contents": [{"role": "MODEL", "parts": [{"functionCall": {}}]}]},
            "contents[0].parts[0].function_call.name: a call needs a name",
        ),
        (
            {"contents": [{"parts": [{"functionResponse": {}}]}]},
            "contents[0].parts[0].function_response.name: a response needs a name",
        ),
        (
            {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": NAN}}]}]},
            "contents[0].parts[0].function_response.response['a']: nan is not a finite number",
        ),
        (
            {
                "contents": [
                    {
                        "role": "MODEL",
                        "parts": [
                            {"functionCall": {"name": "f", "args": {"fields": [{"name": "a"}]}}}
                        ],
                    }
                ]
            },
            "contents[0].parts[0].function_call.args: a value without a kind",
        ),
        ({"tools": [{}]}, "tools[0].name: a function needs a name"),
        ({"tools": [tool(), tool()]}, "tools[1].name: 'f' is declared twice"),
        (
            {"tools": [{"name": "f", "parameters": {"type": "FUNCTION_TYPE_STRING"}}]},
            "tools[0].parameters: must be an OBJECT schema, not 'string'",
        ),
        ({"tools": [{"name": "f", "parameters": {}}]}, "tools[0].parameters.type: 0 is not a"),
        (
            {"tools": [tool({"required": ["x"]})]},
            "tools[0].parameters.required: 'x' is not a property",
        ),
        (
            {"tools": [tool({"properties": [{"name": "x", "schema": {"type": 99}}]})]},
            "tools[0].parameters.properties['x'].type: 99 is not a function type",
        ),
        (
            {
                "tools": [
                    tool({"properties": [{"name": "x", "schema": {"type": 1}}, {"name": "x"}]})
                ]
            },
            "tools[0].parameters.properties: 'x' comes twice",
        ),
        ({"tools": [tool(responseSchema={})]}, "tools[0].response_schema.type: 0 is not a"),
        ({"responseSchema": {"type": 5, "items": {}}}, "response_schema.items.type: 0 is not a"),
        ({"responseSchema": {"type": 5, "anyOf": [{}]}}, "response_schema.any_of[0].type: 0 is"),
        ({"toolChoice": {"mode": 9}}, "tool_choice.mode: 9 is not a mode"),
        ({"toolChoice": {"mode": "REQUIRED"}}, "tool_choice.mode: REQUIRED needs at least one"),
        (
            {"toolChoice": {"mode": "NAMED", "name": "g"}, "tools": [tool()]},
            "tool_choice.name: 'g' is not a declared function",
        ),
        ({"toolChoice": {"name": "f"}, "tools": [tool()]}, "tool_choice.name: a name needs mode"),
        ({"sampling": {"temperature": 1.5}}, "sampling.temperature: 1.5 is not in 0.0 to 1.0"),
        ({"sampling": {"temperature": "NaN"}}, "sampling.temperature: nan is not in"),
        ({"sampling": {"topK": 0}}, "sampling.top_k: 0 is below 1"),
        ({"sampling": {"seed": -1}}, "sampling.seed: -1 is below 0"),
        ({"sampling": {"maxOutputTokens": 0}}, "sampling.max_output_tokens: 0 is below 1"),
        ({"sampling": {"candidateCount": 9}}, "sampling.candidate_count: 9 is not in 1 to 8"),
    ],
)
def test_a_request_that_breaks_a_rule_is_refused_by_its_field(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SimulatorFault) as refused:
        to_generate_request(message(**fields))
    assert refused.value.kind is FaultKind.INVALID_REQUEST
    assert refused.value.message.startswith(problem)


@pytest.mark.requirement("simulator.unimplemented-named")
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"enableThinking": True}, "enable_thinking"),
    ],
)
def test_what_a_later_version_will_do_is_refused_by_name(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(SimulatorFault) as refused:
        to_generate_request(message(**fields))
    assert refused.value.kind is FaultKind.UNIMPLEMENTED
    assert named in refused.value.message


@pytest.mark.requirement("aicore.limits.image")
def test_a_picture_is_not_supported() -> None:
    parts = [{"image": {"data": "AAE=", "mimeType": "image/png"}}, {"text": "What is it?"}]
    with pytest.raises(GenAiError) as refused:
        to_generate_request(message(contents=[{"parts": parts}]))
    assert refused.value.error_code == 16


def test_every_field_of_a_request_is_read_or_refused() -> None:
    """A field that is added to the proto must be taken care of here."""
    assert {field.name for field in aicore_pb2.GenerateContentRequest.DESCRIPTOR.fields} == {
        "model", "contents", "system_instruction", "tools", "tool_choice", "sampling",
        "response_schema", "cached_context_name", "prompt_prefix", "enable_thinking", "session_id",
    }  # fmt: skip
    assert {field.name for field in types_pb2.FunctionSchema.DESCRIPTOR.fields} == {
        "type", "description", "properties", "required", "items", "enum_values", "format",
        "pattern", "nullable", "minimum", "maximum", "min_items", "max_items", "min_length",
        "max_length", "any_of",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "selection"),
    [
        ({}, ("STABLE", "FULL")),
        ({"preference": aicore_pb2.FULL}, ("STABLE", "FULL")),
        ({"preference": aicore_pb2.FAST}, ("STABLE", "FAST")),
        (
            {"release_stage": aicore_pb2.PREVIEW, "preference": aicore_pb2.FAST},
            ("PREVIEW", "FAST"),
        ),
    ],
)
def test_a_selection_defaults_to_the_stable_full_model(
    fields: dict[str, Any], selection: tuple[str, str]
) -> None:
    assert to_selection(aicore_pb2.ModelSelection(**fields)) == selection


@pytest.mark.parametrize("field", ["release_stage", "preference"])
def test_an_unknown_selection_is_refused_by_its_field(field: str) -> None:
    selection = json_format.ParseDict({field: 7}, aicore_pb2.ModelSelection())
    with pytest.raises(SimulatorFault, match=rf"^model\.{field}: 7 is not a"):
        to_selection(selection)


@pytest.mark.parametrize(
    ("args", "reason"),
    [({"a": 2**63}, "does not fit"), ({"a": [math.inf]}, "not a finite number")],
)
def test_a_call_that_cannot_be_sent_is_malformed(args: dict[str, Any], reason: str) -> None:
    made = to_response(backend.FunctionCall(name="f", args=args)).malformed_function_call
    assert reason in made.reason
    assert made.text.startswith('{"name": "f", "arguments": {"a": ')


def test_a_call_keeps_its_values() -> None:
    args = {"id": 2**63 - 1, "list": [None, True, 1.5, "é"], "deep": {"a": {}}}
    made = to_response(backend.FunctionCall(name="f", args=args)).function_call
    assert (made.id, made.name, from_object(made.args)) == ("", "f", args)
