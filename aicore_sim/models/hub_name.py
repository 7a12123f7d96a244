"""Names of models on the Hugging Face Hub: `hf:OWNER/REPO[@REVISION][:PATH]`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from aicore_sim.models.errors import ModelNotFound

PREFIX = "hf:"
USUAL_REVISION = "main"

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_NAME = re.compile(
    rf"hf:(?P<owner>{_PART})/(?P<repo>{_PART})"
    r"(?:@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]{0,99}))?(?::(?P<path>[^:\\]{1,300}))?"
)
_FORM = "hf:OWNER/REPO[@REVISION][:FOLDER], or :FILE.gguf in place of the folder"


@dataclass(frozen=True, kw_only=True)
class HubName:
    owner: str
    repo: str
    revision: str = USUAL_REVISION
    """A branch, a tag or a commit."""
    path: str = ""
    """A folder of the repository, or a GGUF file; empty for the whole repository."""

    @property
    def repo_id(self) -> str:
        return f"{self.owner}/{self.repo}"

    @property
    def text(self) -> str:
        """The same for all spellings of a name."""
        revision = "" if self.revision == USUAL_REVISION else f"@{self.revision}"
        return f"{PREFIX}{self.repo_id}{revision}{f':{self.path}' if self.path else ''}"

    @property
    def folder(self) -> str:
        """A file name that no other model has."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:16]
        return f"{self.owner}--{self.repo}"[:80] + f"-{digest}"


def parse_hub_name(text: str) -> HubName:
    """Raises ModelNotFound for what is no such name."""
    found = _NAME.fullmatch(text)
    if found is None:
        raise ModelNotFound(f"{text!r} is not of the form {_FORM}.")
    path = (found["path"] or "").strip("/")
    steps = path.split("/") if path else []
    revision = found["revision"] or USUAL_REVISION
    if any(step in ("", ".", "..") or not step.isprintable() for step in steps):
        raise ModelNotFound(f"{text!r} names the folder {found['path']!r}, which is no plain path.")
    if ".." in (revision.split("/")) or ".." in (found["owner"], found["repo"]):
        raise ModelNotFound(f"{text!r} is not of the form {_FORM}.")
    return HubName(owner=found["owner"], repo=found["repo"], revision=revision, path=path)
