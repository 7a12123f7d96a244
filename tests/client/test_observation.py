"""Watching functions through the client, on a real host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import TypeVar

import pytest

from aicore_client import (
    AppFunctionException,
    AppFunctionManager,
    AppFunctionName,
    AppFunctionObservation,
    AppFunctionsChangeEvent,
    NoSuchMethodError,
    jetpack,
)
from tests.client.rig import App, app_of
from tests.host.grid import AGENT
from tests.host.rig import WAIT, Device, raw_provider, running_device, trusted
from tests.host.shop import PACKAGE

F = "T#f"
OFF, ON = AppFunctionManager.APP_FUNCTION_STATE_DISABLED, 1
METADATA = AppFunctionsChangeEvent.MetadataChanged(frozenset({PACKAGE}))
_Result = TypeVar("_Result")


def _states(*identifiers: str) -> AppFunctionsChangeEvent.StatesChanged:
    names = (AppFunctionName(PACKAGE, identifier) for identifier in identifiers)
    return AppFunctionsChangeEvent.StatesChanged(frozenset(names))


async def soon(awaitable: Awaitable[_Result]) -> _Result:
    return await asyncio.wait_for(awaitable, WAIT)


@pytest.fixture
async def device(tmp_path: Path) -> AsyncIterator[Device]:
    async with running_device(tmp_path) as running:
        running.install(PACKAGE)
        running.install(AGENT, "EXECUTE_APP_FUNCTIONS", targets=["*"])
        async with raw_provider(running, trusted(F)):
            yield running


@pytest.fixture
async def shop(device: Device) -> AsyncIterator[App]:
    async with app_of(device, PACKAGE) as app:
        yield app


@pytest.fixture
async def agent(device: Device) -> AsyncIterator[App]:
    async with app_of(device, AGENT) as app:
        yield app


@pytest.mark.requirement("appfunctions.client.observation")
async def test_a_change_right_after_entering_is_seen_through_both_managers(
    device: Device, shop: App, agent: App
) -> None:
    managers: dict[str, AppFunctionManager | jetpack.AppFunctionManager] = {
        "Later#one": agent.platform,
        "Later#two": agent.jetpack,
    }
    for later, manager in managers.items():
        async with manager.observe_app_functions() as changes:
            await shop.platform.set_app_function_enabled(F, OFF)
            await shop.platform.set_app_function_enabled(F, ON)
            async with raw_provider(device, trusted(later)):
                seen = [await soon(anext(changes)) for _ in range(3)]

        assert seen == [_states(F), _states(F), METADATA]


@pytest.mark.requirement("appfunctions.client.observation")
async def test_cancelling_ends_the_iteration_that_waits_and_every_later_one(agent: App) -> None:
    observation = agent.platform.observe_app_functions()

    async def collect() -> list[object]:
        return [event async for event in observation]

    async with observation:
        waiting = asyncio.create_task(collect())
        await asyncio.sleep(0)
        observation.cancel()
        observation.cancel()

        assert await soon(waiting) == []
    assert await soon(anext(observation, None)) is None


@pytest.mark.requirement("appfunctions.client.observation")
async def test_asking_for_an_event_with_a_time_limit_does_not_end_the_observation(
    shop: App, agent: App
) -> None:
    async with agent.platform.observe_app_functions() as changes:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(changes), 0.01)
        await shop.platform.set_app_function_enabled(F, OFF)

        assert await soon(anext(changes)) == _states(F)


async def _failure(observation: AppFunctionObservation) -> AppFunctionException:
    """How it ends, whatever is seen before."""

    async def watch() -> None:
        async for _ in observation:
            pass

    with pytest.raises(AppFunctionException) as raised:
        await soon(watch())
    return raised.value


@pytest.mark.requirement("appfunctions.client.observation")
async def test_an_observation_that_the_host_ends_says_so_instead_of_falling_silent(
    device: Device, agent: App
) -> None:
    async with agent.platform.observe_app_functions() as changes:
        ending = asyncio.create_task(_failure(changes))
        await asyncio.sleep(0)
        await soon(device.running.stop(grace=WAIT))

        assert (await soon(ending)).error_code == AppFunctionException.ERROR_SYSTEM_ERROR
    refused = await _failure(agent.platform.observe_app_functions())
    assert refused.error_code == AppFunctionException.ERROR_SYSTEM_ERROR


@pytest.mark.requirement("appfunctions.client.observation")
async def test_closing_the_connection_ends_the_observation_with_an_error(agent: App) -> None:
    async with agent.platform.observe_app_functions() as changes:
        ending = asyncio.create_task(_failure(changes))
        await asyncio.sleep(0)
        await soon(agent.connection.close())

        assert (await soon(ending)).error_code == AppFunctionException.ERROR_CANCELLED


@pytest.mark.requirement("appfunctions.platform.android-16", "jetpack.facade.observe-below-17")
async def test_below_android_17_only_jetpack_observes(tmp_path: Path) -> None:
    async with running_device(tmp_path, platform="android-16") as device:
        device.install(PACKAGE)
        async with app_of(device, PACKAGE) as app:
            with pytest.raises(NoSuchMethodError, match="observeAppFunctions"):
                await soon(anext(app.platform.observe_app_functions()))
            async with (
                app.jetpack.observe_app_functions() as changes,
                raw_provider(device, trusted(F)),
            ):
                assert await soon(anext(changes)) == METADATA
                await app.jetpack.set_app_function_enabled(F, OFF)
                assert await soon(anext(changes)) == _states(F)
