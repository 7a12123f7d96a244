"""Downloads of features: what callers are told, and where the bytes come from.

A failed download is an item of the stream, not an exception, and a second caller joins the running
download: https://developers.google.com/android/reference/com/google/mlkit/genai/common/DownloadStatus
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

from aicore_sim.device.errors import GenAiCode, GenAiError
from aicore_sim.device.profile import ServedFeature
from aicore_sim.policy.failures import ErrorType, aicore_failure


@dataclass(frozen=True, kw_only=True)
class DownloadStarted:
    bytes_to_download: int


@dataclass(frozen=True, kw_only=True)
class DownloadProgress:
    total_bytes_downloaded: int


@dataclass(frozen=True, kw_only=True)
class DownloadCompleted:
    pass


@dataclass(frozen=True, kw_only=True)
class DownloadFailed:
    error: GenAiError


DownloadStatus = DownloadStarted | DownloadProgress | DownloadCompleted | DownloadFailed


class Download:
    """One download, moved on by a source of bytes and followed by any number of callers.

    Belongs to one event loop. What comes after the end is ignored, so that a source need not know
    that its download was given up.
    """

    def __init__(self, feature: ServedFeature, *, on_end: Callable[[Download], None]) -> None:
        self.feature = feature
        self._on_end = on_end
        self._started: DownloadStarted | None = None
        self._progress: DownloadProgress | None = None
        self._end: DownloadCompleted | DownloadFailed | None = None
        self._changed = asyncio.Event()

    @property
    def total_bytes(self) -> int:
        """Bytes to download; 0 before that is known."""
        return 0 if self._started is None else self._started.bytes_to_download

    @property
    def downloaded_bytes(self) -> int:
        return 0 if self._progress is None else self._progress.total_bytes_downloaded

    @property
    def end(self) -> DownloadCompleted | DownloadFailed | None:
        """How it ended; None while it runs."""
        return self._end

    def start(self, total_bytes: int) -> None:
        """The source knows how much there is to do."""
        if self._started is None and self._end is None:
            self._started = DownloadStarted(bytes_to_download=total_bytes)
            self._notify()

    def progress(self, downloaded_bytes: int) -> None:
        """So many bytes are there in all."""
        if self._end is None and downloaded_bytes > self.downloaded_bytes:
            self._progress = DownloadProgress(total_bytes_downloaded=downloaded_bytes)
            self._notify()

    def complete(self) -> None:
        """Every byte is there."""
        self.progress(self.total_bytes)
        self._finish(DownloadCompleted())

    def fail(self, error: GenAiError) -> None:
        """The download ends without the feature."""
        self._finish(DownloadFailed(error=error))

    async def follow(self) -> AsyncGenerator[DownloadStatus, None]:
        """What happened so far in short, then what happens. A slow caller misses intermediate
        progress, never the start or the end."""
        started = progress = None
        while True:
            changed = self._changed
            if started is not self._started:
                started = self._started
                assert started is not None
                yield started
            if progress is not self._progress:
                progress = self._progress
                assert progress is not None
                yield progress
            if self._end is not None and progress is self._progress:
                yield self._end
                return
            await changed.wait()

    def _finish(self, end: DownloadCompleted | DownloadFailed) -> None:
        if self._end is None:
            self._end = end
            self._on_end(self)
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class ByteSource(Protocol):
    """Where the bytes of features come from."""

    controllable: bool
    """Whether its downloads may be moved on by hand, since nothing real depends on them."""

    def present(self, feature: ServedFeature) -> bool | None:
        """Whether the bytes are on this machine; None when the device's own record decides."""

    def begin(self, download: Download) -> None:
        """Start to move bytes and report to `download`; may complete it at once, never waits."""

    def polled(self, download: Download) -> None:
        """A status call was made during the download; the answer comes after this."""

    def abandon(self, download: Download) -> None:
        """The download has ended; stop what still works for it. Called once for each."""

    async def close(self) -> None:
        """Stop everything. Idempotent."""


class DownloadProblem(Exception):
    """A source cannot go on; the caller is told by this code and detail."""

    def __init__(self, error_code: int, detail: str) -> None:
        super().__init__(detail)
        self.error_code = error_code
        self.detail = detail


def no_network() -> GenAiError:
    """https://github.com/googlesamples/mlkit/issues/1063"""
    return download_failure(GenAiCode.UNKNOWN, "There is no network connection.")


def disk_full() -> GenAiError:
    return download_failure(GenAiCode.NOT_ENOUGH_DISK_SPACE, "There is not enough disk space.")


def download_failure(error_code: int, detail: str) -> GenAiError:
    """A failure of type 1-DOWNLOAD_ERROR."""
    return aicore_failure(error_code, detail, error_type=ErrorType.DOWNLOAD_ERROR)
