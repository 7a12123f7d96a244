"""Tiny Llama GGUFs, and wheels and catalogue entries around them."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from aicore_sim.models.catalogue import CatalogueModel

LAYERS, HIDDEN, HEADS, KV_HEADS, FEED_FORWARD, CONTEXT = 2, 64, 4, 2, 96, 128
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("Ġ o", "r d", "Ġo rd", "Ġord e", "Ġorde r", "O R", "OR D", "1 2")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokens() -> list[str]:
    """The 256 printable stand-ins for bytes of byte-level BPE, in byte order."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = (byte for byte in range(256) if byte not in plain)
    stand_in = {byte: chr(byte) for byte in plain}
    stand_in |= {byte: chr(256 + index) for index, byte in enumerate(moved)}
    return [stand_in[byte] for byte in range(256)]


def vocabulary() -> list[str]:
    return [*SPECIAL, *byte_tokens(), *(merge.replace(" ", "") for merge in MERGES)]


def write_gguf(
    path: Path,
    *,
    matrices: str = "F32",
    embedding: str = "F32",
    own_head: bool = False,
    architecture: str = "llama",
    split_rule: str = "smollm",
    tensors: Mapping[str, npt.NDArray[np.float32] | None] | None = None,
    metadata: Mapping[str, str | int | float | list[int]] | None = None,
    empty: Mapping[str, str] | None = None,
) -> Path:
    """Writes a model with fixed random weights.

    `tensors` replaces, adds or (None) drops some. `empty` replaces some by two rows of one block
    of zeros of the type named, for types that nothing here can write.
    """
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split_rule)
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)))
    writer.add_token_merges(list(MERGES))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    for key, value in (metadata or {}).items():
        if isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_string(key, value)
    weights: dict[str, Any] = {**_weights(len(tokens), own_head), **(tensors or {})}
    for name, values in weights.items():
        if name in (empty or {}):
            unwritable = gguf.GGMLQuantizationType[(empty or {})[name]]
            block_bytes = gguf.GGML_QUANT_SIZES[unwritable][1]
            writer.add_tensor(name, np.zeros((2, block_bytes), np.uint8), raw_dtype=unwritable)
            continue
        if values is None:
            continue
        kind = "F32" if values.ndim == 1 else matrices
        if name == "token_embd.weight":
            kind = embedding
        quantization = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(name, gguf.quants.quantize(values, quantization), raw_dtype=quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_wheel(folder: Path, source: Path) -> Path:
    """A wheel that pip accepts, with `source` inside."""
    info = "tiny_gguf-1.0.dist-info"
    path = folder / "tiny_gguf-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.write(source, f"tiny_gguf/{source.name}")
        wheel.writestr("tiny_gguf/__init__.py", "raise ImportError('must not be imported')\n")
        wheel.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-gguf\nVersion: 1.0\nRequires-Dist: no-such-thing\n",
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


def catalogue_entry(source: Path) -> CatalogueModel:
    return CatalogueModel(
        name="tiny",
        requirement="tiny-gguf==1.0",
        wheel_size=100_000,
        gguf_name=source.name,
        gguf_size=source.stat().st_size,
        gguf_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
        folder_size=1_000_000,
        layers=LAYERS,
        licence="Apache-2.0",
        homepage="https://example.com/tiny",
    )


def _weights(tokens: int, own_head: bool) -> dict[str, npt.NDArray[np.float32]]:
    random = np.random.default_rng(8492)
    kv_width = HIDDEN // HEADS * KV_HEADS

    def matrix(rows: int, columns: int) -> npt.NDArray[np.float32]:
        # Large enough for sharp attention: a wrong rotation then shows in the output.
        values = random.standard_normal((rows, columns)) * 2 / columns**0.5
        return np.asarray(values, dtype=np.float32)

    def norm() -> npt.NDArray[np.float32]:
        return np.asarray(random.uniform(0.5, 1.5, HIDDEN), dtype=np.float32)

    weights = {"token_embd.weight": matrix(tokens, HIDDEN), "output_norm.weight": norm()}
    if own_head:
        weights["output.weight"] = matrix(tokens, HIDDEN)
    for layer in range(LAYERS):
        weights |= {
            f"blk.{layer}.attn_norm.weight": norm(),
            f"blk.{layer}.attn_q.weight": matrix(HIDDEN, HIDDEN),
            f"blk.{layer}.attn_k.weight": matrix(kv_width, HIDDEN),
            f"blk.{layer}.attn_v.weight": matrix(kv_width, HIDDEN),
            f"blk.{layer}.attn_output.weight": matrix(HIDDEN, HIDDEN),
            f"blk.{layer}.ffn_norm.weight": norm(),
            f"blk.{layer}.ffn_gate.weight": matrix(FEED_FORWARD, HIDDEN),
            f"blk.{layer}.ffn_up.weight": matrix(FEED_FORWARD, HIDDEN),
            f"blk.{layer}.ffn_down.weight": matrix(HIDDEN, FEED_FORWARD),
        }
    return weights
