"""Measures the engine in a process of its own, so that its memory is its own, too.

`python -m aicore_sim.cli.bench.engine_process FOLDER THREADS PROMPTS GENERATIONS PARENT` prints one
JSON object, and ends with its parent.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from aicore_sim.cli.bench.inference_prompts import PAIR_TOOL, PREFIX, prompts
from aicore_sim.device.process import die_with_parent
from aicore_sim.inference.backend import (
    Chunk,
    Content,
    FunctionCall,
    GenerateRequest,
    Sampling,
    TextDelta,
    TextPart,
    ToolChoice,
)
from aicore_sim.inference.engine import Engine

_OUTPUT = 24
_WARM_UP = 36


def ask(
    text: str, *, system: str = "", call: str = "", app: str = "", output: int = _OUTPUT
) -> GenerateRequest:
    """A greedy request; with `call` one that has to call a function of that name."""
    tools = (PAIR_TOOL.model_copy(update={"name": call}),) if call else ()
    return GenerateRequest(
        contents=(Content(role="user", parts=(TextPart(text=text),)),),
        system_instruction=system,
        tools=tools,
        tool_choice=ToolChoice(mode="required") if call else ToolChoice(),
        sampling=Sampling(temperature=0.0, max_output_tokens=output),
        app=app,
    )


class Measured:
    """An engine, and how many steps it took for the answer before."""

    def __init__(self, folder: Path, threads: int, *, prefix_memory_mb: int = 512) -> None:
        self.engine = Engine(folder, threads=threads, prefix_memory_mb=prefix_memory_mb)
        self.steps = 0
        self.output = 0

    def answer(self, request: GenerateRequest) -> list[Chunk]:
        """The chunks of an answer."""
        chunks: list[Chunk] = []
        self.steps = 0
        finish = self.engine.generate(request, chunks.append, self._look)
        self.output = finish.usage.output_tokens
        return chunks

    def seconds(self, request: GenerateRequest) -> float:
        """What a whole answer takes."""
        started = time.perf_counter()
        self.answer(request)
        return time.perf_counter() - started

    def _look(self, tokens: int) -> bool:
        self.steps += tokens > 0
        return False


def measure(folder: Path, threads: int, *, count: int, generations: int) -> dict[str, Any]:
    """Every figure of the engine."""
    loaded = _resident_mb()
    warm = Measured(folder, threads)
    facts: dict[str, Any] = {"loaded_mb": _resident_mb() - loaded}
    facts |= _call(warm)
    facts |= _memory(warm, generations)
    facts |= _same_answers(warm, Measured(folder, threads, prefix_memory_mb=0), count)
    return facts


def _call(measured: Measured) -> dict[str, Any]:
    """Grammars are compared on warm prompts: what is left is the grammar and the answer."""
    first = measured.seconds(ask("Send 3 cups to Ada.", call="send_first", output=80))
    later = measured.seconds(ask("Send 3 cups to Ada.", call="send_second", output=80))
    chunks = measured.answer(ask("Send 3 cups to Ada.", call="send_second", output=80))
    again = measured.seconds(ask("Send 3 cups to Ada.", call="send_second", output=80))
    call = next((chunk for chunk in chunks if isinstance(chunk, FunctionCall)), None)
    return {
        "first_grammar_seconds": first,
        "later_grammar_seconds": later,
        "warm_grammar_seconds": again,
        "call_arguments": len(call.args) if call else 0,
        "call_tokens": measured.output,
        # The step that ends the answer is asked for, too.
        "call_steps": measured.steps + 1,
    }


def _memory(measured: Measured, generations: int) -> dict[str, Any]:
    measured.engine.forget()
    measured.answer(ask("Hi", system=PREFIX, app="com.one", output=4))
    per_prefix = measured.engine.warm.bytes / 2**20

    def answers(count: int) -> None:
        for number in range(count):
            call = "send" if number % 3 == 0 else ""
            measured.answer(ask(f"Number {number}?", call=call, app=f"com.{number % 4}", output=4))

    answers(_WARM_UP)  # until the memory for warm prefixes is used up, and each kind was there
    started = _resident_mb()
    answers(generations)
    return {
        "prefix_mb": per_prefix,
        "before_mb": started,
        "after_mb": _resident_mb(),
        "generations": generations,
    }


def _same_answers(warm: Measured, cold: Measured, count: int) -> dict[str, Any]:
    """Greedy answers with and without reuse; for each difference how near the two tokens were."""
    differences = []
    reused = 0
    for number, (system, question) in enumerate(prompts(count)):
        request = ask(question, system=system)
        ours, theirs = _text(warm.answer(request)), _text(cold.answer(request))
        reused += warm.engine.warm.states > 0 and number > 0
        if ours != theirs:
            differences.append({"prompt": number, "logit_gap": _gap(cold.engine, request)})
    return {"prompts": count, "reused": reused, "differences": differences}


def _gap(engine: Engine, request: GenerateRequest) -> float:
    """Between the two likeliest first tokens that are nearest to each other in the answer."""
    tokens = engine.encode(request)
    smallest = float("inf")
    for _ in range(_OUTPUT):
        logits = engine.logits(tokens)
        best, second = sorted(range(len(logits)), key=logits.__getitem__)[:-3:-1]
        smallest = min(smallest, logits[best] - logits[second])
        tokens.append(best)
    return smallest


def _text(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    die_with_parent(int(sys.argv[5]))
    facts = measure(
        Path(sys.argv[1]),
        int(sys.argv[2]),
        count=int(sys.argv[3]),
        generations=int(sys.argv[4]),
    )
    print(json.dumps(facts))
