"""Synthetic models of other families: their control tokens, templates and stop tokens."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.inference.synthetic import DEFAULT_CHAINS, END, Chains, build_synthetic_model

GEMMA_TURNS = (
    "{{ '<bos>' }}{% for message in messages %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\\n' + (message['content'] | trim) + '<end_of_turn>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
"""How both Gemma 3 and FunctionGemma write turns, without what they do with tools.

https://ai.google.dev/gemma/docs/core/prompt-structure
"""
OPEN_TURNS = GEMMA_TURNS.partition("{% if add")[0].replace(
    "'<end_of_turn>\\n' }}", "('' if loop.last else '<end_of_turn>\\n') }}"
)
"""The same, but the last turn stays open: a synthetic model answers to its last character."""
FUNCTION_GEMMA_MARKS = (
    "<start_function_declaration>",
    "<end_function_declaration>",
    "<start_function_call>",
    "<end_function_call>",
    "<start_function_response>",
    "<end_function_response>",
    "<escape>",
)
SPEAKS_OF_CALLS = "{# <start_function_call> #}"
"""By this FunctionGemma's own template is known."""


def build_model(
    folder: Path,
    *,
    template: str,
    control: Collection[str] = (),
    visible: Collection[str] = (),
    chains: Chains = DEFAULT_CHAINS,
    stops: Sequence[str] = (END,),
) -> Path:
    """A synthetic model with tokens for `control` and `visible`, and that chat template."""
    extra = [*control, *visible, *(stop for stop in stops if stop != END)]
    # Chains that no prompt triggers: only so that the vocabulary has these pieces.
    unused = {chr(0x0E + number): [mark] for number, mark in enumerate(extra)}
    build_synthetic_model(folder, {**chains, **unused})
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer["added_tokens"] += [
        {"id": vocabulary[mark], "content": mark, **flags, "special": mark not in visible}
        for mark in extra
    ]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    config_path = folder / "genai_config.json"
    config = json.loads(config_path.read_text(encoding="utf-8"))
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    config["model"]["eos_token_id"] = [ids[stop] for stop in stops]
    config_path.write_text(json.dumps(config), encoding="utf-8")
    return folder


def build_function_gemma(folder: Path, chains: Chains = DEFAULT_CHAINS) -> Path:
    """Ends its turns as the synthetic model does, with the first stop token."""
    return build_model(
        folder,
        template=SPEAKS_OF_CALLS + OPEN_TURNS,
        control=(*FUNCTION_GEMMA_MARKS, "<start_of_turn>", "<bos>"),
        chains=chains,
        stops=(END, "<end_of_turn>"),
    )
