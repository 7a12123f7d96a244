"""The benchmark against llama.cpp, on a stub of llama-cpp-python: no real figures."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aicore_sim.cli.bench import against_llama_cpp
from aicore_sim.cli.bench.against_llama_cpp import CONTEXT, HOW, UNCHECKED, compare
from aicore_sim.cli.bench.loops import LLAMA_CPP_LOOP, loop
from aicore_sim.cli.control import CommandError
from aicore_sim.device.process import is_alive
from aicore_sim.inference.cores import usable_cores
from aicore_sim.measure.figures import Figure
from aicore_sim.models.manifest import MANIFEST, Manifest, file_sha256
from tests.aicore.calls import eventually
from tests.inference.synthetic import build_synthetic_model

STUB = '''
"""A stub of llama-cpp-python: it makes the token 7 and writes down what it was told."""
import json, pathlib

class Llama:
    def __init__(self, **options):
        self.file = pathlib.Path(options["model_path"] + ".told")
        self.told = {"options": options, "resets": 0, "prompts": []}
        print("native code prints this")

    def reset(self):
        self.told["resets"] += 1

    def generate(self, tokens, temp):
        self.told["prompts"].append([len(tokens), temp])
        self.file.write_text(json.dumps(self.told))
        while True:
            yield 7
'''
FILLER, QUESTION = list(range(3, 43)), [50, 51, 52]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # After the last token of the question the model goes on for ever.
    folder = tmp_path_factory.mktemp("models") / "synthetic"
    return build_synthetic_model(folder, {"S": [" tick", " tock", " tick"]})


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "stub"
    folder.mkdir()
    (folder / "llama_cpp.py").write_text(STUB)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))


async def compared(
    model_dir: Path, gguf: Path | None, question: list[int] = QUESTION
) -> tuple[list[Figure], list[str]]:
    return await compare(
        model_dir, gguf, FILLER, question, pairs=2, output=5, advance=lambda *at: None
    )


@pytest.mark.requirement("simulator.command.bench.llama-cpp")
@pytest.mark.usefixtures("stub")
async def test_both_engines_get_the_same_prompt_and_threads_and_two_ratios_come_of_it(
    model_dir: Path, gguf: Path
) -> None:
    question = [*QUESTION, _token(model_dir, "S")]

    figures, notes = await compared(model_dir, gguf, question)

    told = json.loads(Path(f"{gguf}.told").read_text())
    assert told["options"] == {
        "model_path": str(gguf),
        "n_ctx": CONTEXT + 5 + 1,
        "n_threads": usable_cores(),
        "n_threads_batch": usable_cores(),
        "verbose": False,
    }
    assert (told["resets"], told["prompts"]) == (3, [[CONTEXT, 0.0]] * 3)
    targets = {figure.name: (figure.target, figure.at_least) for figure in figures}
    assert targets["decode ours ÷ llama.cpp"] == (1.05, True)
    assert targets["prefill ours ÷ llama.cpp"] == (2.0, True)
    assert all(figure.value > 0 for figure in figures)
    assert notes == [UNCHECKED]


@pytest.mark.requirement("simulator.command.bench.llama-cpp")
async def test_without_the_file_or_llama_cpp_a_note_says_how(
    model_dir: Path, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await compared(model_dir, None) == ([], [HOW])
    monkeypatch.setattr(against_llama_cpp, "find_spec", lambda name: None)
    assert await compared(model_dir, gguf) == ([], [HOW])


@pytest.mark.usefixtures("stub")
async def test_another_file_than_the_models_own_is_refused_with_the_one_it_needs(
    tmp_path: Path, gguf: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    manifest = Manifest(
        name="tiny",
        layout=1,
        requirement="tiny==1",
        source_file="tiny.gguf",
        source_sha256=file_sha256(gguf),
        licence="none",
        files={},
    )
    (folder / MANIFEST).write_text(manifest.model_dump_json())

    assert against_llama_cpp.require_same_weights(folder, gguf)
    gguf.write_bytes(b"another")
    with pytest.raises(CommandError, match="made of; give tiny.gguf with SHA-256"):
        await compared(folder, gguf)
    with pytest.raises(CommandError, match="is no file"):
        await compared(folder, tmp_path / "nothing.gguf")


OWNER = """
import asyncio, os, sys
from aicore_sim.cli.bench.loops import LLAMA_CPP_LOOP, loop

async def main():
    async with loop(LLAMA_CPP_LOOP, sys.argv[1], "1", "64", str(os.getpid())) as made:
        print(made._process.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.usefixtures("stub")
async def test_llama_cpp_ends_with_the_benchmark_however_that_ends(gguf: Path) -> None:
    async with loop(LLAMA_CPP_LOOP, str(gguf), "1", "64", str(os.getpid())) as made:
        first = made._process.pid
    assert not is_alive(first)

    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(gguf), stdout=subprocess.PIPE
    )
    try:
        assert owner.stdout is not None
        async with asyncio.timeout(20):
            second = int(await owner.stdout.readline())
    finally:
        owner.kill()
        await owner.wait()
    await eventually(lambda: not is_alive(second))


def _token(model_dir: Path, name: str) -> int:
    vocabulary = json.loads((model_dir / "tokenizer.json").read_text())["model"]["vocab"]
    return int(vocabulary[name])
