"""The ways in which a value may be told, so that a right answer is not wrong for its wording."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def forms(value: Any) -> list[str]:
    """The value as it is written, and what says the same."""
    text = str(value)
    found = [text]
    if isinstance(value, float) and value.is_integer():
        found.append(str(int(value)))
    elif isinstance(value, int) and value >= 1000:
        found.append(f"{value:,}")
    elif re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        found += _date_forms(date.fromisoformat(text))
    elif re.fullmatch(r"\d\d:\d\d", text):
        found += _clock_forms(int(text[:2]), text[3:])
    elif re.fullmatch(r"\d+ to \d+", text):
        found += [text.replace(" to ", dash) for dash in ("-", " - ", "–", " and ")]
    return list(dict.fromkeys(found))


def _date_forms(day: date) -> list[str]:
    month = _MONTHS[day.month - 1]
    return [f"{month} {day.day}", f"{day.day} {month}", f"{month} {day.day:02d}"]


def _clock_forms(hour: int, minutes: str) -> list[str]:
    half = "AM" if hour < 12 else "PM"
    return [f"{hour}:{minutes}", f"{hour % 12 or 12}:{minutes} {half}"]
