"""Every kind of caller, level, platform generation and compat flag."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionError
from aicore_sim.device.packages import Identity
from aicore_sim.device.profile import PlatformName
from appfunctions_host.compat import attached_by_jetpack
from appfunctions_host.dispatch import Execution
from appfunctions_host.local import LocalProvider
from appfunctions_host.registry import ProviderCall
from tests.host.grid import (
    KINDS,
    LEVELS,
    TABLES,
    GridTools,
    Row,
    entered,
    function_id,
    rows,
)
from tests.host.rig import ROOT, START, Device, provider_process, running_device, soon
from tests.host.shop import PACKAGE

PLATFORMS: tuple[PlatformName, ...] = get_args(PlatformName)


class WatchedProvider(LocalProvider):
    """Counts what reaches the app, before its library looks at it."""

    def __init__(self) -> None:
        super().__init__(PACKAGE, [GridTools])
        self.reached: list[str] = []

    async def call(self, call: ProviderCall) -> types_pb2.Value:
        self.reached.append(call.function_identifier.rpartition("#")[2])
        return await super().call(call)


@contextlib.asynccontextmanager
async def _grid_device(
    folder: Path, platform: PlatformName
) -> AsyncIterator[tuple[Device, WatchedProvider]]:
    provider = await asyncio.to_thread(WatchedProvider)
    try:
        async with running_device(folder, platform=platform) as device:
            device.install(PACKAGE)
            device.host.add_local(provider)
            yield device, provider
    finally:
        await asyncio.to_thread(provider.close)


def _identity(device: Device, kind: str) -> Identity:
    package_name, permissions, targets = KINDS[kind]
    device.install(package_name, *permissions, targets=targets)
    found = device.packages.resolve(device.tokens[package_name])
    assert found is not None
    return found


async def _execute(
    device: Device, caller: Identity, level: str, compat: bool, *, jetpack: bool
) -> tuple[int, str]:
    identifier = function_id(level, compat)
    function = device.host.catalog.find(PACKAGE, identifier)
    assert function is not None
    verification = pb.CallerVerification()
    if jetpack:
        verification = attached_by_jetpack(function.metadata, device.host.sdk_int_full)
    execution = Execution(
        package_name=PACKAGE,
        function_identifier=identifier,
        parameters=types_pb2.ObjectValue(),
        verification=verification,
    )
    try:
        await soon(device.host.dispatcher.execute(caller, execution))
    except AppFunctionError as error:
        return error.error_code, error.message
    return 0, ""


@pytest.mark.requirement(
    "appfunctions.platform.android-16",
    "appfunctions.platform.android-17-0",
    "appfunctions.platform.android-17-2",
    "jetpack.access-level.compat-enforcement",
    "jetpack.access-level.compat-states",
)
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_every_cell_of_the_grid(platform: PlatformName, tmp_path: Path) -> None:
    found, expected = {}, {}
    async with _grid_device(tmp_path, platform) as (device, _):
        for on_platform, compat, kind, row in rows():
            if on_platform != platform:
                continue
            caller = _identity(device, kind)
            names = [(PACKAGE, function_id(level, compat)) for level in LEVELS]
            catalog = device.host.catalog
            shown = [one.name for one in catalog.states(caller, names, through_jetpack=True)]
            seen = [one.name for one in catalog.states(caller, names)]
            expected[compat, kind] = (row, row.discovered)
            found[compat, kind] = (
                Row(
                    discovered=[catalog.find_visible(caller, *name) is not None for name in names],
                    shown=[name in shown for name in names],
                    codes=[
                        (await _execute(device, caller, level, compat, jetpack=True))[0]
                        for level in LEVELS
                    ],
                ),
                # The platform's own states follow its search.
                [name in seen for name in names],
            )

    assert found == expected
    assert len(found) == 2 * len(KINDS)


def test_the_grid_is_whole_and_the_cells_of_no_source_are_marked() -> None:
    assert set(TABLES) == {(platform, compat) for platform in PLATFORMS for compat in (True, False)}
    assert all(set(table) == set(KINDS) for table in TABLES.values())
    marked = sum(row.count("?") for table in TABLES.values() for row in table.values())

    assert marked == 59


@pytest.mark.requirement(
    "appfunctions.execute.denied-never-starts-provider",
    "jetpack.access-level.compat-before-body",
)
@pytest.mark.parametrize(
    ("platform", "kind", "reached", "bodies"),
    [
        ("android-17.2", "B", [], []),
        ("android-17.2", "D-", [], []),
        ("android-17.2", "D", ["trusted_compat"], ["trusted_compat"]),
        # Below, the platform lets the call through, and the library stops it before the body.
        (
            "android-17.0",
            "D",
            ["self_compat", "system_compat", "trusted_compat"],
            ["trusted_compat"],
        ),
        ("android-17.0", "D-", [], []),
        ("android-16", "E", [], []),
        ("android-16", "B", [], []),
    ],
)
async def test_a_refused_call_reaches_no_provider_and_a_compat_refusal_no_body(
    platform: PlatformName, kind: str, reached: list[str], bodies: list[str], tmp_path: Path
) -> None:
    async with _grid_device(tmp_path, platform) as (device, provider):
        caller = _identity(device, kind)
        entered.clear()
        for level in LEVELS:
            await _execute(device, caller, level, True, jetpack=True)

    assert (provider.reached, entered) == (reached, bodies)


MISSING = "Execution denied: Missing caller verification token."
MISSING_SYSTEM = "Execution denied: Missing system caller verification token."
OTHER_UID = "Execution denied: Caller UID does not match host application UID."
NO_SYSTEM = "Execution denied: Caller lacks EXECUTE_APP_FUNCTIONS_SYSTEM."


@pytest.mark.requirement(
    "jetpack.access-level.compat-enforcement", "jetpack.access-level.compat-messages"
)
@pytest.mark.parametrize(
    ("kind", "jetpack", "self_", "system"),
    [
        ("A", True, "", NO_SYSTEM),
        ("A", False, MISSING, MISSING_SYSTEM),
        ("A+", True, "", ""),
        ("D", True, OTHER_UID, NO_SYSTEM),
        ("D", False, MISSING, MISSING_SYSTEM),
        ("E", True, OTHER_UID, ""),
        ("E", False, MISSING, MISSING_SYSTEM),
    ],
)
async def test_below_17_2_the_library_refuses_in_jetpacks_words(
    kind: str, jetpack: bool, self_: str, system: str, tmp_path: Path
) -> None:
    async with _grid_device(tmp_path, "android-17.0") as (device, _):
        caller = _identity(device, kind)
        answers = [await _execute(device, caller, level, True, jetpack=jetpack) for level in LEVELS]

    assert answers == [
        (1000 if self_ else 0, self_),
        (1000 if system else 0, system),
        (0, ""),
    ]


@pytest.mark.requirement("appfunctions.platform.processes")
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_one_process_of_each_kind_finds_its_row_of_the_grid(
    platform: PlatformName, tmp_path: Path
) -> None:
    async with running_device(tmp_path, platform=platform) as device:
        device.install(PACKAGE)
        found = {}
        async with provider_process(device, "GridTools", module="tests.host.grid"):
            for kind, (package_name, permissions, targets) in KINDS.items():
                device.install(package_name, *permissions, targets=targets)
                caller = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "tests.host.grid_caller",
                    stdout=PIPE,
                    cwd=ROOT,
                    env=device.environment(package_name),
                )
                out, _ = await asyncio.wait_for(caller.communicate(), START)
                for line in out.splitlines():
                    cells = json.loads(line)
                    compat = cells.pop("compat")
                    found[platform, compat, kind] = Row(**cells)

    assert found == {
        (on_platform, compat, kind): row
        for on_platform, compat, kind, row in rows()
        if on_platform == platform
    }
