"""What an answer costs through client, daemon and worker, against the engine alone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aicore_client import (
    Content,
    DeviceConnection,
    GenerateContentRequest,
    Generation,
    GenerativeModel,
    TextPart,
)
from aicore_sim.cli.bench.against_llama_cpp import compare
from aicore_sim.cli.bench.client import measured_daemon
from aicore_sim.cli.bench.inference_prompts import PREFIX
from aicore_sim.cli.bench.loops import BARE_LOOP, loop
from aicore_sim.cli.control import CommandError
from aicore_sim.inference.cores import usable_cores
from aicore_sim.measure.figures import Figure, median
from aicore_sim.models.catalogue import find_model

Advance = Callable[[str, int, int], None]
"""Name of what is measured, how much is done, and of how much."""

DECODE_RATIO = 1 / 0.97
WARM_RATIO = 0.08
STEPS_RATIO = 0.35
MEMORY_RATIO = 1.05

_STORY = "Write a long story about a lighthouse, its keeper and a storm."
_STREAMS = 4
_CHILD_SECONDS = 1800.0

# Quota is off, and four may run at once, so that what holds them up is the worker.
_PROFILE = """\
extends = "pixel-10"
[queue]
slots = 4
waiting = 100
[load]
cold_seconds = 0
idle_unload_seconds = 0
[quota]
active = "off"
"""


@dataclass(frozen=True, kw_only=True)
class InferencePlan:
    """How much is measured."""

    pairs: int = 9
    """Of the decode speed, and of the time to the first token."""
    output: int = 128
    """Tokens of an answer whose speed is measured."""
    rounds: int = 3
    """Of four streams at once."""
    prompts: int = 50
    generations: int = 300


@dataclass(kw_only=True)
class InferenceReport:
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str = "", target: float | None = None) -> None:
        self.figures.append(Figure(name=name, value=value, unit=unit, target=target))


@dataclass(frozen=True, kw_only=True)
class _Answer:
    first_seconds: float
    rest_seconds: float
    output: int
    cached: int
    text: str

    @property
    def per_token(self) -> float:
        return self.rest_seconds / max(1, self.output - 1)


async def measure(
    folder: Path,
    plan: InferencePlan,
    *,
    model: str,
    advance: Advance,
    gguf: Path | None = None,
) -> InferenceReport:
    """Measure everything on a model that is on this machine.

    With `gguf`, the file that the model was made of, also against llama.cpp where that is
    installed. Raises CommandError, and ModelNotFound.
    """
    report = InferenceReport()
    model_dir = find_model(model)
    profile = folder / "bench.toml"
    profile.write_text(_PROFILE)
    part = folder / "daemon"
    part.mkdir()
    prompt = await asyncio.to_thread(_encoded, model_dir, _STORY)
    async with measured_daemon(part, profile=str(profile), model=model) as raw:
        await raw.warmup()
        async with DeviceConnection(raw.address, "unix:/nowhere", raw.token) as connection:
            client = Generation.get_client(connection=connection)
            await _decode(client, model_dir, prompt, plan, report, advance)
            await _first_tokens(client, plan, report, advance)
            await _streams(client, plan, report, advance)
    advance("the engine alone", 0, 1)
    _engine(await _engine_facts(model_dir, plan), report)
    advance("the engine alone", 1, 1)
    filler = await asyncio.to_thread(_encoded, model_dir, PREFIX)
    figures, notes = await compare(
        model_dir, gguf, filler, prompt, pairs=plan.pairs, output=plan.output, advance=advance
    )
    report.figures += figures
    report.notes += notes
    return report


async def _decode(
    client: GenerativeModel,
    model_dir: Path,
    tokens: list[int],
    plan: InferencePlan,
    report: InferenceReport,
    advance: Advance,
) -> None:
    ratios: list[float] = []
    ours: list[float] = []
    theirs: list[float] = []
    async with loop(BARE_LOOP, str(model_dir), str(usable_cores())) as bare:
        for number in range(plan.pairs + 1):
            # Which of the two comes first alternates, so that neither profits from the other.
            if number % 2:
                mine = (await _answer(client, _STORY, output=plan.output)).per_token
                alone = (await bare.generate(tokens, plan.output)).per_token
            else:
                alone = (await bare.generate(tokens, plan.output)).per_token
                mine = (await _answer(client, _STORY, output=plan.output)).per_token
            if number:
                ours.append(mine)
                theirs.append(alone)
                ratios.append(mine / alone)
                advance("decode speed", number, plan.pairs)
    report.add("decode through the daemon", 1 / median(ours), "tokens/s")
    report.add("decode of a bare loop", 1 / median(theirs), "tokens/s")
    report.add("time of a token, daemon ÷ bare loop", median(ratios), "", DECODE_RATIO)


async def _first_tokens(
    client: GenerativeModel, plan: InferencePlan, report: InferenceReport, advance: Advance
) -> None:
    cold: list[float] = []
    warm: list[float] = []
    saved: list[float] = []
    for number in range(plan.pairs):
        prefix = f"Shop {number}. {PREFIX}"
        first = await _answer(client, "When do you open?", system=prefix, output=2)
        second = await _answer(client, "Do you ship?", system=prefix, output=2)
        cold.append(first.first_seconds)
        warm.append(second.first_seconds)
        saved.append(second.cached)
        advance("first token", number + 1, plan.pairs)
    ratios = [one / other for one, other in zip(warm, cold, strict=True)]
    report.add("tokens of the warm prefix", median(saved))
    report.add("first token, cold", median(cold) * 1e3, "ms")
    report.add("first token, warm", median(warm) * 1e3, "ms")
    report.add("first token, warm ÷ cold", median(ratios), "", WARM_RATIO)


async def _streams(
    client: GenerativeModel, plan: InferencePlan, report: InferenceReport, advance: Advance
) -> None:
    ratios: list[float] = []
    for number in range(plan.rounds):
        alone = await _tokens_per_second(client, plan, 1)
        together = await _tokens_per_second(client, plan, _STREAMS)
        ratios.append(together / alone)
        advance("four streams", number + 1, plan.rounds)
    report.add("four streams together ÷ one", median(ratios))
    report.notes.append(
        "four streams are answered one after the other: the engine's batching on CPU takes a new "
        "request only when a batch has ended, and reuses no prefix"
    )


async def _tokens_per_second(client: GenerativeModel, plan: InferencePlan, streams: int) -> float:
    started = time.perf_counter()
    answers = await asyncio.gather(
        *(_answer(client, f"{n}: {_STORY}", output=plan.output // 2) for n in range(streams))
    )
    return sum(answer.output for answer in answers) / (time.perf_counter() - started)


def _engine(facts: dict[str, Any], report: InferenceReport) -> None:
    report.add("first call: prompt, grammar, answer", facts["first_grammar_seconds"] * 1e3, "ms")
    report.add("call with another grammar", facts["later_grammar_seconds"] * 1e3, "ms")
    report.add("the same call again", facts["warm_grammar_seconds"] * 1e3, "ms")
    report.add("tokens of a two-argument call", facts["call_tokens"])
    steps = facts["call_steps"] / max(1, facts["call_tokens"])
    report.add("steps ÷ tokens of it", steps, "", STEPS_RATIO)
    report.add("memory of the loaded model", facts["loaded_mb"], "MB")
    report.add("memory of a warm prefix", facts["prefix_mb"], "MiB")
    report.add("memory before many answers", facts["before_mb"], "MB")
    report.add(f"memory after {facts['generations']}", facts["after_mb"], "MB")
    report.add("after ÷ before", facts["after_mb"] / facts["before_mb"], "", MEMORY_RATIO)
    different = facts["differences"]
    report.add(f"of {facts['prompts']} answers, different when warm", len(different), "", 0)
    report.notes += [
        f"prompt {found['prompt']}: the two likeliest tokens were {found['logit_gap']:.4f} apart"
        for found in different
    ]


async def _answer(client: GenerativeModel, text: str, *, output: int, system: str = "") -> _Answer:
    """Raises CommandError for an answer without usage, which the daemon never gives."""
    request = GenerateContentRequest(
        contents=[Content([TextPart(text)])],
        system_instruction=system,
        temperature=0.0,
        max_output_tokens=output,
    )
    started = time.perf_counter()
    first: float | None = None
    said: list[str] = []
    usage = None
    async with aclosing(client.generate_content_stream(request)) as chunks:
        async for chunk in chunks:
            if first is None:
                first = time.perf_counter()
            said += [candidate.text for candidate in chunk.candidates]
            usage = chunk.usage
    ended = time.perf_counter()
    if usage is None or first is None:
        raise CommandError("an answer came without its usage")
    return _Answer(
        first_seconds=first - started,
        rest_seconds=ended - first,
        output=usage.output_tokens,
        cached=usage.cached_input_tokens,
        text="".join(said),
    )


def _encoded(model_dir: Path, text: str) -> list[int]:
    """The same prompt for the bare loop as the daemon gives the model."""
    from aicore_sim.cli.bench.engine_process import ask
    from aicore_sim.inference.engine import Engine

    return Engine(model_dir, threads=1).encode(ask(text))


async def _engine_facts(model_dir: Path, plan: InferencePlan) -> dict[str, Any]:
    """Raises CommandError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "aicore_sim.cli.bench.engine_process",
        str(model_dir),
        str(usable_cores()),
        str(plan.prompts),
        str(plan.generations),
        str(os.getpid()),
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    try:
        printed, errors = await asyncio.wait_for(process.communicate(), _CHILD_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        tail = "\n".join(errors.decode(errors="replace").splitlines()[-10:])
        raise CommandError(f"the measured engine failed:\n{tail}")
    found: dict[str, Any] = json.loads(printed)
    return found
