"""Compare weight layouts of a converted GGUF: divergence from its fp32 weights, size, speed."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from aicore_sim.measure.figures import machine, median  # noqa: E402 - needs the path above
from aicore_sim.models.adapter import Adapter  # noqa: E402
from aicore_sim.models.convert import convert  # noqa: E402
from aicore_sim.models.errors import UnsupportedModel  # noqa: E402
from aicore_sim.models.gguf_weights import GgufModel  # noqa: E402
from scripts.conversion.layouts import REFERENCE, SHIPPED, VARIANTS  # noqa: E402
from scripts.conversion.matrices import float_matrices  # noqa: E402
from scripts.conversion.measure import (  # noqa: E402
    PROMPT,
    TEXT,
    Divergence,
    Speed,
    divergence,
    logits,
    speed,
    tokens_of,
)
from scripts.conversion.rewrite import Graphs, shipped_graphs, write_variant  # noqa: E402

PIECE = 1024
"""Tokens of a sequence; the logits of one take 200 MB."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A layout's figures. No speeds when none were measured."""

    name: str
    megabytes: float
    divergence: Divergence
    speeds: Sequence[Speed]

    def facts(self) -> dict[str, Any]:
        """For JSON; speeds are medians, in tokens a second."""
        return {
            "layout": self.name,
            "megabytes": self.megabytes,
            "mean_kl": self.divergence.mean_kl,
            "top1": self.divergence.top1,
            "decode": median([found.decode for found in self.speeds]) if self.speeds else None,
            "prefill": median([found.prefill for found in self.speeds]) if self.speeds else None,
        }


def compare(source: Path, folder: Path, options: argparse.Namespace) -> tuple[int, list[Row]]:
    """The number of tokens that quality was measured on, and the rows of the table."""
    convert(source, folder, lambda done, total: None, adapter=options.adapter)
    model = GgufModel(source, Adapter(options.adapter) if options.adapter else None)
    graphs: dict[str, Graphs] = {}
    for number, variant in enumerate(VARIANTS):
        if variant is SHIPPED and not options.adapter_size:
            graphs[variant.name] = shipped_graphs(folder)
        else:
            matrices = float_matrices(model, options.adapter_size)
            graphs[variant.name] = write_variant(folder, f"variant{number}", variant, matrices)
    tokens = tokens_of(options.text.read_text(encoding="utf-8"), folder)
    quality = divergences(folder, graphs, tokens, min(PIECE, model.shape.context - 1))
    speeds: dict[str, list[Speed]] = {name: [] for name in graphs}
    for turn in range(options.rounds):  # in turns, so that a busy moment hits no layout alone
        print(f"speed, round {turn + 1} of {options.rounds}", file=sys.stderr, flush=True)
        for name, found in graphs.items():
            speeds[name].append(speed(folder, found.last_logits, tokens, options.threads))
    rows = [
        Row(
            name=name,
            megabytes=found.weight_bytes / 1e6,
            divergence=quality[name],
            speeds=speeds[name],
        )
        for name, found in graphs.items()
    ]
    return len(tokens), rows


def divergences(
    folder: Path, graphs: Mapping[str, Graphs], tokens: list[int], piece: int
) -> dict[str, Divergence]:
    """Of each layout from the reference, over sequences of at most `piece` tokens."""
    found: dict[str, list[Divergence]] = {name: [] for name in graphs}
    pieces = [tokens[start : start + piece] for start in range(0, len(tokens), piece)]
    for part in pieces:
        expected = logits(folder, graphs[REFERENCE.name].all_logits, part)
        for name, graph in graphs.items():
            found[name].append(divergence(expected, logits(folder, graph.all_logits, part)))
    shares = [len(part) / len(tokens) for part in pieces]
    return {
        name: Divergence(
            mean_kl=sum(s * one.mean_kl for s, one in zip(shares, parts, strict=True)),
            top1=sum(s * one.top1 for s, one in zip(shares, parts, strict=True)),
        )
        for name, parts in found.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path, help="a Llama GGUF that the conversion takes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--rounds", type=int, default=3, help="speed measurements a layout; 0 leaves speed out"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--text", type=Path, default=TEXT, help="measure on another text, in pieces of 1,024 tokens"
    )
    parser.add_argument("--adapter", type=Path, metavar="NPZ", help="merge this adapter first")
    parser.add_argument(
        "--adapter-size",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="first change each projection as a merged adapter does: a random matrix of rank 16 "
        "whose norm is this share of the projection's own (0.05)",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            tokens, rows = compare(options.gguf, Path(folder), options)
        except (UnsupportedModel, OSError, ValueError) as error:
            print(error, file=sys.stderr)
            return 2
    if options.json:
        facts = {
            "machine": machine(),
            "threads": options.threads,
            "rounds": options.rounds,
            "adapter_size": options.adapter_size,
            "tokens": tokens,
            "prompt_tokens": PROMPT,
            "layouts": [row.facts() for row in rows],
        }
        print(json.dumps(facts, indent=2))
        return 0
    table = Table(title=f"{options.gguf.name}, {tokens} tokens of text")
    for heading in ("layout", "MB", "mean KL", "top-1", "decode tok/s", "prefill tok/s"):
        table.add_column(heading, justify="left" if heading == "layout" else "right")
    for row in rows:
        table.add_row(*_shown(row.facts()))
    Console().print(table)
    print(", ".join(f"{name}: {value}" for name, value in machine().items()))
    return 0


def _shown(facts: dict[str, Any]) -> list[str]:
    speeds = ["" if facts[key] is None else f"{facts[key]:.0f}" for key in ("decode", "prefill")]
    return [
        facts["layout"],
        f"{facts['megabytes']:.0f}",
        f"{facts['mean_kl']:.4f}",
        f"{facts['top1']:.1%}",
        *speeds,
    ]


if __name__ == "__main__":
    sys.exit(main())
