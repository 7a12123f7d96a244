"""Our engine against llama.cpp on the weights of one GGUF file, where llama.cpp is installed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError

from aicore_sim.cli.bench.loops import BARE_LOOP, LLAMA_CPP_LOOP, Times, loop
from aicore_sim.cli.control import CommandError
from aicore_sim.inference.cores import usable_cores
from aicore_sim.measure.figures import Figure, median
from aicore_sim.models.manifest import MANIFEST, Manifest, file_sha256

CONTEXT = 500
"""Tokens of the prompt."""
DECODE_RATIO = 1.05
PREFILL_RATIO = 2.0

HOW = (
    "llama.cpp was not measured: install llama-cpp-python beside aicore-sim and name the model's "
    "own GGUF file with --gguf FILE"
)
UNCHECKED = "the model folder does not say what it was made of: its weights may not be the GGUF's"


def require_same_weights(model_dir: Path, gguf: Path) -> bool:
    """Whether the model is known to be made of that file; False when its folder does not say.

    Raises CommandError for a file that is not there, and for another one than the model's.
    """
    if not gguf.is_file():
        raise CommandError(f"--gguf {str(gguf)!r} is no file", exit_code=2)
    try:
        manifest = Manifest.model_validate_json((model_dir / MANIFEST).read_bytes())
    except (OSError, ValidationError):
        return False
    if file_sha256(gguf) != manifest.source_sha256:
        raise CommandError(
            f"--gguf {str(gguf)!r} is not the file that {manifest.name} was made of; give "
            f"{manifest.source_file} with SHA-256 {manifest.source_sha256}",
            exit_code=2,
        )
    return True


async def compare(
    model_dir: Path,
    gguf: Path | None,
    filler: list[int],
    question: list[int],
    *,
    pairs: int,
    output: int,
    advance: Callable[[str, int, int], None],
) -> tuple[list[Figure], list[str]]:
    """Figures and notes. The prompt is `question` behind as much of `filler` as makes `CONTEXT`.

    Both engines are measured alone, in processes of their own, with the same threads and tokens;
    which of the two comes first alternates. Raises CommandError as `require_same_weights`, and
    when an answer is too short to be measured.
    """
    if gguf is None or find_spec("llama_cpp") is None:
        return [], [HOW]
    checked = await asyncio.to_thread(require_same_weights, model_dir, gguf)
    room = max(0, CONTEXT - len(question))
    tokens = (filler * (room // len(filler) + 1))[:room] + question[-CONTEXT:]
    threads = str(usable_cores())
    window = str(CONTEXT + output + 1)
    found: dict[str, list[Times]] = {BARE_LOOP: [], LLAMA_CPP_LOOP: []}
    async with (
        loop(BARE_LOOP, str(model_dir), threads) as ours,
        loop(LLAMA_CPP_LOOP, str(gguf), threads, window, str(os.getpid())) as theirs,
    ):
        engines = [(BARE_LOOP, ours), (LLAMA_CPP_LOOP, theirs)]
        for number in range(pairs + 1):
            for name, engine in engines if number % 2 else reversed(engines):
                times = await engine.generate(tokens, output)
                if times.output < 2:
                    raise CommandError(f"{name} ended its answer after {times.output} tokens")
                if number:  # the first pair warms up
                    found[name].append(times)
            if number:
                advance("against llama.cpp", number, pairs)
    return _figures(found[BARE_LOOP], found[LLAMA_CPP_LOOP]), [] if checked else [UNCHECKED]


def _figures(ours: list[Times], theirs: list[Times]) -> list[Figure]:
    both = list(zip(ours, theirs, strict=True))
    return [
        _speed("prefill of the engine alone", CONTEXT, [one.first_seconds for one in ours]),
        _speed("prefill of llama.cpp", CONTEXT, [one.first_seconds for one in theirs]),
        Figure(
            name="prefill ours ÷ llama.cpp",
            value=median([other.first_seconds / one.first_seconds for one, other in both]),
            unit="",
            target=PREFILL_RATIO,
            at_least=True,
        ),
        _speed("decode of the engine alone, 500 tokens", 1, [one.per_token for one in ours]),
        _speed("decode of llama.cpp, 500 tokens", 1, [one.per_token for one in theirs]),
        Figure(
            name="decode ours ÷ llama.cpp",
            value=median([other.per_token / one.per_token for one, other in both]),
            unit="",
            target=DECODE_RATIO,
            at_least=True,
        ),
    ]


def _speed(name: str, tokens: int, seconds: list[float]) -> Figure:
    return Figure(name=name, value=tokens / median(seconds), unit="tokens/s")
