"""An app's waits on the device's clock, through the client."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from aicore_client import DeviceClock, DeviceConnection, GenAiException
from tests.aicore.calls import TIMEOUT, eventually
from tests.aicore.conftest import StartDaemon
from tests.aicore.device_calls import APP, advance


@pytest.mark.requirement("simulator.clock.client")
async def test_an_apps_back_off_follows_virtual_time(start_daemon: StartDaemon) -> None:
    async with (
        start_daemon(clock="virtual") as daemon,
        DeviceConnection(daemon.server.address, "unix:/nowhere", daemon.app_token) as connection,
    ):
        clock = DeviceClock(connection)
        assert await clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
        order: list[str] = []

        async def wait(name: str, delay: timedelta | float) -> None:
            await clock.sleep(delay)
            order.append(name)
            await clock.now()  # says that nothing more follows from waking up

        waits = [
            asyncio.create_task(wait("three hours", timedelta(hours=3))),
            asyncio.create_task(wait("a second", 1.0)),
        ]
        sleeping = daemon.server.device.generations.clock
        await eventually(lambda: sum(one.label == APP for one in sleeping.sleepers) == len(waits))
        await advance(daemon, 1)
        await asyncio.wait_for(waits[1], TIMEOUT)
        assert order == ["a second"]
        await clock.sleep(-5)
        await advance(daemon, 3 * 3600)
        await asyncio.wait_for(waits[0], TIMEOUT)
        assert await clock.now() == datetime(2026, 1, 1, 3, 0, 1, tzinfo=UTC)


async def test_without_aicore_the_clock_is_601_and_no_hang() -> None:
    async with DeviceConnection("unix:/nowhere/aicore", "unix:/nowhere/host", "t") as connection:
        with pytest.raises(GenAiException) as refused:
            await asyncio.wait_for(DeviceClock(connection).sleep(1), TIMEOUT)
    assert refused.value.error_code == 601
