"""The client's façades against a real host."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aicore_client import (
    AppFunctionException,
    AppFunctionManager,
    DeviceConnection,
    ExecuteAppFunctionRequest,
    jetpack,
)
from tests.host.rig import Device
from tests.host.shop import PACKAGE


@dataclass(frozen=True, kw_only=True)
class App:
    """One app with both façades. An execution is its error code, 0 when it ran, and its text."""

    connection: DeviceConnection
    platform: AppFunctionManager
    jetpack: jetpack.AppFunctionManager

    async def through_platform(
        self, identifier: str, package_name: str = PACKAGE, activity_id: str | None = None
    ) -> tuple[int, str | None]:
        request = ExecuteAppFunctionRequest(package_name, identifier, activity_id=activity_id)
        try:
            await self.platform.execute_app_function(request)
        except AppFunctionException as error:
            return error.error_code, error.error_message
        return 0, None

    async def through_jetpack(
        self, identifier: str, package_name: str = PACKAGE, activity_id: str | None = None
    ) -> tuple[int, str | None]:
        request = jetpack.ExecuteAppFunctionRequest(
            package_name, identifier, activity_id=activity_id
        )
        match await self.jetpack.execute_app_function(request):
            case jetpack.Error(error=error):
                return error.error_code, error.error_message
            case _:
                return 0, None


@contextlib.asynccontextmanager
async def app_of(device: Device, package_name: str) -> AsyncIterator[App]:
    """The installed app, with the token that its latest installation issued."""
    async with DeviceConnection(
        "unix:/nowhere/aicore.sock", device.address, device.tokens[package_name], call_timeout=5
    ) as connection:
        manager = await jetpack.AppFunctionManager.get_instance(connection)
        assert manager is not None
        yield App(connection=connection, platform=AppFunctionManager(connection), jetpack=manager)
