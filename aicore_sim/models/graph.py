"""Builds the ONNX graph of a Llama model with 8-bit weights.

Two graphs share one file of weights. `model_last.onnx` computes the large output layer for the
last position only, which makes prefill 20 to 40 % faster and is all that
`onnxruntime_genai.Generator` needs; `model.onnx` gives the logits of every position, without
which `onnxruntime_genai.Engine` fails. Operators:
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from aicore_sim.models.gguf_weights import BLOCK, GgufModel, Int8Blocks, LlamaShape, stacked

ALL_LOGITS = "model.onnx"
LAST_LOGITS = "model_last.onnx"
DATA = "model.onnx.data"

_ALIGNMENT = 4096  # page size: lets the runtime map each tensor instead of reading it
_MICROSOFT = "com.microsoft"
_LOGITS = "logits"


def write_graphs(model: GgufModel, folder: Path, on_layer: Callable[[], None]) -> None:
    """Writes both graphs and their data file; `on_layer` is called once a layer."""
    with (folder / DATA).open("wb") as data:
        builder = _GraphBuilder(model.shape, TensorFile(data, DATA))
        builder.add_embedding(model.matrix("token_embd.weight"))
        for layer in range(model.shape.layers):
            builder.add_layer(model, layer)
            on_layer()
        head = model.matrix("output.weight") if model.has_own_head else None
        builder.add_final_norm(model.vector("output_norm.weight"))
        if head is not None:
            builder.store_weights("head", head)
    head_weights = "embedding" if head is None else "head"
    for file, last_only in ((ALL_LOGITS, False), (LAST_LOGITS, True)):
        proto = builder.model(head_weights, last_only=last_only)
        (folder / file).write_bytes(proto.SerializeToString(deterministic=True))


def unrotated(blocks: Int8Blocks, heads: int) -> Int8Blocks:
    """Undoes the row order of the q and k projections of a Llama GGUF.

    The file interleaves the two halves of each head, because its own runtime rotates neighbouring
    values; GroupQueryAttention rotates the halves against each other.
    """
    return blocks.rows(unrotated_order(blocks.q.shape[0], heads))


def unrotated_order(rows: int, heads: int) -> npt.NDArray[np.intp]:
    """Which row of the file comes where in the graph, for `unrotated`."""
    return np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(-1)


class TensorFile:
    """Appends tensors to an open file beside the graphs that refer to it."""

    def __init__(self, file: BinaryIO, location: str) -> None:
        """`location` is the file's name, relative to the graphs."""
        self._file = file
        self._location = location

    def store(self, name: str, values: npt.NDArray[Any]) -> Any:
        """The initializer of a graph whose values are now in the file."""
        self._file.write(b"\0" * (-self._file.tell() % _ALIGNMENT))
        offset = self._file.tell()
        self._file.write(np.ascontiguousarray(values).data)
        tensor = TensorProto(
            name=name,
            data_type=helper.np_dtype_to_tensor_dtype(values.dtype),
            dims=values.shape,
            data_location=TensorProto.EXTERNAL,
        )
        facts = (("location", self._location), ("offset", offset), ("length", values.nbytes))
        for key, value in facts:
            tensor.external_data.add(key=key, value=str(value))
        return tensor


class _GraphBuilder:
    def __init__(self, shape: LlamaShape, data: TensorFile) -> None:
        self._shape = shape
        self._data = data
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []
        self._widths: dict[str, tuple[int, int]] = {}
        self._hidden = ""  # the stream between the layers, and what the next norm adds to it
        self._residual = ""
        self._add_inputs()

    def model(self, head_weights: str, *, last_only: bool) -> Any:
        nodes, initializers = list(self._nodes), list(self._initializers)
        hidden = self._hidden
        if last_only:
            initializers += [
                onnx.numpy_helper.from_array(np.array([bound], np.int64), name)
                for name, bound in (("minus_one", -1), ("end", np.iinfo(np.int64).max))
            ]
            nodes.append(
                helper.make_node("Slice", [hidden, "minus_one", "end", "one"], ["last_hidden"])
            )
            hidden = "last_hidden"
        nodes.append(self._projection_node(head_weights, hidden, _LOGITS))
        graph = helper.make_graph(
            nodes,
            "llama",
            self._graph_inputs(),
            self._graph_outputs(last_only),
            initializers,
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def add_embedding(self, blocks: Int8Blocks) -> None:
        self.store_weights("embedding", blocks)
        # The same bytes as the output layer's, seen as a plain matrix.
        self._initializers.append(
            alias(self._initializer("embedding.q"), "embedding.rows", blocks.q.shape)
        )
        self._initializers.append(
            alias(
                self._initializer("embedding.scales"), "embedding.row_scales", blocks.scales.shape
            )
        )
        self._node(
            "GatherBlockQuantized",
            ["embedding.rows", "input_ids", "embedding.row_scales"],
            ["embedded"],
            gather_axis=0,
            quantize_axis=1,
            block_size=BLOCK,
            bits=8,
        )
        self._hidden = "embedded"

    def add_layer(self, model: GgufModel, layer: int) -> None:
        shape, source, name = self._shape, f"blk.{layer}.", f"layer{layer}."

        self._norm(name + "attention_norm", model.vector(source + "attn_norm.weight"))
        qkv = stacked(
            [
                unrotated(model.matrix(source + "attn_q.weight"), shape.heads),
                unrotated(model.matrix(source + "attn_k.weight"), shape.kv_heads),
                model.matrix(source + "attn_v.weight"),
            ]
        )
        self._project(name + "qkv", qkv)
        attended = name + "attended"
        self._node(
            "GroupQueryAttention",
            [
                self._hidden, "", "",
                f"past_key_values.{layer}.key", f"past_key_values.{layer}.value",
                "last_position", "total_length", "cos", "sin",
            ],
            [attended, f"present.{layer}.key", f"present.{layer}.value"],
            num_heads=shape.heads,
            kv_num_heads=shape.kv_heads,
            scale=float(shape.head_size**-0.5),
            do_rotary=1,
            rotary_interleaved=0,
        )  # fmt: skip
        self._hidden = attended
        self._project(name + "attention_output", model.matrix(source + "attn_output.weight"))

        self._norm(name + "feed_forward_norm", model.vector(source + "ffn_norm.weight"))
        normed = self._hidden
        self._project(name + "gate", model.matrix(source + "ffn_gate.weight"))
        gate, self._hidden = self._hidden, normed
        self._project(name + "up", model.matrix(source + "ffn_up.weight"))
        self._node("Sigmoid", [gate], [name + "gate_sigmoid"], domain="")
        self._node("Mul", [gate, name + "gate_sigmoid"], [name + "silu"], domain="")
        self._node("Mul", [name + "silu", self._hidden], [name + "gated"], domain="")
        self._hidden = name + "gated"
        self._project(name + "down", model.matrix(source + "ffn_down.weight"))

    def add_final_norm(self, weight: npt.NDArray[np.float32]) -> None:
        self._norm("final_norm", weight)

    def store_weights(self, name: str, blocks: Int8Blocks) -> None:
        """Puts a matrix into the data file in the shape that MatMulNBits reads."""
        rows, columns = blocks.q.shape
        self._widths[name] = (columns, rows)
        self._store(name + ".q", blocks.q.reshape(rows, columns // BLOCK, BLOCK))
        self._store(name + ".scales", blocks.scales.reshape(-1))

    def _add_inputs(self) -> None:
        shape = self._shape
        self._constant("one", np.array([1], np.int64))
        self._constant("scalar_one", np.array(1, np.int64))
        # GroupQueryAttention wants the index of each row's last token and the padded length.
        self._node("ReduceSum", ["attention_mask", "one"], ["lengths"], domain="", keepdims=0)
        self._node("Sub", ["lengths", "scalar_one"], ["last_position64"], domain="")
        self._cast("last_position64", "last_position")
        self._node("Shape", ["attention_mask"], ["mask_shape"], domain="")
        self._node("Gather", ["mask_shape", "scalar_one"], ["total_length64"], domain="", axis=0)
        self._cast("total_length64", "total_length")

        frequencies = shape.rope_base ** (-np.arange(0, shape.head_size, 2) / shape.head_size)
        angles = np.outer(np.arange(shape.context), frequencies)
        self._store("cos", np.cos(angles).astype(np.float32))
        self._store("sin", np.sin(angles).astype(np.float32))

    def _graph_inputs(self) -> list[Any]:
        shape = self._shape
        cache: list[str | int] = ["batch", shape.kv_heads, "past", shape.head_size]
        inputs = [
            _value("input_ids", TensorProto.INT64, ["batch", "sequence"]),
            _value("attention_mask", TensorProto.INT64, ["batch", "total"]),
        ]
        for layer in range(shape.layers):
            inputs += [
                _value(f"past_key_values.{layer}.{part}", TensorProto.FLOAT, cache)
                for part in ("key", "value")
            ]
        return inputs

    def _graph_outputs(self, last_only: bool) -> list[Any]:
        shape = self._shape
        positions = 1 if last_only else "sequence"
        cache: list[str | int] = ["batch", shape.kv_heads, "total", shape.head_size]
        outputs = [_value(_LOGITS, TensorProto.FLOAT, ["batch", positions, shape.vocabulary])]
        for layer in range(shape.layers):
            outputs += [
                _value(f"present.{layer}.{part}", TensorProto.FLOAT, cache)
                for part in ("key", "value")
            ]
        return outputs

    def _norm(self, name: str, weight: npt.NDArray[np.float32]) -> None:
        """Normalises the stream; from the second norm on it first adds the last block's output."""
        self._constant(name + ".weight", weight)
        epsilon = self._shape.norm_epsilon
        if not self._residual:
            inputs = [self._hidden, name + ".weight"]
            self._residual = self._hidden
            self._node("SimplifiedLayerNormalization", inputs, [name], domain="",
                       epsilon=epsilon, axis=-1, stash_type=1)  # fmt: skip
        else:
            inputs = [self._residual, self._hidden, name + ".weight"]
            self._residual = name + ".sum"
            outputs = [name, "", "", self._residual]
            self._node("SkipSimplifiedLayerNormalization", inputs, outputs, epsilon=epsilon)
        self._hidden = name

    def _project(self, name: str, blocks: Int8Blocks) -> None:
        self.store_weights(name, blocks)
        self._nodes.append(self._projection_node(name, self._hidden, name))
        self._hidden = name

    def _projection_node(self, name: str, source: str, output: str) -> Any:
        columns, rows = self._widths[name]
        return helper.make_node(
            "MatMulNBits",
            [source, name + ".q", name + ".scales"],
            [output],
            domain=_MICROSOFT,
            K=columns,
            N=rows,
            bits=8,
            block_size=BLOCK,
            accuracy_level=4,  # 8-bit arithmetic; the other levels are ten times slower on a CPU
        )

    def _cast(self, source: str, target: str) -> None:
        self._node("Cast", [source], [target], domain="", to=TensorProto.INT32)

    def _node(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        domain: str = _MICROSOFT,
        **attributes: float,
    ) -> None:
        self._nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attributes))

    def _constant(self, name: str, values: npt.NDArray[Any]) -> None:
        self._initializers.append(onnx.numpy_helper.from_array(values, name))

    def _store(self, name: str, values: npt.NDArray[Any]) -> None:
        self._initializers.append(self._data.store(name, values))

    def _initializer(self, name: str) -> Any:
        return next(tensor for tensor in self._initializers if tensor.name == name)


def alias(tensor: Any, name: str, dims: Sequence[int]) -> Any:
    """The same bytes under another name and with other dimensions."""
    other = TensorProto()
    other.CopyFrom(tensor)
    other.name = name
    del other.dims[:]
    other.dims.extend(dims)
    return other


def _value(name: str, kind: int, dims: Sequence[str | int]) -> Any:
    return helper.make_tensor_value_info(name, kind, dims)
