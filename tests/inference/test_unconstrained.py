"""Models that no grammar holds: calls are read, checked, and sent back when they do not fit."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.inference.backend import (
    Chunk,
    FunctionCall,
    GenerateRequest,
    MalformedCall,
    Schema,
    ToolDeclaration,
)
from aicore_sim.inference.call_check import CheckedParser
from aicore_sim.inference.dialect import HermesDialect, to_json
from aicore_sim.inference.engine import Engine
from aicore_sim.inference.grammar import MAX_CALLS
from aicore_sim.inference.model_folder import PromptOptions
from aicore_sim.inference.onnx_backend import OnnxBackend
from aicore_sim.inference.validation import why_not
from tests.inference.models import build_model
from tests.inference.requests import ORDER_TOOL, ask_with_tools, merged
from tests.inference.schemas import SCHEMAS, matches
from tests.inference.test_prompts import CHATML

TEMPLATE = CHATML.partition("{% if add")[0].replace(
    "'<|im_end|>\n' }}", "('' if loop.last else '<|im_end|>\n') }}"
)


def free_model(folder: Path) -> Path:
    build_model(folder, template=TEMPLATE)
    (folder / "aicore_sim.json").write_text('{"guidance": false}')
    return folder


def answer(engine: Engine, request: GenerateRequest) -> list[Any]:
    chunks: list[Chunk] = []
    engine.generate(request, chunks.append, lambda tokens: False)
    return merged(chunks)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(free_model(tmp_path_factory.mktemp("models") / "free"), threads=1)


@pytest.mark.requirement("aicore.generate.without-guidance")
def test_without_grammars_a_call_is_read_from_what_the_model_writes(engine: Engine) -> None:
    call = FunctionCall(name="fetch_order_details", args={"orderId": "A-1"})

    assert answer(engine, ask_with_tools("Hi@")) == ["Let me look.", call]
    assert answer(engine, ask_with_tools("Hi&", mode="required")) == [call]
    assert not engine.info.constrained


@pytest.mark.requirement("aicore.generate.without-guidance")
def test_without_grammars_a_call_that_does_not_fit_comes_back_with_the_reason(
    engine: Engine,
) -> None:
    other = ORDER_TOOL.model_copy(
        update={
            "parameters": Schema(
                type="object",
                properties={"orderId": Schema(type="integer")},
                required=("orderId",),
            )
        }
    )
    [broken] = answer(engine, ask_with_tools("Hi$", mode="required"))
    [wrong] = answer(engine, ask_with_tools("Hi&", other))
    [refused] = answer(engine, ask_with_tools("Hi&", mode="none"))

    assert isinstance(broken, MalformedCall)
    assert "not JSON" in broken.reason
    assert wrong == MalformedCall(
        text='{"name": "fetch_order_details", "arguments": {"orderId": "A-1"}}',
        reason="The arguments do not fit: orderId is no integer.",
    )
    assert refused.reason == "No function may be called now."


@pytest.mark.requirement("aicore.generate.without-guidance")
def test_a_model_without_grammars_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    engine = Engine(free_model(tmp_path / "free"), threads=1)
    for _ in range(2):
        answer(engine, ask_with_tools("Hi&"))

    said = [record.getMessage() for record in caplog.records]
    assert said == ["free: answers follow no grammar; calls are checked when they are written"]


@pytest.mark.requirement("aicore.generate.without-guidance")
@pytest.mark.parametrize("refuses", [True, False])
def test_a_library_built_without_guidance_is_noticed(
    synthetic_dir: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    opened: Callable[..., Any] = Engine._open_generator

    def without_guidance(self: Engine, lark: str, fast_forward: bool, length: int) -> Any:
        if lark and refuses:
            raise RuntimeError("no guidance in this build")
        return opened(self, "", False, length)

    monkeypatch.setattr(Engine, "_open_generator", without_guidance)

    assert not Engine(synthetic_dir, threads=1).info.constrained


def test_a_library_with_guidance_is_noticed(synthetic_engine: Engine) -> None:
    assert synthetic_engine.info.constrained


def checked(request: GenerateRequest, *calls: FunctionCall) -> list[Chunk]:
    dialect = HermesDialect()
    parser = CheckedParser(dialect.parser(request), request)
    texts = [
        f"<tool_call>{to_json({'name': call.name, 'arguments': call.args})}</tool_call>"
        for call in calls
    ]
    return [*parser.feed("".join(texts)), *parser.finish()]


def test_an_unknown_function_is_left_to_the_app() -> None:
    call = FunctionCall(name="get_wether", args={})

    assert checked(ask_with_tools("Hi"), call) == [call]


def test_only_the_named_function_passes() -> None:
    [chunk] = checked(
        ask_with_tools("Hi", mode="named", name="fetch_order_details"),
        FunctionCall(name="other", args={}),
    )

    assert isinstance(chunk, MalformedCall)
    assert chunk.reason == "Only 'fetch_order_details' may be called now."


def test_more_calls_than_an_answer_may_hold_are_malformed() -> None:
    tool = ToolDeclaration(name="f", parameters=Schema(type="object"))
    calls = [FunctionCall(name="f", args={})] * (MAX_CALLS + 2)

    chunks = checked(ask_with_tools("Hi", tool), *calls)

    assert [type(chunk) for chunk in chunks] == [FunctionCall] * MAX_CALLS + [MalformedCall] * 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-60, 60) | st.floats(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abÄ ", max_size=2), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(schema=SCHEMAS, value=JSON)
def test_a_value_is_refused_exactly_when_it_is_not_of_the_type(schema: Schema, value: Any) -> None:
    # The second opinion also asks for the order of properties, which a reader must not.
    if not isinstance(value, dict):
        assert (why_not(schema, value) is None) == matches(schema, value)


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (Schema(type="object", properties={"a": Schema(type="null")}), {"b": 1}, "'b' is not"),
        (
            Schema(type="object", properties={"a": Schema(type="null")}, required=("a",)),
            {},
            "the object lacks 'a'",
        ),
        (
            Schema(
                type="object",
                properties={
                    "a": Schema(type="array", items=Schema(type="integer", maximum=3)),
                },
            ),
            {"a": [1, 4]},
            "a[1] is not in None to 3.0",
        ),
        (Schema(type="array", items=Schema(type="null"), max_items=1), [None, None], "2 items"),
        (Schema(type="string", format="date"), "2024-13-01", "is no date"),
        (Schema(type="string", pattern="^a$"), "b", "does not match '^a$'"),
        (Schema(type="string", max_length=1), "ab", "2 characters"),
        (Schema(type="integer", format="int32"), 2**31, "too many digits"),
        (Schema(type="integer"), True, "is no integer"),
        (Schema(type="integer", enum=("7",)), 8, "none of ['7']"),
        (
            Schema(type="string", any_of=(Schema(type="null"), Schema(type="boolean"))),
            1,
            "none of the 2 possible types",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(schema: Schema, value: Any, reason: str) -> None:
    assert reason in str(why_not(schema, value))


@pytest.mark.requirement("simulator.command.no-grammar")
@pytest.mark.parametrize("guidance", [True, False])
async def test_whoever_starts_the_model_may_do_without_grammars(
    synthetic_dir: Path, guidance: bool
) -> None:
    backend = OnnxBackend(synthetic_dir, threads=1, prompts=PromptOptions(guidance=guidance))
    await backend.start()
    try:
        assert backend.info.constrained is guidance
    finally:
        await backend.stop()
