"""Writes `genai_config.json`, by which ONNX Runtime GenAI finds and runs a model.

https://onnxruntime.ai/docs/genai/reference/config.html
"""

from __future__ import annotations

import json
from pathlib import Path

from aicore_sim.models import graph
from aicore_sim.models.gguf_weights import GgufModel

_END_TOKENS = ("<|im_end|>", "<|endoftext|>")
_MAX_LENGTH = 4096
_CHUNK = 256
_THREADS = 2


def write_genai_config(model: GgufModel, folder: Path) -> None:
    """Writes settings for `onnxruntime_genai.Generator`; a loader overlays the thread count.

    - `intra_op_num_threads`: left unset, the runtime may take one thread, which halves the decode
      speed; more threads than cores cost even more.
    - `max_length`: each generator allocates its cache up front, so a loader lowers this to what a
      request needs.
    - `chunk_size` bounds the memory of a long prefill. `Engine` refuses it, and needs the graph
      with all logits: overlay 0 and `model.onnx` to use that class.
    """
    shape = model.shape
    tokens: list[str] = model.required("tokenizer.ggml.tokens")
    eos = int(model.required("tokenizer.ggml.eos_token_id"))
    ends = [eos] + [tokens.index(name) for name in _END_TOKENS if name in tokens]
    content = {
        "model": {
            "type": "llama",
            "bos_token_id": int(model.optional("tokenizer.ggml.bos_token_id", eos)),
            "eos_token_id": list(dict.fromkeys(ends)),
            "pad_token_id": int(model.optional("tokenizer.ggml.padding_token_id", eos)),
            "vocab_size": shape.vocabulary,
            "context_length": shape.context,
            "decoder": {
                "session_options": {
                    "log_id": "onnxruntime-genai",
                    "intra_op_num_threads": _THREADS,
                    "session.set_denormal_as_zero": "1",
                    "provider_options": [],
                },
                "filename": graph.LAST_LOGITS,
                "head_size": shape.head_size,
                "hidden_size": shape.hidden,
                "num_attention_heads": shape.heads,
                "num_key_value_heads": shape.kv_heads,
                "num_hidden_layers": shape.layers,
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        },
        "search": {
            "do_sample": False,
            "max_length": min(_MAX_LENGTH, shape.context),
            "min_length": 0,
            "num_beams": 1,
            "num_return_sequences": 1,
            "past_present_share_buffer": True,
            "repetition_penalty": 1.0,
            "temperature": 1.0,
            "top_k": 50,
            "top_p": 1.0,
            "chunk_size": _CHUNK,
        },
    }
    text = json.dumps(content, indent=2) + "\n"
    (folder / "genai_config.json").write_text(text, encoding="utf-8")
