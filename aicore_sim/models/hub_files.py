"""Which files of a repository make a model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aicore_sim.models.errors import PullError
from aicore_sim.models.hub_name import HubName

CONFIG = "genai_config.json"
_KINDS = (".onnx", ".onnx.data", ".onnx_data", ".json", ".jinja", ".txt", ".model", ".md")
_TEXTS = ("LICENSE", "LICENCE", "NOTICE")
_OURS = "manifest.json"
_SHOWN = 12
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """A file as the Hub states it. Sizes are in bytes."""

    path: str
    size: int
    sha256: str = ""
    """Of a large file; empty for one that lies in git itself."""
    git_sha1: str = ""
    """Of a file that lies in git itself."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, kw_only=True)
class Choice:
    kind: Literal["onnx", "gguf"]
    files: tuple[HubFile, ...]


def choose(name: HubName, files: Sequence[HubFile]) -> Choice:
    """The files of the model that `name` means. Raises PullError, which lists what there is."""
    if name.path.endswith(".gguf"):
        for file in files:
            if file.path == name.path:
                return Choice(kind="gguf", files=(file,))
        raise _refused(f"{name.repo_id!r} has no file {name.path!r}", name, files)
    inside = [file for file in files if file.folder == name.path]
    if any(file.name == CONFIG for file in inside):
        return Choice(kind="onnx", files=tuple(file for file in inside if _wanted(file.name)))
    weights = [file for file in inside if file.name.endswith(".gguf")]
    if len(weights) == 1:
        return Choice(kind="gguf", files=tuple(weights))
    where = f"The folder {name.path!r} of {name.repo_id!r}" if name.path else repr(name.repo_id)
    what = f"{len(weights)} GGUF files" if weights else f"neither {CONFIG!r} nor a GGUF file"
    raise _refused(f"{where} has {what}", name, files)


def check(path: Path, file: HubFile, advance: Callable[[int], None]) -> None:
    """Compares what came with what the Hub states; `advance` gets bytes. Raises PullError."""
    size = path.stat().st_size
    if size != file.size:
        raise _wrong(f"{file.path!r} has {size} bytes, the Hub states {file.size}.")
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(usedforsecurity=False)
    if not file.sha256:
        digest.update(f"blob {size}\0".encode())  # as git names a file by its content
    with path.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
            advance(len(chunk))
    stated = file.sha256 or file.git_sha1
    if digest.hexdigest() != stated:
        kind = "SHA-256" if file.sha256 else "git id"
        raise _wrong(f"{file.path!r} has the {kind} {digest.hexdigest()}, the Hub states {stated}.")


def _wanted(name: str) -> bool:
    if name == _OURS or name.startswith("."):
        return False
    return name.endswith(_KINDS) or name.upper().startswith(_TEXTS)


def _wrong(what: str) -> PullError:
    return PullError("checksum", what, "Try again; what came was deleted.")


def _refused(what: str, name: HubName, files: Sequence[HubFile]) -> PullError:
    at = name.text.removesuffix(f":{name.path}") if name.path else name.text
    models = sorted(
        {file.folder for file in files if file.name == CONFIG and file.folder}
        | {file.path for file in files if file.name.endswith(".gguf")}
    )
    if models:
        shown = ", ".join(f"{at}:{path}" for path in models[:_SHOWN])
        more = f" and {len(models) - _SHOWN} more" if len(models) > _SHOWN else ""
        return PullError("source", f"{what}.", f"Name one of {shown}{more}.")
    found = ", ".join(sorted(file.path for file in files)[:_SHOWN]) or "nothing"
    return PullError(
        "source",
        f"{what}; found: {found}.",
        "A model is a folder of ONNX Runtime GenAI, or a GGUF file of a Llama architecture.",
    )
