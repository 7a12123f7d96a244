"""Writes the tokenizer of a GGUF as the files that Hugging Face's tokenizers library reads.

https://huggingface.co/docs/tokenizers/components
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aicore_sim.models.errors import UnsupportedModel
from aicore_sim.models.gguf_weights import GgufModel

_CONTROL, _USER_DEFINED = 3, 4  # token types of a GGUF that are never split
CHAT_TEMPLATE = "chat_template.jinja"


def write_tokenizer(model: GgufModel, folder: Path) -> None:
    """Writes tokenizer.json, tokenizer_config.json and chat_template.jinja.

    Raises UnsupportedModel for anything but byte-level BPE with the `smollm` split rule.
    """
    kind = model.text("tokenizer.ggml.model")
    split_rule = str(model.optional("tokenizer.ggml.pre", "default"))
    if kind != "gpt2" or split_rule != "smollm":
        raise UnsupportedModel(
            f"The tokenizer is {kind!r} with the split rule {split_rule!r}; "
            "converted is 'gpt2' with 'smollm'."
        )
    tokens: list[str] = model.required("tokenizer.ggml.tokens")
    types: list[int] = model.required("tokenizer.ggml.token_type")
    merges: list[str] = model.required("tokenizer.ggml.merges")
    added = [
        {
            "id": token_id,
            "content": tokens[token_id],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": token_type == _CONTROL,
        }
        for token_id, token_type in enumerate(types)
        if token_type in (_CONTROL, _USER_DEFINED)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    split_digits = {"type": "Digits", "individual_digits": True}
    _write(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [split_digits, {**byte_level, "use_regex": True}],
            },
            "post_processor": None,
            "decoder": {**byte_level, "use_regex": True},
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": {token: token_id for token_id, token in enumerate(tokens)},
                "merges": merges,
            },
        },
    )

    def token(key: str) -> str | None:
        token_id = model.optional(f"tokenizer.ggml.{key}_token_id", None)
        return None if token_id is None else tokens[token_id]

    _write(
        folder / "tokenizer_config.json",
        {
            "add_bos_token": bool(model.optional("tokenizer.ggml.add_bos_token", False)),
            "add_prefix_space": bool(model.optional("tokenizer.ggml.add_space_prefix", False)),
            "added_tokens_decoder": {
                str(entry["id"]): {key: entry[key] for key in entry if key != "id"}
                for entry in added
            },
            "bos_token": token("bos"),
            "clean_up_tokenization_spaces": False,
            "eos_token": token("eos"),
            "model_max_length": model.shape.context,
            "pad_token": token("padding"),
            "tokenizer_class": "GPT2Tokenizer",
            "unk_token": token("unknown"),
        },
    )
    (folder / CHAT_TEMPLATE).write_text(model.text("tokenizer.chat_template"), encoding="utf-8")


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
