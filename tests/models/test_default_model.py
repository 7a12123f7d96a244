"""The real default model, pulled into the user's own cache on first use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime_genai as og
import pytest

from aicore_sim.models.catalogue import DEFAULT_MODEL, find_model
from aicore_sim.models.pull import NoProgress, PullResult, pull, verify

pytestmark = pytest.mark.real_model


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


def test_the_default_model_is_whole(default_model: PullResult) -> None:
    assert verify(DEFAULT_MODEL.name) == ()


def test_a_fresh_conversion_keeps_to_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AICORE_SIM_CACHE", str(tmp_path))

    result = pull(DEFAULT_MODEL, NoProgress())

    seconds = sum(spent for phase, spent in result.seconds.items() if phase != "download")
    megabytes = result.peak_memory_bytes / 1e6
    print(f"after the download: {seconds:.1f} s, {megabytes:.0f} MB at most")
    assert seconds < 20
    assert megabytes < 600
    assert find_model("default") == result.path
