"""Trains the adapter of the default model. Resumable: run the same command again.

python -m scripts.adapter.train --gguf SmolLM2-135M-Instruct.Q4_1.gguf --model FOLDER --out OUT
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import LlamaForCausalLM

from scripts.adapter.base_model import PROJECTIONS, load_base
from scripts.adapter.conversations import Example, Writer
from scripts.adapter.domains import Split
from scripts.adapter.encode import ExampleEncoder

IGNORED = -100
LONGEST = 900
"""Tokens of prompt and answer; longer examples are drawn again."""
POOL = 8
"""Batches that are drawn together and cut by length, so that little is padded."""


@dataclass(frozen=True, kw_only=True)
class Row:
    tokens: list[int]
    prompt_length: int


class Batches:
    """Batches of a split. Batch `n` depends only on the seed and `n`."""

    def __init__(self, encoder: ExampleEncoder, split: Split, seed: int, size: int) -> None:
        self._encoder = encoder
        self._split: Split = split
        self._seed = seed
        self._size = size
        self._pool: list[list[Row]] = []
        self._pool_number = -1

    def batch(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and labels, (rows, length); labels of prompt and padding are ignored."""
        if number // POOL != self._pool_number:
            self._pool_number = number // POOL
            self._pool = self._draw(self._pool_number)
        rows = self._pool[number % POOL]
        length = max(len(row.tokens) for row in rows)
        tokens = torch.zeros((len(rows), length), dtype=torch.long)
        labels = torch.full((len(rows), length), IGNORED, dtype=torch.long)
        for index, row in enumerate(rows):
            tokens[index, : len(row.tokens)] = torch.tensor(row.tokens)
            labels[index, row.prompt_length : len(row.tokens)] = torch.tensor(
                row.tokens[row.prompt_length :]
            )
        return tokens, labels

    def _draw(self, pool_number: int) -> list[list[Row]]:
        seed = self._seed * 1_000_003 + pool_number
        examples = Writer(self._split, seed).examples()
        rows: list[Row] = []
        while len(rows) < POOL * self._size:
            row = encode(self._encoder, next(examples))
            if len(row.tokens) <= LONGEST:
                rows.append(row)
        rows.sort(key=lambda row: len(row.tokens))
        batches = [rows[at : at + self._size] for at in range(0, len(rows), self._size)]
        random.Random(seed).shuffle(batches)
        return batches


def encode(encoder: ExampleEncoder, example: Example) -> Row:
    prompt = encoder.prompt(example)
    return Row(tokens=prompt + encoder.answer(example.answer), prompt_length=len(prompt))


def loss_of(model: Any, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of the answers. Only their positions go through the head."""
    hidden = model.base_model.model.model(tokens).last_hidden_state
    wanted = labels[:, 1:] != IGNORED
    logits = model.base_model.model.lm_head(hidden[:, :-1][wanted])
    return functional.cross_entropy(logits.float(), labels[:, 1:][wanted])


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
        wanted = encoder.answer_text(example.answer)
        got = greedy(
            model, encoder.prompt(example), encoder.end, len(encoder.answer(example.answer)) + 12
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
    first = resume(model, optimizer, history, options.out)
    batches = Batches(encoder, "train", options.seed, options.batch)
    model.train()
    began, seen = time.monotonic(), 0
    for step in range(first, options.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options.steps, options.rate)
        tokens, labels = batches.batch(step)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, tokens, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seen += tokens.numel()
        entry: dict[str, Any] = {"step": step + 1, "loss": round(loss.item(), 4)}
        done = step + 1 == options.steps
        if (step + 1) % options.measure_every == 0 or done:
            entry |= measure(model, encoder, split="validation", count=options.measure, seed=1)
        history.append(entry)
        if (step + 1) % 5 == 0 or len(entry) > 2:
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
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save-every", type=int, default=25)
    parser.add_argument("--measure-every", type=int, default=200)
    parser.add_argument("--measure", type=int, default=60, help="examples of the validation split")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
