"""Failure texts, feature ids and token limits, without a server."""

from __future__ import annotations

import pytest

from aicore_sim.device.clock import RealClock
from aicore_sim.device.errors import GenAiError
from aicore_sim.device.profile import load_profile
from aicore_sim.policy.availability import Availability
from aicore_sim.policy.failures import aicore_failure
from aicore_sim.policy.features import Preference, ReleaseStage
from aicore_sim.policy.limits import TokenLimits

LIMITS = TokenLimits(input=4000, total=4100)


@pytest.mark.requirement("aicore.error.codes-text")
@pytest.mark.parametrize(
    ("code", "error_type", "head"),
    [
        (606, 3, "AICore failed with error type 3-PREPARATION_ERROR and error code "
                 "606-FEATURE_NOT_FOUND: why"),
        (601, 4, "AICore failed with error type 4-CONNECTION_ERROR and error code "
                 "601-BINDING_FAILURE: why"),
        (501, 1, "AICore failed with error type 1-DOWNLOAD_ERROR and error code "
                 "501-NOT_ENOUGH_DISK_SPACE: why"),
        (29, 2, "AICore failed with error type 2-INFERENCE_ERROR and error code "
                "29-INTERNAL_ERROR: why"),
        (6, 2, "AICore failed with error type 2-INFERENCE_ERROR and error code 6-IPC_ERROR: why"),
        (4711, 2, "AICore failed with error type 2-INFERENCE_ERROR and error code "
                  "4711-UNKNOWN: why"),
        (-100, 0, "why"),
    ],
)  # fmt: skip
def test_a_failure_speaks_as_aicore_does(code: int, error_type: int, head: str) -> None:
    error = aicore_failure(code, "why", retry_delay=1.5)
    assert (error.error_code, error.error_type, error.message, error.retry_delay) == (
        code,
        error_type,
        head,
        1.5,
    )


def phone() -> Availability:
    return Availability(load_profile("pixel-10"), clock=RealClock())


@pytest.mark.requirement(
    "aicore.availability.feature-id",
    "aicore.availability.feature-not-found",
    "aicore.availability.preview-feature-ids",
)
@pytest.mark.parametrize(
    ("stage", "preference", "asked"),
    [("STABLE", "FAST", 645), ("PREVIEW", "FAST", 646), ("PREVIEW", "FULL", 648)],
)
def test_a_feature_that_the_phone_lacks_is_named_by_the_id_that_was_asked_for(
    stage: ReleaseStage, preference: Preference, asked: int
) -> None:
    with pytest.raises(GenAiError) as refused:
        phone().check_status(stage, preference)
    assert (refused.value.error_code, refused.value.error_type) == (606, 3)
    assert refused.value.message.endswith(
        f"606-FEATURE_NOT_FOUND: Feature {asked} is not available."
    )


@pytest.mark.requirement("aicore.availability.feature-id")
def test_the_pixel_10_serves_the_stable_full_model() -> None:
    assert phone().require_served("STABLE", "FULL").feature_id == 636


@pytest.mark.parametrize(
    ("input_tokens", "max_output_tokens"), [(4000, None), (4000, 100), (1, 4099)]
)
def test_a_request_that_fits_exactly_passes(
    input_tokens: int, max_output_tokens: int | None
) -> None:
    LIMITS.check(input_tokens, max_output_tokens)


@pytest.mark.requirement("aicore.limits.request-too-large")
@pytest.mark.parametrize(
    ("limits", "input_tokens", "max_output_tokens", "named"),
    [
        (LIMITS, 4001, None, ("4001", "4000")),
        (LIMITS, 4000, 101, ("4000", "101", "4100")),
        (TokenLimits(input=4000, total=256), 256, None, ("256",)),
    ],
)
def test_a_request_that_does_not_fit_is_too_large_and_says_by_how_much(
    limits: TokenLimits, input_tokens: int, max_output_tokens: int | None, named: tuple[str, ...]
) -> None:
    with pytest.raises(GenAiError) as refused:
        limits.check(input_tokens, max_output_tokens)
    assert refused.value.error_code == 12
    assert all(number in refused.value.message for number in named)
