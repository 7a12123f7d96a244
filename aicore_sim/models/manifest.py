"""What a pull wrote, so that a later check can tell whether it is still whole."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

MANIFEST = "manifest.json"


class StoredFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    size: int
    """In bytes."""
    sha256: str


class Manifest(BaseModel):
    """Origin and content of a converted model; lies beside its files as `manifest.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    layout: int
    requirement: str
    source_file: str
    source_sha256: str
    licence: str
    adapter_sha256: str = ""
    files: dict[str, StoredFile]


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a pulled model. Raises OSError and ValueError."""
    return Manifest.model_validate_json((folder / MANIFEST).read_bytes())


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def described(folder: Path) -> dict[str, StoredFile]:
    """Size and checksum of every file of a folder, for its manifest."""
    return {
        path.name: StoredFile(size=path.stat().st_size, sha256=file_sha256(path))
        for path in sorted(folder.iterdir())
    }


def damage(folder: Path, *, checksums: bool = False) -> tuple[str, ...]:
    """What is wrong with a pulled model, one sentence each; empty when nothing is.

    Compares sizes, which takes no time, and on request the checksums, which reads every byte.
    """
    try:
        manifest = read_manifest(folder)
    except OSError as error:
        return (f"{MANIFEST!r} cannot be read: {error.strerror}.",)
    except ValidationError as error:
        return (f"{MANIFEST!r} is not valid: {error.error_count()} errors.",)
    problems = []
    for name, expected in manifest.files.items():
        path = folder / name
        if not path.is_file():
            problems.append(f"{name!r} is missing.")
        elif (size := path.stat().st_size) != expected.size:
            problems.append(f"{name!r} has {size} bytes, expected {expected.size}.")
        elif checksums and file_sha256(path) != expected.sha256:
            problems.append(f"{name!r} has another checksum than after its conversion.")
    return tuple(problems)
