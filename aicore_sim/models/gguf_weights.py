"""Reads a Llama GGUF: its shape, its metadata and its weights as 8-bit blocks.

The conversion keeps one weight layout for every matrix: blocks of 32 values along the input
axis, each with one float scale, values stored unsigned around 128. That is what the ONNX Runtime
operators MatMulNBits and GatherBlockQuantized read, and a Q8_0 block of a GGUF is the same thing
without rounding. File format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from gguf.quants import dequantize

from aicore_sim.models.adapter import Adapter
from aicore_sim.models.errors import UnsupportedModel

BLOCK = 32
_ROWS_AT_ONCE = 4096  # bounds the float copy of a large matrix to a few megabytes

_Type = gguf.GGMLQuantizationType
SUPPORTED_TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")


@dataclass(frozen=True, kw_only=True)
class LlamaShape:
    """The numbers of a Llama model that decide its graph."""

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    context: int
    """Longest sequence, in tokens."""
    rope_base: float
    norm_epsilon: float


@dataclass(frozen=True, kw_only=True)
class Int8Blocks:
    """A matrix of `rows` outputs; value = (q - 128) * scale of its block."""

    q: npt.NDArray[np.uint8]
    """(rows, columns)"""
    scales: npt.NDArray[np.float32]
    """(rows, columns / 32)"""

    def rows(self, order: npt.NDArray[np.intp]) -> Int8Blocks:
        return Int8Blocks(q=self.q[order], scales=self.scales[order])

    def dequantized(self) -> npt.NDArray[np.float32]:
        rows, columns = self.q.shape
        centred = self.q.reshape(rows, -1, BLOCK).astype(np.float32) - 128.0
        return (centred * self.scales[:, :, None]).reshape(rows, columns).astype(np.float32)


def stacked(parts: list[Int8Blocks]) -> Int8Blocks:
    """The matrices one below the other, as one matrix with the outputs of all."""
    return Int8Blocks(
        q=np.concatenate([part.q for part in parts]),
        scales=np.concatenate([part.scales for part in parts]),
    )


def quantized(values: npt.NDArray[np.float32]) -> Int8Blocks:
    """Symmetric 8-bit blocks of a float matrix; the largest value of a block stays exact."""
    rows, columns = values.shape
    blocks = values.reshape(rows, columns // BLOCK, BLOCK)
    scales = np.abs(blocks).max(axis=2) / np.float32(127)
    divisor = np.where(scales == 0, np.float32(1), scales)
    q = np.rint(blocks / divisor[:, :, None]) + np.float32(128)
    return Int8Blocks(q=q.astype(np.uint8).reshape(rows, columns), scales=scales)


class GgufModel:
    """An opened Llama GGUF, changed by `adapter`. Tensors stay on disk until they are asked for.

    Raises UnsupportedModel when the file is no GGUF, of another architecture, or holds a tensor
    type or a tensor that the graph has no place for, and when the adapter is for another model.
    """

    def __init__(self, path: Path, adapter: Adapter | None = None) -> None:
        try:
            reader = gguf.GGUFReader(path)
        except (ValueError, IndexError, KeyError, TypeError, struct.error) as error:
            raise UnsupportedModel(
                f"{path.name!r} is not a GGUF file, or a cut or damaged one: {error}."
            ) from error
        self._name = path.name
        self._fields = reader.fields
        architecture = self.text("general.architecture")
        if architecture != "llama":
            raise UnsupportedModel(
                f"{path.name!r} has the architecture {architecture!r}; only 'llama' is converted. "
                "Use an ONNX Runtime GenAI folder of that model instead."
            )
        self._check_rotation()
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.shape = self._read_shape()
        self.has_own_head = "output.weight" in self._tensors
        self._check_tensors()
        self._adapter = adapter
        if adapter is not None:
            self._check_adapter(adapter)

    def optional(self, key: str, default: Any) -> Any:
        field = self._fields.get(key)
        try:
            return default if field is None else field.contents()
        except UnicodeDecodeError as error:
            raise UnsupportedModel(
                f"{self._name!r} is damaged: the text at {key!r} is no UTF-8."
            ) from error

    def required(self, key: str) -> Any:
        value = self.optional(key, None)
        if value is None:
            raise UnsupportedModel(f"{self._name!r} lacks the metadata key {key!r}.")
        return value

    def text(self, key: str) -> str:
        return str(self.required(key))

    def vector(self, name: str) -> npt.NDArray[np.float32]:
        """A float vector, for example the weight of a norm."""
        return self.floats(name).reshape(-1)

    def matrix(self, name: str) -> Int8Blocks:
        """A matrix as 8-bit blocks; Q8_0 is taken over exactly, all else is rounded."""
        tensor = self._tensors[name]
        exact = tensor.tensor_type == _Type.Q8_0 and not self._changed(name)
        columns, rows = (int(size) for size in tensor.shape)
        q = np.empty((rows, columns), dtype=np.uint8)
        scales = np.empty((rows, columns // BLOCK), dtype=np.float32)
        for start in range(0, rows, _ROWS_AT_ONCE):
            part = slice(start, min(start + _ROWS_AT_ONCE, rows))
            if exact:
                blocks = _q8_0_blocks(tensor.data[part])
            else:
                blocks = quantized(self.floats(name, part))
            q[part], scales[part] = blocks.q, blocks.scales
        return Int8Blocks(q=q, scales=scales)

    def floats(self, name: str, rows: slice = slice(None)) -> npt.NDArray[np.float32]:
        """A tensor without rounding, merged: (rows, columns), or (length,) of a vector."""
        tensor = self._tensors[name]
        values = np.asarray(dequantize(tensor.data[rows], tensor.tensor_type), dtype=np.float32)
        if self._adapter is not None and self._changed(name):
            values = values + self._adapter.change(name, rows)
        return values

    def _changed(self, name: str) -> bool:
        return self._adapter is not None and name in self._adapter.matrices

    def _check_rotation(self) -> None:
        """Longer contexts by a scaled rotation; a factor alone means linear scaling."""
        kind = self.optional("llama.rope.scaling.type", "none")
        if kind != "none":
            raise UnsupportedModel(
                f"{self._name!r} scales its rotary embedding ({kind!r}), which is not converted."
            )
        for key in ("llama.rope.scaling.factor", "llama.rope.scale_linear"):
            factor = self.optional(key, 1.0)
            if factor not in (0, 1):
                raise UnsupportedModel(
                    f"{self._name!r} scales its rotary embedding ({key!r} is {factor!r}), "
                    "which is not converted."
                )

    def _read_shape(self) -> LlamaShape:
        hidden = self._count("llama.embedding_length")
        heads = self._count("llama.attention.head_count")
        head_size = self._count("llama.attention.key_length", hidden // heads)
        rotated = self._count("llama.rope.dimension_count", head_size)
        if rotated != head_size:
            raise UnsupportedModel(
                f"{self._name!r} rotates {rotated} of {head_size} values of a head; "
                "only whole heads are converted."
            )
        return LlamaShape(
            layers=self._count("llama.block_count"),
            hidden=hidden,
            feed_forward=self._count("llama.feed_forward_length"),
            heads=heads,
            kv_heads=self._count("llama.attention.head_count_kv", heads),
            head_size=head_size,
            vocabulary=len(self.required("tokenizer.ggml.tokens")),
            context=self._count("llama.context_length"),
            rope_base=float(self.optional("llama.rope.freq_base", 10_000.0)),
            norm_epsilon=float(self.required("llama.attention.layer_norm_rms_epsilon")),
        )

    def _count(self, key: str, default: int | None = None) -> int:
        """A positive number; some models have a list there, a number for each layer."""
        value = self.required(key) if default is None else self.optional(key, default)
        if not isinstance(value, int) or value < 1:
            raise UnsupportedModel(
                f"{self._name!r}: {key!r} is {value!r}; converted is one number for all layers."
            )
        return value

    def _expected_tensors(self) -> dict[str, tuple[int, ...]]:
        """Name to (columns, rows) of every tensor that the graph has a place for."""
        shape = self.shape
        q_width, kv_width = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
        expected: dict[str, tuple[int, ...]] = {
            "token_embd.weight": (shape.hidden, shape.vocabulary),
            "output_norm.weight": (shape.hidden,),
        }
        if self.has_own_head:
            expected["output.weight"] = (shape.hidden, shape.vocabulary)
        for layer in range(shape.layers):
            prefix = f"blk.{layer}."
            expected |= {
                prefix + "attn_norm.weight": (shape.hidden,),
                prefix + "attn_q.weight": (shape.hidden, q_width),
                prefix + "attn_k.weight": (shape.hidden, kv_width),
                prefix + "attn_v.weight": (shape.hidden, kv_width),
                prefix + "attn_output.weight": (q_width, shape.hidden),
                prefix + "ffn_norm.weight": (shape.hidden,),
                prefix + "ffn_gate.weight": (shape.hidden, shape.feed_forward),
                prefix + "ffn_up.weight": (shape.hidden, shape.feed_forward),
                prefix + "ffn_down.weight": (shape.feed_forward, shape.hidden),
            }
        return expected

    def _check_tensors(self) -> None:
        expected = self._expected_tensors()
        missing = sorted(expected.keys() - self._tensors.keys())
        unknown = sorted(self._tensors.keys() - expected.keys())
        if missing:
            raise UnsupportedModel(f"{self._name!r} lacks {_some(missing)}.")
        if unknown:
            raise UnsupportedModel(f"{self._name!r} has tensors with no place: {_some(unknown)}.")
        for name, size in expected.items():
            tensor = self._tensors[name]
            if tensor.tensor_type.name not in SUPPORTED_TYPES:
                raise UnsupportedModel(
                    f"{self._name!r}: {name!r} has the type {tensor.tensor_type.name!r}; "
                    f"converted are {', '.join(SUPPORTED_TYPES)}."
                )
            found = tuple(int(length) for length in tensor.shape)
            if found != size:
                raise UnsupportedModel(f"{self._name!r}: {name!r} is {found}, expected {size}.")
            if len(size) == 2 and size[0] % BLOCK:
                raise UnsupportedModel(
                    f"{self._name!r}: {name!r} has {size[0]} columns, not a multiple of {BLOCK}."
                )

    def _check_adapter(self, adapter: Adapter) -> None:
        expected = self._expected_tensors()
        for name in sorted(adapter.matrices):
            size = expected.get(name, ())
            if len(size) != 2 or not adapter.fits(name, rows=size[1], columns=size[0]):
                raise UnsupportedModel(
                    f"The adapter changes {name!r}, which {self._name!r} has not, "
                    "or not in this size: it is for another model."
                )


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _q8_0_blocks(data: npt.NDArray[np.uint8]) -> Int8Blocks:
    rows = data.shape[0]
    blocks = np.ascontiguousarray(data).reshape(rows, -1, 2 + BLOCK)
    scales = blocks[:, :, :2].copy().view(np.float16).astype(np.float32)[:, :, 0]
    signed = blocks[:, :, 2:].view(np.int8).astype(np.int16)
    return Int8Blocks(q=(signed + 128).astype(np.uint8).reshape(rows, -1), scales=scales)
