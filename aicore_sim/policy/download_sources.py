"""Where the bytes of a download come from: nowhere (simulated), or a stream of transfers."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from aicore_sim.device.clock import Clock
from aicore_sim.device.errors import GenAiCode
from aicore_sim.device.profile import DownloadProfile, ServedFeature
from aicore_sim.policy.download import (
    Download,
    DownloadProblem,
    disk_full,
    download_failure,
)

logger = logging.getLogger(__name__)

_STEPS = 10
_CLOSE_TIMEOUT = 3.0


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """State of a transfer, in bytes."""

    downloaded: int
    total: int


class StreamedBytes:
    """A real download, as a stream of transfers that ends when everything is in place.

    A stream may raise DownloadProblem; ENOSPC is taken as a full disk (501), and everything else as
    AICore's own "unknown" (type 1, code 0), with the reason in the log. It is closed when the
    download is given up, and must stop soon then.
    """

    controllable = False

    def __init__(
        self,
        transfers: Callable[[ServedFeature], AsyncGenerator[Transfer, None]],
        *,
        present: Callable[[ServedFeature], bool | None] = lambda _: None,
    ) -> None:
        self._transfers = transfers
        self._present = present
        self._tasks = _Tasks()

    def present(self, feature: ServedFeature) -> bool | None:
        return self._present(feature)

    def begin(self, download: Download) -> None:
        self._tasks.drive(download, self._transfers(download.feature))

    def polled(self, download: Download) -> None:
        """A real download goes on by itself."""

    def abandon(self, download: Download) -> None:
        self._tasks.cancel(download)

    async def close(self) -> None:
        await self._tasks.close()


class SimulatedBytes:
    """No bytes at all: progress by the profile's rule, on the device's clock."""

    controllable = True

    def __init__(self, profile: DownloadProfile, *, clock: Clock) -> None:
        self.profile = profile
        """How the next downloads move on; may be replaced at any time."""
        self._clock = clock
        self._tasks = _Tasks()
        self._polls: dict[Download, tuple[int, int]] = {}

    def present(self, feature: ServedFeature) -> None:
        return None

    def begin(self, download: Download) -> None:
        profile = self.profile
        download.start(download.feature.download_bytes)
        match profile.progression:
            case "immediate":
                download.complete()
            case "seconds":
                self._tasks.drive(download, self._in(profile.seconds, download.total_bytes))
            case "polls":
                self._polls[download] = (0, profile.polls)
            case "manual":
                pass

    def polled(self, download: Download) -> None:
        """The n-th status call after the start finds the feature there."""
        if download not in self._polls:
            return
        done, needed = self._polls[download]
        done += 1
        self._polls[download] = (done, needed)
        if done >= needed:
            download.complete()
        else:
            download.progress(download.total_bytes * done // needed)

    def abandon(self, download: Download) -> None:
        self._polls.pop(download, None)
        self._tasks.cancel(download)

    async def close(self) -> None:
        await self._tasks.close()

    async def _in(self, seconds: float, total: int) -> AsyncGenerator[Transfer, None]:
        for step in range(1, _STEPS + 1):
            await self._clock.sleep(seconds / _STEPS)
            yield Transfer(downloaded=total * step // _STEPS, total=total)


class _Tasks:
    """One task for each download that needs time."""

    def __init__(self) -> None:
        self._tasks: dict[Download, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def drive(self, download: Download, transfers: AsyncGenerator[Transfer, None]) -> None:
        name = f"download-{download.feature.feature_id}"
        self._tasks[download] = asyncio.create_task(_drive(download, transfers), name=name)

    def cancel(self, download: Download) -> None:
        task = self._tasks.pop(download, None)
        if task is None or task is asyncio.current_task():
            return
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        for download in list(self._tasks):
            self.cancel(download)
        if self._ending:
            _, late = await asyncio.wait(self._ending, timeout=_CLOSE_TIMEOUT)
            for task in late:
                logger.warning("task=%s did not end within %s s", task.get_name(), _CLOSE_TIMEOUT)


async def _drive(download: Download, transfers: AsyncGenerator[Transfer, None]) -> None:
    try:
        async with aclosing(transfers):
            async for transfer in transfers:
                download.start(transfer.total)
                download.progress(transfer.downloaded)
        download.complete()
    except DownloadProblem as problem:
        download.fail(download_failure(problem.error_code, problem.detail))
    except Exception as error:
        logger.exception("feature=%d cannot be downloaded", download.feature.feature_id)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            download.fail(disk_full())
        else:
            download.fail(download_failure(GenAiCode.UNKNOWN, "The download failed."))
