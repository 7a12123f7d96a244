"""The short-term models as arithmetic: bounds, exact windows, and delays that hold."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.device.profile import (
    QuotaModelProfile,
    SlidingCallsQuota,
    SlidingTimeQuota,
    TokenBucketQuota,
)
from aicore_sim.policy.quota_models import Charge, PastUse, ShortTermQuota, short_term_quota

BUCKET = TokenBucketQuota(kind="token_bucket", burst_seconds=30, refill_per_second=0.5)
CALLS = SlidingCallsQuota(kind="sliding_calls", calls=5, window_seconds=60)
TIME = SlidingTimeQuota(kind="sliding_time", inference_seconds=20, window_seconds=60)
MODELS = st.sampled_from([BUCKET, CALLS, TIME])

# Pause before a call, and the device time that it then takes, as whole milliseconds: so that
# exactness is not a matter of rounding.
USES = st.lists(
    st.tuples(st.integers(0, 90_000), st.integers(0, 15_000)), min_size=1, max_size=60
).map(lambda uses: [(pause / 1000, cost / 1000) for pause, cost in uses])


def fresh(profile: QuotaModelProfile) -> ShortTermQuota:
    return short_term_quota(profile, PastUse())


def admitted(model: ShortTermQuota, uses: list[tuple[float, float]]) -> tuple[list[Charge], float]:
    """Make the calls one after the other; returns those that passed and the time at the end."""
    now, passed = 0.0, []
    for pause, cost in uses:
        now += pause
        if model.retry_delay(now) == 0:
            now += cost
            charge = Charge(at=now, device_seconds=cost)
            model.charge(charge)
            passed.append(charge)
    return passed, now


@given(MODELS, USES)
def test_what_is_left_is_never_below_zero_and_never_above_the_whole(
    profile: QuotaModelProfile, uses: list[tuple[float, float]]
) -> None:
    model = fresh(profile)
    whole = model.available(0)
    for end in range(len(uses)):
        _, now = admitted(model := fresh(profile), uses[: end + 1])
        assert 0 <= model.available(now) <= whole


@given(MODELS, USES)
def test_a_refused_call_is_told_when_it_passes_and_then_does(
    profile: QuotaModelProfile, uses: list[tuple[float, float]]
) -> None:
    model = fresh(profile)
    _, now = admitted(model, uses)
    delay = model.retry_delay(now)
    assert (delay == 0) == (model.available(now) > 0)
    if delay > 0:
        assert model.retry_delay(now + delay - 0.002) > 0
        assert model.retry_delay(now + delay) == 0


@given(MODELS, USES, st.integers(1, 50))
def test_refused_calls_cost_nothing(
    profile: QuotaModelProfile, uses: list[tuple[float, float]], asks: int
) -> None:
    asked, silent = fresh(profile), fresh(profile)
    _, now = admitted(asked, uses)
    admitted(silent, uses)
    for ask in range(asks):
        asked.retry_delay(now + ask / 1000)
    later = now + asks / 1000
    assert asked.available(later) == silent.available(later)
    assert asked.retry_delay(later) == silent.retry_delay(later)


@given(USES)
def test_a_bucket_never_gives_more_than_its_store_its_refill_and_one_excess(
    uses: list[tuple[float, float]],
) -> None:
    passed, now = admitted(fresh(BUCKET), uses)
    spent = sum(charge.device_seconds for charge in passed)
    longest = max((charge.device_seconds for charge in passed), default=0.0)
    assert spent <= 30 + 0.5 * now + longest + 1e-9


@given(USES)
def test_no_window_ever_holds_more_calls_than_its_limit(uses: list[tuple[float, float]]) -> None:
    passed, _ = admitted(fresh(CALLS), uses)
    # A call ends while later ones have not started, so six ends span more than a window's length
    # unless the sixth call itself took part of it.
    for first, sixth in zip(passed, passed[5:], strict=False):
        assert sixth.at - sixth.device_seconds - first.at >= 60 - 1e-6


@given(USES)
def test_no_window_admits_a_call_when_its_time_is_used(uses: list[tuple[float, float]]) -> None:
    passed, _ = admitted(fresh(TIME), uses)
    for index, charge in enumerate(passed):
        start = charge.at - charge.device_seconds
        inside = [
            earlier.device_seconds for earlier in passed[:index] if earlier.at + 60 > start + 1e-6
        ]
        assert sum(inside) < 20 + 1e-6


@pytest.mark.parametrize("profile", [CALLS, TIME])
def test_a_charge_leaves_its_window_to_the_moment(profile: QuotaModelProfile) -> None:
    model = fresh(profile)
    for second in range(5):
        model.charge(Charge(at=float(second), device_seconds=4.0))
    assert model.retry_delay(59.999) > 0
    assert model.retry_delay(60.0) == 0


def test_a_call_that_took_more_than_was_left_is_paid_off_before_the_next() -> None:
    bucket = fresh(BUCKET)
    bucket.charge(Charge(at=0, device_seconds=29))
    bucket.charge(Charge(at=0, device_seconds=6))
    assert bucket.available(0) == 0
    assert bucket.retry_delay(0) == pytest.approx(10, abs=0.01)
    assert bucket.available(12) == pytest.approx(1.0)


@given(MODELS, USES)
def test_an_allowance_goes_on_from_what_was_kept(
    profile: QuotaModelProfile, uses: list[tuple[float, float]]
) -> None:
    model = fresh(profile)
    passed, now = admitted(model, uses)
    kept = [charge for charge in passed if charge.at > now - 60]
    again = short_term_quota(profile, PastUse(charges=kept, level=model.level))
    for later in (now, now + 1, now + 30, now + 120):
        assert again.available(later) == pytest.approx(model.available(later))
        assert again.retry_delay(later) == pytest.approx(model.retry_delay(later))


@given(MODELS, st.lists(st.floats(0, 1000), min_size=2, max_size=30))
def test_more_time_never_leaves_less(profile: QuotaModelProfile, times: list[float]) -> None:
    model = fresh(profile)
    admitted(model, [(0.0, 7.0)] * 8)
    left = [model.available(60 + time) for time in sorted(times)]
    assert all(earlier <= later for earlier, later in pairwise(left))
