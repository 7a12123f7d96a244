"""Trains the adapter of the default model. Resumable: run the same command again.

python -m scripts.adapter.train --gguf SmolLM2-135M-Instruct.Q4_1.gguf --model FOLDER --out OUT
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import LlamaForCausalLM

from aicore_sim.inference.warm_states import common_prefix
from scripts.adapter.base_model import PROJECTIONS, load_base
from scripts.adapter.conversations import Example, Writer
from scripts.adapter.domains import Split
from scripts.adapter.encode import ExampleEncoder
from scripts.adapter.export import start_weights
from scripts.adapter.general import General, answered, openings
from scripts.adapter.prompt import answer_text

LONGEST = 900
"""Tokens of prompt and answer; longer examples are left out."""


@dataclass(frozen=True, kw_only=True)
class Row:
    tokens: list[int]
    prompt_length: int


@dataclass(frozen=True, kw_only=True)
class Packed:
    """Examples that begin alike, with their beginning once: a root and its branches.

    A token of a branch attends to the root and to its own branch, at the position that it has in
    its example, so the result is that of the examples one by one, at a third of the work.
    """

    tokens: torch.Tensor
    """(1, length)"""
    positions: torch.Tensor
    """(1, length)"""
    mask: torch.Tensor
    """(1, 1, length, length), added to the attention's logits."""
    at: torch.Tensor
    """Where a token of an answer is predicted."""
    wanted: torch.Tensor
    """That token."""


def pack(rows: Sequence[Row]) -> Packed:
    first, *others = (row.tokens[: row.prompt_length] for row in rows)
    root = min((common_prefix(first, other) for other in others), default=len(first))
    root = min(root, len(first) - 1)
    tokens, positions = list(first[:root]), list(range(root))
    branches = [0] * root
    at, wanted = [], []
    for number, row in enumerate(rows, 1):
        offset = len(tokens) - root
        tokens += row.tokens[root:]
        positions += range(root, len(row.tokens))
        branches += [number] * (len(row.tokens) - root)
        at += range(row.prompt_length - 1 + offset, len(row.tokens) - 1 + offset)
        wanted += row.tokens[row.prompt_length :]
    branch = torch.tensor(branches)
    seen = (branch[:, None] == branch[None, :]) | (branch[None, :] == 0)
    seen &= torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril()
    return Packed(
        tokens=torch.tensor([tokens]),
        positions=torch.tensor([positions]),
        mask=torch.where(seen, 0.0, torch.finfo(torch.bfloat16).min)[None, None].to(torch.bfloat16),
        at=torch.tensor(at),
        wanted=torch.tensor(wanted),
    )


class Batches:
    """Groups of a split. Group `n` depends only on the seed and `n`."""

    def __init__(self, encoder: ExampleEncoder, split: Split, seed: int, size: int) -> None:
        self._encoder = encoder
        self._split: Split = split
        self._seed = seed
        self._size = size

    def group(self, number: int) -> Packed:
        writer = Writer(self._split, self._seed * 1_000_003 + number)
        while True:
            rows = [encode(self._encoder, example) for example in writer.group(self._size)]
            rows = [row for row in rows if len(row.tokens) <= LONGEST]
            if len(rows) > self._size // 2:
                return pack(rows)


def encode(encoder: ExampleEncoder, example: Example) -> Row:
    prompt = encoder.prompt(example.request)
    return Row(tokens=prompt + encoder.answer(example.answer), prompt_length=len(prompt))


class GeneralBatches:
    """Requests that concern no function. Group `n` depends only on the seed and `n`."""

    def __init__(self, encoder: ExampleEncoder, known: Sequence[General], seed: int) -> None:
        self._encoder = encoder
        self._known = known
        self._seed = seed

    def bare(self, number: int) -> Packed:
        """Conversations without functions, and texts; each of their tokens is to be predicted."""
        rng = random.Random(f"general {self._seed} {number}")
        texts = [self._encoder.text(opening) for opening in rng.sample(openings(), 3)]
        texts += [
            self._tokens(self._encoder.prompt(each.request), each)
            for each in rng.sample(self._known, 7)
        ]
        return pack([Row(tokens=tokens, prompt_length=1) for tokens in texts])

    def offered(self, number: int) -> Packed:
        """Questions to an app whose functions have nothing to do with them."""
        rng = random.Random(f"offered {self._seed} {number}")
        shared = Writer("train", self._seed * 1_000_003 + number).group(1)[0].request
        rows = []
        for each in rng.sample(self._known, 6):
            request = shared.model_copy(update={"contents": each.request.contents})
            prompt = self._encoder.prompt(request)
            rows.append(Row(tokens=self._tokens(prompt, each), prompt_length=len(prompt)))
        return pack([row for row in rows if len(row.tokens) <= LONGEST] or rows[:1])

    def _tokens(self, prompt: list[int], answered: General) -> list[int]:
        end = [self._encoder.end] if answered.ended else []
        return [*prompt, *self._encoder.text(answered.text), *end]


def logits_of(model: Any, packed: Packed) -> torch.Tensor:
    """Only the positions that matter go through the head."""
    found = model.base_model.model.model(
        packed.tokens, attention_mask=packed.mask, position_ids=packed.positions
    )
    logits: torch.Tensor = model.base_model.model.lm_head(found.last_hidden_state[0, packed.at])
    return logits.float()


def loss_of(model: Any, packed: Packed) -> torch.Tensor:
    """Mean cross entropy of the answers."""
    return functional.cross_entropy(logits_of(model, packed), packed.wanted)


def divergence_of(model: Any, packed: Packed) -> torch.Tensor:
    """Mean Kullback-Leibler divergence from what the model predicts without its adapter."""
    with torch.no_grad(), model.disable_adapter():
        plain = functional.log_softmax(logits_of(model, packed), dim=-1)
    tuned = functional.log_softmax(logits_of(model, packed), dim=-1)
    return functional.kl_div(tuned, plain, log_target=True, reduction="batchmean")


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up over 40 steps, then a cosine to a tenth."""
    if step < 40:
        return peak * (step + 1) / 40
    progress = (step - 40) / max(1, steps - 40)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, progress))))


def measure(
    model: Any, encoder: ExampleEncoder, *, split: Split, count: int, seed: int
) -> dict[str, float]:
    """Greedy accuracy without a grammar: exact calls, and answers with all their facts."""
    model.eval()
    right: dict[str, list[bool]] = {}
    writer = Writer(split, seed)
    for _ in range(count):
        example = next(writer.examples())
        wanted = answer_text(example.answer)
        got = greedy(
            model,
            encoder.prompt(example.request),
            encoder.end,
            len(encoder.answer(example.answer)) + 12,
        )
        text = encoder.decode(got)
        kind = "call" if any(part.kind == "function_call" for part in example.answer) else "text"
        if kind == "call":
            good = text.strip() == wanted.strip()
        elif example.facts:
            good = all(fact in text for fact in example.facts) and "<tool_call>" not in text
        else:
            good = "<tool_call>" not in text
        right.setdefault(kind, []).append(good)
    model.train()
    return {kind: sum(found) / len(found) for kind, found in sorted(right.items())}


@torch.inference_mode()
def greedy(model: Any, prompt: list[int], end: int, limit: int) -> list[int]:
    tokens = torch.tensor([prompt])
    cache: Any = None
    made: list[int] = []
    for _ in range(limit):
        out = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        token = int(out.logits[0, -1].argmax())
        if token == end:
            break
        made.append(token)
        tokens = torch.tensor([[token]])
    return made


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    encoder = ExampleEncoder(options.model)
    base: LlamaForCausalLM = load_base(options.gguf).to(torch.bfloat16)
    config = LoraConfig(
        r=16, lora_alpha=32, target_modules=[name.split(".")[1] for name in PROJECTIONS]
    )
    model = get_peft_model(base, config)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=options.rate, betas=(0.9, 0.98), weight_decay=0.01)
    options.out.mkdir(parents=True, exist_ok=True)
    history: list[dict[str, Any]] = []
    if options.start is not None:
        set_peft_model_state_dict(model, start_weights(options.start, options.gguf))
    first = resume(model, optimizer, history, options.out)
    batches = Batches(encoder, "train", options.seed, options.size)
    general = None
    if options.plain is not None:
        known = answered(options.plain, options.out / "general.jsonl")
        general = GeneralBatches(encoder, known, options.seed)
    model.train()
    began, seen = time.monotonic(), 0
    for step in range(first, options.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options.steps, options.rate)
        for part in range(options.groups):
            packed = batches.group(step * options.groups + part)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(model, packed)
            (loss / options.groups).backward()
            seen += packed.tokens.numel()
        entry: dict[str, Any] = {"step": step + 1, "loss": round(loss.item(), 4)}
        if general is not None:
            packed = general.bare(step)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                apart = divergence_of(model, packed)
            apart.backward()
            entry["divergence"] = round(apart.item(), 4)
            if step % 3 == 0:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = loss_of(model, general.offered(step))
                (loss / options.groups).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        done = step + 1 == options.steps
        if (step + 1) % options.measure_every == 0 or done:
            entry |= measure(model, encoder, split="validation", count=options.measure, seed=1)
        history.append(entry)
        if (step + 1) % 5 == 0 or done:
            speed = seen / (time.monotonic() - began)
            recent = [row["loss"] for row in history[-20:]]
            mean = sum(recent) / len(recent)
            print(
                f"{step + 1}/{options.steps} loss {mean:.3f} {speed:.0f} tok/s {entry}", flush=True
            )
        if (step + 1) % options.save_every == 0 or done:
            save(model, optimizer, history, options.out, step + 1)


def save(
    model: Any,
    optimizer: torch.optim.Optimizer,
    history: list[dict[str, Any]],
    out: Path,
    step: int,
) -> None:
    """Both files first under other names, so that a crash leaves a state that fits together."""
    save_file(
        {name: weight.contiguous() for name, weight in get_peft_model_state_dict(model).items()},
        out / "adapter.tmp",
    )
    torch.save({"optimizer": optimizer.state_dict(), "step": step}, out / "state.tmp")
    (out / "history.json").write_text(json.dumps(history))
    (out / "state.tmp").replace(out / "state.pt")
    (out / "adapter.tmp").replace(out / "adapter.safetensors")


def resume(
    model: Any, optimizer: torch.optim.Optimizer, history: list[dict[str, Any]], out: Path
) -> int:
    if not (out / "state.pt").exists():
        return 0
    state = torch.load(out / "state.pt", weights_only=True)
    set_peft_model_state_dict(model, load_file(out / "adapter.safetensors"))
    optimizer.load_state_dict(state["optimizer"])
    step = int(state["step"])
    history.extend(json.loads((out / "history.json").read_text())[:step])
    print(f"going on after step {step}", flush=True)
    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="converted folder: tokenizer")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--groups", type=int, default=2, help="groups of examples in a step")
    parser.add_argument("--size", type=int, default=8, help="examples in a group")
    parser.add_argument("--start", type=Path, help="an adapter to begin with, exported or not")
    parser.add_argument("--plain", type=Path, help="the plain model's folder, to keep its answers")
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save-every", type=int, default=25)
    parser.add_argument("--measure-every", type=int, default=200)
    parser.add_argument("--measure", type=int, default=60, help="examples of the validation split")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
