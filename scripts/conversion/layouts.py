"""Ways to keep a matrix in an ONNX graph, to be compared with the one that ships.

Operators: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from onnx import helper

from scripts.conversion.matrices import Floats

_MICROSOFT = "com.microsoft"
_INTEGER_PRODUCTS = 4  # accuracy_level, as in the shipped graph


class Layout(Protocol):
    """How one matrix is stored and multiplied with. `name` begins the names of its tensors."""

    def tensors(self, values: Floats) -> dict[str, npt.NDArray[Any]]:
        """What is stored of the matrix (outputs, inputs): ending of the name to values."""
        ...

    def product(self, name: str, size: tuple[int, int], source: str, output: str) -> list[Any]:
        """Nodes that multiply `source` with the matrix of `size` (outputs, inputs)."""
        ...


class EmbeddingLayout(Layout, Protocol):
    """One that also serves to look rows up."""

    def views(self, size: tuple[int, int]) -> dict[str, tuple[str, tuple[int, int]]]:
        """Further names of stored tensors: ending to (ending of the tensor, its size)."""
        ...

    def lookup(self, name: str, indices: str, output: str) -> list[Any]:
        """Nodes that give the rows at `indices`."""
        ...


@dataclass(frozen=True)
class Fp32:
    def tensors(self, values: Floats) -> dict[str, npt.NDArray[Any]]:
        return {".f32": values}

    def product(self, name: str, size: tuple[int, int], source: str, output: str) -> list[Any]:
        inputs = [source, name + ".f32"]
        return [_node("FusedMatMul", inputs, [output], domain=_MICROSOFT, transB=1)]

    def views(self, size: tuple[int, int]) -> dict[str, tuple[str, tuple[int, int]]]:
        return {}

    def lookup(self, name: str, indices: str, output: str) -> list[Any]:
        return [_node("Gather", [name + ".f32", indices], [output], axis=0)]


@dataclass(frozen=True)
class Symmetric:
    """value = q * scale of its block; the largest value of a block stays exact."""

    bits: int
    block: int

    def tensors(self, values: Floats) -> dict[str, npt.NDArray[Any]]:
        q, scales = symmetric(values, self.bits, self.block)
        stored = q if self.bits == 8 else packed_nibbles(q)
        rows, blocks = scales.shape
        return {
            ".q": stored.reshape(rows, blocks, -1),
            ".scales": scales.reshape(-1),
        }

    def product(self, name: str, size: tuple[int, int], source: str, output: str) -> list[Any]:
        inputs = [source, name + ".q", name + ".scales"]
        return [_product_of_blocks(inputs, output, size, bits=self.bits, block=self.block)]

    def views(self, size: tuple[int, int]) -> dict[str, tuple[str, tuple[int, int]]]:
        rows, columns = size
        return {
            ".rows": (".q", (rows, columns * self.bits // 8)),
            ".row_scales": (".scales", (rows, columns // self.block)),
        }

    def lookup(self, name: str, indices: str, output: str) -> list[Any]:
        inputs = [name + ".rows", indices, name + ".row_scales"]
        return [
            _node("GatherBlockQuantized", inputs, [output], domain=_MICROSOFT, gather_axis=0,
                  quantize_axis=1, block_size=self.block, bits=self.bits)
        ]  # fmt: skip


@dataclass(frozen=True)
class RoundedOffsets:
    """4 bits; value = (q - z) * scale of its block, with an integer z, from smallest to largest."""

    block: int = 32

    def tensors(self, values: Floats) -> dict[str, npt.NDArray[Any]]:
        q, scales, zeros, _ = with_offsets(values, self.block)
        return _four_bit_tensors(q, scales, zeros)

    def product(self, name: str, size: tuple[int, int], source: str, output: str) -> list[Any]:
        return [_product_with_zeros(name, source, output, size, self.block)]


@dataclass(frozen=True)
class ExactOffsets:
    """As RoundedOffsets; what rounding z lost is a further input: the sum of each block's inputs.

    Takes over a Q4_1 matrix but for the 4 bits of that small remainder.
    """

    block: int = 32

    def tensors(self, values: Floats) -> dict[str, npt.NDArray[Any]]:
        q, scales, zeros, rest = with_offsets(values, self.block)
        rest_q, rest_scales = symmetric(rest, 4, self.block)
        return _four_bit_tensors(
            np.concatenate([q, rest_q], axis=1),
            np.concatenate([scales, rest_scales], axis=1),
            np.concatenate([zeros, np.full(rest_scales.shape, 8, np.uint8)], axis=1),
        )

    def product(self, name: str, size: tuple[int, int], source: str, output: str) -> list[Any]:
        rows, columns = size
        blocks = columns // self.block
        shape, last = f"shape.{columns}", "axis.last"
        cut, sums, widened = source + ".blocks", source + ".sums", source + ".widened"
        return [
            _constant(shape, [0, 0, blocks, self.block]),
            _constant(last, [-1]),
            _node("Reshape", [source, shape], [cut]),
            _node("ReduceSum", [cut, last], [sums], keepdims=0),
            _node("Concat", [source, sums], [widened], axis=-1),
            _product_with_zeros(name, widened, output, (rows, columns + blocks), self.block),
        ]


@dataclass(frozen=True, kw_only=True)
class Variant:
    name: str
    projections: Layout
    embedding: EmbeddingLayout | None = None
    """Of the embedding and the head; None keeps the blocks of the shipped conversion."""


SHIPPED = Variant(name="int8, block 32 (shipped)", projections=Symmetric(8, 32))
REFERENCE = Variant(name="fp32", projections=Fp32(), embedding=Fp32())
VARIANTS = (
    SHIPPED,
    Variant(name="int8, block 16", projections=Symmetric(8, 16), embedding=Symmetric(8, 16)),
    Variant(name="int8, block 64", projections=Symmetric(8, 64), embedding=Symmetric(8, 64)),
    Variant(name="4-bit, exact offsets", projections=ExactOffsets()),
    Variant(name="4-bit, rounded offsets", projections=RoundedOffsets()),
    Variant(name="4-bit, symmetric", projections=Symmetric(4, 32)),
    REFERENCE,
)


def symmetric(values: Floats, bits: int, block: int) -> tuple[npt.NDArray[np.uint8], Floats]:
    """q (rows, columns), unsigned around the middle, and scales (rows, blocks).

    Columns that a last block lacks are added as zeros.
    """
    middle = 2 ** (bits - 1)
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % block)))
    blocks = padded.reshape(len(values), -1, block)
    scales = np.abs(blocks).max(axis=2) / np.float32(middle - 1)
    q = np.rint(blocks / _divisor(scales)[:, :, None]) + middle
    return q.astype(np.uint8).reshape(padded.shape), scales


def with_offsets(
    values: Floats, block: int
) -> tuple[npt.NDArray[np.uint8], Floats, npt.NDArray[np.uint8], Floats]:
    """4-bit q (rows, columns); scales, zero points and rest (rows, blocks).

    value = (q - zero point) * scale + rest
    """
    blocks = values.reshape(len(values), -1, block)
    smallest, largest = blocks.min(axis=2), blocks.max(axis=2)
    scales = (largest - smallest) / np.float32(15)
    divisor = _divisor(scales)
    zeros = np.clip(np.rint(-smallest / divisor), 0, 15)
    q = np.rint((blocks - smallest[:, :, None]) / divisor[:, :, None])
    rest = smallest + zeros * scales
    return q.astype(np.uint8).reshape(values.shape), scales, zeros.astype(np.uint8), rest


def packed_nibbles(q: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two values a byte along the last axis, the first in the low half."""
    if q.shape[-1] % 2:
        q = np.pad(q, ((0, 0), (0, 1)))
    return (q[..., 0::2] | q[..., 1::2] << 4).astype(np.uint8)


def _divisor(scales: Floats) -> Floats:
    return np.where(scales == 0, np.float32(1), scales)


def _four_bit_tensors(
    q: npt.NDArray[np.uint8], scales: Floats, zeros: npt.NDArray[np.uint8]
) -> dict[str, npt.NDArray[Any]]:
    rows, blocks = scales.shape
    return {
        ".q": packed_nibbles(q).reshape(rows, blocks, -1),
        ".scales": scales.reshape(-1),
        ".zeros": packed_nibbles(zeros).reshape(-1),
    }


def _product_with_zeros(
    name: str, source: str, output: str, size: tuple[int, int], block: int
) -> Any:
    inputs = [source, name + ".q", name + ".scales", name + ".zeros"]
    return _product_of_blocks(inputs, output, size, bits=4, block=block)


def _product_of_blocks(
    inputs: list[str], output: str, size: tuple[int, int], *, bits: int, block: int
) -> Any:
    return _node(
        "MatMulNBits",
        inputs,
        [output],
        domain=_MICROSOFT,
        N=size[0],
        K=size[1],
        bits=bits,
        block_size=block,
        accuracy_level=_INTEGER_PRODUCTS,
    )


def _constant(name: str, values: list[int]) -> Any:
    return helper.make_node("Constant", [], [name], value_ints=values)


def _node(
    kind: str, inputs: list[str], outputs: list[str], *, domain: str = "", **attributes: int
) -> Any:
    return helper.make_node(kind, inputs, outputs, domain=domain, **attributes)
