"""Requests that concern no function: what the model could do before must stay as it was.

The answers are the plain model's own, so an adapter learns from them to change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnxruntime_genai as og
import yaml
from pydantic import BaseModel, ConfigDict

from aicore_sim.inference.backend import Content, GenerateRequest, TextPart
from scripts.adapter.encode import ExampleEncoder

_LONGEST_ANSWER = 56
"""Tokens. A longer answer is learned up to here, without an end."""

_DATA = yaml.safe_load(Path(__file__).with_name("general.yaml").read_text(encoding="utf-8"))


def questions() -> tuple[str, ...]:
    """What a user may ask a model that has no functions, always in the same order."""
    return tuple(
        frame.format(word)
        for group in _DATA["questions"].values()
        for frame in group["frames"]
        for word in group["words"]
    )


def openings() -> tuple[str, ...]:
    """Beginnings of texts, which are no conversation at all."""
    return tuple(_DATA["openings"])


class General(BaseModel):
    """A request without functions, and what the plain model answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request: GenerateRequest
    text: str
    ended: bool
    """False where the answer was cut."""


def answered(plain: Path, kept: Path) -> list[General]:
    """Every question with the plain model's greedy answer, which is kept in the file `kept`.

    `plain` is the folder of the plain model. Takes minutes where `kept` does not exist.
    """
    if not kept.exists():
        made = [each.model_dump_json() for each in _answered(plain)]
        kept.write_text("\n".join(made), encoding="utf-8")
    return [General.model_validate_json(line) for line in kept.read_text("utf-8").splitlines()]


def _answered(plain: Path) -> Iterator[General]:
    encoder = ExampleEncoder(plain)
    model = og.Model(og.Config(str(plain)))
    for number, question in enumerate(questions()):
        request = GenerateRequest(
            contents=(Content(role="user", parts=(TextPart(text=question),)),),
            system_instruction=_DATA["instructions"][number % len(_DATA["instructions"])],
        )
        prompt = encoder.prompt(request)
        parameters = og.GeneratorParams(model)
        parameters.set_search_options(max_length=len(prompt) + _LONGEST_ANSWER, do_sample=False)
        generator = og.Generator(model, parameters)
        generator.append_tokens(prompt)
        made: list[int] = []
        while not generator.is_done():
            generator.generate_next_token()
            made.append(int(generator.get_next_tokens()[0]))
        ended = made[-1] == encoder.end
        text = encoder.decode(made[:-1] if ended else made)
        yield General(request=request, text=text, ended=ended)
