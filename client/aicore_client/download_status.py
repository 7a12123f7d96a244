"""How a download of a feature goes.

https://developers.google.com/android/reference/com/google/mlkit/genai/common/DownloadStatus
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from aicore_client._boundary import gen_ai_exception
from aicore_client.errors import GenAiException
from aicore_protos import aicore_pb2


class DownloadStatus:
    """Sealed: `DownloadStarted`, `DownloadProgress`, `DownloadCompleted` or `DownloadFailed`.

    A failure is the last item of the flow, not an exception.
    """

    if TYPE_CHECKING:
        DownloadStarted: TypeAlias = "_DownloadStarted"
        DownloadProgress: TypeAlias = "_DownloadProgress"
        DownloadCompleted: TypeAlias = "_DownloadCompleted"
        DownloadFailed: TypeAlias = "_DownloadFailed"


@dataclass(frozen=True)
class _DownloadStarted(DownloadStatus):
    bytes_to_download: int


@dataclass(frozen=True)
class _DownloadProgress(DownloadStatus):
    total_bytes_downloaded: int


@dataclass(frozen=True)
class _DownloadCompleted(DownloadStatus):
    """The feature is available."""


@dataclass(frozen=True)
class _DownloadFailed(DownloadStatus):
    """The feature is downloadable again, and another try may succeed."""

    e: GenAiException


def status_from_wire(item: aicore_pb2.DownloadResponse) -> DownloadStatus | None:
    """None for an item that this version does not know."""
    match item.WhichOneof("status"):
        case "started":
            return _DownloadStarted(item.started.bytes_to_download)
        case "progress":
            return _DownloadProgress(item.progress.total_bytes_downloaded)
        case "completed":
            return _DownloadCompleted()
        case "failed":
            return _DownloadFailed(gen_ai_exception(item.failed.error))
        case _:
            return None


def _nest(status: type[DownloadStatus]) -> None:
    # A class body cannot name the class that it defines, so the members are put in afterwards.
    status.__name__ = status.__name__.removeprefix("_")
    status.__qualname__ = f"DownloadStatus.{status.__name__}"
    setattr(DownloadStatus, status.__name__, status)


for _status in (_DownloadStarted, _DownloadProgress, _DownloadCompleted, _DownloadFailed):
    _nest(_status)
