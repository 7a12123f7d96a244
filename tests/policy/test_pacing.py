"""What an inference costs and how a phone paces it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.device.profile import SpeedProfile, load_profile
from aicore_sim.policy.pacing import device_seconds, phone_pace

SPEED = SpeedProfile(
    prefill_tokens_per_second=1000,
    decode_tokens_per_second=10,
    first_token_seconds=0.1,
    cached_first_token_seconds=0.3,
    image_seconds=0.6,
)
COUNTS = st.integers(0, 20_000)


def test_a_call_costs_its_prefill_and_its_output_at_the_phones_speeds() -> None:
    assert device_seconds(SPEED, prefill_tokens=500, output_tokens=10) == pytest.approx(1.5)
    assert device_seconds(SPEED, prefill_tokens=0, output_tokens=0) == 0


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_the_parts_of_a_call_cost_what_the_whole_does(a: int, b: int, c: int, d: int) -> None:
    parts = device_seconds(SPEED, prefill_tokens=a, output_tokens=b) + device_seconds(
        SPEED, prefill_tokens=c, output_tokens=d
    )
    whole = device_seconds(SPEED, prefill_tokens=a + c, output_tokens=b + d)
    assert parts == pytest.approx(whole)


def test_tokens_come_after_the_prefill_at_the_decode_speed() -> None:
    pace = phone_pace(SPEED, input_tokens=1000, images=2)
    assert pace.first_token_at == pytest.approx(0.1 + 1.0 + 1.2)
    assert pace.token_seconds == pytest.approx(0.1)
    assert pace.due(0) == 0
    assert pace.due(1) == pace.first_token_at
    assert pace.due(21) == pytest.approx(pace.first_token_at + 2.0)


@pytest.mark.parametrize(
    ("input_tokens", "cached_tokens", "measured"),
    [(350, 0, 0.82), (350, 300, 0.45), (1100, 0, 2.11), (1100, 1000, 0.5)],
)
def test_a_pixel_9_answers_as_fast_as_was_measured(
    input_tokens: int, cached_tokens: int, measured: float
) -> None:
    # https://developers.google.com/ml-kit/genai/prompt/android/prefix-caching
    speed = load_profile("pixel-9").speed
    pace = phone_pace(speed, input_tokens=input_tokens, cached_tokens=cached_tokens)
    assert pace.first_token_at == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"input_tokens": -1}, "input_tokens"),
        ({"input_tokens": 1, "images": -1}, "images"),
        ({"input_tokens": 1, "cached_tokens": 2}, "2 cached tokens"),
    ],
)
def test_impossible_counts_are_refused_by_name(arguments: dict[str, int], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        phone_pace(SPEED, **arguments)
    with pytest.raises(ValueError, match="output_tokens"):
        device_seconds(SPEED, prefill_tokens=1, output_tokens=-1)
