"""What every way of getting a model ends with: conversion, a trial, and its place in the cache."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from filelock import FileLock, Timeout

from aicore_sim.models._child import ChildResult, run_child
from aicore_sim.models._child_main import OUT_OF_SPACE, TRIAL_TOKENS
from aicore_sim.models.adapter import shipped
from aicore_sim.models.catalogue import CACHE_VARIABLE, LAYOUT, CatalogueModel
from aicore_sim.models.errors import PullError, PullFailure
from aicore_sim.models.manifest import MANIFEST, Manifest, damage, described, file_sha256

Phase = Literal["wait", "download", "extract", "convert", "verify"]

_TEMPORARY = ".tmp-"
_CARD = "MODEL_CARD.md"
_CONVERT_TIMEOUT = 600.0
_VERIFY_TIMEOUT = 120.0
_REMOVE_TIMEOUT = 5.0
LONGEST_WAIT = 3600.0
"""Seconds that a pull waits for another one, unless it is told otherwise."""


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


def install(
    home: Path,
    folder: Path,
    progress: Progress,
    get: Callable[[Path, dict[Phase, float]], tuple[Path, Installation]],
    *,
    wait_timeout: float,
) -> PullResult:
    """Makes sure that `folder`, in `home`, is a whole model. `get` makes it in a temporary folder.

    One pull of a `home` works at a time; another waits, at most `wait_timeout` seconds, and then
    finds the model. One that fails or is killed leaves no model and no lock, and the next one
    clears what it left of its temporary folder. Raises PullError.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _cache_lock(home, progress, wait_timeout) as waited:
            _clear_temporary(home)
            if folder.exists() and not damage(folder):
                return PullResult(path=folder, already_there=True, seconds=waited)
            with _temporary(home) as work:
                made, installation = get(work, waited)
                _move_into_place(made, folder, work)
            return PullResult(
                path=folder,
                already_there=False,
                seconds=installation.seconds,
                peak_memory_bytes=installation.peak_memory,
            )
    except OSError as error:
        if error.errno in OUT_OF_SPACE:
            raise no_space(home, str(error)) from error
        raise PullError(
            "cache",
            f"The model cache {str(home)!r} cannot be used: {error}.",
            f"Make it writable, or set {CACHE_VARIABLE} to another folder.",
        ) from error


def remove_home(home: Path) -> int:
    """Deletes what was pulled into `home`; returns bytes freed. Raises PullError."""
    if not home.exists():
        return 0
    with _cache_lock(home, NoProgress(), _REMOVE_TIMEOUT):
        freed = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
        for path in [entry for entry in home.iterdir() if entry.is_dir()]:
            if not path.name.startswith(_TEMPORARY):
                # Renamed first: a half-deleted model must not be found by its name.
                path = path.rename(home / f"{_TEMPORARY}removed-{path.name}")
            shutil.rmtree(path)
    return freed


class Installation:
    """One model on its way, in the temporary folder `work`."""

    def __init__(
        self, model: CatalogueModel, progress: Progress, work: Path, seconds: dict[Phase, float]
    ) -> None:
        self.model = model
        self.progress = progress
        self.work = work
        self.seconds = seconds
        self.peak_memory = 0

    def convert(self, gguf: Path) -> Path:
        """The finished folder of a checked GGUF file. Raises PullError."""
        folder = self.work / "model"
        folder.mkdir()
        adapter = [str(_checked_adapter(self.model))] if self.model.adapter else []
        with self.phase("convert", self.model.layers or None):
            result = run_child(
                ["convert", str(gguf), str(folder), *adapter],
                timeout=_CONVERT_TIMEOUT,
                on_step=lambda done, total: self.progress.advance(1),
            )
        self.check(result, "conversion", "The conversion failed")
        self.finish(
            folder,
            f"- Source: {self.model.gguf_name} of {self.model.requirement}\n"
            f"- SHA-256 of the source: {self.model.gguf_sha256}\n"
            "- Changed: weights requantised to 8-bit blocks of 32 and converted to ONNX "
            f"by aicore-sim{_adapted(self.model)}\n",
        )
        return folder

    def finish(self, folder: Path, origin: str) -> None:
        """Lets the model of `folder` generate, and describes it. `origin`: lines for its card.

        Raises PullError.
        """
        with self.phase("verify", TRIAL_TOKENS):
            result = run_child(
                ["generate", str(folder)],
                timeout=_VERIFY_TIMEOUT,
                on_step=lambda done, total: self.progress.advance(1),
            )
            self.check(result, "verification", "The model does not generate")
            self._describe(folder, origin)

    def check(self, result: ChildResult, failure: PullFailure, what: str) -> None:
        self.peak_memory = max(self.peak_memory, result.peak_memory)
        if result.returncode == 0:
            return
        if result.failure is not None and result.failure["kind"] == "no_space":
            raise no_space(self.work.parent, result.reason())
        raise PullError(
            failure,
            f"{what}: {result.reason()}.",
            "Try again; if it fails again, report it with this message.",
        )

    def _describe(self, folder: Path, origin: str) -> None:
        """Writes the model card and the manifest, and sees that everything is on disk."""
        model = self.model
        (folder / _CARD).write_text(
            f"# {model.name}\n\n- Original model: {model.homepage}\n"
            f"- Licence: {model.licence}\n{origin}",
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
    def phase(self, phase: Phase, total: int | None) -> Iterator[None]:
        self.progress.start(phase, total)
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = time.perf_counter() - started
            self.progress.done()


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
def _cache_lock(home: Path, progress: Progress, timeout: float) -> Iterator[dict[Phase, float]]:
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


def no_space(home: Path, detail: str) -> PullError:
    return PullError(
        "no_space",
        f"There is not enough disk space in {str(home)!r}: {detail}.",
        f"Free some, or set {CACHE_VARIABLE} to a folder on another disk, and try again.",
    )


def _adapted(model: CatalogueModel) -> str:
    return f", with the adapter {model.adapter!r} of that package merged" if model.adapter else ""
