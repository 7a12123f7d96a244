"""A device directory with a short path, so that sockets fit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aicore_sim.device.home import DeviceHome


@pytest.fixture
def short_home() -> Iterator[DeviceHome]:
    with tempfile.TemporaryDirectory(prefix="aicore-") as name:
        home = DeviceHome(Path(name))
        home.prepare()
        yield home
