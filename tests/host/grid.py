"""What each kind of caller may do on each platform generation, written out by hand.

A row holds three groups of three cells, for SELF, SYSTEM and ANDROID_TRUSTED: discovered by a
search (y or n), state shown by Jetpack (y or n), and the code of an execution by a Jetpack caller
(0 when it runs). A question mark is on the cells that no source states: they are choices of this
project.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aicore_sim.device.profile import PlatformName
from appfunctions_host import (
    AppFunctionMetadata,
    AppFunctionService,
    app_function_access_level,
    app_function_declaration,
)
from tests.host.shop import PACKAGE

AGENT = "com.example.agent"
KINDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    # Package, permissions, allowlist targets.
    "A": (PACKAGE, (), ()),
    "A+": (PACKAGE, ("EXECUTE_APP_FUNCTIONS_SYSTEM",), ()),
    "B": (AGENT, (), ()),
    "C": (AGENT, ("DISCOVER_APP_FUNCTIONS",), ()),
    "D": (AGENT, ("EXECUTE_APP_FUNCTIONS",), (PACKAGE,)),
    "D-": (AGENT, ("EXECUTE_APP_FUNCTIONS",), ("com.example.third",)),
    "E": (AGENT, ("EXECUTE_APP_FUNCTIONS_SYSTEM",), ()),
}
LEVELS = ("self", "system", "trusted")
NOBODY = "n n n | n n n | 1000 1000 1000"
UNKNOWN_PERMISSION = "n? n? n? | n? n? n? | 1000? 1000? 1000?"
NATIVE = {
    "A": "y y y | y y y | 0 0 0",
    "A+": "y y y | y y y | 0 0 0",
    "B": NOBODY,
    "C": "n n? y | n n? y | 1000 1000 1000",
    "D": "n n y | n n y | 1000? 1000? 0",
    "D-": "n n y | n n y | 1000 1000 1000",
    "E": "n y y | n y y | 1000? 0 0",
}
TABLES: dict[tuple[PlatformName, bool], dict[str, str]] = {
    # From 17.2 on the compat flag means nothing.
    ("android-17.2", True): NATIVE,
    ("android-17.2", False): NATIVE,
    ("android-17.0", True): {
        "A": "y y y | y y y | 0 1000 0",
        "A+": "y y y | y y y | 0 0 0",
        "B": NOBODY,
        "C": "y y y | n n y | 1000 1000 1000",
        "D": "y y y | n n y | 1000 1000 0",
        "D-": "y? y? y? | n? n? y? | 1000 1000 1000",
        "E": "y y y | n y y | 1000 0 0",
    },
    ("android-17.0", False): {
        "A": "y y y | y y y | 0 0 0",
        "A+": "y y y | y y y | 0 0 0",
        "B": NOBODY,
        "C": "y y y | y y y | 1000 1000 1000",
        "D": "y y y | y y y | 0 0 0",
        "D-": "y? y? y? | y? y? y? | 1000 1000 1000",
        "E": "y y y | y y y | 0 0 0",
    },
    # Without an allowlist D- is D; the permissions of C and E do not exist.
    ("android-16", True): {
        "A": "y y y | y y y | 0 1000 0",
        "A+": "y y y | y y y | 0 1000? 0",
        "B": NOBODY,
        "C": UNKNOWN_PERMISSION,
        "D": "y y y | n n y | 1000 1000 0",
        "D-": "y y y | n n y | 1000 1000 0",
        "E": UNKNOWN_PERMISSION,
    },
    ("android-16", False): {
        "A": "y y y | y y y | 0 0 0",
        "A+": "y y y | y y y | 0 0 0",
        "B": NOBODY,
        "C": UNKNOWN_PERMISSION,
        "D": "y y y | y y y | 0 0 0",
        "D-": "y y y | y y y | 0 0 0",
        "E": UNKNOWN_PERMISSION,
    },
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """The cells of one kind of caller; a list for each group, in the order of LEVELS."""

    discovered: list[bool]
    shown: list[bool]
    codes: list[int]

    @classmethod
    def parse(cls, text: str) -> Row:
        discovered, shown, codes = text.replace("?", "").split("|")
        return cls(
            discovered=[cell == "y" for cell in discovered.split()],
            shown=[cell == "y" for cell in shown.split()],
            codes=[int(cell) for cell in codes.split()],
        )


def rows() -> Iterator[tuple[PlatformName, bool, str, Row]]:
    """Platform, compat enforcement, kind of caller, what it may do."""
    for (platform, compat), table in TABLES.items():
        for kind in KINDS:
            yield platform, compat, kind, Row.parse(table[kind])


def function_id(level: str, compat: bool) -> str:
    return f"{PACKAGE}.GridTools#{level}_{'compat' if compat else 'plain'}"


entered: list[str] = []
"""The functions whose body began, in this process."""


_SELF = AppFunctionMetadata.ACCESS_LEVEL_SELF
_SYSTEM = AppFunctionMetadata.ACCESS_LEVEL_SYSTEM
_TRUSTED = AppFunctionMetadata.ACCESS_LEVEL_ANDROID_TRUSTED


class GridTools(AppFunctionService):
    """A function of each level, with and without compat enforcement."""

    @app_function_declaration
    @app_function_access_level(level=_SELF, is_compat_enforcement_enabled=True)
    def self_compat(self) -> None:
        entered.append("self_compat")

    @app_function_declaration
    @app_function_access_level(level=_SELF, is_compat_enforcement_enabled=False)
    def self_plain(self) -> None:
        entered.append("self_plain")

    @app_function_declaration
    @app_function_access_level(level=_SYSTEM, is_compat_enforcement_enabled=True)
    def system_compat(self) -> None:
        entered.append("system_compat")

    @app_function_declaration
    @app_function_access_level(level=_SYSTEM, is_compat_enforcement_enabled=False)
    def system_plain(self) -> None:
        entered.append("system_plain")

    @app_function_declaration
    @app_function_access_level(level=_TRUSTED, is_compat_enforcement_enabled=True)
    def trusted_compat(self) -> None:
        entered.append("trusted_compat")

    @app_function_declaration
    @app_function_access_level(level=_TRUSTED, is_compat_enforcement_enabled=False)
    def trusted_plain(self) -> None:
        entered.append("trusted_plain")
