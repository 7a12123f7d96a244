"""Writes the converted graphs once more with another weight layout, beside the shipped ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from aicore_sim.models.graph import ALL_LOGITS, LAST_LOGITS, TensorFile, alias
from scripts.conversion.layouts import EmbeddingLayout, Layout, Variant
from scripts.conversion.matrices import EMBEDDING, HEAD, Floats


@dataclass(frozen=True, kw_only=True)
class Graphs:
    """File names in the model's folder."""

    all_logits: str
    last_logits: str
    weight_bytes: int
    """Of the tensors outside the graphs: weights, and the tables of the rotary embedding."""


@dataclass(frozen=True, kw_only=True)
class _Stored:
    layout: Layout
    size: tuple[int, int]
    tensors: list[Any]


def shipped_graphs(folder: Path) -> Graphs:
    """The graphs that the conversion itself wrote."""
    proto = _read(folder / ALL_LOGITS)
    return Graphs(
        all_logits=ALL_LOGITS, last_logits=LAST_LOGITS, weight_bytes=_external_bytes(proto)
    )


def write_variant(
    folder: Path, stem: str, variant: Variant, matrices: Iterable[tuple[str, Floats]]
) -> Graphs:
    """Writes graphs whose names begin with `stem` into the folder of a converted model.

    They share with the shipped ones whatever the variant leaves alone.
    """
    stored: dict[str, _Stored] = {}
    location = f"{stem}.onnx.data"
    with (folder / location).open("wb") as opened:
        file = TensorFile(opened, location)
        for name, values in matrices:
            in_both_ends = name in (EMBEDDING, HEAD)
            layout = variant.embedding if in_both_ends else variant.projections
            if layout is not None:
                stored[name] = _stored(f"{stem}:{name}", values, layout, file)
    if variant.embedding is not None:
        _add_views(f"{stem}:{EMBEDDING}", stored[EMBEDDING], variant.embedding)
    names = {ALL_LOGITS: f"{stem}.onnx", LAST_LOGITS: f"{stem}_last.onnx"}
    for source, target in names.items():
        proto = _read(folder / source)
        _replace(proto.graph, stem, stored, variant.embedding)
        (folder / target).write_bytes(proto.SerializeToString(deterministic=True))
    return Graphs(
        all_logits=names[ALL_LOGITS],
        last_logits=names[LAST_LOGITS],
        weight_bytes=_external_bytes(proto),
    )


def _stored(name: str, values: Floats, layout: Layout, file: TensorFile) -> _Stored:
    tensors = [file.store(name + end, part) for end, part in layout.tensors(values).items()]
    return _Stored(layout=layout, size=(values.shape[0], values.shape[1]), tensors=tensors)


def _add_views(name: str, matrix: _Stored, layout: EmbeddingLayout) -> None:
    by_name = {tensor.name: tensor for tensor in matrix.tensors}
    for end, (source, size) in layout.views(matrix.size).items():
        matrix.tensors.append(alias(by_name[name + source], name + end, size))


def _replace(
    graph: Any, stem: str, stored: dict[str, _Stored], embedding: EmbeddingLayout | None
) -> None:
    nodes: dict[str, Any] = {}  # by first output: several products may share the same preparation
    for node in graph.node:
        new = [node]
        if node.op_type == "MatMulNBits":
            name = node.input[1].removesuffix(".q")
            if name in stored:
                layout, size = stored[name].layout, stored[name].size
                new = layout.product(f"{stem}:{name}", size, node.input[0], node.output[0])
        elif node.op_type == "GatherBlockQuantized" and embedding is not None:
            new = embedding.lookup(f"{stem}:{EMBEDDING}", node.input[1], node.output[0])
        for part in new:
            nodes.setdefault(part.output[0], part)
    replaced = [tensor for matrix in stored.values() for tensor in matrix.tensors]
    used = {name for node in nodes.values() for name in node.input}
    tensors = [tensor for tensor in [*graph.initializer, *replaced] if tensor.name in used]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes.values())
    graph.initializer.extend(tensors)


def _read(path: Path) -> Any:
    return onnx.load_model(path, load_external_data=False)


def _external_bytes(proto: Any) -> int:
    places = {}
    for tensor in proto.graph.initializer:
        facts = {entry.key: entry.value for entry in tensor.external_data}
        if facts:
            places[facts["location"], facts["offset"]] = int(facts["length"])
    return sum(places.values())
