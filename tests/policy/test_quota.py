"""The quota of a device: the shape that was measured, batteries, and whom it holds for."""

from __future__ import annotations

from itertools import groupby

import pytest

from aicore_sim.device.errors import GenAiError
from aicore_sim.device.profile import BatteryBudget, QuotaProfile, load_profile
from aicore_sim.policy.quota import Quota
from tests.policy.clocks import ManualClock

PIXEL_10 = load_profile("pixel-10").quota
APP, OTHER_APP = 10_001, 10_002
PROMPTS = 93


def profile(**changes: object) -> QuotaProfile:
    return QuotaProfile.model_validate(PIXEL_10.model_dump() | changes)


def attempt(quota: Quota, clock: ManualClock, uid: int = APP, seconds: float = 1.5) -> float | None:
    """One call of so much device time, or a refusal of 20 ms; returns the retry delay of BUSY."""
    try:
        with quota.inference(uid) as running:
            clock.forward(seconds)
            running.device_seconds = seconds
    except GenAiError as error:
        refused = error
    else:
        return None
    assert (refused.error_code, refused.error_type) == (9, 2)
    assert refused.retry_delay > 0
    clock.forward(0.02)
    return refused.retry_delay


def hammer(quota: Quota, clock: ManualClock, uid: int = APP) -> list[tuple[bool, int]]:
    """93 prompts without a pause, as runs of (succeeded, how many)."""
    results = [attempt(quota, clock, uid) is None for _ in range(PROMPTS)]
    return [(ok, len(list(run))) for ok, run in groupby(results)]


@pytest.mark.requirement("aicore.quota.short-term")
def test_the_default_quota_has_the_shape_that_was_measured_on_a_phone() -> None:
    clock = ManualClock()
    quota = Quota(PIXEL_10, clock=clock)
    first, wall, single, *rest = hammer(quota, clock)
    assert first[0]
    assert 36 <= first[1] <= 41
    assert not wall[0]
    assert single == (True, 1)
    assert all(count == 1 for ok, count in rest if ok)

    clock.forward(150)
    assert quota.allowance(APP).available_seconds == 30
    ok, again = hammer(quota, clock)[0]
    assert ok
    assert again == first[1]


def test_pauses_of_a_second_and_honoured_delays_lose_nothing() -> None:
    clock = ManualClock()
    quota = Quota(PIXEL_10, clock=clock)
    succeeded = 0
    for _ in range(PROMPTS):
        while (delay := attempt(quota, clock)) is not None:
            clock.forward(delay)
        succeeded += 1
        clock.forward(1.0)
    assert succeeded == PROMPTS


def test_a_delay_that_is_honoured_needs_one_retry_only() -> None:
    clock = ManualClock()
    quota = Quota(PIXEL_10, clock=clock)
    hammer(quota, clock)
    for _ in range(20):
        delay = attempt(quota, clock)
        if delay is not None:
            clock.forward(delay)
            assert attempt(quota, clock) is None


@pytest.mark.parametrize("name", ["sliding-calls", "sliding-time"])
def test_the_sliding_windows_do_not_have_the_measured_shape(name: str) -> None:
    clock = ManualClock()
    quota = Quota(profile(active=name), clock=clock)
    runs = hammer(quota, clock)
    assert [ok for ok, _ in runs] == [True, False], "no single success appears after the wall"
    clock.forward(150)
    assert hammer(quota, clock)[0] == runs[0]


@pytest.mark.requirement("aicore.quota.short-term")
def test_a_second_app_keeps_its_own_allowance() -> None:
    clock = ManualClock()
    quota = Quota(PIXEL_10, clock=clock)
    alone = hammer(quota, clock, APP)
    assert hammer(quota, clock, OTHER_APP) == alone


def test_only_what_ran_is_charged_however_the_call_ends() -> None:
    clock = ManualClock()
    quota = Quota(PIXEL_10, clock=clock)
    for _ in range(50):
        quota.check(APP)
    assert quota.allowance(APP).available_seconds == 30
    with pytest.raises(RuntimeError), quota.inference(APP) as running:  # noqa: PT012
        running.device_seconds = 2.5
        raise RuntimeError("the model broke")
    assert quota.allowance(APP).available_seconds == 27.5
    with pytest.raises(ValueError, match=r"-1\.0"):
        quota.charge(APP, -1.0)
    with pytest.raises(ValueError, match="nan"):
        quota.charge(APP, float("nan"))
    assert quota.allowance(APP).available_seconds == 27.5


def test_a_call_that_waited_in_line_is_checked_again() -> None:
    clock = ManualClock()
    quota = Quota(PIXEL_10, clock=clock)
    quota.check(APP)
    quota.charge(APP, 31)
    with pytest.raises(GenAiError), quota.inference(APP):
        pytest.fail("the model was reached")
    assert quota.allowance(APP).retry_delay == pytest.approx(1 / 0.48, abs=0.01)


@pytest.mark.requirement("aicore.quota.battery")
@pytest.mark.parametrize(
    ("budget", "calls"),
    [
        (BatteryBudget(calls=100, period_seconds=86_400), 100),
        (BatteryBudget(inference_seconds=15, period_seconds=86_400), 10),
    ],
)
def test_a_used_up_battery_budget_is_27_until_its_period_ends(
    budget: BatteryBudget, calls: int
) -> None:
    clock = ManualClock()
    quota = Quota(profile(app_battery=budget), clock=clock)
    for _ in range(calls):
        clock.forward(60)
        assert attempt(quota, clock) is None
    passed = (calls - 1) * 61.5  # since the first charge
    for _ in range(3):
        with pytest.raises(GenAiError) as refused:
            quota.check(APP)
        assert refused.value.error_code == 27
        assert refused.value.message.startswith(
            "AICore failed with error type 2-INFERENCE_ERROR and error code "
            "27-PER_APP_BATTERY_USE_QUOTA_EXCEEDED: "
        )
        assert refused.value.retry_delay == pytest.approx(86_400 - passed, abs=0.01)
        clock.forward(3600)
        passed += 3600
    quota.check(OTHER_APP)

    clock.forward(refused.value.retry_delay - 3600)
    assert attempt(quota, clock) is None
    period = quota.allowance(APP).app_battery
    assert period is not None
    assert period.calls == 1


@pytest.mark.requirement("aicore.quota.device-battery")
def test_the_budget_of_the_device_counts_all_apps_and_is_28() -> None:
    clock = ManualClock()
    budget = BatteryBudget(inference_seconds=6, period_seconds=3600)
    quota = Quota(profile(device_battery=budget), clock=clock)
    for uid in (APP, OTHER_APP, APP, OTHER_APP):
        assert attempt(quota, clock, uid) is None
    for uid in (APP, OTHER_APP, 10_003):
        with pytest.raises(GenAiError) as refused:
            quota.check(uid)
        assert refused.value.error_code == 28
        assert refused.value.retry_delay > 3500
    quota.reset(APP)
    with pytest.raises(GenAiError):
        quota.check(APP)
    quota.reset()
    quota.check(APP)


def test_the_quota_can_be_switched_off_and_between_models() -> None:
    clock = ManualClock()
    budget = BatteryBudget(calls=1, period_seconds=3600)
    quota = Quota(profile(app_battery=budget), clock=clock)
    assert attempt(quota, clock) is None
    quota.use("off")
    for _ in range(PROMPTS):
        assert attempt(quota, clock) is None
    left = quota.allowance(APP)
    assert (left.model, left.available_seconds, left.available_calls) == ("off", None, None)

    quota.use("sliding-calls")
    assert quota.allowance(APP).available_calls == 38
    with pytest.raises(GenAiError) as refused:
        quota.check(APP)
    assert refused.value.error_code == 27, "a budget outlives the models"
    with pytest.raises(ValueError, match="there is no quota model 'none'; use one of token-bucket"):
        quota.use("none")
    assert quota.active == "sliding-calls"


def test_resetting_one_app_leaves_the_other() -> None:
    clock = ManualClock()
    quota = Quota(PIXEL_10, clock=clock)
    quota.charge(APP, 10)
    quota.charge(OTHER_APP, 10)
    quota.reset(APP)
    assert quota.allowance(APP).available_seconds == 30
    assert quota.allowance(OTHER_APP).available_seconds == 20
