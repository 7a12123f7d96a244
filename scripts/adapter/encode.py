"""Token ids of an example: the prompt exactly as the daemon makes it, and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnxruntime_genai as og

from aicore_sim.inference.backend import GenerateRequest, Part
from aicore_sim.inference.dialect import HermesDialect
from aicore_sim.inference.tokens import PromptEncoder
from scripts.adapter.prompt import DIALECT, answer_text

END_OF_TURN = "<|im_end|>"


class ExampleEncoder:
    """Encodes with the tokenizer, chat template and dialect of a converted model folder."""

    def __init__(self, folder: Path, dialect: HermesDialect = DIALECT) -> None:
        self._dialect = dialect
        self._tokenizer = og.Tokenizer(og.Model(og.Config(str(folder))))
        self._encoder = PromptEncoder(self._tokenizer, folder)
        self.end = int(self._tokenizer.encode(END_OF_TURN)[0])

    def prompt(self, request: GenerateRequest) -> list[int]:
        return self._encoder.encode_prompt(self._dialect.prompt(request))

    def answer(self, parts: Sequence[Part]) -> list[int]:
        """The answer's tokens, with the one that ends the turn."""
        return [*self._encoder.encode(answer_text(parts)), self.end]

    def text(self, text: str) -> list[int]:
        """The tokens of a text outside of any conversation."""
        return self._encoder.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        import numpy as np

        return str(self._tokenizer.decode(np.array(tokens, dtype=np.int32)))
