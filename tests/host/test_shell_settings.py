"""What the shell sets in the host: access flags, the allowlist, page size, queries, services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from aicore_sim.device.profile import AppFunctionsProfile, load_profile
from appfunctions_host.access import AccessRules, Rule
from appfunctions_host.access_flags import AccessFlag, is_granted, updated
from tests.host.cli_rig import ASSISTANT, Served, served_shop
from tests.host.rig import Device, identity, raw_provider, running_device, trusted
from tests.host.shop import PACKAGE

F = AccessFlag
OTHER = F.OTHER_GRANTED | F.OTHER_DENIED
USER = F.USER_GRANTED | F.USER_DENIED


@pytest.mark.requirement("appfunctions.access-flags")
@pytest.mark.parametrize(
    ("flags", "new", "mask", "expected"),
    [
        (0, F.OTHER_GRANTED, OTHER, F.OTHER_GRANTED),
        (F.OTHER_GRANTED | F.PREGRANTED, F.OTHER_DENIED, OTHER, F.OTHER_DENIED | F.PREGRANTED),
        (F.USER_DENIED, 0, USER, 0),
        (F.USER_GRANTED, F.PREGRANTED, F.PREGRANTED, F.USER_GRANTED | F.PREGRANTED),
    ],
)
def test_flags_change_within_their_mask(flags: int, new: int, mask: int, expected: int) -> None:
    assert updated(flags, new=new, mask=mask) == expected


@pytest.mark.requirement("appfunctions.access-flags")
@pytest.mark.parametrize(
    ("new", "mask", "problem"),
    [
        (64, 64, "unknown bits"),
        (0, 128, "unknown bits"),
        (F.PREGRANTED, 0, "not all in the mask"),
        (OTHER, OTHER, "exclude each other"),
        (F.USER_GRANTED, F.USER_GRANTED, "needs both in the mask"),
        (F.OTHER_DENIED, F.OTHER_DENIED, "needs both in the mask"),
    ],
)
def test_flags_that_make_no_sense_are_refused(new: int, mask: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        updated(0, new=new, mask=mask)


@pytest.mark.requirement("appfunctions.access-flags")
@pytest.mark.parametrize(
    ("flags", "granted"),
    [
        (0, False),
        (F.PREGRANTED, True),
        (F.UPGRADE_GRANTED, True),
        (F.USER_GRANTED, True),
        (F.OTHER_GRANTED, True),
        (F.USER_DENIED, False),
        (F.OTHER_DENIED, False),
        (F.PREGRANTED | F.USER_DENIED, False),
    ],
)
def test_what_flags_mean_together(flags: int, granted: bool) -> None:
    assert is_granted(flags) is granted


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_shop(tmp_path_factory.mktemp("shell")) as served:
        served.packages.install("com.plain")
        yield served


def ok(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


@pytest.mark.requirement("shell.access-commands")
def test_access_is_granted_and_revoked_between_installed_packages(served: Served) -> None:
    pair = ("--agent-package", ASSISTANT, "--target-package", PACKAGE)
    granted = ok(served.run("grant-app-function-access", *pair))
    revoked = ok(served.run("revoke-app-function-access", *pair))
    assert (granted, revoked) == ("Access granted successfully.", "Access revoked successfully.")
    missing = served.run(
        "grant-app-function-access", "--agent-package", "com.no", "--target-package", PACKAGE
    )
    assert missing.exit_code == 255
    assert missing.stderr.startswith("Failed to update access: ")
    nothing = served.run("grant-app-function-access", "--agent-package", ASSISTANT)
    assert (nothing.exit_code, nothing.stderr.strip()) == (
        255,
        "Error: --target-package must be specified.",
    )


@pytest.mark.requirement("shell.access-commands", "shell.allowlist-commands")
def test_agents_are_valid_by_permission_and_allowlist(served: Served) -> None:
    served.packages.install("com.unlisted", ["EXECUTE_APP_FUNCTIONS"])
    assert ok(served.run("list-valid-agents")) == f"Valid agents: [{ASSISTANT}]"
    assert ok(served.run("list-valid-targets")) == f"Valid targets: [{PACKAGE}]"
    assert ok(served.run("set-additional-allowlisted-agents", "com.unlisted", "com.other")) == ""
    both = f"Valid agents: [{ASSISTANT}, com.unlisted]"
    assert ok(served.run("list-valid-agents")) == both
    ok(served.run("clear-additional-allowlisted-agents"))
    assert ok(served.run("list-valid-agents")) == f"Valid agents: [{ASSISTANT}]"
    assert ok(served.run("disable-allowlist")) == "Disable allowlist"
    assert ok(served.run("list-valid-agents")) == both
    assert ok(served.run("enable-allowlist")) == "Enable allowlist"
    assert ok(served.run("purge-allowlist-cache")) == "Purge allowlist cache"


@pytest.mark.requirement("shell.page-size-commands")
def test_pages_have_the_size_of_the_test_and_lose_nothing(served: Served) -> None:
    before = ok(served.run("list-app-functions", "--package", PACKAGE))
    ok(served.run("set-test-page-size", "--page-size", "2"))
    assert ok(served.run("list-app-functions", "--package", PACKAGE)) == before
    ok(served.run("reset-test-page-size"))
    bad = served.run("set-test-page-size", "--page-size", "9999")
    assert (bad.exit_code, "page_size: 9999" in bad.stderr) == (255, True)
    assert served.run("set-test-page-size").exit_code == 255


@pytest.mark.requirement("appfunctions.service.started-on-demand")
def test_a_service_command_is_registered_listed_and_taken_away(served: Served) -> None:
    ok(served.run("set-service-command", "--package", "com.plain", "--", "python", "app.py", "-x"))
    listed = ok(served.run("list-service-commands"))
    assert listed == "com.plain (not running): python app.py -x"
    ok(served.run("set-service-command", "--package", "com.plain", "--clear"))
    assert ok(served.run("list-service-commands", "--json")) == "[]"
    missing = served.run("set-service-command", "--package", "com.plain", "--", "no-such-program")
    assert (missing.exit_code, "no program 'no-such-program'" in missing.stderr) == (255, True)
    unknown = served.run("set-service-command", "--package", "com.no", "--", "python")
    assert (unknown.exit_code, "'com.no' is not installed" in unknown.stderr) == (255, True)
    assert served.run("set-service-command", "--package", "com.plain").exit_code == 255


@pytest.mark.requirement("shell.allowlist-commands")
async def test_the_switch_of_the_allowlist_counts_from_the_next_call(tmp_path: Path) -> None:
    async with running_device(tmp_path) as device:
        shop = device.install(PACKAGE)
        agent = device.install("com.agent", "EXECUTE_APP_FUNCTIONS")
        async with raw_provider(device, trusted("T#f", is_enabled_by_default=False)):
            assert (await shop.code("T#f"), await agent.code("T#f")) == (1002, 1000)
            device.host.settings.allowlist_enabled = False
            assert await agent.code("T#f") == 1002
            device.host.settings.allowlist_enabled = True
            device.host.settings.additional_agents = ("com.agent",)
            assert await agent.code("T#f") == 1002
    async with running_device(tmp_path) as device:
        assert device.host.settings.additional_agents == ("com.agent",)


def queries_profile() -> AppFunctionsProfile:
    functions = load_profile().app_functions
    return functions.model_copy(update={"package_visibility": "queries"})


@pytest.mark.requirement("appfunctions.visibility.packages")
def test_where_visibility_follows_queries_a_caller_discovers_what_it_names_or_everything() -> None:
    rules = AccessRules(
        queries_profile(), queries=lambda name: {"com.shop"} if name == "com.agent" else ()
    )
    agent = identity("com.agent", "EXECUTE_APP_FUNCTIONS", targets=["*"])
    broad = identity("com.broad", "DISCOVER_APP_FUNCTIONS", "QUERY_ALL_PACKAGES")
    blind = identity("com.blind", "EXECUTE_APP_FUNCTIONS_SYSTEM")
    plain = identity("com.plain", "QUERY_ALL_PACKAGES")
    seen = {
        caller.package_name: rules.may_discover(caller, "com.shop", 300).allowed
        for caller in (agent, broad, blind, plain)
    }
    assert seen == {"com.agent": True, "com.broad": True, "com.blind": False, "com.plain": False}
    assert rules.may_discover(blind, "com.shop", 300).rule is Rule.NOT_VISIBLE
    assert rules.may_discover(blind, "com.blind", 100).allowed
    # The execute path asks for no visibility.
    assert rules.may_call_package(blind, "com.shop").allowed
    everything = AccessRules(load_profile().app_functions)
    assert everything.may_discover(blind, "com.shop", 300).allowed


async def test_queries_are_kept_for_the_installation(tmp_path: Path) -> None:
    async with running_device(tmp_path) as device:
        _set_queries(device)
        assert device.host.settings.queries("com.agent") == {PACKAGE}
    async with running_device(tmp_path) as device:
        assert device.host.settings.queries("com.agent") == {PACKAGE}
        device.packages.uninstall("com.agent")
        assert device.host.settings.queries("com.agent") == frozenset()


def _set_queries(device: Device) -> None:
    device.install("com.agent")
    device.host.settings.set_queries("com.agent", [PACKAGE, PACKAGE])
