"""What the shell command sets in the host, kept over restarts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from aicore_sim.device.packages import PackageStore, UnknownPackage
from aicore_sim.device.permissions import EXECUTE_APP_FUNCTIONS
from appfunctions_host.access_flags import AccessRequestState, is_granted, updated
from appfunctions_host.registry import Registry

MAX_PAGE_SIZE = 200

_TABLES = """
CREATE TABLE IF NOT EXISTS app_function_settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS app_function_access (
    agent TEXT NOT NULL REFERENCES packages ON DELETE CASCADE,
    target TEXT NOT NULL REFERENCES packages ON DELETE CASCADE,
    flags INTEGER NOT NULL,
    PRIMARY KEY (agent, target)
) STRICT;
CREATE TABLE IF NOT EXISTS app_function_queries (
    package_name TEXT NOT NULL REFERENCES packages ON DELETE CASCADE,
    target TEXT NOT NULL,
    PRIMARY KEY (package_name, target)
) STRICT;
"""


class ShellSettings:
    """Settings of one device. For one host."""

    def __init__(
        self, connection: sqlite3.Connection, packages: PackageStore, registry: Registry
    ) -> None:
        self._connection = connection
        self._packages = packages
        self._registry = registry
        connection.executescript(_TABLES)

    @property
    def allowlist_enabled(self) -> bool:
        return bool(self._get("allowlist_enabled", True))

    @allowlist_enabled.setter
    def allowlist_enabled(self, enabled: bool) -> None:
        self._set("allowlist_enabled", enabled)

    @property
    def additional_agents(self) -> tuple[str, ...]:
        """Packages that count as allowlisted for every target."""
        return tuple(self._get("additional_agents", []))

    @additional_agents.setter
    def additional_agents(self, package_names: Collection[str]) -> None:
        self._set("additional_agents", list(dict.fromkeys(package_names)))

    @property
    def test_page_size(self) -> int:
        """0 means the host's own."""
        return int(self._get("test_page_size", 0))

    @test_page_size.setter
    def test_page_size(self, size: int) -> None:
        if not 0 <= size <= MAX_PAGE_SIZE:
            raise ValueError(f"page_size: {size} is not from 1 to {MAX_PAGE_SIZE}")
        self._set("test_page_size", size)

    def is_allowlisted(self, agent: str) -> bool:
        """Whether the shell has made the agent allowlisted for every target."""
        return not self.allowlist_enabled or agent in self.additional_agents

    def queries(self, package_name: str) -> frozenset[str]:
        """Packages that the app's manifest names."""
        rows = self._connection.execute(
            "SELECT target FROM app_function_queries WHERE package_name = ?", (package_name,)
        )
        return frozenset(target for (target,) in rows.fetchall())

    def set_queries(self, package_name: str, targets: Sequence[str]) -> None:
        """Raises UnknownPackage."""
        self._require(package_name)
        self._connection.execute(
            "DELETE FROM app_function_queries WHERE package_name = ?", (package_name,)
        )
        self._connection.executemany(
            "INSERT OR IGNORE INTO app_function_queries VALUES (?, ?)",
            [(package_name, target) for target in targets],
        )

    def access_flags(self, agent: str, target: str) -> int:
        """0 for packages that are not installed, as on Android."""
        row = self._connection.execute(
            "SELECT flags FROM app_function_access WHERE agent = ? AND target = ?", (agent, target)
        ).fetchone()
        return int(row[0]) if row else 0

    def update_access(self, agent: str, target: str, *, flags: int, mask: int) -> int:
        """Raises UnknownPackage, and ValueError as `updated`."""
        self._require(agent)
        self._require(target)
        made = updated(self.access_flags(agent, target), new=flags, mask=mask)
        self._connection.execute(
            "INSERT OR REPLACE INTO app_function_access VALUES (?, ?, ?)", (agent, target, made)
        )
        return made

    def access_state(self, agent: str, target: str) -> AccessRequestState:
        """What an agent that asks for access would be told."""
        if agent not in self.valid_agents() or target not in self.valid_targets():
            return AccessRequestState.UNREQUESTABLE
        granted = is_granted(self.access_flags(agent, target))
        return AccessRequestState.GRANTED if granted else AccessRequestState.DENIED

    def valid_agents(self) -> tuple[str, ...]:
        """Installed, with the permission, and on the allowlist."""
        return tuple(
            sorted(
                package.package_name
                for package in self._packages.list()
                if EXECUTE_APP_FUNCTIONS in package.permissions
                and (package.allowlist_targets or self.is_allowlisted(package.package_name))
            )
        )

    def valid_targets(self) -> tuple[str, ...]:
        """Installed, with functions of a service."""
        return tuple(
            sorted(
                {
                    function.key[0]
                    for function in self._registry.functions()
                    if not function.is_runtime and function.is_current()
                }
            )
        )

    def _require(self, package_name: str) -> None:
        if self._packages.get(package_name) is None:
            raise UnknownPackage(package_name)

    def _get(self, key: str, default: Any) -> Any:
        row = self._connection.execute(
            "SELECT value FROM app_function_settings WHERE key = ?", (key,)
        ).fetchone()
        return default if row is None else json.loads(row[0])

    def _set(self, key: str, value: Any) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO app_function_settings VALUES (?, ?)", (key, json.dumps(value))
        )
