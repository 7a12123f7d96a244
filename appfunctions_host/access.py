"""Who may find and who may run a function: the policy of Android 17.2, without any I/O.

The right of the caller comes first, by permission and allowlist; the access level of the function
second. Android documents the levels, not how 17.2 enforces them: the order (level after existence,
before the enabled state), the code of a call that only the level forbids, and that a
discover-only caller finds no SYSTEM function are choices of this project.

Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionManager
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from aicore_sim.device.errors import AppFunctionCode
from aicore_sim.device.packages import Identity
from aicore_sim.device.permissions import (
    DISCOVER_APP_FUNCTIONS,
    EXECUTE_APP_FUNCTIONS,
    EXECUTE_APP_FUNCTIONS_SYSTEM,
)
from appfunctions_host.annotations import AppFunctionMetadata

DENIED_TEXT = "Caller does not have permission to execute the appfunction"
NOT_FOUND_TEXT = "App function not found."
_ANY_TARGET = "*"


class Rule(StrEnum):
    """What decided. Journals and `Explain` show the value."""

    SYSTEM_PERMISSION = "caller holds EXECUTE_APP_FUNCTIONS_SYSTEM"
    SAME_PACKAGE = "caller is the function's own package"
    ALLOWLISTED = "caller holds EXECUTE_APP_FUNCTIONS and the allowlist names the target"
    NOT_ALLOWLISTED = "caller holds EXECUTE_APP_FUNCTIONS, but the allowlist lacks the target"
    NO_PERMISSION = "caller holds no permission for app functions of other packages"
    CLAIM_MATCHES = "the claimed package is the token's"
    FOREIGN_CLAIM = "the claimed package is not the token's"
    SHELL_LISTS_ALL = "the shell lists every function"
    LEVEL_SELF = "access level SELF: only the function's own package"
    LEVEL_SYSTEM = "access level SYSTEM: needs EXECUTE_APP_FUNCTIONS_SYSTEM"
    LEVEL_TRUSTED = "access level ANDROID_TRUSTED"
    LEVEL_UNKNOWN = "unknown access level"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether something is allowed, by which rule, and what a refused caller is told."""

    allowed: bool
    rule: Rule
    error_code: int = 0
    message: str = ""


def may_claim(caller: Identity, claimed_package: str) -> Decision:
    """Whether a request may name `claimed_package` as its caller; empty names none."""
    if claimed_package in ("", caller.package_name):
        return _allow(Rule.CLAIM_MATCHES)
    return Decision(
        allowed=False,
        rule=Rule.FOREIGN_CLAIM,
        error_code=AppFunctionCode.DENIED,
        message=f"Specified calling package [{claimed_package}] does not match the calling uid "
        f"{caller.uid}",
    )


def may_call_package(caller: Identity, target_package: str) -> Decision:
    """The caller's right to run functions of `target_package`, whether that exists or not."""
    if EXECUTE_APP_FUNCTIONS_SYSTEM in caller.permissions:
        return _allow(Rule.SYSTEM_PERMISSION)
    if caller.package_name == target_package:
        return _allow(Rule.SAME_PACKAGE)
    if EXECUTE_APP_FUNCTIONS not in caller.permissions:
        return _deny(Rule.NO_PERMISSION)
    if caller.allowlist_targets & {target_package, _ANY_TARGET}:
        return _allow(Rule.ALLOWLISTED)
    return _deny(Rule.NOT_ALLOWLISTED)


def may_execute_level(
    caller: Identity,
    target_package: str,
    level: int,
    *,
    denied_code: Literal[1000, 1003] = 1000,
) -> Decision:
    """Whether the level lets a caller run the function who may call its package.

    With `denied_code` 1003 the answer is the one for a missing function.
    """
    rule = _level_rule(caller, target_package, level)
    if rule in (Rule.LEVEL_SELF, Rule.LEVEL_SYSTEM, Rule.LEVEL_UNKNOWN):
        if denied_code == 1003:
            return Decision(
                allowed=False, rule=rule, error_code=denied_code, message=NOT_FOUND_TEXT
            )
        return _deny(rule)
    return _allow(rule)


def may_discover(caller: Identity, target_package: str, level: int) -> Decision:
    """Whether searches and states show the function. Every installed package counts as visible."""
    if caller.package_name == target_package:
        return _allow(Rule.SAME_PACKAGE)
    if caller.is_shell:
        return _allow(Rule.SHELL_LISTS_ALL)
    readers = {DISCOVER_APP_FUNCTIONS, EXECUTE_APP_FUNCTIONS, EXECUTE_APP_FUNCTIONS_SYSTEM}
    if not caller.permissions & readers:
        return _deny(Rule.NO_PERMISSION)
    rule = _level_rule(caller, target_package, level)
    if rule in (Rule.SYSTEM_PERMISSION, Rule.LEVEL_TRUSTED):
        return _allow(rule)
    return _deny(rule)


def _level_rule(caller: Identity, target_package: str, level: int) -> Rule:
    if caller.package_name == target_package:
        return Rule.SAME_PACKAGE
    match level:
        case AppFunctionMetadata.ACCESS_LEVEL_SELF:
            return Rule.LEVEL_SELF
        case AppFunctionMetadata.ACCESS_LEVEL_SYSTEM:
            held = EXECUTE_APP_FUNCTIONS_SYSTEM in caller.permissions
            return Rule.SYSTEM_PERMISSION if held else Rule.LEVEL_SYSTEM
        case AppFunctionMetadata.ACCESS_LEVEL_ANDROID_TRUSTED:
            return Rule.LEVEL_TRUSTED
        case _:
            return Rule.LEVEL_UNKNOWN


def _allow(rule: Rule) -> Decision:
    return Decision(allowed=True, rule=rule)


def _deny(rule: Rule) -> Decision:
    return Decision(
        allowed=False, rule=rule, error_code=AppFunctionCode.DENIED, message=DENIED_TEXT
    )
