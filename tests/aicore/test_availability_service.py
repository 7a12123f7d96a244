"""Availability and downloads as apps meet them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from aicore_protos import aicore_pb2, device_pb2, errors_pb2
from aicore_sim.models.errors import PullError
from aicore_sim.models.pull import Progress, PullResult
from aicore_sim.policy.download_sources import StreamedBytes
from aicore_sim.service import model_download
from aicore_sim.service.model import UnavailableBackend
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import TIMEOUT, App, prompt
from tests.aicore.conftest import Daemon, StartDaemon
from tests.aicore.device_calls import (
    OK,
    advance,
    downloaded,
    journal,
    outcome,
    rest_of,
    status,
)

NOT_AVAILABLE, NO_SPACE = 8, 501
UNAVAILABLE, DOWNLOADABLE, DOWNLOADING, AVAILABLE = range(4)
PREVIEW = aicore_pb2.ModelSelection(release_stage=aicore_pb2.PREVIEW, preference=aicore_pb2.FULL)


def moved(rule: str, **amount: float) -> device_pb2.ControlDownloadRequest:
    return device_pb2.ControlDownloadRequest(progression={"rule": rule, **amount})


async def set_to(daemon: Daemon, **fields: Any) -> device_pb2.Availability:
    request = device_pb2.SetAvailabilityRequest(**fields)
    found: device_pb2.Availability = await daemon.shell.call("SetAvailability", request)
    return found


async def last_of(app: App) -> errors_pb2.GenAiError:
    """The failure that a download ends with, as an item and not as an error."""
    stream = app.start("Download", aicore_pb2.DownloadRequest())
    items = [item async for item in stream]
    assert [item.WhichOneof("status") for item in items[:-1]] == ["started"]
    error: errors_pb2.GenAiError = items[-1].failed.error
    return error


@pytest.mark.requirement("aicore.availability.feature-not-found", "aicore.availability.not-here")
async def test_each_kind_of_phone_that_has_no_model_shows_its_own_symptom(
    start_daemon: StartDaemon,
) -> None:
    expected = {
        "no-aicore": (601, 601, 4),
        "aicore-too-old": (-101, -101, 0),
        "not-listed": (UNAVAILABLE, NOT_AVAILABLE, 3),
        "unlocked-bootloader": (606, 606, 3),
        "inference-error": (AVAILABLE, 8, 2),
        "galaxy-s25": (606, 606, 3),
    }
    for profile, (status_is, code, error_type) in expected.items():
        async with start_daemon(script="- text: never", profile=profile) as daemon:
            if status_is in (UNAVAILABLE, AVAILABLE):
                assert await status(daemon.app) == status_is, profile
            else:
                fault = await daemon.app.fault("CheckStatus", aicore_pb2.CheckStatusRequest())
                assert fault.error_code == status_is, profile
            fault = await daemon.app.fault("GenerateContent", prompt("hi"), stream=True)
            assert (fault.error_code, fault.error_type) == (code, error_type), profile


@pytest.mark.requirement(
    "aicore.availability.documented-status",
    "aicore.availability.feature-not-found",
)
async def test_the_status_call_of_a_phone_without_the_feature_throws_or_answers_by_a_switch(
    start_daemon: StartDaemon, short_dir: Path
) -> None:
    documented = short_dir / "documented.toml"
    documented.write_text(
        'extends = "unlocked-bootloader"\n[availability]\nunprovisioned = "documented"\n'
    )
    async with start_daemon(profile="unlocked-bootloader", clock="virtual") as daemon:
        for _ in range(2):
            fault = await daemon.app.fault("CheckStatus", aicore_pb2.CheckStatusRequest())
            assert fault.message == (
                "AICore failed with error type 3-PREPARATION_ERROR and error code "
                "606-FEATURE_NOT_FOUND: Feature 636 is not available."
            )
            await advance(daemon, 30 * 86_400)
    async with start_daemon(profile=str(documented)) as daemon:
        assert await status(daemon.app) == UNAVAILABLE
        assert await outcome(daemon.app) == NOT_AVAILABLE


async def test_a_phone_after_set_up_learns_of_its_feature_with_time(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(profile="config-pending", clock="virtual") as daemon:
        request = aicore_pb2.CheckStatusRequest()
        assert (await daemon.app.fault("CheckStatus", request)).error_code == 606
        await advance(daemon, 3599)
        assert (await daemon.app.fault("CheckStatus", request)).error_code == 606
        await advance(daemon, 1)
        assert await status(daemon.app) == DOWNLOADABLE


@pytest.mark.requirement("aicore.availability.feature-not-found")
async def test_a_request_for_a_feature_that_no_phone_has_names_its_id(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend(loaded=False)
    async with start_daemon(backend=backend) as daemon:
        for _ in range(2):
            fault = await daemon.app.fault(
                "GenerateContent", prompt("hi", model=PREVIEW), stream=True
            )
            assert (fault.error_code, fault.error_type) == (606, 3)
            assert "Feature 648 is not available." in fault.message
            backend.may_load.set()
            await daemon.server.wait_ready()


async def test_every_feature_of_a_phone_has_its_own_model_and_limits(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(profile="pixel-11") as daemon:
        infos = [
            await daemon.app.call(
                "GetModelInfo",
                aicore_pb2.GetModelInfoRequest(
                    model=aicore_pb2.ModelSelection(release_stage=stage, preference=preference)
                ),
            )
            for stage in (aicore_pb2.STABLE, aicore_pb2.PREVIEW)
            for preference in (aicore_pb2.FULL, aicore_pb2.FAST)
        ]
    assert [(info.feature_id, info.base_model_name, info.token_limit) for info in infos] == [
        (636, "nano-v4-full", 4096),
        (645, "nano-v4-fast", 4096),
        (648, "nano-v4-full", 4096),
        (646, "nano-v4-fast", 4096),
    ]


@pytest.mark.requirement(
    "aicore.availability.download-state",
    "aicore.availability.only-available-infers",
)
@pytest.mark.parametrize("state", [UNAVAILABLE, DOWNLOADABLE, DOWNLOADING])
async def test_generating_in_any_other_state_is_8_at_once_and_starts_no_download(
    start_daemon: StartDaemon, state: int
) -> None:
    async with start_daemon(script="- text: never") as daemon:
        await set_to(daemon, status=state)
        counting = aicore_pb2.CountTokensRequest(request=prompt("hi"))
        faults = [
            await daemon.app.fault("GenerateContent", prompt("hi"), stream=True),
            await daemon.app.fault("Warmup", aicore_pb2.WarmupRequest()),
            await daemon.app.fault("CountTokens", counting),
        ]
        assert {(fault.error_code, fault.error_type) for fault in faults} == {(NOT_AVAILABLE, 3)}
        assert await status(daemon.app) == state
        script = await daemon.shell.call("GetScript", device_pb2.GetScriptRequest())
        assert script.consumed == 0
        assert (await journal(daemon, rpc="GenerateContent"))[0].decision == "availability"


@pytest.mark.requirement(
    "aicore.availability.download-state",
    "aicore.download.joined",
    "prompt.download.flow",
)
async def test_a_download_follows_the_clock_and_a_second_caller_joins_it(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script="- text: ok", clock="virtual") as daemon:
        await set_to(daemon, status=DOWNLOADABLE)
        first = asyncio.ensure_future(downloaded(daemon.app))
        async with asyncio.timeout(TIMEOUT):
            while await status(daemon.app) != DOWNLOADING:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await advance(daemon, 10)
        shown = await daemon.shell.call("GetAvailability", device_pb2.GetAvailabilityRequest())
        assert shown.features[0].downloaded_bytes == 1_500_000_000
        second = asyncio.ensure_future(downloaded(daemon.shell))
        await advance(daemon, 9)
        assert await status(daemon.app) == DOWNLOADING
        await advance(daemon, 1)
        items = await asyncio.wait_for(asyncio.gather(first, second), TIMEOUT)
        assert await status(daemon.app) == AVAILABLE
        assert await outcome(daemon.app) == OK
    for kinds in items:
        assert (kinds[0], kinds[-1]) == ("started", "completed")
        assert set(kinds[1:-1]) == {"progress"}


@pytest.mark.requirement("aicore.download.joined")
async def test_a_download_goes_on_when_its_caller_leaves(start_daemon: StartDaemon) -> None:
    async with start_daemon(clock="virtual") as daemon:
        await set_to(daemon, status=DOWNLOADABLE)
        stream = daemon.app.start("Download", aicore_pb2.DownloadRequest())
        assert (await stream.read()).started.bytes_to_download == 3_000_000_000
        stream.cancel()
        await advance(daemon, 20)
        assert await status(daemon.app) == AVAILABLE


async def test_downloads_move_by_status_calls_by_hand_or_at_once(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(clock="virtual") as daemon:
        await daemon.shell.call("ControlDownload", moved("POLLS", polls=2))
        await set_to(daemon, status=DOWNLOADABLE)
        download = asyncio.ensure_future(downloaded(daemon.app))
        async with asyncio.timeout(TIMEOUT):
            seen = [await status(daemon.app)]
            while seen[-1] != AVAILABLE:
                seen.append(await status(daemon.app))
        assert seen[-2] == DOWNLOADING
        assert (await download)[-1] == "completed"

        await daemon.shell.call("ControlDownload", moved("IMMEDIATE"))
        await set_to(daemon, status=DOWNLOADABLE)
        assert (await downloaded(daemon.app))[-1] == "completed"

        shown = await set_to(daemon, status=DOWNLOADING)
        assert shown.features[0].total_bytes == 3_000_000_000
        stream = daemon.app.start("Download", aicore_pb2.DownloadRequest())
        assert (await stream.read()).WhichOneof("status") == "started"
        step = device_pb2.ControlDownloadRequest(advance_bytes=1_000_000_000)
        await daemon.shell.call("ControlDownload", step)
        assert (await stream.read()).progress.total_bytes_downloaded == 1_000_000_000
        await daemon.shell.call("ControlDownload", device_pb2.ControlDownloadRequest(complete=True))
        assert await status(daemon.app) == AVAILABLE


@pytest.mark.requirement("aicore.download.failure-is-an-item", "common.download-status")
async def test_without_network_or_disk_a_download_fails_as_an_item_and_can_be_tried_again(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon() as daemon:
        await daemon.shell.call("ControlDownload", moved("IMMEDIATE"))
        await set_to(daemon, status=DOWNLOADABLE, network_available=False)
        failed = await last_of(daemon.app)
        assert (failed.error_code, failed.error_type) == (0, 1)
        assert failed.message.startswith(
            "AICore failed with error type 1-DOWNLOAD_ERROR and error code 0-UNKNOWN: "
        )
        assert await status(daemon.app) == DOWNLOADABLE
        await set_to(daemon, network_available=True, disk_full=True)
        failed = await last_of(daemon.app)
        assert (failed.error_code, failed.error_type) == (NO_SPACE, 1)
        assert await status(daemon.app) == DOWNLOADABLE
        await set_to(daemon, disk_full=False, status=DOWNLOADING)
        await daemon.shell.call("ControlDownload", device_pb2.ControlDownloadRequest(fail_with=604))
        assert await status(daemon.app) == DOWNLOADABLE
        assert (await downloaded(daemon.app))[-1] == "completed"
        assert (await journal(daemon, rpc="Download"))[0].decision == "availability"


async def test_losing_the_network_ends_a_running_download(start_daemon: StartDaemon) -> None:
    async with start_daemon(clock="virtual") as daemon:
        await set_to(daemon, status=DOWNLOADABLE)
        failing = asyncio.ensure_future(last_of(daemon.app))
        async with asyncio.timeout(TIMEOUT):
            while await status(daemon.app) != DOWNLOADING:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await set_to(daemon, network_available=False)
        assert (await asyncio.wait_for(failing, TIMEOUT)).error_code == 0
        assert await status(daemon.app) == DOWNLOADABLE


async def test_one_feature_of_several_can_be_set(start_daemon: StartDaemon) -> None:
    async with start_daemon(profile="pixel-11") as daemon:
        shown = await set_to(daemon, status=DOWNLOADABLE, feature_id=648)
        states = {feature.feature_id: feature.status for feature in shown.features}
        assert states == {636: 3, 645: 3, 648: 1, 646: 3}
        assert shown.features[2].model == PREVIEW
        request = aicore_pb2.CheckStatusRequest(model=PREVIEW)
        assert (await daemon.app.call("CheckStatus", request)).status == DOWNLOADABLE


@pytest.mark.parametrize(
    ("name", "request_", "named"),
    [
        ("SetAvailability", device_pb2.SetAvailabilityRequest(feature_id=1, status="AVAILABLE"),
         "feature_id: 1 is not served; this device serves 636"),
        ("ControlDownload", device_pb2.ControlDownloadRequest(), "step: "),
        ("ControlDownload", device_pb2.ControlDownloadRequest(complete=True),
         "complete: no download is running"),
        ("ControlDownload", device_pb2.ControlDownloadRequest(fail_with=0),
         "fail_with: no download is running"),
        ("ControlDownload", device_pb2.ControlDownloadRequest(advance_bytes=-1),
         "advance_bytes: "),
        ("ControlDownload", moved("SECONDS"), "progression.seconds: 0 is not above 0"),
        ("ControlDownload", moved("POLLS", polls=-2), "progression.polls: -2 "),
        ("ControlDownload", moved("RULE_UNSPECIFIED"), "progression.rule: 0 is none of"),
    ],
)  # fmt: skip
async def test_a_wrong_request_names_the_field_and_changes_nothing(
    start_daemon: StartDaemon, name: str, request_: object, named: str
) -> None:
    async with start_daemon() as daemon:
        asked = device_pb2.GetAvailabilityRequest()
        before = await daemon.shell.call("GetAvailability", asked)
        assert (await daemon.shell.fault(name, request_)).message.startswith(named)
        assert await daemon.shell.call("GetAvailability", asked) == before


async def test_the_availability_of_a_phone_survives_a_restart(start_daemon: StartDaemon) -> None:
    async with start_daemon() as daemon:
        await set_to(daemon, status=DOWNLOADABLE, disk_full=True)
    async with start_daemon() as daemon:
        shown = await daemon.shell.call("GetAvailability", device_pb2.GetAvailabilityRequest())
        assert (shown.features[0].status, shown.disk_full) == (DOWNLOADABLE, True)


class FakePull:
    """A pull in a thread of its own, as the real one."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.go_on = threading.Event()
        self.ended = threading.Event()

    def __call__(self, model: object, progress: Progress) -> PullResult:
        try:
            progress.start("download", 100)
            progress.advance(40)
            assert self.go_on.wait(TIMEOUT)
            if self.failure is not None:
                raise self.failure
            progress.advance(60)
            progress.done()
            return PullResult(path=Path("model"), already_there=False)
        finally:
            self.ended.set()


async def with_pull(daemon: Daemon, pull: FakePull) -> None:
    """Let the device lack its model and download it by `pull`."""
    from aicore_sim.models.catalogue import DEFAULT_MODEL

    availability = daemon.server.device.generations.availability
    model = daemon.server.device.generations.model
    await daemon.server.wait_ready()
    await model.replace(UnavailableBackend("it is not on this machine"))

    async def arrived() -> None:
        backend = HandDrivenBackend()
        backend.finish()
        await model.replace(backend)
        await model.wait_loaded()

    source: StreamedBytes = model_download.real_download(
        DEFAULT_MODEL,
        present=lambda: not isinstance(model.backend, UnavailableBackend),
        arrived=arrived,
        pull_model=pull,
    )
    availability._source = source
    availability._adopt()


async def test_a_model_that_is_not_there_is_downloaded_for_real(start_daemon: StartDaemon) -> None:
    pull = FakePull()
    async with start_daemon() as daemon:
        await with_pull(daemon, pull)
        assert await status(daemon.app) == DOWNLOADABLE
        assert await outcome(daemon.app) == NOT_AVAILABLE
        stream = daemon.app.start("Download", aicore_pb2.DownloadRequest())
        assert (await stream.read()).WhichOneof("status") == "started"
        assert (await stream.read()).progress.total_bytes_downloaded == 40
        fault = await daemon.shell.fault(
            "ControlDownload", device_pb2.ControlDownloadRequest(complete=True)
        )
        assert "a real download is running" in fault.message
        pull.go_on.set()
        kinds = [item.WhichOneof("status") for item in await rest_of(stream)]
        assert kinds[-1] == "completed"
        assert await status(daemon.app) == AVAILABLE
        assert await outcome(daemon.app) == OK


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (PullError("no_space", "Full.", "Free some."), NO_SPACE),
        (PullError("download", "No host.", "Try again."), 0),
        (RuntimeError("broken"), 0),
    ],
)
async def test_a_real_download_that_fails_is_an_item_and_leaves_the_model_downloadable(
    start_daemon: StartDaemon, problem: Exception, code: int
) -> None:
    pull = FakePull(problem)
    pull.go_on.set()
    async with start_daemon() as daemon:
        await with_pull(daemon, pull)
        stream = daemon.app.start("Download", aicore_pb2.DownloadRequest())
        items = [item async for item in stream]
        assert items[-1].failed.error.error_code == code
        assert await status(daemon.app) == DOWNLOADABLE


async def test_a_real_download_is_given_up_with_the_network(start_daemon: StartDaemon) -> None:
    pull = FakePull()
    async with start_daemon() as daemon:
        await with_pull(daemon, pull)
        stream = daemon.app.start("Download", aicore_pb2.DownloadRequest())
        await stream.read()
        await set_to(daemon, network_available=False)
        pull.go_on.set()
        assert await asyncio.to_thread(pull.ended.wait, TIMEOUT)
        assert (await rest_of(stream))[-1].WhichOneof("status") == "failed"
        assert await status(daemon.app) == DOWNLOADABLE
