"""A model that fails while it runs, and callers that come at once or one after the other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from aicore_sim.inference.backend import BackendError, Finish, GenerateRequest
from aicore_sim.inference.engine import Engine
from aicore_sim.inference.onnx_backend import OnnxBackend
from tests.inference.requests import ask, merged
from tests.inference.synthetic import DEFAULT_CHAINS, END, HELLO, build_synthetic_model

UNKNOWN = 0
FATAL = "\x07"
"""A character that the model fails on, in a prompt as in its own answer."""
PREFIX = "These are the rules of the shop. " * 11


@pytest.fixture(scope="module")
def fragile_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The synthetic model, but looking up FATAL fails in the library, as a broken graph does."""
    chains = {**DEFAULT_CHAINS, "%": ["So far", " so good", FATAL, "never", END]}
    folder = build_synthetic_model(tmp_path_factory.mktemp("models") / "fragile", chains)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    model = onnx.load(str(folder / "model.onnx"))
    beyond = np.zeros(len(vocabulary), np.int64)
    beyond[vocabulary["ć"]] = 10**6
    model.graph.initializer.append(numpy_helper.from_array(beyond, "beyond"))
    (lookup,) = [node for node in model.graph.node if node.op_type == "Gather"]
    lookup.input[1] = "place"
    model.graph.node.insert(0, helper.make_node("Gather", ["beyond", "input_ids"], ["shift"]))
    model.graph.node.insert(1, helper.make_node("Add", ["input_ids", "shift"], ["place"]))
    onnx.save(model, str(folder / "model.onnx"))
    return folder


def said(engine: Engine, request: GenerateRequest) -> tuple[str, Finish]:
    chunks: list[Any] = []
    finish = engine.generate(request, chunks.append, lambda tokens: False)
    return "".join(merged(chunks)), finish


@pytest.mark.requirement("aicore.error.engine-failed")
@pytest.mark.parametrize("text", [f"{PREFIX}{FATAL}!", f"{PREFIX}%"], ids=["prompt", "answer"])
def test_a_state_in_which_the_library_failed_is_given_up_and_the_next_answer_is_right(
    fragile_dir: Path, text: str
) -> None:
    engine = Engine(fragile_dir, threads=1)
    whole, _ = said(engine, ask(f"{PREFIX}!"))

    for _ in range(3):
        with pytest.raises(BackendError, match="The model failed") as caught:
            said(engine, ask(text))
        assert caught.value.error_code == UNKNOWN
        assert engine.warm.states == 0
        again, finish = said(engine, ask(f"{PREFIX}!"))
        assert (again, finish.usage.cached_input_tokens) == (whole, 0) == (HELLO, 0)


@pytest.mark.requirement("aicore.error.engine-failed")
async def test_a_failed_step_fails_its_own_answer_and_the_one_in_line_goes_on(
    fragile_dir: Path,
) -> None:
    backend = OnnxBackend(fragile_dir, threads=1)
    async with asyncio.timeout(20):
        await backend.start()
        try:
            pid = backend.worker_pid
            failing = asyncio.create_task(_answer(backend, ask("Hi%")))
            waiting = asyncio.create_task(_answer(backend, ask("Hi!")))
            with pytest.raises(BackendError) as caught:
                await failing
            answered = await waiting

            assert backend.worker_pid == pid
        finally:
            await backend.stop()
    assert caught.value.error_code == UNKNOWN
    assert answered == HELLO


@pytest.mark.requirement("aicore.generate.one-at-a-time")
async def test_answers_asked_for_at_once_are_whole_and_come_one_after_the_other(
    synthetic_dir: Path,
) -> None:
    order: list[int] = []

    async def ordered(backend: OnnxBackend, number: int) -> str:
        text = ""
        async for chunk in backend.generate(ask(f"{number}!")):
            order.append(number)
            text += getattr(chunk, "text", "")
        return text

    backend = OnnxBackend(synthetic_dir, threads=1)
    async with asyncio.timeout(20):
        await backend.start()
        try:
            answers = await asyncio.gather(*(ordered(backend, number) for number in range(5)))
        finally:
            await backend.stop()

    assert answers == [HELLO] * 5
    assert order == sorted(order)


@pytest.mark.requirement("aicore.generate.one-at-a-time")
def test_a_backend_serves_one_event_loop_after_the_other(synthetic_dir: Path) -> None:
    backend = OnnxBackend(synthetic_dir, threads=1)

    async def serve() -> tuple[str, str]:
        async with asyncio.timeout(20):
            await backend.start()
            try:
                first, second = await asyncio.gather(
                    _answer(backend, ask("Hi!")), _answer(backend, ask("Hi!"))
                )
                return first, second
            finally:
                await backend.stop()

    assert [asyncio.run(serve()), asyncio.run(serve())] == [(HELLO, HELLO)] * 2


async def _answer(backend: OnnxBackend, request: GenerateRequest) -> str:
    return "".join([getattr(chunk, "text", "") async for chunk in backend.generate(request)])
