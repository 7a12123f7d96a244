"""The default model for torch, from the same GGUF file that `models pull` converts."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from transformers import LlamaConfig, LlamaForCausalLM

PROJECTIONS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Names in transformers, and in the GGUF."""


def load_base(path: Path) -> LlamaForCausalLM:
    """Weights as float32, dequantised exactly as the conversion reads them."""
    reader = gguf.GGUFReader(path)
    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def number(key: str) -> float:
        return float(reader.fields[f"llama.{key}"].contents())

    def weight(name: str) -> torch.Tensor:
        tensor = tensors[f"{name}.weight"]
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        return torch.from_numpy(values.reshape([int(size) for size in reversed(tensor.shape)]))

    heads, kv_heads = int(number("attention.head_count")), int(number("attention.head_count_kv"))
    config = LlamaConfig(
        vocab_size=len(reader.fields["tokenizer.ggml.tokens"].contents()),
        hidden_size=int(number("embedding_length")),
        intermediate_size=int(number("feed_forward_length")),
        num_hidden_layers=int(number("block_count")),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=int(number("context_length")),
        rms_norm_eps=number("attention.layer_norm_rms_epsilon"),
        rope_theta=number("rope.freq_base"),
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    state = {
        "model.embed_tokens.weight": weight("token_embd"),
        "model.norm.weight": weight("output_norm"),
    }
    for layer in range(config.num_hidden_layers):
        ours, theirs = f"model.layers.{layer}.", f"blk.{layer}."
        state[f"{ours}input_layernorm.weight"] = weight(f"{theirs}attn_norm")
        state[f"{ours}post_attention_layernorm.weight"] = weight(f"{theirs}ffn_norm")
        for name, stored in PROJECTIONS.items():
            found = weight(theirs + stored)
            if stored in ("attn_q", "attn_k"):
                found = _uninterleaved(found, heads if stored == "attn_q" else kv_heads)
            state[f"{ours}{name}.weight"] = found
    model = LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"the weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model


def _uninterleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Llama GGUFs store the rows of q and k so that the halves of a rotation stand side by side."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns).contiguous()
