"""Which dialect a model folder speaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from aicore_sim.inference.dialect.base import AddedTokens, ChatMessage, Dialect
from aicore_sim.inference.dialect.gemma import GemmaDialect
from aicore_sim.inference.dialect.hermes import Declarations, HermesDialect
from aicore_sim.inference.dialect.marked import FUNCTION_GEMMA, GEMMA_4, MarkedDialect
from aicore_sim.inference.dialect_names import DialectName

Render = Callable[[Sequence[ChatMessage]], str]
"""What the model's chat template makes of messages; raises RuntimeError when it refuses them."""

_SIGNS: tuple[tuple[str, DialectName], ...] = (
    (FUNCTION_GEMMA.call[0], "functiongemma"),
    (GEMMA_4.call[0], "gemma4"),
    ("<start_of_turn>", "gemma"),
)
_PROBE = "probe"
_NO_THOUGHT = "<think>\n\n</think>\n\n"


def choose_dialect(
    folder: Path,
    render: Render,
    *,
    override: DialectName | None = None,
    tuned: bool = False,
) -> Dialect:
    """The dialect that the chat template of `folder` is for, or `override`.

    A template that knows the calls of a family is for that family; ChatML and whatever is not
    known get the Hermes notation, which the prompt explains.
    """
    template = read_template(folder)
    tokens = read_added_tokens(folder)
    name = override or next((found for sign, found in _SIGNS if sign in template), "hermes")
    match name:
        case "gemma":
            return GemmaDialect(tokens=tokens)
        case "functiongemma":
            return MarkedDialect(FUNCTION_GEMMA, tokens=tokens)
        case "gemma4":
            return MarkedDialect(GEMMA_4, tokens=tokens)
        case _:
            declares = "<tools>" in template and "<tool_call>" in template
            declarations: Declarations = "json" if declares else "signatures"
            if tuned:
                declarations = "calls"
            return HermesDialect(
                declarations=declarations,
                default_system=_default_system(render),
                system_role=_has_system_role(render),
                opening=_opening(template, render),
                tokens=tokens,
            )


def read_template(folder: Path) -> str:
    """The chat template of a folder, from the file of its own or from tokenizer_config.json."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    template = found.get("chat_template", "")
    if isinstance(template, list):  # several named ones
        named = {item.get("name"): item.get("template") for item in template}
        template = named.get("tool_use") or named.get("default") or ""
    return str(template)


def read_added_tokens(folder: Path) -> AddedTokens:
    """Those of tokenizer.json."""
    found = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    added = [token for token in found.get("added_tokens", ()) if "id" in token]
    return AddedTokens(
        control={token["content"]: token["id"] for token in added if token.get("special")},
        visible={token["content"]: token["id"] for token in added if not token.get("special")},
    )


def _has_system_role(render: Render) -> bool:
    try:
        rendered = render(
            [{"role": "system", "content": _PROBE}, {"role": "user", "content": "ask"}]
        )
    except RuntimeError:
        return False
    return _PROBE in rendered


def _default_system(render: Render) -> str:
    """What the template says where the conversation has no system message."""
    question: ChatMessage = {"role": "user", "content": "ask"}
    try:
        without = render([question])
        given = render([{"role": "system", "content": _PROBE}, question])
    except RuntimeError:
        return ""
    before, found, after = given.partition(_PROBE)
    if not found or not (without.startswith(before) and without.endswith(after)):
        return ""
    return without[len(before) : len(without) - len(after)].strip()


def _opening(template: str, render: Render) -> str:
    """How an answer begins that is to hold no thought, for templates that speak of thoughts."""
    try:
        rendered = render([{"role": "user", "content": _PROBE}]).rstrip()
    except RuntimeError:
        return ""
    if rendered.endswith("<think>"):
        return "\n</think>\n\n"
    return _NO_THOUGHT if "enable_thinking" in template else ""
