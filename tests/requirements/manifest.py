"""The manifest's format, and reading it.

A YAML file holds entries of one area, sorted by id: `AREA.yaml`, and `AREA_PART.yaml` for a part of
it. An entry names either a public page (`source`) or, where Android documents nothing, the reason
of the choice (`ours`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

ROOT: Final = Path(__file__).resolve().parent.parent.parent
MANIFEST: Final = ROOT / "tests" / "requirements"

PUBLIC_HOSTS: Final = frozenset(
    {"developer.android.com", "developers.google.com", "github.com", "learn.microsoft.com"}
)
"""Where sources may live: pages that everybody can read, without an account."""


class ManifestError(ValueError):
    """The manifest breaks its format, or does not agree with the tests."""


class Area(StrEnum):
    """The sections of PARITY.md, in this order; the value is the first part of the ids."""

    AGENT = "agent"
    PROMPT = "prompt"
    COMMON = "common"
    AICORE = "aicore"
    APP_FUNCTIONS = "appfunctions"
    JETPACK = "jetpack"
    SHELL = "shell"
    SIMULATOR = "simulator"


TITLES: Final = {
    Area.AGENT: "Agent",
    Area.PROMPT: "Prompt API",
    Area.COMMON: "Common",
    Area.AICORE: "AICore",
    Area.APP_FUNCTIONS: "AppFunctions platform",
    Area.JETPACK: "AppFunctions Jetpack annotations",
    Area.SHELL: "Shell",
    Area.SIMULATOR: "Simulator",
}


def _public(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.hostname not in PUBLIC_HOSTS:
        raise ValueError(
            f"{url!r} is no https page of {', '.join(sorted(PUBLIC_HOSTS))}; "
            "cite another page, or say `ours` and why"
        )
    return url


def _sentence(text: str) -> str:
    if not text.endswith(".") or "\n" in text or "|" in text:
        raise ValueError(f"{text!r} is not one line that ends with a full stop, without '|'")
    return text


def _cell(text: str) -> str:
    if not text.strip() or "\n" in text or "|" in text:
        raise ValueError(f"{text!r} must be one line, not empty, without '|'")
    return text


PublicUrl = Annotated[str, AfterValidator(_public)]
Sentence = Annotated[str, AfterValidator(_sentence)]
Cell = Annotated[str, AfterValidator(_cell)]
CaseId = Annotated[str, Field(pattern=r"^[A-H][1-9][0-9]?$")]
RequirementId = Annotated[str, Field(pattern=r"^[a-z]+(\.[a-z0-9]+(-[a-z0-9]+)*)+$")]
Status = Literal["emulated", "partial", "differs", "not-yet"]


class Requirement(BaseModel):
    """One behaviour. `divergence` says what `partial` leaves out and what `differs` does."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: RequirementId
    behaviour: Sentence
    source: PublicUrl | None = None
    ours: Sentence | None = None
    android: Cell | None = None
    """The element of Android's API; None only for what exists in the simulator alone."""
    python: Cell
    status: Status
    divergence: Sentence | None = None
    cases: dict[CaseId, PublicUrl] = Field(default_factory=dict)
    """Reports from the field that ask for the behaviour, by case id."""

    @model_validator(mode="after")
    def _consistent(self) -> Requirement:
        if (self.source is None) == (self.ours is None):
            raise ValueError(f"{self.id}: needs either `source` or `ours`")
        if self.source is not None and self.android is None:
            raise ValueError(f"{self.id}: has a `source`, so it needs an `android` element")
        if (self.status in ("partial", "differs")) != (self.divergence is not None):
            raise ValueError(f"{self.id}: `divergence` belongs to `partial` and `differs`, always")
        return self

    @property
    def area(self) -> Area:
        return Area(self.id.partition(".")[0])


class _ManifestFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    requirements: list[Requirement] = Field(min_length=1)


def load_manifest(folder: Path = MANIFEST) -> tuple[Requirement, ...]:
    """All entries, by area and id.

    Raises ManifestError naming the file for a key that is unknown, an id that is used twice, not
    in order or in the wrong file, and a page that is not public.
    """
    found: list[Requirement] = []
    read: set[Path] = set()
    for area in Area:
        parts = sorted(folder.glob(f"{area}_*.yaml"))
        read |= {folder / f"{area}.yaml", *parts}
        entries: dict[str, Requirement] = {}
        for path in (folder / f"{area}.yaml", *parts):
            for entry in _load_file(path, area):
                if entry.id in entries:
                    raise ManifestError(f"{path.name}: {entry.id!r} is used twice")
                entries[entry.id] = entry
        found += [entries[name] for name in sorted(entries)]
    stray = {path.stem for path in set(folder.glob("*.y*ml")) - read}
    if stray:
        raise ManifestError(f"{folder} has files of no area: {', '.join(sorted(stray))}")
    return tuple(found)


def _load_file(path: Path, area: Area) -> Sequence[Requirement]:
    try:
        entries = _ManifestFile.model_validate(yaml.safe_load(path.read_text())).requirements
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ManifestError(f"{path.name}: {error}") from None
    ids = [entry.id for entry in entries]
    for earlier, later in zip(ids, ids[1:], strict=False):
        if earlier >= later:
            problem = "is used twice" if earlier == later else f"must not follow {earlier!r}"
            raise ManifestError(f"{path.name}: {later!r} {problem}; ids are unique and sorted")
    for name in ids:
        if not name.startswith(f"{area}."):
            raise ManifestError(f"{path.name}: {name!r} does not start with {area.value + '.'!r}")
    return entries
