"""Installed packages and who a token belongs to.

Installing a package gives it a uid (10000 and up) and a signing digest. Identity comes only from
tokens that the device issued; the database keeps only their hashes.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

from aicore_sim.device import permissions
from aicore_sim.device.process import is_alive, start_time

FIRST_APP_UID = 10000
SHELL_PACKAGE = "com.android.shell"
SHELL_UID = 2000
_LAST_UID = "packages.last_uid"

_PACKAGE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class UnknownPackage(LookupError):
    """A package that is not installed."""

    def __init__(self, package_name: str) -> None:
        super().__init__(
            f"package {package_name!r} is not installed; `aicore-sim pm list` shows what is, "
            "`aicore-sim pm install` adds one"
        )


@dataclass(frozen=True, kw_only=True)
class Package:
    package_name: str
    uid: int
    permissions: frozenset[str]
    signing_digest: str
    allowlist_targets: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who calls. `is_shell` marks the control token (`adb shell`)."""

    package_name: str
    uid: int
    permissions: frozenset[str]
    signing_digest: str
    allowlist_targets: frozenset[str]
    is_shell: bool = False


SHELL = Identity(
    package_name=SHELL_PACKAGE,
    uid=SHELL_UID,
    permissions=frozenset(
        {
            permissions.EXECUTE_APP_FUNCTIONS,
            permissions.EXECUTE_APP_FUNCTIONS_SYSTEM,
            permissions.QUERY_ALL_PACKAGES,
        }
    ),
    signing_digest="",
    allowlist_targets=frozenset({"*"}),
    is_shell=True,
)


class PackageStore:
    """Packages, grants and tokens of one device."""

    def __init__(self, connection: sqlite3.Connection, *, control_token: str = "") -> None:
        self._connection = connection
        self._control_hash = _hash(control_token) if control_token else None
        self._cache: dict[str, tuple[Identity, int | None, str | None]] = {}
        self._cache_version = -1

    def install(
        self,
        package_name: str,
        granted: Iterable[str] = (),
        *,
        signing_digest: str = "",
        allowlist_targets: Iterable[str] = (),
    ) -> tuple[Package, str]:
        """Install or update a package; returns it with a new token.

        An update keeps the uid and replaces the permissions. Its signing digest must stay the
        same, as on Android. The allowlist is the device's, not the package's: it goes by name and
        digest, outlives an uninstall, and changes only when targets are given. Raises ValueError
        for a bad name, permission or digest.
        """
        if not _PACKAGE_NAME.fullmatch(package_name):
            raise ValueError(
                f"{package_name!r} is not a package name; use dot-separated names "
                "such as 'com.example.shop'"
            )
        if package_name == SHELL_PACKAGE:
            raise ValueError(f"{SHELL_PACKAGE!r} is the shell's own package")
        names = sorted({permissions.full_name(name) for name in granted})
        if signing_digest and not _DIGEST.fullmatch(signing_digest):
            raise ValueError(
                f"{signing_digest!r} is not a SHA-256 digest; give 64 lower-case hexadecimal digits"
            )
        present = self.get(package_name)
        if present and signing_digest not in ("", present.signing_digest):
            raise ValueError(
                f"{package_name!r} is installed with signing digest {present.signing_digest}; "
                "uninstall it before installing one signed otherwise"
            )
        digest = signing_digest or (
            present.signing_digest if present else sha256(package_name.encode()).hexdigest()
        )
        token = "app_" + secrets.token_urlsafe(32)
        with self._transaction() as run:
            if present is None:
                run.execute(
                    "INSERT INTO packages VALUES (?, ?, ?)",
                    (package_name, self._next_uid(run), digest),
                )
            run.execute("DELETE FROM grants WHERE package_name = ?", (package_name,))
            run.executemany(
                "INSERT INTO grants VALUES (?, ?)", [(package_name, name) for name in names]
            )
            if targets := tuple(allowlist_targets):
                self._write_allowlist(run, package_name, digest, targets)
            run.execute(
                "INSERT INTO tokens VALUES (?, ?, NULL, NULL)", (_hash(token), package_name)
            )
        return self._require(package_name), token

    def uninstall(self, package_name: str) -> None:
        """Remove a package, its grants and its tokens. Raises UnknownPackage."""
        self._require(package_name)
        with self._transaction() as run:
            run.execute("DELETE FROM packages WHERE package_name = ?", (package_name,))

    def grant(self, package_name: str, permission: str) -> Package:
        """Raises UnknownPackage, and ValueError for an unknown permission."""
        name = permissions.full_name(permission)
        self._require(package_name)
        with self._transaction() as run:
            run.execute("INSERT OR IGNORE INTO grants VALUES (?, ?)", (package_name, name))
        return self._require(package_name)

    def revoke(self, package_name: str, permission: str) -> Package:
        """Raises UnknownPackage, and ValueError for an unknown permission."""
        name = permissions.full_name(permission)
        self._require(package_name)
        with self._transaction() as run:
            run.execute(
                "DELETE FROM grants WHERE package_name = ? AND permission = ?", (package_name, name)
            )
        return self._require(package_name)

    def set_allowlist(self, package_name: str, targets: Iterable[str]) -> Package:
        """Replace the targets whose functions this agent may run. Raises UnknownPackage."""
        package = self._require(package_name)
        with self._transaction() as run:
            self._write_allowlist(run, package_name, package.signing_digest, targets)
        return self._require(package_name)

    def clear_states(self, package_name: str) -> None:
        """Put the package's functions back to their default states, as `pm clear` does.

        The host keeps the states in a table of its own. Raises UnknownPackage.
        """
        self._require(package_name)
        with self._transaction() as run:
            kept = run.execute(
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'app_function_states'"
            ).fetchone()
            if kept:
                run.execute(
                    "DELETE FROM app_function_states WHERE package_name = ?", (package_name,)
                )

    def list(self) -> tuple[Package, ...]:
        """Every installed package, by name."""
        rows = self._connection.execute("SELECT package_name FROM packages ORDER BY package_name")
        return tuple(self._require(row[0]) for row in rows.fetchall())

    def get(self, package_name: str) -> Package | None:
        row = self._connection.execute(
            "SELECT uid, signing_digest FROM packages WHERE package_name = ?", (package_name,)
        ).fetchone()
        if row is None:
            return None
        uid, digest = row
        granted = self._connection.execute(
            "SELECT permission FROM grants WHERE package_name = ?", (package_name,)
        )
        targets = self._connection.execute(
            "SELECT target FROM allowlist WHERE agent_package = ? AND agent_digest = ?",
            (package_name, digest),
        )
        return Package(
            package_name=package_name,
            uid=uid,
            permissions=frozenset(row[0] for row in granted),
            signing_digest=digest,
            allowlist_targets=frozenset(row[0] for row in targets),
        )

    def issue_launch_token(self, package_name: str, pid: int) -> str:
        """A token for one process; it ends with that process. Raises UnknownPackage.

        Raises ValueError when no process `pid` runs.
        """
        self._require(package_name)
        started = start_time(pid)
        if started is None:
            raise ValueError(f"no process with pid {pid}")
        token = "run_" + secrets.token_urlsafe(32)
        with self._transaction() as run:
            self._drop_dead_tokens(run)
            run.execute(
                "INSERT INTO tokens VALUES (?, ?, ?, ?)", (_hash(token), package_name, pid, started)
            )
        return token

    def resolve(self, token: str) -> Identity | None:
        """Who `token` belongs to, or None for an unknown or ended one."""
        key = _hash(token)
        if key == self._control_hash:
            return SHELL
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._cache_version:
            self._cache.clear()
            self._cache_version = version
        found = self._cache.get(key)
        if found is None:
            row = self._connection.execute(
                "SELECT package_name, pid, process_start FROM tokens WHERE token_hash = ?", (key,)
            ).fetchone()
            if row is None:
                return None
            package = self._require(row[0])
            identity = Identity(
                package_name=package.package_name,
                uid=package.uid,
                permissions=package.permissions,
                signing_digest=package.signing_digest,
                allowlist_targets=package.allowlist_targets,
            )
            found = self._cache[key] = (identity, row[1], row[2])
        identity, pid, started = found
        if pid is not None and not is_alive(pid, started):
            return None
        return identity

    def _next_uid(self, run: sqlite3.Connection) -> int:
        """A uid that no package has had: ledgers and states go by uid, and outlive a package."""
        row = run.execute("SELECT value FROM settings WHERE key = ?", (_LAST_UID,)).fetchone()
        uid = max(FIRST_APP_UID, int(row[0]) + 1 if row else 0)
        run.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (_LAST_UID, str(uid)))
        return uid

    def _require(self, package_name: str) -> Package:
        package = self.get(package_name)
        if package is None:
            raise UnknownPackage(package_name)
        return package

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One atomic change. data_version shows only other connections' writes, so the cache
        is dropped here for our own."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        self._cache.clear()

    def _write_allowlist(
        self, run: sqlite3.Connection, agent: str, digest: str, targets: Iterable[str]
    ) -> None:
        run.execute(
            "DELETE FROM allowlist WHERE agent_package = ? AND agent_digest = ?", (agent, digest)
        )
        run.executemany(
            "INSERT INTO allowlist VALUES (?, ?, ?)",
            [(agent, digest, target) for target in sorted(set(targets))],
        )

    def _drop_dead_tokens(self, run: sqlite3.Connection) -> None:
        rows = run.execute(
            "SELECT token_hash, pid, process_start FROM tokens WHERE pid IS NOT NULL"
        )
        dead = [(row[0],) for row in rows.fetchall() if not is_alive(row[1], row[2])]
        run.executemany("DELETE FROM tokens WHERE token_hash = ?", dead)


def _hash(token: str) -> str:
    return sha256(token.encode()).hexdigest()
