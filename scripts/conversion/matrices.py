"""The matrices of a GGUF as floats, under the names and in the row order of the converted graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from aicore_sim.models.gguf_weights import GgufModel
from aicore_sim.models.graph import unrotated_order

Floats = npt.NDArray[np.float32]

EMBEDDING, HEAD = "embedding", "head"
_RANK = 16
_SEED = 8492


def float_matrices(model: GgufModel, adapter_size: float = 0.0) -> Iterator[tuple[str, Floats]]:
    """Name and values (outputs, inputs) of every matrix, dequantised and not rounded.

    With an `adapter_size`, a random change of rank 16 is added to each projection, as merging a
    trained adapter does; its norm is that share of the projection's own.
    """
    random = np.random.default_rng(_SEED)
    heads, kv_heads = model.shape.heads, model.shape.kv_heads

    def projection(layer: int, name: str) -> Floats:
        values = model.floats(f"blk.{layer}.{name}.weight")
        return values + _low_rank(values, random, adapter_size) if adapter_size else values

    yield EMBEDDING, model.floats("token_embd.weight")
    for layer in range(model.shape.layers):
        q, k = projection(layer, "attn_q"), projection(layer, "attn_k")
        in_halves = q[unrotated_order(len(q), heads)], k[unrotated_order(len(k), kv_heads)]
        yield f"layer{layer}.qkv", np.concatenate([*in_halves, projection(layer, "attn_v")])
        yield f"layer{layer}.attention_output", projection(layer, "attn_output")
        yield f"layer{layer}.gate", projection(layer, "ffn_gate")
        yield f"layer{layer}.up", projection(layer, "ffn_up")
        yield f"layer{layer}.down", projection(layer, "ffn_down")
    if model.has_own_head:
        yield HEAD, model.floats("output.weight")


def _low_rank(values: Floats, random: np.random.Generator, size: float) -> Floats:
    rows, columns = values.shape
    change = random.standard_normal((rows, _RANK)) @ random.standard_normal((_RANK, columns))
    scale = size * np.linalg.norm(values) / np.linalg.norm(change)
    return np.asarray(change * scale, dtype=np.float32)
