"""What we need of the installed ONNX Runtime GenAI, found out on a small model.

`engine.py` relies on each of these; another version of the library that differs fails here first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime_genai as og
import pytest

from tests.inference.synthetic import RECALL, recalled

GRAMMAR = 'start: "<call>" NAME "</call>"\nNAME: /[a-z]{3}/\n'


@pytest.fixture(scope="module")
def model(recalling_dir: Path) -> Any:
    return og.Model(og.Config(str(recalling_dir)))


def generator(model: Any, *, lark: str = "", fast: bool = True, length: int = 400) -> Any:
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=length, do_sample=False)
    if lark:
        params.set_guidance("lark_grammar", lark, fast)
    return og.Generator(model, params)


def made(one: Any, tokens: list[int], steps: int) -> list[int]:
    one.append_tokens(tokens)
    for _ in range(steps):
        if not one.is_done():
            one.generate_next_token()
    return [int(token) for token in one.get_sequence(0)][-steps:]


def test_a_rewound_generator_answers_as_a_new_one(model: Any, recalling_dir: Path) -> None:
    encode = og.Tokenizer(model).encode
    start, end = [int(token) for token in encode("once upon a time")], encode(RECALL)
    one = generator(model)
    one.append_tokens(start)
    first = made(one, list(map(int, encode(" x" + RECALL))), 5)
    one.rewind_to(len(start))
    assert one.token_count() == len(start)
    again = made(one, list(map(int, end)), 5)
    new = made(generator(model), start + list(map(int, end)), 5)

    assert again == new != first
    decode = og.Tokenizer(model).decode
    assert decode(again) == recalled(recalling_dir, start + list(map(int, end)), 5)


def test_a_rewind_starts_the_grammar_afresh_and_a_rewind_to_the_end_does_not(model: Any) -> None:
    tokenizer = og.Tokenizer(model)
    prompt = list(map(int, tokenizer.encode("go")))
    one = generator(model, lark=GRAMMAR)
    whole = made(one, prompt, 30)
    for steps in (1, 2, 3):
        one.rewind_to(len(prompt) - 1)
        made(one, prompt[-1:], steps)
        one.rewind_to(len(prompt) - 1)
        assert made(one, prompt[-1:], 30) == whole
    one.rewind_to(len(prompt) - 1)
    made(one, prompt[-1:], 2)
    one.rewind_to(one.token_count())
    try:
        text = tokenizer.decode(made(one, prompt, 30))
    except RuntimeError as error:
        text = str(error)

    assert not text.endswith("go<call>xxx</call>")


def test_logits_that_were_set_decide_under_a_grammar_too(model: Any) -> None:
    tokenizer = og.Tokenizer(model)
    one = generator(model, lark=GRAMMAR)
    one.append_tokens(list(map(int, tokenizer.encode("go"))))
    (wanted,) = map(int, tokenizer.encode("q"))
    while not one.is_done():
        logits = one.get_logits()
        logits.reshape(-1)[wanted] = 1000.0
        one.set_logits(logits)
        one.generate_next_token()

    assert tokenizer.decode(one.get_sequence(0)).endswith("<call>qqq</call>")


def test_dictated_tokens_come_in_one_step_only_when_they_may(model: Any) -> None:
    prompt = list(map(int, og.Tokenizer(model).encode("go")))
    fast, slow = generator(model, lark=GRAMMAR), generator(model, lark=GRAMMAR, fast=False)
    for one in (fast, slow):
        made(one, prompt, 2)

    assert slow.token_count() == len(prompt) + 2
    assert fast.token_count() == len(prompt) + len("<call>") + 1


def test_room_over_the_context_is_refused(model: Any) -> None:
    with pytest.raises(RuntimeError, match="max_length"):
        generator(model, length=5000)
