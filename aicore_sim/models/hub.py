"""Models of the Hugging Face Hub: what a name means, its files, and their way into the cache.

https://huggingface.co/docs/huggingface_hub/package_reference/file_download
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aicore_sim.models.catalogue import CatalogueModel, hub_folder, hub_home, hub_model
from aicore_sim.models.errors import PullError
from aicore_sim.models.hub_files import Choice, HubFile, check, choose
from aicore_sim.models.hub_name import HubName
from aicore_sim.models.installation import (
    LONGEST_WAIT,
    Installation,
    Phase,
    Progress,
    PullResult,
    install,
    no_space,
)

_ENDPOINT = "HF_ENDPOINT"
_ANSWER_TIMEOUT = 20.0
_PARTIAL = "partial-"
_PARTIAL_CONTENT = 206
_TRANSPORTS = ("httpx", "httpx2", "huggingface_hub", "requests")
"""Packages whose exceptions say that the Hub could not be reached, or broke off."""


def pull_from_hub(
    name: HubName, progress: Progress, *, wait_timeout: float = LONGEST_WAIT
) -> PullResult:
    """Makes sure that the model is in the cache, and whole; then the Hub is not asked.

    What came of a download that was cut is kept, and the next one goes on there. Needs
    `huggingface_hub`, which finds the user's token by itself. Raises PullError.
    """
    home = hub_home(name)

    def get(work: Path, seconds: dict[Phase, float]) -> tuple[Path, Installation]:
        repository = _Repository(name)
        installation = Installation(repository.model, progress, work, seconds)
        files = _downloaded(repository, installation, home)
        if repository.choice.kind == "gguf":
            made = installation.convert(files[0])
        else:
            made = work / "model"
            made.mkdir()
            for path in files:
                path.rename(made / path.name)
            installation.finish(made, f"- Source: {repository.model.requirement}\n- Changed: no\n")
        _forget_partial(home)
        return made, installation

    return install(home, hub_folder(name), progress, get, wait_timeout=wait_timeout)


class _Repository:
    """What the Hub says of a model."""

    def __init__(self, name: HubName) -> None:
        hub = _library()
        self.name = name
        self.endpoint = os.environ.get(_ENDPOINT) or None
        with _explained(name):
            info = hub.HfApi(endpoint=self.endpoint).model_info(
                name.repo_id, revision=name.revision, timeout=_ANSWER_TIMEOUT, files_metadata=True
            )
        self.commit = str(info.sha)
        self.choice: Choice = choose(name, [_file(sibling) for sibling in info.siblings or ()])
        self.size = sum(file.size for file in self.choice.files)
        self.model: CatalogueModel = hub_model(
            name.text,
            requirement=f"hf:{name.repo_id}@{self.commit}",
            licence=_licence(info),
            source=self.choice.files[0].path if self.choice.kind == "gguf" else name.path,
            sha256=self.choice.files[0].sha256 if self.choice.kind == "gguf" else "",
        )

    def fetch(self, file: HubFile, folder: Path, advance: Callable[[int], None]) -> Path:
        """The file, in `folder` at its path; goes on with what is there of it."""
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        if not path.exists():
            with _explained(self.name):
                self._append(file, part, advance)
            part.rename(path)
        else:
            advance(file.size)
        return path

    def _append(self, file: HubFile, part: Path, advance: Callable[[int], None]) -> None:
        hub = _library()
        url = hub.hf_hub_url(
            self.name.repo_id, file.path, revision=self.commit, endpoint=self.endpoint
        )
        headers = hub.utils.build_hf_headers(library_name="aicore-sim")
        headers["Accept-Encoding"] = "identity"
        with part.open("ab") as target:
            there = target.tell()
            if there >= file.size > 0:
                advance(file.size)
                return
            if there:
                headers["Range"] = f"bytes={there}-"
            session = hub.utils.get_session()
            with session.stream(
                "GET", url, headers=headers, timeout=_ANSWER_TIMEOUT, follow_redirects=True
            ) as answer:
                hub.utils.hf_raise_for_status(answer)
                if there and answer.status_code != _PARTIAL_CONTENT:
                    target.truncate(0)
                    there = 0
                advance(there)
                for piece in answer.iter_bytes():
                    target.write(piece)
                    advance(len(piece))


def _downloaded(repository: _Repository, installation: Installation, home: Path) -> list[Path]:
    free = shutil.disk_usage(home).free
    if free < 2 * repository.size:
        needed = f"{2 * repository.size // 10**6} MB are needed, {free // 10**6} MB are free"
        raise no_space(home, needed)
    partial = home / f"{_PARTIAL}{repository.commit[:40]}"
    if not partial.exists():
        _forget_partial(home)
        partial.mkdir()
    progress = installation.progress
    with installation.phase("download", repository.size):
        files = [
            repository.fetch(file, partial, progress.advance) for file in repository.choice.files
        ]
    with installation.phase("extract", repository.size):
        for path, file in zip(files, repository.choice.files, strict=True):
            try:
                check(path, file, progress.advance)
            except PullError:
                path.unlink()
                raise
    return files


def _forget_partial(home: Path) -> None:
    for path in home.glob(f"{_PARTIAL}*"):
        shutil.rmtree(path, ignore_errors=True)


def _file(sibling: Any) -> HubFile:
    path = str(sibling.rfilename)
    if path.startswith("/") or "\\" in path or ".." in path.split("/"):
        raise PullError("source", f"The Hub names a file {path!r}.", "Use another repository.")
    return HubFile(
        path=path,
        size=int(sibling.size or 0),
        sha256=sibling.lfs.sha256 if sibling.lfs else "",
        git_sha1=str(sibling.blob_id or ""),
    )


def _licence(info: Any) -> str:
    stated = getattr(info.card_data, "license", None)
    return str(stated) if stated else "unknown"


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise PullError(
            "no_hub",
            "Models of the Hugging Face Hub need the package 'huggingface_hub'.",
            "Run `pip install 'aicore-sim[hub]'`.",
        ) from None
    return huggingface_hub


@contextmanager
def _explained(name: HubName) -> Iterator[None]:
    """What the library raises, as PullError. A full disk stays what it is."""
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError:
        raise _no_access(name, "its owner grants access one by one") from None
    except errors.RevisionNotFoundError:
        raise _not_found(name, f"the revision {name.revision!r} of {name.repo_id!r}") from None
    except errors.RepositoryNotFoundError:
        # The Hub does not tell a private repository from none.
        raise _no_access(name, "there is no such repository, or it is private") from None
    except errors.EntryNotFoundError as error:
        raise _not_found(name, f"a file of {name.repo_id!r} ({_first_line(error)})") from None
    except errors.HfHubHTTPError as error:
        if error.response.status_code in (401, 403):
            raise _no_access(name, f"it answers {error.response.status_code}") from None
        raise _cut(name, error) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            raise
        raise _cut(name, error) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _TRANSPORTS:
            raise
        raise _cut(name, error) from None


def _no_access(name: HubName, why: str) -> PullError:
    return PullError(
        "no_access",
        f"The Hub gives no access to {name.repo_id!r}: {why}.",
        "Check the name; for a private or gated one, log in with `hf auth login` or set HF_TOKEN.",
    )


def _not_found(name: HubName, what: str) -> PullError:
    return PullError("not_found", f"The Hub does not have {what}.", f"Check {name.text!r}.")


def _cut(name: HubName, error: Exception) -> PullError:
    return PullError(
        "download",
        f"{name.text!r} could not be downloaded: {_first_line(error)}.",
        "Check the network and try again: the download goes on where it stopped.",
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:300]
