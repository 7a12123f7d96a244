"""What small models write wrongly, on a model that no grammar holds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aicore_sim.inference.backend import (
    Chunk,
    Finish,
    FunctionCall,
    GenerateRequest,
    MalformedCall,
    Sampling,
    ThoughtDelta,
)
from aicore_sim.inference.engine import Engine
from aicore_sim.inference.onnx_backend import OnnxBackend
from tests.inference.models import build_model
from tests.inference.requests import ask, ask_with_tools, merged
from tests.inference.synthetic import DEFAULT_CHAINS, END, build_synthetic_model
from tests.inference.test_unconstrained import TEMPLATE

NUL = ("\0", 'B"}}\n</tool_call>', END)
NAMES = ("arguments", "bar", "name", '{"k":3} | fetch_order_details', "fetch_order_detail")


def called(body: str) -> list[str]:
    """What a model says to write a call with that text between the marks, and to end."""
    return [f"<tool_call>\n{body}\n</tool_call>", END]


def named(name: str) -> str:
    escaped = name.replace('"', '\\"')
    return f'{{"name": "{escaped}", "arguments": {{"orderId": "A-1"}}}}'


CHAINS = {
    **DEFAULT_CHAINS,
    "1": called("{'name': 'fetch_order_details', 'arguments': {'orderId': 'A-1'}}"),
    "2": called('{"name": {"k": 3}, "arguments": {"orderId": "A-1"}}'),
    "3": called('{"name": "fetch_order_details", "arguments": {"_": {"orderId": "1"}}}'),
    "4": ['<tool_call>\n{"name": "', "percent{", "percent{"],
    "5": [END],
    "6": ["Sure.", END, "\nuser\nAnd what else?"],
    "7": ['<tool_call>\n{"name": "fetch_order_details", "arguments": {"orderId": "A', *NUL],
    "8": ["one", *NUL],
    "9": ["<think>\nThe user is", " rude.\n</think>\n\n", "Good day.", END],
    **{chr(0x41 + number): called(named(name)) for number, name in enumerate(NAMES)},
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("models") / "free"
    build_model(folder, template=TEMPLATE, chains=CHAINS)
    (folder / "aicore_sim.json").write_text('{"guidance": false}')
    return Engine(folder, threads=1)


def run(engine: Engine, request: GenerateRequest) -> tuple[list[Any], Finish]:
    chunks: list[Chunk] = []
    finish = engine.generate(request, chunks.append, lambda tokens: False)
    return merged(chunks), finish


@pytest.mark.requirement("aicore.generate.malformed-call")
@pytest.mark.parametrize(
    ("trigger", "reason"),
    [
        ("1", "The call is not JSON: Expecting property name enclosed in double quotes"),
        ("2", 'The call has no "name".'),
        ("3", "The arguments do not fit: the object lacks 'orderId'."),
        ("7", "The call is not JSON: Invalid control character"),
    ],
    ids=["single quotes", "no name", "wrapped too deep", "NUL"],
)
def test_a_call_that_cannot_be_used_comes_with_its_text_and_the_reason(
    engine: Engine, trigger: str, reason: str
) -> None:
    [broken], finish = run(engine, ask_with_tools(f"Hi{trigger}"))

    assert isinstance(broken, MalformedCall)
    assert broken.reason.startswith(reason)
    assert finish.reason == "stop"


@pytest.mark.requirement("aicore.generate.malformed-call")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_nearly_that_of_a_function_is_not_taken_for_it(
    engine: Engine, name: str
) -> None:
    chunks, _ = run(engine, ask_with_tools(f"Hi{chr(0x41 + NAMES.index(name))}"))

    assert chunks == [FunctionCall(name=name, args={"orderId": "A-1"})]


@pytest.mark.requirement("aicore.generate.endless-call")
@pytest.mark.parametrize("mode", ["auto", "required"])
def test_an_endless_call_is_cut_at_the_output_limit_and_malformed(
    engine: Engine, mode: Any
) -> None:
    request = ask_with_tools("Hi4", mode=mode, sampling=Sampling(max_output_tokens=40))

    [broken], finish = run(engine, request)

    assert isinstance(broken, MalformedCall)
    assert broken.reason == "The call is cut off."
    assert broken.text.startswith('{"name": "percent{percent{')
    assert (finish.reason, finish.usage.output_tokens) == ("max_tokens", 40)


@pytest.mark.requirement("aicore.generate.endless-call")
def test_an_endless_argument_under_a_grammar_ends_with_the_limit_too(tmp_path: Path) -> None:
    # Inside a string the model never closes it.
    chains = {**DEFAULT_CHAINS, '"': ["percent{", "percent{"]}
    model = Engine(build_synthetic_model(tmp_path / "model", chains), threads=1)

    [broken], finish = run(
        model, ask_with_tools("Hi", mode="required", sampling=Sampling(max_output_tokens=90))
    )

    assert isinstance(broken, MalformedCall)
    assert broken.text.endswith("percent{percent{")
    assert (finish.reason, finish.usage.output_tokens) == ("max_tokens", 90)


@pytest.mark.requirement("aicore.generate.finish-last")
def test_an_answer_that_ends_with_its_first_token_has_no_output_tokens(engine: Engine) -> None:
    chunks, finish = run(engine, ask("Hi5"))

    assert chunks == []
    assert (finish.reason, finish.usage.output_tokens) == ("stop", 0)


@pytest.mark.requirement("aicore.generate.stop-tokens")
def test_an_answer_ends_at_the_end_of_the_turn_and_no_next_turn_is_made_up(engine: Engine) -> None:
    chunks, finish = run(engine, ask("Hi6"))

    assert chunks == ["Sure."]
    assert (finish.reason, finish.usage.output_tokens) == ("stop", 1)


@pytest.mark.requirement("aicore.generate.stop-tokens")
def test_each_stop_token_of_a_model_ends_its_turn(tmp_path: Path) -> None:
    chains = {
        **DEFAULT_CHAINS,
        "1": ["one", "<end_of_turn>", "\nuser\n"],
        "2": ["two", END, "\nmodel\n"],
    }
    folder = build_model(
        tmp_path / "model", template=TEMPLATE, stops=(END, "<end_of_turn>"), chains=chains
    )
    model = Engine(folder, threads=1)

    assert [run(model, ask(f"Hi{number}"))[0] for number in "12"] == [["one"], ["two"]]


@pytest.mark.requirement("aicore.dialect.nul")
def test_a_nul_that_a_model_writes_is_part_of_its_text(engine: Engine) -> None:
    chunks, _ = run(engine, ask("Hi8"))
    [broken], _ = run(engine, ask_with_tools("Hi7"))

    assert chunks == ['one\0B"}}\n</tool_call>']
    assert isinstance(broken, MalformedCall)
    assert '"A\0B"' in broken.text


@pytest.mark.requirement("aicore.dialect.thoughts")
def test_a_thought_that_a_model_writes_is_no_part_of_its_text(engine: Engine) -> None:
    chunks, _ = run(engine, ask("Hi9"))

    thoughts = "".join(chunk.text for chunk in chunks[:-1] if isinstance(chunk, ThoughtDelta))
    assert (thoughts, chunks[-1]) == ("The user is rude.", "Good day.")


@pytest.mark.requirement("aicore.tokens.from-tokenizer")
async def test_tokens_are_counted_by_the_tokenizer_however_many_a_chunk_holds(
    synthetic_dir: Path,
) -> None:
    found = []
    for seconds in (0.0, 60.0):
        backend = OnnxBackend(synthetic_dir, threads=1, chunk_seconds=seconds)
        async with asyncio.timeout(20):
            await backend.start()
            try:
                chunks = [chunk async for chunk in backend.generate(ask("Hi!"))]
            finally:
                await backend.stop()
        found.append(chunks)

    each, gathered = found
    assert (len(each), len(gathered)) == (6 + 1, 2 + 1)
    assert merged(each[:-1]) == merged(gathered[:-1])
    assert [chunks[-1].usage.output_tokens for chunks in found] == [6, 6]  # type: ignore[union-attr]
