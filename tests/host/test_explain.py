"""Why a caller sees and may run a function, or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import errors_pb2
from aicore_sim.device.profile import PlatformName
from tests.host.rig import Device, name_of, raw_provider, running_device, trusted
from tests.host.shop import PACKAGE

FUNCTIONS = (
    trusted("T#trusted"),
    trusted("T#system", access_level=200),
    trusted("T#self", access_level=100),
    trusted("T#off", is_enabled_by_default=False),
    trusted("T#plain", access_level=100, is_compat_enforcement_enabled=False),
)


async def _explain(
    device: Device, caller: str, function: str, *, package: str = PACKAGE, only: str = ""
) -> pb.ExplainResponse:
    request = pb.ExplainRequest(
        package_name=caller,
        function=name_of(function, package),
        id_filter=[only] if only else [],
    )
    found: pb.ExplainResponse = await device.shell().call("Explain", request)
    return found


@pytest.mark.requirement("appfunctions.explain")
@pytest.mark.parametrize(
    ("caller", "function", "package", "discovery", "execution", "code"),
    [
        ("agent", "T#trusted", PACKAGE, "LEVEL_TRUSTED", "ALLOWLISTED", 0),
        ("agent", "T#system", PACKAGE, "LEVEL_SYSTEM", "LEVEL_SYSTEM", 1000),
        ("agent", "T#self", PACKAGE, "LEVEL_SELF", "LEVEL_SELF", 1000),
        ("agent", "T#off", PACKAGE, "LEVEL_TRUSTED", "DISABLED", 1002),
        ("agent", "T#missing", PACKAGE, "NOT_REGISTERED", "NOT_REGISTERED", 1003),
        ("agent", "T#trusted", "com.example.none", "NOT_INSTALLED", "NOT_INSTALLED", 1003),
        ("unlisted", "T#trusted", PACKAGE, "LEVEL_TRUSTED", "NOT_ALLOWLISTED", 1000),
        ("ordinary", "T#trusted", PACKAGE, "NO_PERMISSION", "NO_PERMISSION", 1000),
        ("surface", "T#system", PACKAGE, "SYSTEM_PERMISSION", "SYSTEM_PERMISSION", 0),
        ("shop", "T#self", PACKAGE, "SAME_PACKAGE", "SAME_PACKAGE", 0),
    ],
)
async def test_each_outcome_is_explained_by_the_rule_that_decides(
    device: Device,
    caller: str,
    function: str,
    package: str,
    discovery: str,
    execution: str,
    code: int,
) -> None:
    names = _install_callers(device)
    async with raw_provider(device, *FUNCTIONS):
        found = await _explain(device, names[caller], function, package=package)

    assert (found.discovery_rule, found.execute_rule) == (discovery, execution)
    assert found.execute_error_code == code
    assert found.discoverable is (
        discovery in ("LEVEL_TRUSTED", "SYSTEM_PERMISSION", "SAME_PACKAGE")
    )
    assert found.discovery_reason
    assert found.execute_reason


@pytest.mark.requirement("appfunctions.explain")
@pytest.mark.parametrize(
    ("platform", "caller", "function", "discovery", "execution", "code"),
    [
        ("android-17.0", "agent", "T#self", "LEVELS_IN_LIBRARY", "COMPAT_REFUSES", 1000),
        ("android-17.0", "agent", "T#plain", "LEVELS_IN_LIBRARY", "ALLOWLISTED", 0),
        ("android-17.0", "surface", "T#system", "LEVELS_IN_LIBRARY", "SYSTEM_PERMISSION", 0),
        ("android-16", "unlisted", "T#trusted", "LEVELS_IN_LIBRARY", "PERMISSION", 0),
        ("android-16", "surface", "T#trusted", "NO_PERMISSION", "NO_PERMISSION", 1000),
    ],
)
async def test_below_17_2_the_explanation_includes_what_the_library_will_say(
    tmp_path: Path,
    platform: PlatformName,
    caller: str,
    function: str,
    discovery: str,
    execution: str,
    code: int,
) -> None:
    async with running_device(tmp_path, platform=platform) as device:
        names = _install_callers(device)
        async with raw_provider(device, *FUNCTIONS):
            found = await _explain(device, names[caller], function)

    assert (found.discovery_rule, found.execute_rule) == (discovery, execution)
    assert found.execute_error_code == code


@pytest.mark.requirement("appfunctions.explain")
@pytest.mark.parametrize(
    ("only", "filtered"), [("", False), ("trusted", False), ("T#trusted", False), ("off", True)]
)
async def test_an_id_filter_that_lacks_the_function_is_told(
    device: Device, only: str, filtered: bool
) -> None:
    names = _install_callers(device)
    async with raw_provider(device, *FUNCTIONS):
        found = await _explain(device, names["agent"], "T#trusted", only=only)

    assert (found.filtered_out, found.discoverable) == (filtered, True)


async def test_only_the_shell_may_ask_and_only_for_an_installed_caller(device: Device) -> None:
    names = _install_callers(device)
    request = pb.ExplainRequest(package_name=names["agent"], function=name_of("T#x"))
    agent = device.caller(device.tokens[names["agent"]])

    refused = await agent.failure("Explain", request)
    unknown = await device.shell().failure("Explain", pb.ExplainRequest(package_name="com.none"))

    assert refused.simulator.kind == errors_pb2.SimulatorError.FORBIDDEN
    assert unknown.simulator.kind == errors_pb2.SimulatorError.NOT_FOUND


async def test_an_explanation_is_no_decision_and_leaves_the_journal_alone(device: Device) -> None:
    names = _install_callers(device)
    await _explain(device, names["ordinary"], "T#x")

    assert device.host.journal.read() == ()


def _install_callers(device: Device) -> dict[str, str]:
    device.install(PACKAGE)
    device.install("com.example.agent", "EXECUTE_APP_FUNCTIONS", targets=["*"])
    device.install("com.example.unlisted", "EXECUTE_APP_FUNCTIONS")
    device.install("com.example.home", "EXECUTE_APP_FUNCTIONS_SYSTEM")
    device.install("com.example.ordinary")
    return {
        "shop": PACKAGE,
        "agent": "com.example.agent",
        "unlisted": "com.example.unlisted",
        "surface": "com.example.home",
        "ordinary": "com.example.ordinary",
    }
