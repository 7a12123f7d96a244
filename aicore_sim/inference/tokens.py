"""Text to tokens and back, as the model was trained and not only as the library does it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from aicore_sim.inference.dialect import CUT, ChatMessage, Prompt

_WORD_START = re.compile(r"(?<=\s)\S")
_CUT = "\ufdd0"  # a noncharacter: stands for no text in any script


class LibraryTokenizer(Protocol):
    """The part of `onnxruntime_genai.Tokenizer` that prompts need."""

    def encode(self, text: str) -> Sequence[int]: ...

    def apply_chat_template(self, messages: str, *, add_generation_prompt: bool = True) -> str: ...


_STAND_INS = (*range(0x01, 0x09), *range(0x0E, 0x1C), 0x7F)
"""Control characters that tokenizers and templates treat as they treat NUL: no white space."""


@dataclass(frozen=True, kw_only=True)
class _Nul:
    """Puts another character in the place of NUL, where the library's C strings would end."""

    stand_in: str = ""
    from_token: int | None = None
    to_token: int | None = None

    def replaced(self, text: str) -> str:
        return text.replace("\0", self.stand_in) if self.stand_in else text

    def restored(self, tokens: Iterable[int]) -> list[int]:
        if self.to_token is None:
            return list(tokens)
        return [self.to_token if token == self.from_token else token for token in tokens]


class UnencodableTextError(ValueError):
    """Text that the model's tokenizer has no tokens for; the message names the character."""


class PromptEncoder:
    """Renders a conversation with the model's own chat template and encodes it.

    `marks` are the control tokens that messages spell because the dialect writes them. One instance
    belongs to one thread.
    """

    def __init__(
        self, tokenizer: LibraryTokenizer, folder: Path, *, marks: Collection[str] = ()
    ) -> None:
        description = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        self._tokenizer = tokenizer
        self._splits_digits = _splits_digits(description.get("pre_tokenizer"))
        control = [
            token["content"]
            for token in description.get("added_tokens", ())
            if token.get("special") and len(token["content"]) > 1 and token["content"] not in marks
        ]
        self._control = re.compile("|".join(map(re.escape, control))) if control else None
        self._bytes = _byte_tokens(description.get("model", {}).get("vocab"))

    def encode_chat(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The tokens of a conversation to be answered in a turn of its own.

        Raises as `encode_prompt`.
        """
        return self.encode_prompt(Prompt(messages=tuple(messages)))

    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """The prompt's tokens. Text that spells a control token is text, not the token.

        Raises RuntimeError when the chat template refuses the messages, and UnencodableTextError.
        """
        contents = [self._cut(message["content"]) for message in prompt.messages]
        nul = self._nul("".join(contents))
        rendered = self._rendered(prompt, [nul.replaced(content) for content in contents])
        return nul.restored(
            token for piece in rendered.split(_CUT) for token in self._tokens(piece)
        )

    def prompt_text(self, prompt: Prompt) -> str:
        """The prompt as text, for people. Raises as `encode_prompt`."""
        contents = [self._cut(message["content"]) for message in prompt.messages]
        nul = self._nul("".join(contents))
        rendered = self._rendered(prompt, [nul.replaced(content) for content in contents])
        text = rendered.replace(_CUT, "")
        return text.replace(nul.stand_in, "\0") if nul.stand_in else text

    def _rendered(self, prompt: Prompt, contents: list[str]) -> str:
        messages: list[ChatMessage] = [
            {"role": message["role"], "content": content}
            for message, content in zip(prompt.messages, contents, strict=True)
        ]
        if not prompt.continues:
            return render_chat(self._tokenizer, messages) + prompt.opening
        messages[-1]["content"] += _CUT
        rendered = render_chat(self._tokenizer, messages, answer=False)
        return rendered[: rendered.rfind(_CUT)] + prompt.opening

    def encode(self, text: str) -> list[int]:
        """The tokens of `text`, as the model's own tokenizer gives them.

        Raises UnencodableTextError.
        """
        nul = self._nul(text)
        return nul.restored(self._tokens(nul.replaced(text)))

    @property
    def nul_token(self) -> int | None:
        """The token of U+0000, which the library leaves out when it writes text."""
        try:
            return self._nul("\0").to_token
        except UnencodableTextError:
            return None

    def _tokens(self, text: str) -> Iterator[int]:
        # The library ignores a `Digits` pre-tokenizer, and then joins a space to the digit after
        # it. Encoding the text around that place piece by piece gives the trained tokens.
        pieces = _number_pieces(text) if self._splits_digits else [text]
        for piece in pieces:
            if piece:
                yield from map(int, self._tokenizer.encode(piece))

    def _nul(self, text: str) -> _Nul:
        """How to get `text` past the library. Raises UnencodableTextError."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            character = ord(text[error.start])
            raise UnencodableTextError(
                f"The lone surrogate U+{character:04X} cannot be given to the model."
            ) from None
        if "\0" not in text:
            return _Nul()
        for byte in _STAND_INS:
            token = self._bytes.get(byte)
            # A stand-in is of use when the tokenizer gives it a token of its own, as it does NUL.
            if chr(byte) not in text and list(self._tokenizer.encode(chr(byte))) == [token]:
                return _Nul(stand_in=chr(byte), from_token=token, to_token=self._bytes.get(0))
        raise UnencodableTextError("The character U+0000 cannot be given to this model.")

    def _cut(self, text: str) -> str:
        text = text.replace(_CUT, "")
        if self._control is not None:
            text = self._control.sub(_in_two, text)
        return text.replace(CUT, _CUT)


def render_chat(
    tokenizer: LibraryTokenizer, messages: Sequence[ChatMessage], *, answer: bool = True
) -> str:
    """What the model's chat template makes of messages; `answer`: with the beginning of a turn.

    Raises RuntimeError when the template refuses them.
    """
    written = json.dumps(messages, ensure_ascii=False)
    return tokenizer.apply_chat_template(written, add_generation_prompt=answer)


def _in_two(found: re.Match[str]) -> str:
    return found.group()[0] + _CUT + found.group()[1:]


def _byte_tokens(vocabulary: Any) -> dict[int, int]:
    """The tokens of NUL and of its stand-ins, as byte-level BPE or byte fallback names them.

    Empty when there is none for NUL.
    """
    if not isinstance(vocabulary, dict):
        return {}
    for name in (_byte_level_name, "<0x{:02X}>".format):
        found = {byte: vocabulary.get(name(byte)) for byte in (0, *_STAND_INS)}
        if found[0] is not None:
            return {byte: token for byte, token in found.items() if token is not None}
    return {}


def _byte_level_name(byte: int) -> str:
    """Byte-level BPE counts the bytes that are no printable characters from U+0100 on."""
    return chr(0x121 if byte == 0x7F else 0x100 + byte)


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
