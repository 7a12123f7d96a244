"""What a weight layout costs in quality, and how fast it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai as og

from aicore_sim.inference.bare_loop import measure
from aicore_sim.inference.tokens import PromptEncoder
from scripts.conversion.matrices import Floats

TEXT = Path(__file__).with_name("text.txt")
"""What quality is measured on: prose, dialogue, numbers, JSON, code, six languages."""

PROMPT, ANSWER = 500, 64
"""Tokens of a speed measurement."""
_WARM_UP = 32, 4
_ROWS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """How far next-token distributions are from those of the reference, over all positions."""

    mean_kl: float
    """Kullback-Leibler divergence from the reference, in nats."""
    top1: float
    """Share of positions whose likeliest token is the same."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    prefill: float
    """Tokens of the prompt per second until the first token of the answer is there."""
    decode: float
    """Further tokens per second."""


def tokens_of(text: str, folder: Path) -> list[int]:
    """The tokens that the model in `folder` was trained to see."""
    return PromptEncoder(og.Tokenizer(og.Config(str(folder))), folder).encode(text)


def logits(folder: Path, graph: str, tokens: list[int]) -> Floats:
    """(positions, vocabulary); `graph` is the name of one that gives the logits of all."""
    model = _opened(folder, graph, {"chunk_size": 0})
    parameters = og.GeneratorParams(model)
    parameters.set_search_options(max_length=len(tokens) + 1)
    generator = og.Generator(model, parameters)
    generator.append_tokens(tokens)
    return np.asarray(generator.get_output("logits")[0], dtype=np.float32)


def divergence(expected: Floats, found: Floats) -> Divergence:
    """Of logits from the reference's logits, both (positions, vocabulary)."""
    total, same = 0.0, 0
    for start in range(0, len(expected), _ROWS_AT_ONCE):  # float64 copies of all take a gigabyte
        rows = slice(start, start + _ROWS_AT_ONCE)
        p, q = _log_softmax(expected[rows]), _log_softmax(found[rows])
        total += float((np.exp(p) * (p - q)).sum())
        same += int((p.argmax(axis=1) == q.argmax(axis=1)).sum())
    return Divergence(mean_kl=total / len(expected), top1=same / len(expected))


def speed(folder: Path, graph: str, tokens: list[int], threads: int) -> Speed:
    """Of one greedy answer; `graph` is the name of one that gives the last logits only.

    `tokens` are cut to `PROMPT`. Raises ValueError when there are not enough.
    """
    if len(tokens) < PROMPT:
        raise ValueError(f"{len(tokens)} tokens given, {PROMPT} needed")
    model = _opened(folder, graph, {}, threads)
    warm_up, answer = _WARM_UP
    measure(model, tokens[:warm_up], answer)
    times = measure(model, tokens[:PROMPT], ANSWER)
    return Speed(
        prefill=PROMPT / times["first_seconds"],
        decode=(times["output"] - 1) / times["rest_seconds"],
    )


def _opened(folder: Path, graph: str, search: dict[str, int], threads: int = 2) -> Any:
    config = og.Config(str(folder))
    decoder = {"filename": graph, "session_options": {"intra_op_num_threads": threads}}
    config.overlay(json.dumps({"model": {"decoder": decoder}, "search": search}))
    return og.Model(config)


def _log_softmax(logits: Floats) -> Any:
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
