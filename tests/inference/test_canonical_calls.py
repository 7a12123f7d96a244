"""What a model would write by itself in canonical form, a grammar lets it write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aicore_sim.inference.backend import (
    Chunk,
    FunctionCall,
    GenerateRequest,
    Schema,
    ToolDeclaration,
)
from aicore_sim.inference.engine import Engine
from aicore_sim.inference.grammar import MAX_CALLS
from tests.inference.requests import ORDER_TOOL, ask, ask_with_tools, merged
from tests.inference.schemas import matches
from tests.inference.synthetic import DEFAULT_CHAINS, END, build_synthetic_model

PLACE = Schema(
    type="object",
    properties={"lat": Schema(type="number"), "name": Schema(type="string", nullable=True)},
    required=("lat",),
)
INSTANCES: list[tuple[Schema, Any]] = [
    (Schema(type="string"), ""),
    (Schema(type="string"), 'Größe "XL" \\ / \n\t <tool_call> 👨‍👩‍👧'),
    (Schema(type="string", enum=("é", "b")), "é"),
    (Schema(type="string", pattern="^[A-Z]{3}-[0-9]{4}$"), "ORD-8492"),
    (Schema(type="string", pattern='"'), 'say "hi"'),
    (Schema(type="string", min_length=2, max_length=3), "ß\n"),
    (Schema(type="string", format="date"), "2024-02-29"),
    (Schema(type="string", format="time"), "23:59:59.5+02:00"),
    (Schema(type="string", format="date-time"), "2026-12-01T08:00:00Z"),
    (Schema(type="string", format="uuid"), "123e4567-e89b-12d3-a456-426614174000"),
    (Schema(type="string", format="uri"), "https://example.com/a?b=c#d"),
    (Schema(type="string", format="email"), "a.b@example.com"),
    (Schema(type="string", format="not a known one"), "anything"),
    (Schema(type="integer"), -9007199254740993),
    (Schema(type="integer", minimum=-5, maximum=5), -5),
    (Schema(type="integer", format="int32"), 2147483647),
    (Schema(type="number"), -12.5),
    (Schema(type="number", minimum=0, maximum=1), 0.25),
    (Schema(type="boolean"), False),
    (Schema(type="null"), None),
    (Schema(type="integer", nullable=True), None),
    (Schema(type="array", items=Schema(type="integer")), []),
    (Schema(type="array", items=Schema(type="integer"), min_items=1, max_items=3), [1, 2, 3]),
    (Schema(type="array", items=PLACE), [{"lat": 1.5, "name": None}, {"lat": 2}]),
    (PLACE, {"lat": 52, "name": "Köln"}),
    (Schema(type="string", any_of=(Schema(type="integer"), PLACE)), {"lat": 1.0}),
    (Schema(type="string", any_of=(Schema(type="integer"), PLACE)), 7),
]
TRIGGERS = [chr(0x41 + number) for number in range(len(INSTANCES))]


def tool_of(schema: Schema) -> ToolDeclaration:
    parameters = Schema(type="object", properties={"value": schema}, required=("value",))
    return ToolDeclaration(name="f", parameters=parameters)


def written(value: Any) -> str:
    ascii_only = value == "é"  # what a grammar dictates it dictates in ASCII
    arguments = json.dumps({"value": value}, ensure_ascii=ascii_only)
    return f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Each trigger makes the model write a whole call, which is one token."""
    calls = {
        trigger: [written(value), END]
        for trigger, (_, value) in zip(TRIGGERS, INSTANCES, strict=True)
    }
    chains = {**DEFAULT_CHAINS, **calls}
    folder: Path = tmp_path_factory.mktemp("models") / "canonical"
    return Engine(build_synthetic_model(folder, chains), threads=1)


def answer(engine: Engine, request: GenerateRequest) -> list[Any]:
    chunks: list[Chunk] = []
    finish = engine.generate(request, chunks.append, lambda tokens: False)
    return [*merged(chunks), finish.reason]


@pytest.mark.requirement("aicore.generate.constrained-types")
@pytest.mark.parametrize("number", range(len(INSTANCES)))
def test_a_canonical_call_is_accepted(engine: Engine, number: int) -> None:
    schema, value = INSTANCES[number]
    assert matches(schema, value)

    chunks = answer(engine, ask_with_tools(f"Go {TRIGGERS[number]}", tool_of(schema)))

    assert chunks == [FunctionCall(name="f", args={"value": value}), "stop"]


@pytest.mark.requirement("aicore.generate.several-calls")
def test_an_answer_holds_several_calls_and_comes_to_an_end(tmp_path: Path) -> None:
    # After the last character of a call this model begins the next one, for ever.
    chains = {**DEFAULT_CHAINS, "%": ["<tool_call>"], ">": ["\n<tool_call>"]}
    engine = Engine(build_synthetic_model(tmp_path / "model", chains), threads=1)
    tool = ToolDeclaration(name="f", parameters=Schema(type="object"))

    chosen = answer(engine, ask_with_tools("Go%", tool))
    demanded = answer(engine, ask_with_tools("Go%", tool, mode="required"))

    call = FunctionCall(name="f", args={})
    assert chosen == [*[call] * MAX_CALLS, "stop"]
    assert demanded == [call, "stop"]


@pytest.mark.requirement("aicore.generate.max-output-tokens")
@pytest.mark.parametrize("limit", range(1, 40, 3))
def test_a_call_cut_by_the_limit_is_never_a_call(engine: Engine, limit: int) -> None:
    request = ask_with_tools("Hi!", mode="required")
    sampling = request.sampling.model_copy(update={"max_output_tokens": limit})

    chunks = answer(engine, request.model_copy(update={"sampling": sampling}))

    assert chunks[-1] == "max_tokens"
    assert not any(isinstance(chunk, FunctionCall) for chunk in chunks)


@pytest.mark.requirement("aicore.generate.structured-output")
def test_a_response_schema_beside_tools_allows_json_or_a_call(engine: Engine) -> None:
    schema = Schema(type="object", properties={"done": Schema(type="boolean")}, required=("done",))
    both = ask_with_tools("Hi&", ORDER_TOOL).model_copy(update={"response_schema": schema})
    alone = ask("Hi&").model_copy(update={"response_schema": schema})

    [call, _] = answer(engine, both)
    [text, _] = answer(engine, alone)

    assert isinstance(call, FunctionCall)
    assert matches(schema, json.loads(text))
