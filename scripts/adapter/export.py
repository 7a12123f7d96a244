"""Writes a trained adapter as the archive that `models pull` merges.

python -m scripts.adapter.export --gguf FILE.gguf --adapter OUT/adapter.safetensors --to FILE.npz
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch

from scripts.adapter.base_model import PROJECTIONS

SCALE = 2.0
"""lora_alpha ÷ rank."""

_NAME = re.compile(r"\.layers\.(\d+)\.(\w+\.\w+_proj)\.lora_([AB])\.weight$")


def export(adapter: Path, source: Path, target: Path) -> None:
    """Names and order of rows become those of the GGUF; the scale goes into `b`."""
    heads = _heads(source)
    parts: dict[str, npt.NDArray[np.float16]] = {}
    for key, values in sorted(load_file(adapter).items()):
        found = _NAME.search(key)
        if found is None:
            raise ValueError(f"{adapter} holds {key!r}, which changes no projection")
        layer, projection, side = found.groups()
        stored = PROJECTIONS[projection]
        part = values.astype(np.float32)
        if side == "B":
            part = part * SCALE
            if stored in heads:
                part = _interleaved(part, heads[stored])
        parts[f"blk.{layer}.{stored}.weight.{side.lower()}"] = part.astype(np.float16)
    with target.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **parts)


def _heads(source: Path) -> dict[str, int]:
    fields = gguf.GGUFReader(source).fields
    return {
        "attn_q": int(fields["llama.attention.head_count"].contents()),
        "attn_k": int(fields["llama.attention.head_count_kv"].contents()),
    }


def start_weights(start: Path, source: Path) -> dict[str, torch.Tensor]:
    """A trained adapter's weights by their names in peft, from either form of file."""
    if start.suffix != ".npz":
        return load_torch(start)
    heads = _heads(source)
    names = {stored: name for name, stored in PROJECTIONS.items()}
    parts: dict[str, torch.Tensor] = {}
    with np.load(start, allow_pickle=False) as archive:
        for key in archive.files:
            _, layer, stored, _, side = key.split(".")
            part = archive[key].astype(np.float32)
            if side == "b":
                part = part / SCALE
                if stored in heads:
                    part = _halves(part, heads[stored])
            name = (
                f"base_model.model.model.layers.{layer}.{names[stored]}.lora_{side.upper()}.weight"
            )
            parts[name] = torch.from_numpy(np.ascontiguousarray(part))
    return parts


def _halves(rows: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """What `_interleaved` was given."""
    count, rank = rows.shape
    pairs = rows.reshape(heads, count // heads // 2, 2, rank)
    return pairs.swapaxes(1, 2).reshape(count, rank)


def _interleaved(rows: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """The order in which Llama GGUFs store the rows of q and k."""
    count, rank = rows.shape
    halves = rows.reshape(heads, 2, count // heads // 2, rank)
    return halves.swapaxes(1, 2).reshape(count, rank)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--adapter", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    export(options.adapter, options.gguf, options.to)


if __name__ == "__main__":
    main()
