"""The functions that training and evaluation data is made of, read from `domains/*.yaml`."""

from __future__ import annotations

import string
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from scripts.adapter.values import pools

Split = Literal["train", "validation", "test"]
_FOLDER = Path(__file__).with_name("domains")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Value(_Record):
    """Where a value comes from: a pool, a range, a list of choices, or an argument."""

    pool: str | None = None
    range: tuple[float, float] | None = None
    step: float = 1
    choose: tuple[str | int | float, ...] | None = None
    copy_of: str | None = Field(default=None, alias="copy")
    """Name of the argument whose value comes back."""

    @model_validator(mode="after")
    def _has_a_source(self) -> Value:
        if self.pool is not None and self.pool not in pools():
            raise ValueError(f"there is no pool {self.pool!r}")
        return self


class Parameter(Value):
    type: Literal["string", "integer", "number", "boolean", "list", "integers", "object", "objects"]
    about: str = ""
    optional: bool = False
    enum: dict[str | int, str | int] | None = None
    """What is sent, and the words that say it."""
    surface: dict[bool, str] | None = None
    """The words for true and false."""
    fields: dict[str, Parameter] = {}


class Function(_Record):
    name: str
    """In words; `rename` makes an identifier of it."""
    does: str
    parameters: dict[str, Parameter] = Field(alias="with")
    say: tuple[str, ...]
    gives: dict[str, Value]
    answer: tuple[str, ...]
    ask: dict[str, str] = {}
    """What to ask for when the parameter was not said."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Function:
        known = set(self.parameters)
        required = {name for name, given in self.parameters.items() if not given.optional}
        for phrase in self.say:
            said = slots(phrase)
            if said - known:
                raise ValueError(f"{phrase!r} of {self.name!r} says unknown {said - known}")
            if required - said:
                raise ValueError(f"{phrase!r} of {self.name!r} leaves out {required - said}")
        for text in self.answer:
            if missing := slots(text) - known - set(self.gives):
                raise ValueError(f"{text!r} of {self.name!r} uses unknown {missing}")
        if unknown := set(self.ask) - required:
            raise ValueError(f"{self.name!r} asks for {unknown}, which is not required")
        return self


class Domain(_Record):
    name: str
    split: Split
    functions: tuple[Function, ...]


def slots(text: str) -> set[str]:
    """Names of the arguments in a phrase; `{a.b}` is a field of `a`."""
    fields = (field for _, field, _, _ in string.Formatter().parse(text) if field)
    return {field.split(".")[0] for field in fields}


@cache
def domains() -> tuple[Domain, ...]:
    """All domains, by name. pydantic.ValidationError for a file that is wrong."""
    return tuple(
        Domain(name=path.stem, **yaml.safe_load(path.read_text(encoding="utf-8")))
        for path in sorted(_FOLDER.glob("*.yaml"))
    )
