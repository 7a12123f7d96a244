"""What a phone keeps of its features' availability, and where."""

from __future__ import annotations

import sqlite3
from enum import IntEnum

from pydantic import BaseModel, ConfigDict, Field


class FeatureStatus(IntEnum):
    UNAVAILABLE = 0
    DOWNLOADABLE = 1
    DOWNLOADING = 2
    AVAILABLE = 3


class AvailabilityState(BaseModel):
    """What the phone keeps. A download that a restart cut off starts over."""

    model_config = ConfigDict(extra="forbid")

    first_boot: float
    """Seconds since the epoch, by the device's clock."""
    features: dict[int, FeatureStatus] = Field(default_factory=dict)
    """By feature id; never DOWNLOADING."""
    network_available: bool = True
    disk_full: bool = False


_SCHEMA = """
CREATE TABLE IF NOT EXISTS availability (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    state TEXT NOT NULL
) STRICT;
"""


class AvailabilityStore:
    """Keeps an :class:`AvailabilityState` in the device's database. Changes are rare and written
    at once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.executescript(_SCHEMA)

    def load(self) -> AvailabilityState | None:
        """What was kept; None on the first boot. Raises ValueError for a state that is damaged."""
        row = self._connection.execute("SELECT state FROM availability").fetchone()
        return None if row is None else AvailabilityState.model_validate_json(row[0])

    def save(self, state: AvailabilityState) -> None:
        """Keep the state."""
        self._connection.execute(
            "INSERT OR REPLACE INTO availability VALUES (1, ?)", (state.model_dump_json(),)
        )
