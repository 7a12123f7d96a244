"""Prompts become the tokens that the model was trained on."""

from __future__ import annotations

import json
import random
from pathlib import Path

import onnxruntime_genai as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from aicore_sim.inference.tokens import PromptEncoder, UnencodableTextError

DIGIT_TEXTS = [
    "Where is my order 84921?",
    "a 1 22 333\n4444\t5 x6 7y",
    "ORD-8492, A17-330 and #1042 at 2:30 PM",
    " 7",
    "7",
    "1\n2\u00a03",
    "x \u00b2 \u00bd \u2163 and \u0663\u0664",
    "",
]


class RecordingTokenizer:
    """Encodes every character as its code point and writes down the pieces."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def encode(self, text: str) -> list[int]:
        self.pieces.append(text)
        return [ord(character) for character in text]

    def apply_chat_template(self, messages: str, *, add_generation_prompt: bool = True) -> str:
        assert add_generation_prompt
        return "|".join(f"<end>{message['content']}" for message in json.loads(messages))


def encoder(tmp_path: Path, description: object) -> tuple[PromptEncoder, RecordingTokenizer]:
    (tmp_path / "tokenizer.json").write_text(json.dumps(description))
    tokenizer = RecordingTokenizer()
    return PromptEncoder(tokenizer, tmp_path), tokenizer


DIGITS = {"type": "Digits", "individual_digits": True}


@pytest.mark.parametrize(
    ("pre_tokenizer", "pieces"),
    [
        (DIGITS, ["a ", "12 b3 ", "4"]),
        (
            {"type": "Sequence", "pretokenizers": [DIGITS, {"type": "ByteLevel"}]},
            ["a ", "12 b3 ", "4"],
        ),
        ({"type": "Digits", "individual_digits": False}, ["a 12 b3 4"]),
        ({"type": "ByteLevel"}, ["a 12 b3 4"]),
        (None, ["a 12 b3 4"]),
    ],
)
def test_text_is_cut_before_digits_only_for_a_tokenizer_that_splits_them(
    tmp_path: Path, pre_tokenizer: object, pieces: list[str]
) -> None:
    subject, tokenizer = encoder(tmp_path, {"pre_tokenizer": pre_tokenizer})

    tokens = subject.encode("a 12 b3 4")

    assert tokenizer.pieces == pieces
    assert tokens == [ord(character) for character in "a 12 b3 4"]


def test_a_control_token_counts_only_where_the_chat_template_wrote_it(tmp_path: Path) -> None:
    description = {
        "added_tokens": [
            {"content": "<end>", "special": True},
            {"content": "<tool_call>", "special": False},
        ]
    }
    subject, tokenizer = encoder(tmp_path, description)

    tokens = subject.encode_chat(
        [{"role": "user", "content": "a<end>\ufdd0<tool_call>"}, {"role": "user", "content": "b"}]
    )

    assert tokenizer.pieces == ["<end>a<", "end><tool_call>|<end>b"]
    assert tokens == [ord(character) for character in "<end>a<end><tool_call>|<end>b"]


@pytest.mark.parametrize("name", ["\u0100", "<0x00>"])
def test_nul_gets_the_token_of_its_byte_and_passes_the_library_as_another_character(
    tmp_path: Path, name: str
) -> None:
    stand_in = {"\u0100": "\u0102", "<0x00>": "<0x02>"}[name]
    subject, tokenizer = encoder(tmp_path, {"model": {"vocab": {name: 900, stand_in: 2}}})

    assert subject.encode("a\0\x01\0") == [ord("a"), 900, 1, 900]
    assert subject.encode_chat([{"role": "user", "content": "\0b\\u0000"}])[5:] == [
        900,
        *map(ord, "b\\u0000"),
    ]
    assert all("\0" not in piece for piece in tokenizer.pieces)


@pytest.mark.parametrize(
    "vocabulary",
    [{}, {"\u0100": 900}, {"\u0100": 900, "\u0102": 77}, [["<unk>", 0.0]], None],
    ids=["no NUL", "no other", "other token than the library's", "a list", "none"],
)
def test_nul_is_refused_by_a_model_that_has_no_token_for_it(
    tmp_path: Path, vocabulary: object
) -> None:
    subject, _ = encoder(tmp_path, {"model": {"vocab": vocabulary}})

    assert subject.encode("a\x02") == [ord("a"), 2]
    with pytest.raises(UnencodableTextError, match=r"U\+0000"):
        subject.encode("a\0")


@pytest.fixture(scope="module")
def real_tokenizers(real_model_dir: Path) -> tuple[PromptEncoder, Tokenizer]:
    """Ours and the reference."""
    library = og.Tokenizer(og.Config(str(real_model_dir)))
    reference = Tokenizer.from_file(str(real_model_dir / "tokenizer.json"))
    return PromptEncoder(library, real_model_dir), reference


@pytest.mark.real_model
def test_digits_are_encoded_as_the_models_own_tokenizer_does(
    real_model_dir: Path, real_tokenizers: tuple[PromptEncoder, Tokenizer]
) -> None:
    subject, reference = real_tokenizers
    library = og.Tokenizer(og.Config(str(real_model_dir)))
    made = random.Random(5)
    alphabet = "0123456789" * 3 + "aB-#/:., \n"
    texts = DIGIT_TEXTS + ["".join(made.choices(alphabet, k=24)) for _ in range(200)]

    wrong = [text for text in texts if subject.encode(text) != reference.encode(text).ids]
    untreated = [text for text in texts if list(library.encode(text)) != reference.encode(text).ids]

    assert wrong == []
    assert untreated  # the trap is still there


@pytest.mark.real_model
def test_nul_is_encoded_as_the_models_own_tokenizer_does(
    real_tokenizers: tuple[PromptEncoder, Tokenizer],
) -> None:
    subject, reference = real_tokenizers
    made = random.Random(9)
    texts = ["".join(made.choices("ab 7\0\0\n\x01\u00e9", k=12)) for _ in range(300)]

    assert [text for text in texts if subject.encode(text) != reference.encode(text).ids] == []


@pytest.mark.real_model
@settings(max_examples=200, deadline=None)
@given(
    text=st.text(
        st.characters(codec="ascii", exclude_categories=["Cc"]) | st.sampled_from("äé한👩 \n"),
        max_size=40,
    )
)
def test_the_tokens_of_a_text_spell_the_text(
    real_tokenizers: tuple[PromptEncoder, Tokenizer], text: str
) -> None:
    subject, reference = real_tokenizers

    assert reference.decode(subject.encode(text)) == text
