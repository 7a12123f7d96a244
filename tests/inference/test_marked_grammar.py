"""FunctionGemma's notation on an engine: control tokens in grammars, prompts and answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aicore_sim.inference.backend import (
    BackendError,
    Chunk,
    FunctionCall,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    Sampling,
    Schema,
    TextDelta,
    ToolDeclaration,
)
from aicore_sim.inference.engine import Engine
from tests.inference.models import OPEN_TURNS, build_function_gemma, build_model
from tests.inference.requests import ORDER_TOOL, ask, ask_with_tools, merged, said, user
from tests.inference.schemas import matches, objects, scalars
from tests.inference.synthetic import DEFAULT_CHAINS, END

HOT = 6.0
CHAINS = {
    **DEFAULT_CHAINS,
    "%": [
        "Let me see.",
        *("<start_function_call>", "call:fetch_order_details{orderId:", "<escape>", "A-1"),
        "<escape>",
    ],
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = build_function_gemma(tmp_path_factory.mktemp("models") / "functiongemma", CHAINS)
    return Engine(folder, threads=1)


def answer(engine: Engine, request: GenerateRequest) -> list[Any]:
    chunks: list[Chunk] = []
    finish = engine.generate(request, chunks.append, lambda tokens: False)
    return [*merged(chunks), finish.reason]


def plain(schema: Schema) -> Schema:
    """Without what this notation cannot dictate: names and values other than ASCII."""
    enum = tuple(value for value in schema.enum if value.isascii() and value.isprintable())
    names = {f"p{number}": name for number, name in enumerate(schema.properties)}
    return schema.model_copy(
        update={
            "enum": enum or (("a", "b") if schema.enum else ()),
            "properties": {new: plain(schema.properties[old]) for new, old in names.items()},
            "required": tuple(new for new, old in names.items() if old in schema.required),
            "items": None if schema.items is None else plain(schema.items),
        }
    )


SCHEMAS = st.recursive(
    scalars(),
    lambda inner: st.one_of(
        objects(inner),
        inner.map(lambda items: Schema(type="array", items=items, min_items=1, max_items=3)),
    ),
    max_leaves=5,
).map(plain)


@pytest.mark.requirement("aicore.dialect.gemma")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), temperature=st.sampled_from([0.0, HOT]), seed=st.integers(0, 99))
def test_a_forced_call_has_arguments_of_the_declared_schema(
    engine: Engine, data: st.DataObject, temperature: float, seed: int
) -> None:
    parameters = plain(data.draw(objects(SCHEMAS)))
    tool = ToolDeclaration(name="set_alarm", parameters=parameters)
    sampling = Sampling(temperature=temperature, top_k=60, seed=seed, max_output_tokens=3000)

    call, reason = answer(engine, ask_with_tools("Go?", tool, mode="required", sampling=sampling))

    assert isinstance(call, FunctionCall), call
    assert call.name == "set_alarm"
    assert set(parameters.required) <= call.args.keys()
    assert all(matches(parameters.properties[name], item) for name, item in call.args.items())
    assert reason == "stop"


@pytest.mark.requirement("aicore.dialect.gemma")
def test_prose_before_a_call_is_text_and_no_control_token_shows(engine: Engine) -> None:
    assert answer(engine, ask_with_tools("Hi%")) == [
        "Let me see.",
        FunctionCall(name="fetch_order_details", args={"orderId": "A-1"}),
        "stop",
    ]


def test_text_alone_stays_possible(engine: Engine) -> None:
    assert answer(engine, ask_with_tools("Hi!")) == ["Hello from the synthetic model.", "stop"]
    assert answer(engine, ask("Hi!")) == ["Hello from the synthetic model.", "stop"]


def test_choice_none_keeps_the_call_token_out(engine: Engine) -> None:
    chunks = answer(engine, ask_with_tools("Hi%", mode="none"))

    assert all(isinstance(chunk, str) for chunk in chunks)


@pytest.mark.requirement("aicore.dialect.marks-in-text")
def test_a_mark_in_the_words_of_an_app_is_text_and_one_in_the_notation_a_token(
    engine: Engine,
) -> None:
    spelled = len("<escape>")
    call = FunctionCallPart(name="f", args={"a": "x"})
    history = GenerateRequest(
        contents=(
            user("Hi"),
            said("model", call),
            said("user", FunctionResponsePart(name="f", response={"b": "y"})),
        ),
        tools=(ORDER_TOOL,),
    )

    with_mark = engine.encode(ask("a<escape>b"))
    without = engine.encode(ask("ab"))
    tokens = engine.encode(history)

    assert len(with_mark) == len(without) + spelled
    notation = {mark: number for number, mark in engine.notation_tokens.items()}
    assert tokens.count(notation["<start_function_call>"]) == 1
    assert tokens.count(notation["<end_function_response>"]) == 1
    # Two in the call, two in the response, the others in the declaration.
    assert tokens[-2:] == [tokens[-2], notation["<end_function_response>"]]


@pytest.mark.parametrize(
    ("tool", "named"),
    [
        (ToolDeclaration(name="say hi", parameters=Schema(type="object")), "say hi"),
        (
            ToolDeclaration(
                name="f",
                parameters=Schema(type="object", properties={"a:b": Schema(type="string")}),
            ),
            "a:b",
        ),
        (
            ToolDeclaration(
                name="f",
                parameters=Schema(
                    type="object", properties={"a": Schema(type="string", enum=("é",))}
                ),
            ),
            "é",
        ),
        (
            ToolDeclaration(
                name="f",
                parameters=Schema(
                    type="object", properties={"a": Schema(type="string", enum=("<escape>",))}
                ),
            ),
            "<escape>",
        ),
    ],
)
def test_what_the_notation_cannot_write_is_refused_by_name(
    engine: Engine, tool: ToolDeclaration, named: str
) -> None:
    with pytest.raises(BackendError, match=named) as caught:
        answer(engine, ask_with_tools("Hi", tool, mode="required"))

    assert caught.value.error_code == -104


def test_text_deltas_never_hold_a_mark(engine: Engine) -> None:
    chunks: list[Chunk] = []
    engine.generate(ask_with_tools("Hi%"), chunks.append, lambda tokens: False)

    texts = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
    assert texts
    assert not any("<" in text for text in texts)


def test_a_model_of_this_family_is_recognised_by_its_template(
    tmp_path: Path, engine: Engine
) -> None:
    assert engine.info.dialect == "functiongemma"
    folder = build_function_gemma(tmp_path / "model")
    (folder / "aicore_sim.json").write_text('{"dialect": "hermes"}')
    assert Engine(folder, threads=1).info.dialect == "hermes"


@pytest.mark.requirement("aicore.dialect.gemma")
def test_gemma_3_calls_in_bare_json(tmp_path: Path) -> None:
    chains = {**DEFAULT_CHAINS, "%": ["Sure.\n", '{"name":'], "#": ['{"nam', 'es": 3}']}
    folder = build_model(
        tmp_path / "gemma",
        template=OPEN_TURNS,
        control=("<start_of_turn>",),
        chains=chains,
        stops=(END, "<end_of_turn>"),
    )
    gemma = Engine(folder, threads=1)
    call = FunctionCall(name="fetch_order_details", args={"orderId": ""})

    assert gemma.info.dialect == "gemma"
    assert answer(gemma, ask_with_tools("Hi%")) == ["Sure.", call, "stop"]
    assert answer(gemma, ask_with_tools("Hi!", mode="required")) == [call, "stop"]
    assert answer(gemma, ask_with_tools("Hi#")) == ['{"names": 3}', "stop"]
    assert answer(gemma, ask_with_tools("Hi%", mode="none"))[0].startswith('Sure.\n{"name":')
