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
from typing import Any

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
    _write_json(folder / "genai_config.json", _config(vocabulary, CONTEXT_LENGTH))
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


RECALL = "?"
"""After this character the model of `build_recalling_model` tells what it has read."""
_MARKS = tuple(f" r{number}" for number in range(16))
_HEAD = 8


def build_recalling_model(folder: Path, *, context_length: int = 4096) -> Path:
    """A model whose answer to RECALL depends on every token before it, and on its place.

    Its key-value cache is GroupQueryAttention's, in place, as the default model's: one wrong or
    lost entry changes the answer. `recalled` says what it must be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chains = {**DEFAULT_CHAINS, "\x01": _MARKS}
    vocabulary = _vocabulary(chains)
    _write_tokenizer(folder, vocabulary)
    table = _logits(vocabulary, DEFAULT_CHAINS)
    _write_recalling_graph(folder / "model.onnx", table, vocabulary)
    config = _config(vocabulary, context_length)
    config["model"]["decoder"]["head_size"] = _HEAD
    config["search"]["past_present_share_buffer"] = True
    _write_json(folder / "genai_config.json", config)
    return folder


def recalled(folder: Path, prompt: Sequence[int], tokens: int) -> str:
    """The `tokens` tokens that the recalling model says after `prompt`, which ends with RECALL."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    sequence, said = list(prompt), ""
    for _ in range(tokens):
        mark = sum(_share(token, place) for place, token in enumerate(sequence)) % len(_MARKS)
        sequence.append(vocabulary[_spelled(_MARKS[mark])])
        said += _MARKS[mark]
    return said


def _share(token: int, place: int) -> int:
    """What the token at that place adds to the sum that is recalled."""
    return (token * 7 + place * 3 + 1) % 16


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


def _write_recalling_graph(path: Path, table: np.ndarray, vocabulary: Mapping[str, int]) -> None:
    """Attention with equal weights gives the mean of the shares; times the length, their sum."""
    marks = np.zeros((len(_MARKS), len(table)), np.float32)
    speaks = np.zeros((len(table), 1), np.float32)
    speaks[vocabulary[RECALL]] = 1
    for number, mark in enumerate(_MARKS):
        marks[number, vocabulary[_spelled(mark)]] = 3 * _CHAIN
        speaks[vocabulary[_spelled(mark)]] = 1
    kv_shape = ["batch", 1, "past", _HEAD]
    present = ["batch", 1, "total", _HEAD]
    value = helper.make_tensor_value_info
    names = ("key", "value")
    inputs = [
        value("input_ids", TensorProto.INT64, ["batch", "new"]),
        value("attention_mask", TensorProto.INT64, ["batch", "total"]),
        *(value(f"past_key_values.0.{n}", TensorProto.FLOAT, kv_shape) for n in names),
    ]
    outputs = [
        value("logits", TensorProto.FLOAT, ["batch", "new", len(table)]),
        *(value(f"present.0.{n}", TensorProto.FLOAT, present) for n in names),
    ]
    node = helper.make_node
    nodes = [
        node("Shape", ["attention_mask"], ["total1"], start=1, end=2),
        node("Shape", ["input_ids"], ["new1"], start=1, end=2),
        node("Squeeze", ["total1"], ["total"]),
        node("Squeeze", ["new1"], ["new"]),
        node("Sub", ["total", "new"], ["first"]),
        node("Range", ["first", "total", "one"], ["places"]),
        node("Mul", ["input_ids", "seven"], ["by_token"]),
        node("Mul", ["places", "three"], ["by_place"]),
        node("Add", ["by_token", "by_place"], ["both"]),
        node("Add", ["both", "one"], ["more"]),
        node("Mod", ["more", "sixteen"], ["share"]),
        node("Cast", ["share"], ["share_float"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["share_float", "last"], ["column"]),
        node("Mul", ["column", "first_of_head"], ["values"]),
        node("Mul", ["values", "zero"], ["equal"]),
        node("ReduceSum", ["attention_mask", "one1"], ["lengths"], keepdims=0),
        node("Sub", ["lengths", "one"], ["last_index"]),
        node("Cast", ["last_index"], ["seqlens"], to=TensorProto.INT32),
        node("Cast", ["total"], ["total32"], to=TensorProto.INT32),
        node(
            "GroupQueryAttention",
            [
                *("equal", "equal", "values"),
                *("past_key_values.0.key", "past_key_values.0.value", "seqlens", "total32"),
            ],
            ["means", "present.0.key", "present.0.value"],
            domain="com.microsoft",
            num_heads=1,
            kv_num_heads=1,
        ),
        node("ReduceSum", ["means", "last"], ["mean"], keepdims=0),
        node("Add", ["places", "one"], ["lengths_so_far"]),
        node("Cast", ["lengths_so_far"], ["lengths_float"], to=TensorProto.FLOAT),
        node("Mul", ["mean", "lengths_float"], ["inexact"]),
        node("Round", ["inexact"], ["rounded"]),
        node("Cast", ["rounded"], ["sum"], to=TensorProto.INT64),
        node("Mod", ["sum", "sixteen"], ["mark"]),
        node("Gather", ["marks", "mark"], ["said"], axis=0),
        node("Gather", ["speaks", "input_ids"], ["whether"], axis=0),
        node("Mul", ["said", "whether"], ["recalled"]),
        node("Gather", ["table", "input_ids"], ["usual"], axis=0),
        node("Add", ["usual", "recalled"], ["logits"]),
    ]
    constants = {
        **{
            name: np.array(number, np.int64)
            for name, number in (("one", 1), ("three", 3), ("seven", 7), ("sixteen", 16))
        },
        "one1": np.array([1], np.int64),
        "last": np.array([-1], np.int64),
        "zero": np.array(0, np.float32),
        "first_of_head": np.eye(1, _HEAD, dtype=np.float32)[0],
        "table": table,
        "marks": marks,
        "speaks": speaks,
    }
    graph = helper.make_graph(
        nodes,
        "recalling",
        inputs,
        outputs,
        [numpy_helper.from_array(content, name) for name, content in constants.items()],
    )
    versions = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    save(helper.make_model(graph, opset_imports=versions, ir_version=10), str(path))


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


def _config(vocabulary: Mapping[str, int], context_length: int) -> dict[str, Any]:
    return {
        "model": {
            "type": "llama",
            "bos_token_id": vocabulary["<|im_start|>"],
            "eos_token_id": [vocabulary[END]],
            "pad_token_id": vocabulary["<|endoftext|>"],
            "vocab_size": len(vocabulary),
            "context_length": context_length,
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
            "max_length": context_length,
            "num_beams": 1,
            "past_present_share_buffer": False,
            "temperature": 1.0,
            "top_k": 1,
            "top_p": 1.0,
        },
    }


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
