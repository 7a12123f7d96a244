"""What each kind of caller gets through the platform's and through Jetpack's manager."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from aicore_client import (
    AppFunctionException,
    AppFunctionManager,
    AppFunctionName,
    AppFunctionState,
    NoSuchMethodError,
    jetpack,
)
from aicore_sim.device.database import open_database
from aicore_sim.device.profile import PlatformName
from tests.client.rig import App, app_of
from tests.host.grid import AGENT, KINDS, LEVELS, TABLES, Row, function_id
from tests.host.rig import Device, provider_process, raw_provider, running_device, trusted
from tests.host.shop import PACKAGE

PLATFORMS: tuple[PlatformName, ...] = get_args(PlatformName)
DENIED = "Caller does not have permission to execute the appfunction"


async def _row(app: App, platform: PlatformName, compat: bool) -> tuple[Row, Row]:
    """The cells of this caller through Jetpack, and through the platform."""
    identifiers = [function_id(level, compat) for level in LEVELS]
    names = [AppFunctionName(PACKAGE, identifier) for identifier in identifiers]

    async def cells(manager: AppFunctionManager | jetpack.AppFunctionManager) -> list[list[bool]]:
        found = [item.name for item in await manager.search_app_functions()]
        shown = [item.name for item in await manager.get_app_function_states(names)]
        return [[name in listed for name in names] for listed in (found, shown)]

    async def platform_cells() -> list[list[bool]]:
        if platform != "android-16":
            return await cells(app.platform)
        for call in (
            app.platform.search_app_functions(),
            app.platform.get_app_function_states(names),
        ):
            with pytest.raises(NoSuchMethodError):
                await call
        return [[], []]

    discovered, shown = await cells(app.jetpack)
    through_jetpack = Row(
        discovered=discovered,
        shown=shown,
        codes=[(await app.through_jetpack(one))[0] for one in identifiers],
    )
    discovered, shown = await platform_cells()
    through_platform = Row(
        discovered=discovered,
        shown=shown,
        codes=[(await app.through_platform(one))[0] for one in identifiers],
    )
    return through_jetpack, through_platform


def _expected(platform: PlatformName, compat: bool, kind: str) -> tuple[Row, Row]:
    """From the table of callers that attach what Jetpack attaches: Jetpack answers 1003 for what
    it does not find; the platform's caller attaches nothing, and its states follow its search."""
    row = Row.parse(TABLES[platform, compat][kind])
    through_jetpack = Row(
        discovered=row.discovered,
        shown=row.shown,
        codes=[
            code if found else 1003 for code, found in zip(row.codes, row.discovered, strict=True)
        ],
    )
    listed = [] if platform == "android-16" else row.discovered
    codes = list(row.codes)
    if compat and platform != "android-17.2":
        codes[:2] = [1000, 1000]
    return through_jetpack, Row(discovered=listed, shown=listed, codes=codes)


@pytest.mark.requirement(
    "jetpack.facade",
    "jetpack.facade.not-found-where-hidden",
    "jetpack.access-level.compat-states",
    "appfunctions.platform.android-16",
    "appfunctions.platform.android-17-0",
    "appfunctions.platform.android-17-2",
)
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_every_kind_of_caller_finds_its_row_of_the_grid_through_both_managers(
    platform: PlatformName, tmp_path: Path
) -> None:
    found, expected = {}, {}
    async with running_device(tmp_path, platform=platform) as device:
        device.install(PACKAGE)
        async with provider_process(device, "GridTools", module="tests.host.grid"):
            for kind, (package_name, permissions, targets) in KINDS.items():
                device.install(package_name, *permissions, targets=targets)
                async with app_of(device, package_name) as app:
                    for compat in (True, False):
                        found[compat, kind] = await _row(app, platform, compat)
                        expected[compat, kind] = _expected(platform, compat, kind)

    assert found == expected


@pytest.mark.requirement("jetpack.facade.attaches-verification")
@pytest.mark.parametrize("platform", ["android-16", "android-17.0"])
async def test_below_17_2_the_providers_library_refuses_in_other_words_what_jetpack_sent(
    platform: PlatformName, tmp_path: Path
) -> None:
    async with running_device(tmp_path, platform=platform) as device:
        device.install(PACKAGE)
        device.install(AGENT, "EXECUTE_APP_FUNCTIONS", targets=[PACKAGE])
        async with (
            provider_process(device, "GridTools", module="tests.host.grid"),
            app_of(device, AGENT) as app,
        ):
            answers = [
                await execute(function_id(level, True))
                for execute in (app.through_jetpack, app.through_platform)
                for level in ("self", "system")
            ]

    assert answers == [
        (1000, "Execution denied: Caller UID does not match host application UID."),
        (1000, "Execution denied: Caller lacks EXECUTE_APP_FUNCTIONS_SYSTEM."),
        (1000, "Execution denied: Missing caller verification token."),
        (1000, "Execution denied: Missing system caller verification token."),
    ]


F, OFF = "T#f", "T#off"
ELSEWHERE = "com.example.elsewhere"
STRANGER, LISTED, UNLISTED = "com.example.stranger", "com.example.listed", "com.example.unlisted"
NOT_FOUND, DISABLED = "App function not found.", "The app function is disabled"
Answer = tuple[int, str | None]


def _missing(identifier: str, package_name: str = PACKAGE) -> Answer:
    return (
        1003,
        f"App function not found with identifier: {identifier} under package: {package_name}",
    )


# Caller, what it calls, the platform's answer, Jetpack's.
REFUSED: list[tuple[str, tuple[str, ...], Answer, Answer]] = [
    (STRANGER, (F,), (1000, DENIED), _missing(F)),
    (STRANGER, (F, ELSEWHERE), (1000, DENIED), _missing(F, ELSEWHERE)),
    # The allowlist alone gives no right.
    (LISTED, (F,), (1000, DENIED), _missing(F)),
    (AGENT, ("T#none",), (1003, NOT_FOUND), _missing("T#none")),
    (AGENT, (F, ELSEWHERE), (1003, NOT_FOUND), _missing(F, ELSEWHERE)),
    (AGENT, (OFF,), (1002, DISABLED), (1002, DISABLED)),
    (AGENT, (F, ""), (1001, "Target package name cannot be empty."), _missing(F, "")),
    (AGENT, (F, PACKAGE, "an-activity"), (1003, NOT_FOUND), (1003, NOT_FOUND)),
    # It sees the metadata, so Jetpack goes on to the platform.
    (UNLISTED, (F,), (1000, DENIED), (1000, DENIED)),
]


async def _both(device: Device, caller: str, call: tuple[str, ...]) -> tuple[Answer, Answer]:
    async with app_of(device, caller) as app:
        return await app.through_platform(*call), await app.through_jetpack(*call)


@contextlib.asynccontextmanager
async def _shop_and_callers(folder: Path, platform: PlatformName) -> AsyncIterator[Device]:
    async with running_device(folder, platform=platform) as device:
        device.install(PACKAGE)
        device.install(STRANGER)
        device.install(LISTED, targets=[PACKAGE])
        device.install(UNLISTED, "EXECUTE_APP_FUNCTIONS", targets=[ELSEWHERE])
        device.install(AGENT, "EXECUTE_APP_FUNCTIONS", targets=["*"])
        off = trusted(OFF, is_enabled_by_default=False)
        async with raw_provider(device, trusted(F), off):
            yield device


@pytest.mark.requirement(
    "jetpack.facade",
    "jetpack.facade.not-found-where-hidden",
    "appfunctions.execute.denied-text",
    "appfunctions.execute.not-found",
    "appfunctions.execute.disabled",
    "appfunctions.execute.empty-package",
    "appfunctions.execute.activity-id-on-global",
    "appfunctions.caller.permission-without-allowlist",
)
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_both_managers_refuse_calls_in_their_own_way(
    platform: PlatformName, tmp_path: Path
) -> None:
    # Android 16 has no allowlist: the unlisted caller's call would run.
    rows = [row for row in REFUSED if (row[0], platform) != (UNLISTED, "android-16")]
    async with _shop_and_callers(tmp_path, platform) as device:
        answers = [(caller, call, *await _both(device, caller, call)) for caller, call, *_ in rows]

    assert answers == rows


@pytest.mark.requirement("jetpack.errors.unknown-code", "appfunctions.caller.enterprise-policy")
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_the_policy_has_a_code_on_the_platform_and_no_class_in_jetpack(
    platform: PlatformName, tmp_path: Path
) -> None:
    async with _shop_and_callers(tmp_path, platform) as device:
        with closing(open_database(device.home.database_path, create=False)) as other:
            other.execute("INSERT INTO settings VALUES ('app_functions.policy', 'disabled')")
        async with app_of(device, AGENT) as app:
            code, _ = await app.through_platform(F)
            answer = await app.jetpack.execute_app_function(
                jetpack.ExecuteAppFunctionRequest(PACKAGE, F)
            )

    assert code == AppFunctionException.ERROR_ENTERPRISE_POLICY_DISALLOWED == 2002
    assert isinstance(answer, jetpack.Error)
    assert type(answer.error) is jetpack.AppFunctionUnknownException
    assert answer.error.error_code == 2002


@pytest.mark.requirement("jetpack.facade.enabled-state")
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_jetpack_switches_the_apps_own_functions_on_every_platform(
    platform: PlatformName, tmp_path: Path
) -> None:
    name = AppFunctionName(PACKAGE, F)
    async with _shop_and_callers(tmp_path, platform) as device, app_of(device, PACKAGE) as shop:
        manager = shop.jetpack
        await manager.set_app_function_enabled(F, manager.APP_FUNCTION_STATE_DISABLED)
        states = await manager.get_app_function_states([name])
        disabled = await manager.is_app_function_enabled(F, PACKAGE)
        await shop.platform.set_app_function_enabled(F, manager.APP_FUNCTION_STATE_DEFAULT)
        enabled = await manager.is_app_function_enabled(F)
        for wrong, text in (
            (manager.set_app_function_enabled(F, 3), "Invalid state: 3"),
            (manager.set_app_function_enabled("T#none", 1), "Function T#none does not exist"),
            (manager.is_app_function_enabled("T#none"), "App function not found"),
        ):
            with pytest.raises(ValueError, match=text):
                await wrong

    assert states == [AppFunctionState(name=name, is_enabled=False)]
    assert (disabled, enabled) == (False, True)
