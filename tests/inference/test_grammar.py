"""Constrained answers match what was declared, whatever the model would rather write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aicore_sim.inference import engine as engine_module
from aicore_sim.inference.backend import (
    BackendError,
    Chunk,
    FunctionCall,
    GenerateRequest,
    Sampling,
    Schema,
    ToolDeclaration,
)
from aicore_sim.inference.dialect import HermesDialect
from aicore_sim.inference.engine import Engine
from aicore_sim.inference.grammar import MAX_CALLS, build_grammar
from tests.inference.requests import GREEDY, ask, ask_with_tools, merged
from tests.inference.schemas import SCHEMAS, matches, objects

REFUSED = -104
HOT = 6.0  # the synthetic model prefers closing characters; this makes it write others too


def answer(engine: Engine, request: GenerateRequest) -> list[Any]:
    chunks: list[Chunk] = []
    finish = engine.generate(request, chunks.append, lambda tokens: False)
    return [*merged(chunks), finish.reason]


@contextmanager
def dictated_stretches(found: list[int]) -> Iterator[None]:
    """Records how many tokens each step of the engine appends."""
    add = engine_module._Answer.add

    def recorded(self: Any, tokens: Any) -> None:
        found.append(len(tokens))
        add(self, tokens)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_module._Answer, "add", recorded)
        yield


def call_of(engine: Engine, tool: ToolDeclaration, sampling: Sampling = GREEDY) -> dict[str, Any]:
    request = ask_with_tools("Go?", tool, mode="required", sampling=sampling)
    call, reason = answer(engine, request)
    assert isinstance(call, FunctionCall), call
    assert call.name == tool.name
    assert reason == "stop"
    return call.args


def tool_of(**properties: Schema) -> ToolDeclaration:
    schema = Schema(type="object", properties=properties, required=tuple(properties))
    return ToolDeclaration(name="f", parameters=schema)


@pytest.mark.requirement("aicore.generate.constrained-calls")
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    parameters=objects(SCHEMAS), temperature=st.sampled_from([0.0, HOT]), seed=st.integers(0, 99)
)
def test_a_forced_call_has_arguments_of_the_declared_schema(
    synthetic_engine: Engine, parameters: Schema, temperature: float, seed: int
) -> None:
    tool = ToolDeclaration(name="set_alarm", parameters=parameters)
    sampling = Sampling(temperature=temperature, top_k=60, seed=seed, max_output_tokens=3000)
    request = ask_with_tools("Go?", tool, mode="required", sampling=sampling)
    grammar = build_grammar(request, HermesDialect())
    stretches: list[int] = []

    with dictated_stretches(stretches):
        [call, reason] = answer(synthetic_engine, request)

    assert isinstance(call, FunctionCall), call
    assert matches(parameters, call.args)
    assert reason == "stop"
    # More than that would go past the room that the engine leaves, and corrupt memory.
    assert grammar is not None
    assert max(stretches) <= grammar.longest_forced + 1


@pytest.mark.parametrize("name", ["fetch order", 'say "hi"', "über_setzen", "a\\b"])
def test_the_name_of_a_function_may_hold_any_characters(
    synthetic_engine: Engine, name: str
) -> None:
    tool = ToolDeclaration(name=name, parameters=Schema(type="object"))

    assert call_of(synthetic_engine, tool) == {}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (Schema(type="null"), None),
        (Schema(type="integer", enum=("7", "8")), 7),
        (Schema(type="number", enum=("2.5",)), 2.5),
        (Schema(type="boolean", enum=("true",)), True),
        (Schema(type="integer", minimum=41.0, maximum=41.0), 41),
        (Schema(type="integer", minimum=40.5, maximum=41.5), 41),
        (Schema(type="string", pattern="^[A-Z]{3}-[0-9]{2}$"), "AAA-11"),
        (Schema(type="string", pattern="^é{2}$"), "éé"),
        (Schema(type="string", pattern='^"a\\\\$'), '"a\\'),
        (Schema(type="string", pattern="^(ab){99}$"), "ab" * 99),
        (
            Schema(type="array", items=Schema(type="string", enum=("yes",)), min_items=40),
            ["yes"] * 40,
        ),
        (Schema(type="array", items=Schema(type="null"), min_items=3), [None, None, None]),
        (Schema(type="array", items=Schema(type="null"), max_items=0), []),
    ],
)
def test_a_schema_that_leaves_one_value_gets_it(
    synthetic_engine: Engine, schema: Schema, expected: object
) -> None:
    assert call_of(synthetic_engine, tool_of(value=schema)) == {"value": expected}


@pytest.mark.parametrize("kind", ["", "int64", "int32"])
def test_integers_stay_in_the_range_of_their_format(synthetic_engine: Engine, kind: str) -> None:
    limit = 2**31 if kind == "int32" else 2**63
    tool = tool_of(value=Schema(type="integer", format=kind))

    for seed in range(6):
        sampling = Sampling(temperature=HOT * 2, top_k=200, seed=seed, max_output_tokens=400)
        assert abs(call_of(synthetic_engine, tool, sampling)["value"]) < limit


def test_automatic_choice_allows_text_prose_with_a_call_and_a_call(
    synthetic_engine: Engine,
) -> None:
    assert answer(synthetic_engine, ask_with_tools("Hi!")) == [
        "Hello from the synthetic model.",
        "stop",
    ]
    assert answer(synthetic_engine, ask_with_tools("Hi@")) == [
        "Let me look.",
        FunctionCall(name="fetch_order_details", args={"orderId": "A-1"}),
        "stop",
    ]
    assert answer(synthetic_engine, ask_with_tools("Hi&"))[-2:] == [
        FunctionCall(name="fetch_order_details", args={"orderId": ""}),
        "stop",
    ]


def test_a_model_that_breaks_off_its_call_notation_is_kept_from_doing_so(
    synthetic_engine: Engine,
) -> None:
    text, reason = answer(synthetic_engine, ask_with_tools("Hi$"))

    assert isinstance(text, str)
    assert "<tool_call>" not in text
    assert reason == "stop"


@pytest.mark.requirement("aicore.generate.tool-choice")
@pytest.mark.parametrize("trigger", ["@", "&", "$"])
def test_choice_none_never_gives_a_call(synthetic_engine: Engine, trigger: str) -> None:
    chunks = answer(synthetic_engine, ask_with_tools(f"Hi{trigger}", mode="none"))

    assert all(isinstance(chunk, str) for chunk in chunks)


@pytest.mark.requirement("aicore.generate.tool-choice")
def test_choice_named_gives_a_call_of_that_function_only(synthetic_engine: Engine) -> None:
    tools = [ToolDeclaration(name=name, parameters=Schema(type="object")) for name in "abc"]

    for tool in tools:
        request = ask_with_tools("Hi!", *tools, mode="named", name=tool.name)
        assert answer(synthetic_engine, request) == [FunctionCall(name=tool.name, args={}), "stop"]


def test_a_response_schema_gives_json_in_canonical_form(synthetic_engine: Engine) -> None:
    schema = Schema(
        type="object",
        properties={"title": Schema(type="string"), "done": Schema(type="boolean")},
        required=("title", "done"),
    )
    request = ask("Go?").model_copy(update={"response_schema": schema})

    text, reason = answer(synthetic_engine, request)

    assert reason == "stop"
    assert matches(schema, json.loads(text))
    assert text == json.dumps(json.loads(text))


@pytest.mark.requirement("aicore.generate.constrained-calls")
def test_nothing_of_the_prompt_enters_the_grammar() -> None:
    grammars = [
        build_grammar(ask_with_tools(text, mode="required"), HermesDialect())
        for text in ("Where is ORD-8492?", "Play something.")
    ]

    assert grammars[0] == grammars[1]


def test_an_answer_that_may_be_anything_has_no_grammar() -> None:
    assert build_grammar(ask("Hi"), HermesDialect()) is None


def test_the_number_of_calls_in_one_answer_is_bounded() -> None:
    chosen = build_grammar(ask_with_tools("Hi"), HermesDialect())
    demanded = build_grammar(ask_with_tools("Hi", mode="required"), HermesDialect())

    assert chosen is not None
    assert f"{{0,{MAX_CALLS - 1}}}" in chosen.lark
    assert demanded is not None
    assert "{0," not in demanded.lark.splitlines()[0]


def nested(depth: int) -> Schema:
    schema = Schema(type="string")
    for _ in range(depth):
        schema = Schema(type="array", items=schema)
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        Schema(type="array"),
        Schema(type="object", required=("missing",)),
        Schema(type="string", min_length=3, max_length=2),
        Schema(type="array", items=Schema(type="null"), min_items=-1),
        Schema(type="integer", minimum=2, maximum=1),
        Schema(type="integer", minimum=float("-inf")),
        Schema(type="number", maximum=float("nan")),
        Schema(type="string", pattern=r"[^ -~]"),
        Schema(type="string", pattern="^a{5}$", max_length=4),
        Schema(type="integer", minimum=1.2, maximum=1.8),
        Schema(type="integer", enum=("seven",)),
        Schema(type="integer", enum=("true",)),
        Schema(type="object", enum=("{}",)),
        Schema(type="string", pattern="(unclosed"),
        Schema(type="string", pattern="a(?=b)"),
        nested(40),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(synthetic_engine: Engine, schema: Schema) -> None:
    with pytest.raises(BackendError) as caught:
        answer(synthetic_engine, ask_with_tools("Hi", tool_of(broken=schema), mode="required"))

    assert caught.value.error_code == REFUSED


def test_a_refused_schema_is_named_by_function_and_property() -> None:
    with pytest.raises(BackendError, match=r"tool 'f' property 'broken'.*items"):
        build_grammar(ask_with_tools("Hi", tool_of(broken=Schema(type="array"))), HermesDialect())


@pytest.mark.parametrize(
    "request_",
    [
        ask_with_tools("Hi", mode="named", name="unknown"),
        ask_with_tools("Hi", tool_of(), tool_of()),
        ask_with_tools("Hi", ToolDeclaration(name="", parameters=Schema(type="object"))),
        ask_with_tools("Hi", ToolDeclaration(name="f", parameters=Schema(type="string"))),
        ask_with_tools("Hi", mode="required").model_copy(update={"tools": ()}),
    ],
)
def test_a_choice_that_no_declared_function_meets_is_refused(request_: GenerateRequest) -> None:
    with pytest.raises(BackendError) as caught:
        build_grammar(request_, HermesDialect())

    assert caught.value.error_code == REFUSED
