from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from tests.host.rig import Device, running_device


@contextlib.contextmanager
def _unblocked_loop() -> Iterator[None]:
    """Fails a test in which the host's code blocks the event loop.

    An app's own function may, short SQLite statements may, asking the kernel for a process may, and
    so may reading docstrings before an app connects and the small file of a time zone.
    """
    with blockbuster_ctx(["appfunctions_host", "aicore_sim.rpc"]) as blockbuster:
        for name, function in blockbuster.functions.items():
            function.can_block_in("appfunctions_host/descriptions.py", "describe_fields")
            function.can_block_in("appfunctions_host/proxies.py", "_read_zone")
            function.can_block_in("tests/host/shop.py", "blocks_the_loop")
            function.can_block_in("aicore_sim/device/process.py", "start_time")
            if name.startswith("sqlite3"):
                function.deactivate()
        yield


@pytest.fixture
def no_blocking_calls() -> Iterator[None]:
    with _unblocked_loop():
        yield


@pytest.fixture
async def device(tmp_path: Path) -> AsyncIterator[Device]:
    async with running_device(tmp_path) as running:
        with _unblocked_loop():
            yield running
