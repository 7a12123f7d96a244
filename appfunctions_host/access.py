"""Who may find and who may run a function, on each platform generation, without any I/O.

The right of the caller comes first, by permission and allowlist; the access level of the function
second, and only from Android 17.2 on: below, the provider's library checks levels (see `compat`).
Android documents the levels, not how 17.2 enforces them: the order (level after existence,
before the enabled state), the code of a call that only the level forbids, and that a
discover-only caller finds no SYSTEM function are choices of this project. So is that Android 16
ignores a grant of a permission that it does not know.

Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionManager
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.errors import AppFunctionCode
from aicore_sim.device.packages import Identity
from aicore_sim.device.permissions import (
    DISCOVER_APP_FUNCTIONS,
    EXECUTE_APP_FUNCTIONS,
    EXECUTE_APP_FUNCTIONS_SYSTEM,
    QUERY_ALL_PACKAGES,
)
from aicore_sim.device.profile import AppFunctionsProfile
from appfunctions_host.annotations import AppFunctionMetadata

DENIED_TEXT = "Caller does not have permission to execute the appfunction"
NOT_FOUND_TEXT = "App function not found."
_ANY_TARGET = "*"
_SINCE_17 = frozenset({EXECUTE_APP_FUNCTIONS_SYSTEM, DISCOVER_APP_FUNCTIONS})


class Rule(StrEnum):
    """What decided. The journal keeps the name, people read the value."""

    CLAIM_MATCHES = "the claimed package is the token's"
    FOREIGN_CLAIM = "the claimed package is not the token's"
    OTHER_USER = "the target is another user or profile"
    POLICY = "the enterprise policy of the device forbids app functions"
    NO_TARGET = "the request names no target package"
    SYSTEM_PERMISSION = "caller holds EXECUTE_APP_FUNCTIONS_SYSTEM"
    SAME_PACKAGE = "caller is the function's own package"
    PERMISSION = "caller holds EXECUTE_APP_FUNCTIONS, and this platform has no allowlist"
    ALLOWLISTED = "caller holds EXECUTE_APP_FUNCTIONS and the allowlist names the target"
    NOT_ALLOWLISTED = "caller holds EXECUTE_APP_FUNCTIONS, but the allowlist lacks the target"
    NO_PERMISSION = "caller holds no permission for app functions of other packages"
    READS_METADATA = "caller holds a permission to read metadata of app functions"
    SHELL_LISTS_ALL = "the shell lists every function"
    LEVEL_SELF = "access level SELF: only the function's own package"
    LEVEL_SYSTEM = "access level SYSTEM: needs EXECUTE_APP_FUNCTIONS_SYSTEM"
    LEVEL_TRUSTED = "access level ANDROID_TRUSTED"
    LEVEL_UNKNOWN = "unknown access level"
    LEVELS_IN_LIBRARY = "this platform leaves access levels to the provider's library"
    COMPAT_OFF = "the function's compat enforcement is off, so its access level is ignored"
    COMPAT_REFUSES = "the provider's library refuses the caller before the function's body"
    NOT_INSTALLED = "the package is not installed"
    NOT_REGISTERED = "the package declares no such function"
    NOT_VISIBLE = "the caller cannot see the package: its queries do not name it"
    ACTIVITY_ID = "the activity id does not fit the function"
    DISABLED = "the function is disabled"
    NO_REGISTRATION = "the app has not registered the function, as it does at run time"
    NO_SERVICE = "no process provides the function, and none is registered to be started"
    NOT_BOUND = "the process that provides the function could not be started"
    NOT_OWN = "the function is missing, or of another package"
    BAD_STATE = "no such enabled state"
    BAD_ARGUMENTS = "the arguments cannot be sent to a provider"
    PROVIDER_JOINED = "a provider of the package connected"
    PROVIDER_REFUSED = "the provider may not register these functions"
    PROVIDER_LEFT = "the provider of the package went away"
    REGISTERED = "the app registered functions at run time"
    REGISTRATION_REFUSED = "the app may not register these functions"
    REGISTRATION_ENDED = "the app ended a registration"
    RETURNED = "the function returned"
    FAILED = "the function failed"
    TIMED_OUT = "the function did not finish in its time"
    CALLER_CANCELLED = "the caller cancelled"


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
        return allow(Rule.CLAIM_MATCHES)
    return deny(
        Rule.FOREIGN_CLAIM,
        message=f"Specified calling package [{claimed_package}] does not match the calling uid "
        f"{caller.uid}",
    )


class AccessRules:
    """The rules of one platform generation."""

    def __init__(
        self,
        platform: AppFunctionsProfile,
        *,
        is_allowlisted: Callable[[str], bool] = lambda agent: False,
        queries: Callable[[str], Collection[str]] = lambda package_name: (),
    ) -> None:
        """`is_allowlisted`: agents that the shell has made so for every target; `queries`: the
        packages that an app's manifest names."""
        self._platform = platform
        self._is_allowlisted = is_allowlisted
        self._queries = queries

    @property
    def levels_are_native(self) -> bool:
        return self._platform.native_levels

    def permissions(self, caller: Identity) -> frozenset[str]:
        """The permissions of the caller that this platform knows."""
        unknown = _SINCE_17 if self._platform.permission_gate == "v1" else frozenset()
        return caller.permissions - unknown

    def may_call_package(self, caller: Identity, target_package: str) -> Decision:
        """The caller's right to run functions of `target_package`, whether that exists or not."""
        held = self.permissions(caller)
        if EXECUTE_APP_FUNCTIONS_SYSTEM in held:
            return allow(Rule.SYSTEM_PERMISSION)
        if caller.package_name == target_package:
            return allow(Rule.SAME_PACKAGE)
        if EXECUTE_APP_FUNCTIONS not in held:
            return deny(Rule.NO_PERMISSION)
        if not self._platform.allowlist:
            return allow(Rule.PERMISSION)
        if caller.allowlist_targets & {target_package, _ANY_TARGET}:
            return allow(Rule.ALLOWLISTED)
        if self._is_allowlisted(caller.package_name):
            return allow(Rule.ALLOWLISTED)
        return deny(Rule.NOT_ALLOWLISTED)

    def may_execute_level(self, caller: Identity, target_package: str, level: int) -> Decision:
        """Whether the level lets a caller run the function who may call its package.

        With the profile's `denied_code` 1003 the answer is the one for a missing function.
        """
        if not self.levels_are_native:
            return allow(Rule.LEVELS_IN_LIBRARY)
        rule = self._level_rule(caller, target_package, level)
        if rule in (Rule.LEVEL_SELF, Rule.LEVEL_SYSTEM, Rule.LEVEL_UNKNOWN):
            if self._platform.denied_code == 1003:
                return deny(rule, AppFunctionCode.FUNCTION_NOT_FOUND, NOT_FOUND_TEXT)
            return deny(rule)
        return allow(rule)

    def may_read(self, caller: Identity) -> Decision:
        """Whether the caller may read metadata of packages other than its own."""
        if caller.is_shell:
            return allow(Rule.SHELL_LISTS_ALL)
        readers = {DISCOVER_APP_FUNCTIONS, EXECUTE_APP_FUNCTIONS, EXECUTE_APP_FUNCTIONS_SYSTEM}
        if self.permissions(caller) & readers:
            return allow(Rule.READS_METADATA)
        return deny(Rule.NO_PERMISSION)

    def may_discover(self, caller: Identity, target_package: str, level: int) -> Decision:
        """Whether searches and states show the function."""
        if caller.package_name == target_package:
            return allow(Rule.SAME_PACKAGE)
        reads = self.may_read(caller)
        if caller.is_shell or not reads.allowed:
            return reads
        if not self._sees(caller, target_package):
            return deny(Rule.NOT_VISIBLE)
        if not self.levels_are_native:
            return allow(Rule.LEVELS_IN_LIBRARY)
        rule = self._level_rule(caller, target_package, level)
        return allow(rule) if rule in _OPEN_LEVELS else deny(rule)

    def _sees(self, caller: Identity, target_package: str) -> bool:
        """Package visibility, which only discovery asks for."""
        return (
            self._platform.package_visibility == "all"
            or QUERY_ALL_PACKAGES in caller.permissions
            or target_package in self._queries(caller.package_name)
        )

    def may_see_state(self, caller: Identity, metadata: pb.AppFunctionMetadata) -> Decision:
        """Whether Jetpack shows the state of a function that the caller may discover.

        Below 17.2 it hides by access level what the platform does not.
        """
        if self.levels_are_native:
            return allow(Rule.LEVEL_TRUSTED)
        if not metadata.is_compat_enforcement_enabled:
            return allow(Rule.COMPAT_OFF)
        rule = self._level_rule(caller, metadata.name.package_name, metadata.access_level)
        return allow(rule) if rule in _OPEN_LEVELS else deny(rule)

    def _level_rule(self, caller: Identity, target_package: str, level: int) -> Rule:
        if caller.package_name == target_package:
            return Rule.SAME_PACKAGE
        match level:
            case AppFunctionMetadata.ACCESS_LEVEL_SELF:
                return Rule.LEVEL_SELF
            case AppFunctionMetadata.ACCESS_LEVEL_SYSTEM:
                held = EXECUTE_APP_FUNCTIONS_SYSTEM in self.permissions(caller)
                return Rule.SYSTEM_PERMISSION if held else Rule.LEVEL_SYSTEM
            case AppFunctionMetadata.ACCESS_LEVEL_ANDROID_TRUSTED:
                return Rule.LEVEL_TRUSTED
            case _:
                return Rule.LEVEL_UNKNOWN


_OPEN_LEVELS = (Rule.SAME_PACKAGE, Rule.SYSTEM_PERMISSION, Rule.LEVEL_TRUSTED)


def allow(rule: Rule) -> Decision:
    return Decision(allowed=True, rule=rule)


def deny(
    rule: Rule, error_code: int = AppFunctionCode.DENIED, message: str = DENIED_TEXT
) -> Decision:
    return Decision(allowed=False, rule=rule, error_code=error_code, message=message)
