"""A Llama in plain numpy, in float32, read straight from the GGUF file.

It rotates neighbouring values of a head, as the file stores them, and so shares neither the row
order nor the operators of the converted graph.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from gguf.quants import dequantize

Floats = npt.NDArray[np.float32]


class ReferenceLlama:
    def __init__(self, path: Path) -> None:
        reader = gguf.GGUFReader(path)
        self._fields = reader.fields
        self._weights = {
            tensor.name: np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
            for tensor in reader.tensors
        }

    def logits(self, token_ids: list[int]) -> Floats:
        """(positions, vocabulary)"""
        layers = int(self._field("block_count"))
        hidden = self._weights["token_embd.weight"][token_ids]
        for layer in range(layers):
            weights = {
                name.removeprefix(f"blk.{layer}.").removesuffix(".weight"): values
                for name, values in self._weights.items()
                if name.startswith(f"blk.{layer}.")
            }
            hidden = hidden + self._attention(self._norm(hidden, weights["attn_norm"]), weights)
            normed = self._norm(hidden, weights["ffn_norm"])
            gate = normed @ weights["ffn_gate"].T
            silu = gate / (1 + np.exp(-gate))
            hidden = hidden + (silu * (normed @ weights["ffn_up"].T)) @ weights["ffn_down"].T
        head = self._weights.get("output.weight", self._weights["token_embd.weight"])
        return np.asarray(self._norm(hidden, self._weights["output_norm.weight"]) @ head.T)

    def _attention(self, x: Floats, weights: dict[str, Floats]) -> Floats:
        heads = int(self._field("attention.head_count"))
        kv_heads = int(self._field("attention.head_count_kv"))
        length = len(x)
        q = self._rotated((x @ weights["attn_q"].T).reshape(length, heads, -1))
        k = self._rotated((x @ weights["attn_k"].T).reshape(length, kv_heads, -1))
        v = (x @ weights["attn_v"].T).reshape(length, kv_heads, -1)
        k, v = (np.repeat(part, heads // kv_heads, axis=1) for part in (k, v))
        q, k, v = (part.swapaxes(0, 1) for part in (q, k, v))  # (heads, positions, head size)
        scores = q @ k.swapaxes(1, 2) / np.sqrt(np.float32(q.shape[2]))
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
        weight = np.exp(scores - scores.max(axis=2, keepdims=True))
        weight /= weight.sum(axis=2, keepdims=True)
        attended = (weight @ v).swapaxes(0, 1).reshape(length, -1)
        return np.asarray(attended @ weights["attn_output"].T, dtype=np.float32)

    def _rotated(self, x: Floats) -> Floats:
        length, _, size = x.shape
        frequencies = float(self._field("rope.freq_base")) ** (-np.arange(0, size, 2) / size)
        angles = np.outer(np.arange(length), frequencies)[:, None, :]
        pairs = x.reshape(length, -1, size // 2, 2)
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape).astype(np.float32)

    def _norm(self, x: Floats, weight: Floats) -> Floats:
        epsilon = float(self._field("attention.layer_norm_rms_epsilon"))
        scale = np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True) + epsilon)
        return np.asarray(x / scale * weight, dtype=np.float32)

    def _field(self, key: str) -> Any:
        return self._fields[f"llama.{key}"].contents()
