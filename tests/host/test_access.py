"""The access table, against literals."""

from __future__ import annotations

import pytest

from aicore_sim.device.packages import SHELL
from appfunctions_host.access import Rule
from tests.host.rig import identity, rules_of

SHOP = "com.example.shop"
RULES = rules_of()
CALLERS = {
    "A": identity(SHOP),
    "A with the permission": identity(SHOP, "EXECUTE_APP_FUNCTIONS"),
    "B": identity("com.other"),
    "B that only sees packages": identity("com.other", "QUERY_ALL_PACKAGES"),
    "B that is only on the allowlist": identity("com.other", targets=[SHOP]),
    "C": identity("com.other", "DISCOVER_APP_FUNCTIONS"),
    "D": identity("com.other", "EXECUTE_APP_FUNCTIONS", targets=[SHOP]),
    "D for every target": identity("com.other", "EXECUTE_APP_FUNCTIONS", targets=["*"]),
    "D-": identity("com.other", "EXECUTE_APP_FUNCTIONS", targets=["com.third"]),
    "E": identity("com.other", "EXECUTE_APP_FUNCTIONS_SYSTEM"),
    "shell": SHELL,
}


@pytest.mark.requirement(
    "appfunctions.access.self.allowlisted-agent-denied",
    "appfunctions.access.self.discover-only-app-denied",
    "appfunctions.access.self.ordinary-app-denied",
    "appfunctions.access.self.own-app-allowed",
    "appfunctions.access.self.system-surface-denied",
    "appfunctions.access.self.unlisted-agent-denied",
    "appfunctions.access.system.allowlisted-agent-denied",
    "appfunctions.access.system.discover-only-app-denied",
    "appfunctions.access.system.ordinary-app-denied",
    "appfunctions.access.system.own-app-allowed",
    "appfunctions.access.system.system-surface-allowed",
    "appfunctions.access.system.unlisted-agent-denied",
    "appfunctions.access.trusted.allowlisted-agent-allowed",
    "appfunctions.access.trusted.discover-only-app-finds",
    "appfunctions.access.trusted.ordinary-app-denied",
    "appfunctions.access.trusted.own-app-allowed",
    "appfunctions.access.trusted.system-surface-allowed",
    "appfunctions.access.trusted.unlisted-agent-finds",
    "appfunctions.caller.allowlist-wildcard",
    "appfunctions.search.permission",
    "appfunctions.search.query-all-packages",
    "shell.shell-identity",
)
@pytest.mark.parametrize(
    ("caller", "self_", "system", "trusted"),
    [
        ("A", True, True, True),
        ("A with the permission", True, True, True),
        ("B", False, False, False),
        ("B that only sees packages", False, False, False),
        ("B that is only on the allowlist", False, False, False),
        ("C", False, False, True),
        ("D", False, False, True),
        ("D for every target", False, False, True),
        ("D-", False, False, True),
        ("E", False, True, True),
        ("shell", True, True, True),
    ],
)
def test_who_discovers_what(caller: str, self_: bool, system: bool, trusted: bool) -> None:
    found = [RULES.may_discover(CALLERS[caller], SHOP, level).allowed for level in (100, 200, 300)]

    assert found == [self_, system, trusted]


@pytest.mark.requirement(
    "appfunctions.access.self.allowlisted-agent-denied",
    "appfunctions.access.self.discover-only-app-denied",
    "appfunctions.access.self.ordinary-app-denied",
    "appfunctions.access.self.own-app-allowed",
    "appfunctions.access.self.system-surface-denied",
    "appfunctions.access.self.unlisted-agent-denied",
    "appfunctions.access.system.allowlisted-agent-denied",
    "appfunctions.access.system.discover-only-app-denied",
    "appfunctions.access.system.ordinary-app-denied",
    "appfunctions.access.system.own-app-allowed",
    "appfunctions.access.system.system-surface-allowed",
    "appfunctions.access.system.unlisted-agent-denied",
    "appfunctions.access.trusted.allowlisted-agent-allowed",
    "appfunctions.access.trusted.discover-only-app-finds",
    "appfunctions.access.trusted.ordinary-app-denied",
    "appfunctions.access.trusted.own-app-allowed",
    "appfunctions.access.trusted.system-surface-allowed",
    "appfunctions.access.trusted.unlisted-agent-finds",
    "appfunctions.caller.allowlist-wildcard",
    "appfunctions.caller.allowlist-without-permission",
    "appfunctions.caller.permission-without-allowlist",
    "appfunctions.caller.same-package",
    "appfunctions.caller.system-permission-skips-allowlist",
    "shell.shell-level",
)
@pytest.mark.parametrize(
    ("caller", "self_", "system", "trusted"),
    [
        ("A", 0, 0, 0),
        ("A with the permission", 0, 0, 0),
        ("B", 1000, 1000, 1000),
        ("B that only sees packages", 1000, 1000, 1000),
        ("B that is only on the allowlist", 1000, 1000, 1000),
        ("C", 1000, 1000, 1000),
        ("D", 1000, 1000, 0),
        ("D for every target", 1000, 1000, 0),
        ("D-", 1000, 1000, 1000),
        ("E", 1000, 0, 0),
        ("shell", 1000, 0, 0),
    ],
)
def test_who_executes_what(caller: str, self_: int, system: int, trusted: int) -> None:
    found = []
    for level in (100, 200, 300):
        right = RULES.may_call_package(CALLERS[caller], SHOP)
        decision = (
            right if not right.allowed else RULES.may_execute_level(CALLERS[caller], SHOP, level)
        )
        found.append(decision.error_code)

    assert found == [self_, system, trusted]


@pytest.mark.parametrize(
    ("caller", "rule"),
    [
        ("A", Rule.SAME_PACKAGE),
        ("B", Rule.NO_PERMISSION),
        ("C", Rule.NO_PERMISSION),
        ("D", Rule.ALLOWLISTED),
        ("D-", Rule.NOT_ALLOWLISTED),
        ("E", Rule.SYSTEM_PERMISSION),
    ],
)
def test_a_decision_names_the_rule_that_made_it(caller: str, rule: Rule) -> None:
    assert RULES.may_call_package(CALLERS[caller], SHOP).rule is rule


@pytest.mark.requirement("appfunctions.execute.denied-text")
def test_every_refusal_of_a_right_has_the_same_code_and_text() -> None:
    refusals = [RULES.may_call_package(CALLERS[name], SHOP) for name in ("B", "C", "D-")]

    assert {(item.error_code, item.message) for item in refusals} == {
        (1000, "Caller does not have permission to execute the appfunction")
    }


@pytest.mark.requirement("appfunctions.execute.level-denied-code")
@pytest.mark.parametrize(
    ("denied_code", "message"),
    [
        (1000, "Caller does not have permission to execute the appfunction"),
        (1003, "App function not found."),
    ],
)
def test_the_profile_chooses_the_code_of_a_call_that_only_the_level_forbids(
    denied_code: int, message: str
) -> None:
    rules = rules_of(denied_code=denied_code)

    found = rules.may_execute_level(CALLERS["D"], SHOP, 100)

    assert (found.allowed, found.rule) == (False, Rule.LEVEL_SELF)
    assert (found.error_code, found.message) == (denied_code, message)


def test_an_unknown_level_is_closed_to_everyone_but_the_app_itself() -> None:
    assert RULES.may_execute_level(CALLERS["E"], SHOP, 400).rule is Rule.LEVEL_UNKNOWN
    assert not RULES.may_discover(CALLERS["E"], SHOP, 400).allowed
    assert RULES.may_execute_level(CALLERS["A"], SHOP, 400).allowed
