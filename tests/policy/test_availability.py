"""Feature states of each kind of phone, and what a phone keeps."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from aicore_sim.device.database import open_database
from aicore_sim.device.errors import GenAiError
from aicore_sim.device.profile import (
    DeviceProfile,
    Preference,
    ReleaseStage,
    ServedFeature,
    load_profile,
)
from aicore_sim.policy.availability import Availability
from aicore_sim.policy.availability_store import (
    AvailabilityState,
    AvailabilityStore,
    FeatureStatus,
)
from aicore_sim.policy.download import DownloadFailed
from aicore_sim.policy.download_sources import StreamedBytes, Transfer
from tests.policy.clocks import START, ManualClock

FULL: tuple[ReleaseStage, Preference] = ("STABLE", "FULL")
FAST: tuple[ReleaseStage, Preference] = ("STABLE", "FAST")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path / "device.db", create=True)
    yield connection
    connection.close()


def with_table(profile: str, **tables: dict[str, object]) -> DeviceProfile:
    table = load_profile(profile).model_dump()
    for name, changes in tables.items():
        table[name] |= changes
    return DeviceProfile.model_validate(table)


def phone(profile: str | DeviceProfile, clock: ManualClock | None = None) -> Availability:
    loaded = load_profile(profile) if isinstance(profile, str) else profile
    return Availability(loaded, clock=clock or ManualClock())


def outcome(availability: Availability) -> tuple[object, object]:
    """What the status call and a generation say: a status, or (code, type)."""
    answers: list[object] = []
    for call in (availability.check_status, availability.require_available):
        try:
            answers.append(call(*FULL))
        except GenAiError as error:
            answers.append((error.error_code, error.error_type))
    return answers[0], answers[1]


@pytest.mark.parametrize(
    ("profile", "status", "generation"),
    [
        ("no-aicore", (601, 4), (601, 4)),
        ("aicore-too-old", (-101, 0), (-101, 0)),
        ("not-listed", FeatureStatus.UNAVAILABLE, (8, 3)),
        ("unlocked-bootloader", (606, 3), (606, 3)),
        ("galaxy-s25", (606, 3), (606, 3)),
        ("config-pending", (606, 3), (606, 3)),
        ("inference-error", FeatureStatus.AVAILABLE, (8, 2)),
    ],
)
async def test_each_unsupported_phone_has_its_own_symptom(
    profile: str, status: object, generation: object
) -> None:
    availability = phone(profile)
    assert outcome(availability) == (status, generation)
    if profile != "inference-error":
        [item] = [item async for item in availability.download(*FULL)]
        assert isinstance(item, DownloadFailed)
        assert (item.error.error_code, item.error.error_type) == generation


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("no-aicore", "AICore failed with error type 4-CONNECTION_ERROR and error code "
                      "601-BINDING_FAILURE: AICore service failed to bind."),
        ("galaxy-s25", "AICore failed with error type 3-PREPARATION_ERROR and error code "
                       "606-FEATURE_NOT_FOUND: Feature 636 is not available."),
        ("inference-error", "AICore failed with error type 2-INFERENCE_ERROR and error code "
                            "8-NOT_AVAILABLE: Required LLM feature not found."),
    ],
)  # fmt: skip
def test_the_symptoms_are_told_in_aicores_words(profile: str, message: str) -> None:
    with pytest.raises(GenAiError) as refused:
        phone(profile).require_available(*FULL)
    assert refused.value.message == message


@pytest.mark.parametrize("profile", ["pixel-9", "pixel-9-2025", "pixel-10", "pixel-11"])
def test_a_supported_phone_serves_the_stable_full_model(profile: str) -> None:
    availability = phone(profile)
    assert availability.check_status(*FULL) is FeatureStatus.AVAILABLE
    assert availability.require_available(*FULL).feature_id == 636


@pytest.mark.requirement("aicore.availability.feature-not-found")
def test_an_unprovisioned_feature_fails_as_observed_or_is_unavailable_as_documented() -> None:
    observed = phone("pixel-10")
    for call in (observed.check_status, observed.require_served, observed.require_available):
        with pytest.raises(GenAiError, match="Feature 645 is not available") as refused:
            call(*FAST)
        assert refused.value.error_code == 606

    documented = phone(with_table("pixel-10", availability={"unprovisioned": "documented"}))
    assert documented.check_status(*FAST) is FeatureStatus.UNAVAILABLE
    with pytest.raises(GenAiError) as refused:
        documented.require_available(*FAST)
    assert refused.value.error_code == 8


def test_a_phone_after_set_up_hears_of_its_features_at_a_device_time() -> None:
    clock = ManualClock()
    availability = phone("config-pending", clock)
    clock.forward(3599)
    assert outcome(availability)[0] == (606, 3)
    clock.forward(1)
    assert outcome(availability) == (FeatureStatus.DOWNLOADABLE, (8, 3))


@pytest.mark.requirement("aicore.availability.download-state")
@pytest.mark.parametrize("status", [status for status in FeatureStatus if status != 3])
def test_generating_in_any_other_state_is_8_and_starts_no_download(status: FeatureStatus) -> None:
    availability = phone("pixel-10")
    availability.set_status(status)
    for _ in range(3):
        with pytest.raises(GenAiError) as refused:
            availability.require_available(*FULL)
        assert (refused.value.error_code, refused.value.error_type) == (8, 3)
        assert availability.check_status(*FULL) is status


def test_features_of_one_phone_have_states_of_their_own() -> None:
    profile = load_profile("pixel-11")
    state = AvailabilityState(
        first_boot=START,
        features={636: FeatureStatus.DOWNLOADABLE, 645: FeatureStatus.AVAILABLE},
    )
    availability = Availability(profile, clock=ManualClock(), state=state)
    assert availability.check_status(*FULL) is FeatureStatus.DOWNLOADABLE
    assert availability.require_available(*FAST).base_model_name == "nano-v4-fast"


def test_what_the_phone_keeps_survives_a_restart(connection: sqlite3.Connection) -> None:
    clock = ManualClock()
    store = AvailabilityStore(connection)
    assert store.load() is None
    profile = load_profile("config-pending")
    first = Availability(profile, clock=clock, state=store.load(), save=store.save)
    clock.forward(4000)
    first.set_status(FeatureStatus.AVAILABLE)
    first.set_network(False)
    first.set_disk_full(True)

    again = Availability(profile, clock=clock, state=AvailabilityStore(connection).load())
    assert again.check_status(*FULL) is FeatureStatus.AVAILABLE
    assert again.state == first.state
    assert again.state == AvailabilityState(
        first_boot=START,
        features={636: FeatureStatus.AVAILABLE},
        network_available=False,
        disk_full=True,
    )


async def test_a_download_that_a_restart_cut_off_starts_over(
    connection: sqlite3.Connection,
) -> None:
    clock = ManualClock()
    store = AvailabilityStore(connection)
    profile = with_table("pixel-10", availability={"initial": "DOWNLOADABLE"})
    first = Availability(profile, clock=clock, save=store.save)
    first.set_status(FeatureStatus.DOWNLOADING)
    assert first.check_status(*FULL) is FeatureStatus.DOWNLOADING
    again = Availability(profile, clock=clock, state=store.load())
    assert again.check_status(*FULL) is FeatureStatus.DOWNLOADABLE


def test_bytes_that_are_gone_make_the_feature_downloadable_again() -> None:
    here: dict[int, bool | None] = {636: True}

    def present(feature: ServedFeature) -> bool | None:
        return here[feature.feature_id]

    async def nothing(feature: ServedFeature) -> AsyncGenerator[Transfer, None]:
        raise AssertionError("no download was asked for")
        yield

    state = AvailabilityState(first_boot=START, features={636: FeatureStatus.AVAILABLE})
    source = StreamedBytes(nothing, present=present)
    for found, expected in (
        (True, FeatureStatus.AVAILABLE),
        (None, FeatureStatus.AVAILABLE),
        (False, FeatureStatus.DOWNLOADABLE),
    ):
        here[636] = found
        availability = Availability(
            load_profile(), clock=ManualClock(), state=state.model_copy(deep=True), source=source
        )
        assert availability.check_status(*FULL) is expected


def test_a_factory_reset_is_a_first_boot() -> None:
    clock = ManualClock()
    availability = phone("config-pending", clock)
    clock.forward(3600)
    availability.set_status(FeatureStatus.AVAILABLE)
    availability.set_network(False)
    availability.factory_reset()
    assert outcome(availability)[0] == (606, 3)
    assert availability.state.network_available
    clock.forward(3600)
    assert availability.check_status(*FULL) is FeatureStatus.DOWNLOADABLE


def test_a_clock_that_ran_ahead_before_a_restart_does_not_postpone_the_configuration() -> None:
    clock = ManualClock()
    state = AvailabilityState(first_boot=START + 1_000_000)
    availability = Availability(load_profile("config-pending"), clock=clock, state=state)
    clock.forward(3600)
    assert availability.check_status(*FULL) is FeatureStatus.DOWNLOADABLE


def test_one_feature_can_be_set_and_an_unknown_one_is_refused() -> None:
    pixel_11 = phone("pixel-11")
    pixel_11.set_status(FeatureStatus.DOWNLOADABLE, feature_id=645)
    assert {one.feature_id: pixel_11.status(one.feature_id) for one in pixel_11.features} == {
        636: FeatureStatus.AVAILABLE,
        645: FeatureStatus.DOWNLOADABLE,
        648: FeatureStatus.AVAILABLE,
        646: FeatureStatus.AVAILABLE,
    }
    with pytest.raises(ValueError, match="serves 636, 645, 648, 646, not 1"):
        pixel_11.set_status(FeatureStatus.AVAILABLE, feature_id=1)
    phone("not-listed").set_status(FeatureStatus.AVAILABLE)


def test_a_model_that_comes_to_the_machine_needs_no_second_download(
    connection: sqlite3.Connection,
) -> None:
    store = AvailabilityStore(connection)

    def booted(*, present: bool) -> Availability:
        source = StreamedBytes(no_transfers, present=lambda _: present)
        return Availability(
            load_profile("pixel-10"),
            clock=ManualClock(),
            source=source,
            state=store.load(),
            save=store.save,
        )

    assert booted(present=False).check_status(*FULL) is FeatureStatus.DOWNLOADABLE
    assert booted(present=True).check_status(*FULL) is FeatureStatus.AVAILABLE


async def no_transfers(_: ServedFeature) -> AsyncGenerator[Transfer, None]:
    raise AssertionError("nothing is downloaded")
    yield


def test_a_restored_state_takes_the_place_of_the_present_one() -> None:
    pixel = phone("pixel-10")
    pixel.set_disk_full(True)
    kept = pixel.state
    pixel.factory_reset()
    assert not pixel.state.disk_full
    pixel.restore(kept)
    assert pixel.state == kept
