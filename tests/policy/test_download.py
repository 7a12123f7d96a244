"""Downloads: their items, who joins, and how they fail and succeed."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator

import pytest

from aicore_sim.device.errors import GenAiError
from aicore_sim.device.profile import DeviceProfile, ServedFeature, load_profile
from aicore_sim.policy.availability import Availability
from aicore_sim.policy.availability_store import FeatureStatus
from aicore_sim.policy.download import (
    ByteSource,
    DownloadCompleted,
    DownloadFailed,
    DownloadProblem,
    DownloadProgress,
    DownloadStarted,
    DownloadStatus,
)
from aicore_sim.policy.download_sources import StreamedBytes, Transfer
from tests.policy.clocks import ManualClock, turns
from tests.policy.test_availability import FULL

SIZE = 1000


def fresh_phone(
    clock: ManualClock | None = None, source: ByteSource | None = None, **download: object
) -> Availability:
    table = load_profile("pixel-10").model_dump()
    table["availability"]["initial"] = "DOWNLOADABLE"
    table["download"] |= {"bytes": SIZE} | download
    return Availability(
        DeviceProfile.model_validate(table), clock=clock or ManualClock(), source=source
    )


class Caller:
    """An app that downloads, and what it is told."""

    def __init__(self, availability: Availability) -> None:
        self.items: list[DownloadStatus] = []
        self.task = asyncio.create_task(self._follow(availability))

    async def _follow(self, availability: Availability) -> None:
        async for item in availability.download(*FULL):
            self.items.append(item)

    async def end(self) -> list[DownloadStatus]:
        await asyncio.wait_for(self.task, 5)
        return self.items


async def download(availability: Availability) -> list[DownloadStatus]:
    return await Caller(availability).end()


def started(size: int = SIZE) -> DownloadStarted:
    return DownloadStarted(bytes_to_download=size)


def progress(*totals: int) -> list[DownloadStatus]:
    return [DownloadProgress(total_bytes_downloaded=total) for total in totals]


def failure(items: list[DownloadStatus]) -> tuple[int, int]:
    last = items[-1]
    assert isinstance(last, DownloadFailed)
    return last.error.error_code, last.error.error_type


@pytest.mark.requirement("common.download-status")
async def test_an_immediate_download_tells_its_start_its_progress_and_its_end() -> None:
    phone = fresh_phone(progression="immediate")
    assert await download(phone) == [started(), *progress(SIZE), DownloadCompleted()]
    assert phone.check_status(*FULL) is FeatureStatus.AVAILABLE
    assert await download(phone) == [DownloadCompleted()]


async def test_nothing_happens_before_the_download_is_iterated() -> None:
    phone = fresh_phone(progression="immediate")
    stream = phone.download(*FULL)
    await turns()
    assert phone.check_status(*FULL) is FeatureStatus.DOWNLOADABLE
    await stream.aclose()


async def test_a_timed_download_follows_the_devices_clock() -> None:
    clock = ManualClock()
    phone = fresh_phone(clock, progression="seconds", seconds=20)
    caller = Caller(phone)
    await clock.advance(19.9)
    assert caller.items == [started(), *progress(*range(100, 1000, 100))]
    assert phone.check_status(*FULL) is FeatureStatus.DOWNLOADING
    await clock.advance(0.1)
    assert (await caller.end())[-2:] == [*progress(SIZE), DownloadCompleted()]
    assert phone.check_status(*FULL) is FeatureStatus.AVAILABLE


@pytest.mark.requirement("aicore.availability.download-state")
async def test_a_polled_download_moves_with_each_status_call() -> None:
    phone = fresh_phone(progression="polls", polls=3)
    caller = Caller(phone)
    await turns()
    seen = []
    for _ in range(4):
        seen.append(phone.check_status(*FULL))
        await turns()
    assert seen == [
        FeatureStatus.DOWNLOADING,
        FeatureStatus.DOWNLOADING,
        FeatureStatus.AVAILABLE,
        FeatureStatus.AVAILABLE,
    ]
    assert await caller.end() == [started(), *progress(333, 666, 1000), DownloadCompleted()]


async def test_a_manual_download_moves_only_by_hand() -> None:
    clock = ManualClock()
    phone = fresh_phone(clock, progression="manual")
    caller = Caller(phone)
    await clock.advance(100_000)
    phone.advance_downloads(400)
    await turns()
    assert phone.check_status(*FULL) is FeatureStatus.DOWNLOADING
    phone.advance_downloads(700)
    assert await caller.end() == [started(), *progress(400, 1000), DownloadCompleted()]


async def test_a_second_caller_joins_and_one_that_leaves_stops_nothing() -> None:
    phone = fresh_phone(progression="manual")
    first = Caller(phone)
    await turns()
    phone.advance_downloads(300)
    second = Caller(phone)
    await turns()
    first.task.cancel()
    await asyncio.wait({first.task}, timeout=5)
    phone.advance_downloads(300)
    await turns()
    phone.complete_downloads()
    assert first.items == [started(), *progress(300)]
    assert await second.end() == [started(), *progress(300, 600, 1000), DownloadCompleted()]
    assert phone.check_status(*FULL) is FeatureStatus.AVAILABLE


async def test_a_slow_caller_misses_progress_but_neither_start_nor_end() -> None:
    phone = fresh_phone(progression="manual")
    caller = Caller(phone)
    await turns()
    for _ in range(9):
        phone.advance_downloads(100)
    phone.fail_downloads(0)
    items = await caller.end()
    assert items[:2] == [started(), *progress(900)]
    assert failure(items) == (0, 1)


async def test_without_a_network_a_download_starts_and_fails_and_a_second_try_succeeds() -> None:
    phone = fresh_phone(progression="immediate")
    phone.set_network(False)
    items = await download(phone)
    assert items[0] == started()
    assert len(items) == 2
    assert failure(items) == (0, 1)
    assert isinstance(items[1], DownloadFailed)
    assert items[1].error.message.startswith(
        "AICore failed with error type 1-DOWNLOAD_ERROR and error code 0-UNKNOWN: "
    )
    assert phone.check_status(*FULL) is FeatureStatus.DOWNLOADABLE
    phone.set_network(True)
    assert (await download(phone))[-1] == DownloadCompleted()


async def test_a_full_disk_fails_a_download_with_501_and_a_second_try_succeeds() -> None:
    phone = fresh_phone(progression="immediate")
    phone.set_disk_full(True)
    assert failure(await download(phone)) == (501, 1)
    assert phone.check_status(*FULL) is FeatureStatus.DOWNLOADABLE
    phone.set_disk_full(False)
    assert (await download(phone))[-1] == DownloadCompleted()


@pytest.mark.parametrize("progression", ["seconds", "polls", "manual"])
async def test_losing_the_network_fails_the_running_download_for_every_caller(
    progression: str,
) -> None:
    clock = ManualClock()
    phone = fresh_phone(clock, progression=progression)
    callers = [Caller(phone), Caller(phone)]
    await turns()
    phone.set_network(False)
    assert [failure(await caller.end()) for caller in callers] == [(0, 1), (0, 1)]
    assert phone.check_status(*FULL) is FeatureStatus.DOWNLOADABLE
    phone.set_network(True)
    await clock.advance(100)
    assert phone.check_status(*FULL) is FeatureStatus.DOWNLOADABLE, "the old source has stopped"


@pytest.mark.parametrize(
    ("status", "last"),
    [(FeatureStatus.AVAILABLE, "completed"), (FeatureStatus.UNAVAILABLE, "failed")],
)
async def test_a_state_that_is_set_ends_the_running_download(
    status: FeatureStatus, last: str
) -> None:
    phone = fresh_phone(progression="manual")
    caller = Caller(phone)
    await turns()
    phone.set_status(status)
    items = await caller.end()
    assert isinstance(items[-1], DownloadCompleted if last == "completed" else DownloadFailed)
    assert phone.check_status(*FULL) is status


async def test_moving_a_download_that_does_not_run_is_refused() -> None:
    phone = fresh_phone()
    with pytest.raises(ValueError, match="no download is running"):
        phone.complete_downloads()
    with pytest.raises(ValueError, match="-1"):
        phone.advance_downloads(-1)


class Pull:
    """A real download as the wiring brings it: two steps, then `error` or the end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.go_on = asyncio.Event()
        self.closed = asyncio.Event()

    async def transfers(self, feature: ServedFeature) -> AsyncGenerator[Transfer, None]:
        assert feature.feature_id == 636
        try:
            yield Transfer(downloaded=0, total=70)
            await self.go_on.wait()
            yield Transfer(downloaded=40, total=70)
            if self.error is not None:
                raise self.error
        finally:
            self.closed.set()


async def test_a_real_download_is_told_in_the_same_items() -> None:
    pull = Pull()
    phone = fresh_phone(source=StreamedBytes(pull.transfers))
    caller = Caller(phone)
    await turns()
    with pytest.raises(ValueError, match="real download"):
        phone.complete_downloads()
    assert phone.check_status(*FULL) is FeatureStatus.DOWNLOADING
    pull.go_on.set()
    items = await caller.end()
    assert (items[0], items[-1]) == (started(70), DownloadCompleted())
    assert phone.check_status(*FULL) is FeatureStatus.AVAILABLE
    await phone.close()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 501),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), 0),
        (RuntimeError("the hash is wrong"), 0),
        (DownloadProblem(604, "AICore is too old for the model."), 604),
    ],
)
async def test_a_real_downloads_failure_is_an_item_and_can_be_tried_again(
    error: Exception, code: int
) -> None:
    pull = Pull(error)
    pull.go_on.set()
    phone = fresh_phone(source=StreamedBytes(pull.transfers))
    assert failure(await download(phone)) == (code, 1)
    assert phone.check_status(*FULL) is FeatureStatus.DOWNLOADABLE
    pull.error = None
    assert (await download(phone))[-1] == DownloadCompleted()
    await phone.close()


async def test_a_real_download_stops_when_the_network_goes_or_the_device_stops() -> None:
    for stop in ("network", "close"):
        pull = Pull()
        phone = fresh_phone(source=StreamedBytes(pull.transfers))
        caller = Caller(phone)
        await turns()
        if stop == "network":
            phone.set_network(False)
        await phone.close()
        await asyncio.wait_for(pull.closed.wait(), 5)
        assert failure(await caller.end())[0] == (0 if stop == "network" else 7)
        await phone.close()


async def test_generating_never_starts_a_real_download() -> None:
    pull = Pull()
    phone = fresh_phone(source=StreamedBytes(pull.transfers))
    with pytest.raises(GenAiError) as refused:
        phone.require_available(*FULL)
    assert refused.value.error_code == 8
    await turns()
    assert not pull.closed.is_set()
    assert phone.check_status(*FULL) is FeatureStatus.DOWNLOADABLE
