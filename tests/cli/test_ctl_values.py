"""Durations, sizes and codes as people write them."""

from __future__ import annotations

import pytest

from aicore_sim.cli.control import CommandError
from aicore_sim.cli.ctl import values
from aicore_sim.cli.ctl.availability import progression


@pytest.mark.requirement("simulator.command.ctl.durations")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3h", 10_800),
        ("1.5s", 1.5),
        ("2m30s", 150),
        ("1d12h", 129_600),
        ("20ms", 0.02),
        ("0s", 0),
        ("0.1s", 0.1),
        ("1m500ms", 60.5),
    ],
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert values.nanoseconds(text) == round(seconds * 1e9)
    assert values.seconds(text) == seconds


@pytest.mark.requirement("simulator.command.ctl.durations")
@pytest.mark.parametrize(
    "text", ["", "3", "h", "-3h", "3 h", "1s2m", "1h1h", "3h5", "1e3s", "٣s.", "99999999999d"]
)
def test_what_is_no_duration_is_refused_by_name_and_value(text: str) -> None:
    with pytest.raises(CommandError) as refused:
        values.read("--delay", text, values.nanoseconds)
    assert str(refused.value).startswith(f"--delay: {text!r}")
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "size"), [("1500", 1500), ("250MB", 250_000_000), ("1.5gb", 1_500_000_000)]
)
def test_sizes_have_units_or_are_bytes(text: str, size: int) -> None:
    assert values.size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1TB", "big", "1..5MB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        values.size(text)


@pytest.mark.parametrize(
    ("text", "code"), [("9", 9), ("busy", 9), ("-101", -101), ("606", 606), ("-9999", -9999)]
)
def test_codes_are_numbers_or_names_and_unknown_numbers_pass(text: str, code: int) -> None:
    assert values.error_code(text) == code


@pytest.mark.parametrize("text", ["", "BUSYY", "9.5", "99999999999"])
def test_what_is_no_code_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="aicore-sim errors"):
        values.error_code(text)


@pytest.mark.parametrize(
    ("text", "rule", "seconds", "polls"),
    [
        ("immediate", "IMMEDIATE", 0, 0),
        ("manual", "MANUAL", 0, 0),
        ("seconds=20", "SECONDS", 20, 0),
        ("seconds=2m", "SECONDS", 120, 0),
        ("polls=3", "POLLS", 0, 3),
    ],
)
def test_progressions_of_downloads_are_words(
    text: str, rule: str, seconds: float, polls: int
) -> None:
    found = progression(text)
    assert (found.Rule.Name(found.rule), found.seconds, found.polls) == (rule, seconds, polls)


@pytest.mark.parametrize("text", ["", "fast", "seconds", "seconds=0", "polls=0", "immediate=1"])
def test_what_is_no_progression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="immediate"):
        progression(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.02, "20ms"),
        (1.5, "1.5s"),
        (150, "2m 30s"),
        (90_000, "1d 1h"),
        (59.9996, "60s"),
    ],
)
def test_durations_are_shown_for_people(seconds: float, text: str) -> None:
    assert values.shown_duration(seconds) == text
