"""Text to tokens and back, as the model was trained and not only as the library does it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from aicore_sim.inference.dialect import ChatMessage

_WORD_START = re.compile(r"(?<=\s)\S")
_CUT = "\ufdd0"  # a noncharacter: stands for no text in any script


class LibraryTokenizer(Protocol):
    """The part of `onnxruntime_genai.Tokenizer` that prompts need."""

    def encode(self, text: str) -> Sequence[int]: ...

    def apply_chat_template(self, messages: str, *, add_generation_prompt: bool = True) -> str: ...


class PromptEncoder:
    """Renders a conversation with the model's own chat template and encodes it.

    One instance belongs to one thread.
    """

    def __init__(self, tokenizer: LibraryTokenizer, folder: Path) -> None:
        description = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        self._tokenizer = tokenizer
        self._splits_digits = _splits_digits(description.get("pre_tokenizer"))
        control = [
            token["content"]
            for token in description.get("added_tokens", ())
            if token.get("special") and len(token["content"]) > 1
        ]
        self._control = re.compile("|".join(map(re.escape, control))) if control else None

    def encode_chat(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The prompt's tokens. Text that spells a control token is text, not the token.

        Raises RuntimeError when the chat template refuses the messages.
        """
        safe = [{**message, "content": self._cut(message["content"])} for message in messages]
        rendered = self._tokenizer.apply_chat_template(
            json.dumps(safe, ensure_ascii=False), add_generation_prompt=True
        )
        return [token for piece in rendered.split(_CUT) for token in self.encode(piece)]

    def encode(self, text: str) -> list[int]:
        """The tokens of `text`, as the model's own tokenizer gives them."""
        # The library ignores a `Digits` pre-tokenizer, and then joins a space to the digit after
        # it. Encoding the text around that place piece by piece gives the trained tokens.
        pieces = _number_pieces(text) if self._splits_digits else [text]
        return [int(token) for piece in pieces if piece for token in self._tokenizer.encode(piece)]

    def _cut(self, text: str) -> str:
        text = text.replace(_CUT, "")
        if self._control is None:
            return text
        return self._control.sub(lambda found: found.group()[0] + _CUT + found.group()[1:], text)


def _number_pieces(text: str) -> Iterator[str]:
    """Cut before each number character (`7`, but `²` and `Ⅳ` too) that follows white space."""
    start = 0
    for found in _WORD_START.finditer(text):
        if unicodedata.category(found.group()).startswith("N"):
            yield text[start : found.start()]
            start = found.start()
    yield text[start:]


def _splits_digits(pre_tokenizer: Any) -> bool:
    return any(
        step.get("type") == "Digits" and step.get("individual_digits")
        for step in _steps(pre_tokenizer)
    )


def _steps(pre_tokenizer: Any) -> Iterator[dict[str, Any]]:
    if isinstance(pre_tokenizer, dict):
        yield pre_tokenizer
        for step in pre_tokenizer.get("pretokenizers", ()):
            yield from _steps(step)
