"""Packages, grants, allowlists and the tokens that say who calls."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from aicore_sim.device import permissions
from aicore_sim.device.database import open_database
from aicore_sim.device.packages import Identity, Package, PackageStore, UnknownPackage

SHOP = "com.example.shop"
DIGEST = "0123456789abcdef" * 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "device.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_database(path, create=True)
    yield opened
    opened.close()


@pytest.fixture
def store(connection: sqlite3.Connection) -> PackageStore:
    return PackageStore(connection, control_token="ctl_secret")


@pytest.mark.requirement("simulator.identity.uid")
def test_a_first_install_gives_a_uid_a_digest_and_a_token(store: PackageStore) -> None:
    package, token = store.install(
        SHOP, ["EXECUTE_APP_FUNCTIONS"], allowlist_targets=["com.example.b", "com.example.a"]
    )
    assert package == Package(
        package_name=SHOP,
        uid=10000,
        permissions=frozenset({permissions.EXECUTE_APP_FUNCTIONS}),
        signing_digest=sha256(SHOP.encode()).hexdigest(),
        allowlist_targets=frozenset({"com.example.a", "com.example.b"}),
    )
    assert store.resolve(token) == Identity(
        package_name=package.package_name,
        uid=package.uid,
        permissions=package.permissions,
        signing_digest=package.signing_digest,
        allowlist_targets=package.allowlist_targets,
        is_shell=False,
    )
    assert store.get(SHOP) == package
    assert store.get("com.example.other") is None


@pytest.mark.requirement("simulator.identity.uid")
def test_an_update_keeps_uid_digest_and_tokens_and_replaces_the_rest(store: PackageStore) -> None:
    first, old_token = store.install(
        SHOP, ["EXECUTE_APP_FUNCTIONS"], signing_digest=DIGEST, allowlist_targets=["*"]
    )
    second, new_token = store.install(SHOP, ["DISCOVER_APP_FUNCTIONS"])
    assert second == Package(
        package_name=SHOP,
        uid=first.uid,
        permissions=frozenset({permissions.DISCOVER_APP_FUNCTIONS}),
        signing_digest=DIGEST,
        allowlist_targets=frozenset({"*"}),
    )
    assert old_token != new_token
    found = [store.resolve(token) for token in (old_token, new_token)]
    assert [identity.permissions for identity in found if identity] == [second.permissions] * 2


@pytest.mark.requirement("simulator.package.signing-digest")
def test_an_update_signed_otherwise_is_refused_and_changes_nothing(store: PackageStore) -> None:
    before, _ = store.install(SHOP, ["EXECUTE_APP_FUNCTIONS"], signing_digest=DIGEST)
    with pytest.raises(ValueError, match=f"installed with signing digest {DIGEST}"):
        store.install(SHOP, signing_digest="f" * 64)
    assert store.list() == (before,)


def test_uids_are_distinct_and_listing_is_by_name(store: PackageStore) -> None:
    names = ["com.example.c", "com.example.a", "com.example.b"]
    uids = [store.install(name)[0].uid for name in names]
    assert uids == [10000, 10001, 10002]
    assert [package.package_name for package in store.list()] == sorted(names)


@pytest.mark.parametrize(
    "name",
    ["", "shop", "com.", ".com", "com..shop", "com.1shop", "com.ex ample", "com.example\n",
     "com/example", "com.android.shell"],
)  # fmt: skip
def test_a_bad_package_name_is_refused(store: PackageStore, name: str) -> None:
    with pytest.raises(ValueError, match="package"):
        store.install(name)
    assert store.list() == ()


@pytest.mark.parametrize("digest", ["abc", "F" * 64, "g" * 64, "0" * 63])
def test_a_bad_digest_is_refused(store: PackageStore, digest: str) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        store.install(SHOP, signing_digest=digest)


@pytest.mark.parametrize(
    "operation",
    [
        lambda store: store.install(SHOP, ["FLY"]),
        lambda store: store.grant(SHOP, "android.permission.FLY"),
        lambda store: store.revoke(SHOP, ""),
    ],
)
def test_a_permission_that_the_device_does_not_know_is_refused(
    store: PackageStore, operation: object
) -> None:
    store.install(SHOP)
    with pytest.raises(ValueError, match="unknown permission .* the device knows .*EXECUTE_APP"):
        operation(store)  # type: ignore[operator]


def test_grants_change_what_a_token_may_do_at_once(store: PackageStore) -> None:
    _, token = store.install(SHOP)
    for _ in range(2):
        granted = store.grant(SHOP, "EXECUTE_APP_FUNCTIONS")
        assert granted.permissions == {permissions.EXECUTE_APP_FUNCTIONS}
    assert _identity(store, token).permissions == granted.permissions
    for _ in range(2):
        assert store.revoke(SHOP, permissions.EXECUTE_APP_FUNCTIONS).permissions == frozenset()
    assert _identity(store, token).permissions == frozenset()
    store.set_allowlist(SHOP, ["com.example.a", "com.example.a"])
    assert _identity(store, token).allowlist_targets == {"com.example.a"}


def test_a_change_by_another_process_is_seen_at_once(store: PackageStore, path: Path) -> None:
    _, token = store.install(SHOP)
    reader_connection = open_database(path, create=False)
    try:
        reader = PackageStore(reader_connection)
        assert _identity(reader, token).permissions == frozenset()
        store.grant(SHOP, "EXECUTE_APP_FUNCTIONS")
        assert _identity(reader, token).permissions == {permissions.EXECUTE_APP_FUNCTIONS}
        store.uninstall(SHOP)
        assert reader.resolve(token) is None
    finally:
        reader_connection.close()


@pytest.mark.requirement("simulator.identity.launch-token", "simulator.package.uninstall-revokes")
def test_an_uninstalled_package_leaves_nothing_behind(
    store: PackageStore, connection: sqlite3.Connection
) -> None:
    _, token = store.install(SHOP, ["EXECUTE_APP_FUNCTIONS"], allowlist_targets=["*"])
    launch_token = store.issue_launch_token(SHOP, os.getpid())
    assert store.resolve(launch_token) is not None
    store.uninstall(SHOP)
    assert [store.resolve(token), store.resolve(launch_token)] == [None, None]
    for table in ("packages", "grants", "tokens"):
        assert connection.execute(f"SELECT * FROM {table}").fetchall() == []
    again, _ = store.install(SHOP)
    assert (again.permissions, again.uid) == (frozenset(), 10001)
    assert store.resolve(token) is None


@pytest.mark.requirement("appfunctions.caller.allowlist-signature")
def test_the_allowlist_holds_for_the_package_signed_as_before_only(store: PackageStore) -> None:
    store.install(SHOP, signing_digest=DIGEST, allowlist_targets=["*"])
    store.uninstall(SHOP)
    impostor, _ = store.install(SHOP, signing_digest="0" * 64)
    assert impostor.allowlist_targets == frozenset()
    store.uninstall(SHOP)
    again, _ = store.install(SHOP, signing_digest=DIGEST)
    assert again.allowlist_targets == frozenset({"*"})


@pytest.mark.parametrize(
    "operation",
    [
        lambda store: store.uninstall(SHOP),
        lambda store: store.grant(SHOP, "EXECUTE_APP_FUNCTIONS"),
        lambda store: store.revoke(SHOP, "EXECUTE_APP_FUNCTIONS"),
        lambda store: store.set_allowlist(SHOP, []),
        lambda store: store.issue_launch_token(SHOP, os.getpid()),
    ],
)
def test_a_package_that_is_not_installed_is_named(store: PackageStore, operation: object) -> None:
    with pytest.raises(UnknownPackage, match=f"'{SHOP}' is not installed.*pm list.*pm install"):
        operation(store)  # type: ignore[operator]


@pytest.mark.requirement("simulator.identity.launch-token")
def test_a_launch_token_ends_with_its_process(
    store: PackageStore, connection: sqlite3.Connection
) -> None:
    store.install(SHOP)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        token = store.issue_launch_token(SHOP, process.pid)
        assert _identity(store, token).package_name == SHOP
    finally:
        process.kill()
        process.wait(5)
        assert process.stdin is not None
        process.stdin.close()
    assert store.resolve(token) is None
    store.issue_launch_token(SHOP, os.getpid())
    assert len(connection.execute("SELECT * FROM tokens WHERE pid IS NOT NULL").fetchall()) == 1


def test_a_launch_token_is_not_for_a_later_process_of_the_same_number(
    store: PackageStore, connection: sqlite3.Connection
) -> None:
    store.install(SHOP)
    token = store.issue_launch_token(SHOP, os.getpid())
    connection.execute("UPDATE tokens SET process_start = '1' WHERE pid IS NOT NULL")
    fresh = PackageStore(connection)
    assert fresh.resolve(token) is None


@pytest.mark.parametrize("pid", [0, -1, 2**31 - 1])
def test_a_launch_token_needs_a_process(store: PackageStore, pid: int) -> None:
    store.install(SHOP)
    with pytest.raises(ValueError, match=f"no process with pid {pid}"):
        store.issue_launch_token(SHOP, pid)


@pytest.mark.requirement("shell.shell-identity", "simulator.identity.shell")
def test_the_control_token_is_the_shell(store: PackageStore) -> None:
    shell = _identity(store, "ctl_secret")
    assert (shell.package_name, shell.uid, shell.is_shell) == ("com.android.shell", 2000, True)
    assert permissions.EXECUTE_APP_FUNCTIONS_SYSTEM in shell.permissions


def test_unknown_tokens_belong_to_nobody(
    store: PackageStore, connection: sqlite3.Connection
) -> None:
    _, token = store.install(SHOP)
    for wrong in ("", "app_", token[:-1], token + "x", "ctl_secret ", sha256(b"").hexdigest()):
        assert store.resolve(wrong) is None
    assert PackageStore(connection).resolve("") is None


@pytest.mark.requirement("simulator.identity.only-hashes-kept")
def test_the_database_holds_no_token_only_its_hash(store: PackageStore, path: Path) -> None:
    _, token = store.install(SHOP)
    launch_token = store.issue_launch_token(SHOP, os.getpid())
    written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    for secret in (token, launch_token, "ctl_secret"):
        assert secret.encode() not in written
    assert sha256(token.encode()).hexdigest().encode() in written


@pytest.mark.requirement("simulator.device.state-survives-restart")
def test_packages_and_tokens_survive_a_restart(path: Path) -> None:
    first = open_database(path, create=True)
    package, token = PackageStore(first).install(SHOP, ["EXECUTE_APP_FUNCTIONS"])
    first.close()
    second = open_database(path, create=True)
    try:
        assert PackageStore(second).list() == (package,)
        assert _identity(PackageStore(second), token).uid == package.uid
    finally:
        second.close()


def _identity(store: PackageStore, token: str) -> Identity:
    identity = store.resolve(token)
    assert identity is not None
    return identity
