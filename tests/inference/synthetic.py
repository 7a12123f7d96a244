"""A tiny ONNX Runtime GenAI model folder whose answers are known before it runs.

The next token depends on the current one alone, through a table of logits. The chat template ends
with the last character of the last message, so that character picks the answer:

- each entry of ``chains`` names a trigger and the pieces that follow it, every piece one token;
- after anything else the table prefers, in this order, the end of the answer and the characters
  that close JSON, so an answer that a grammar forces ends as early as the grammar lets it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

END = "<|im_end|>"
HELLO = "Hello from the synthetic model."
FAMILY = "👨‍👩‍👧 한국어 عربى e\u0301 é"
CONTEXT_LENGTH = 200_000

_SPECIAL = ("<|endoftext|>", "<|im_start|>", END)
_PREFERENCE = '"}],1x'
_CHAIN, _END_LOGIT, _TOP = 20.0, 10.0, 9.0

_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] }}"
    "{% if not loop.last %}{{ '<|im_end|>\\n' }}{% endif %}"
    "{% endfor %}"
)

CALL = '{"name": "fetch_order_details", "arguments": {"orderId": "A-1"}}'


def _cut(text: str, sizes: Sequence[int]) -> list[bytes]:
    """Cuts the UTF-8 bytes into pieces of the sizes given in turn, so inside characters too."""
    data, pieces, at, turn = text.encode(), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return pieces


Chains = Mapping[str, Sequence[str | bytes]]

DEFAULT_CHAINS: Chains = {
    "!": ["Hello", " from", " the", " synthetic", " model", ".", END],
    "~": [" tick", " tock", " tick"],
    "^": [*_cut(FAMILY, (7, 9, 10)), END],
    "@": ["Let me look.\n<tool", f"_call>\n{CALL}\n", "</tool_call>", END],
    "$": ["<tool_call>\n{oops", "}\n</tool_call>", END],
    "&": ["<tool_call>\n", CALL, "\n", "</tool_call>\n", END],
}
"""Greeting, endless text, multi-byte text, prose and a call, a malformed call, a call."""


def build_synthetic_model(folder: Path, chains: Chains = DEFAULT_CHAINS) -> Path:
    """Writes the model folder into `folder` (made when missing) and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = _vocabulary(chains)
    _write_tokenizer(folder, vocabulary)
    _write_graph(folder / "model.onnx", _logits(vocabulary, chains))
    _write_json(folder / "genai_config.json", _config(vocabulary))
    return folder


def _byte_alphabet() -> list[str]:
    """The printable character that byte-level BPE writes for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


_ALPHABET = _byte_alphabet()


def _spelled(piece: str | bytes) -> str:
    if piece in _SPECIAL:
        return str(piece)
    data = piece.encode() if isinstance(piece, str) else piece
    return "".join(_ALPHABET[byte] for byte in data)


def _vocabulary(chains: Chains) -> dict[str, int]:
    pieces = [_spelled(piece) for chain in chains.values() for piece in chain]
    return {piece: i for i, piece in enumerate(dict.fromkeys([*_SPECIAL, *_ALPHABET, *pieces]))}


def _logits(vocabulary: Mapping[str, int], chains: Chains) -> np.ndarray:
    table = np.zeros((len(vocabulary), len(vocabulary)), np.float32)
    table[:, vocabulary[END]] = _END_LOGIT
    for rank, character in enumerate(_PREFERENCE):
        table[:, vocabulary[_spelled(character)]] = _TOP - rank
    seen: dict[str, str] = {}
    for trigger, chain in chains.items():
        for current, following in zip([trigger, *chain], chain, strict=False):
            now, then = _spelled(current), _spelled(following)
            if seen.setdefault(now, then) != then:
                raise ValueError(f"{current!r} is followed by two different pieces.")
            table[vocabulary[now], vocabulary[then]] = _CHAIN
    return table


def _write_graph(path: Path, table: np.ndarray) -> None:
    """Logits are looked up; the key-value cache only records the tokens."""
    kv_shape = ["batch", 1, "past", 1]
    names = ("key", "value")
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "new"]),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"]),
        *(
            helper.make_tensor_value_info(f"past_key_values.0.{n}", TensorProto.FLOAT, kv_shape)
            for n in names
        ),
    ]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "new", len(table)]),
        *(
            helper.make_tensor_value_info(
                f"present.0.{n}", TensorProto.FLOAT, ["batch", 1, "total", 1]
            )
            for n in names
        ),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["logits"], axis=0),
        helper.make_node("Cast", ["input_ids"], ["as_float"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["as_float", "axes"], ["entry"]),
        *(
            helper.make_node(
                "Concat", [f"past_key_values.0.{n}", "entry"], [f"present.0.{n}"], axis=2
            )
            for n in names
        ),
    ]
    constants = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.array([1, 3], np.int64), "axes"),
    ]
    graph = helper.make_graph(nodes, "synthetic", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    checker.check_model(model)
    save(model, str(path))


def _write_tokenizer(folder: Path, vocabulary: Mapping[str, int]) -> None:
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    _write_json(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "added_tokens": [
                {"id": vocabulary[name], "content": name, **flags, "special": True}
                for name in _SPECIAL
            ],
            "pre_tokenizer": byte_level,
            "decoder": byte_level,
            "model": {"type": "BPE", "vocab": dict(vocabulary), "merges": []},
        },
    )
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "GPT2Tokenizer",
            "bos_token": "<|im_start|>",
            "eos_token": END,
            "add_prefix_space": False,
            "clean_up_tokenization_spaces": False,
            "model_max_length": CONTEXT_LENGTH,
        },
    )
    (folder / "chat_template.jinja").write_text(_TEMPLATE, encoding="utf-8")


def _config(vocabulary: Mapping[str, int]) -> dict[str, object]:
    return {
        "model": {
            "type": "llama",
            "bos_token_id": vocabulary["<|im_start|>"],
            "eos_token_id": [vocabulary[END]],
            "pad_token_id": vocabulary["<|endoftext|>"],
            "vocab_size": len(vocabulary),
            "context_length": CONTEXT_LENGTH,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "filename": "model.onnx",
                "head_size": 1,
                "hidden_size": 1,
                "num_attention_heads": 1,
                "num_key_value_heads": 1,
                "num_hidden_layers": 1,
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
            "max_length": CONTEXT_LENGTH,
            "num_beams": 1,
            "past_present_share_buffer": False,
            "temperature": 1.0,
            "top_k": 1,
            "top_p": 1.0,
        },
    }


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
