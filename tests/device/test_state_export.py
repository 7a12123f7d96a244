"""Handing a device's state on: nothing is lost, and a bad export changes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aicore_sim.device.clock import ClockMode, ClockState
from aicore_sim.device.database import open_database
from aicore_sim.device.journal import Journal
from aicore_sim.device.packages import PackageStore
from aicore_sim.device.state_export import (
    SIZE_LIMIT,
    ExportError,
    export_state,
    import_state,
    read_export,
)
from aicore_sim.device.virtual_clock import DeviceClock

CLOCK = ClockState(mode=ClockMode.VIRTUAL, now_ns=1_767_225_600_123_456_789)
AGENT, SHOP = "com.example.agent", "com.example.shop"
LEDGER = "CREATE TABLE ledger (uid INTEGER PRIMARY KEY, used REAL NOT NULL, extra BLOB) STRICT"


class Device:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = open_database(path, create=True)
        self.store = PackageStore(self.connection)

    def everything(self) -> str:
        return "\n".join(self.connection.iterdump())

    def export(self) -> bytes:
        return export_state(self.path, clock=CLOCK)


@pytest.fixture
def make_device(tmp_path: Path) -> Iterator[Callable[[str], Device]]:
    made: list[Device] = []

    def make(name: str) -> Device:
        made.append(Device(tmp_path / f"{name}.db"))
        return made[-1]

    yield make
    for device in made:
        device.connection.close()


@pytest.fixture
def lived_in(make_device: Callable[[str], Device]) -> tuple[Device, str]:
    """A device with packages, a ledger, a journal and settings, and the agent's token."""
    device = make_device("source")
    device.store.install("com.example.gone")
    _, token = device.store.install(
        AGENT, ["EXECUTE_APP_FUNCTIONS"], signing_digest="ab" * 32, allowlist_targets=[SHOP]
    )
    device.store.install(SHOP)
    device.store.uninstall("com.example.gone")
    device.connection.execute("INSERT INTO settings VALUES ('quota', 'off ü')")
    device.connection.execute(LEDGER)
    device.connection.execute(
        "INSERT INTO ledger VALUES (10001, 0.1, x'00ff'), (10002, 1e300, NULL)"
    )
    journal = Journal(device.connection, clock=DeviceClock(ClockMode.VIRTUAL))
    journal.record(rpc="GenerateContent", package_name=AGENT, figures={"input_tokens": 3})
    journal.close()
    return device, token


@pytest.mark.requirement("simulator.export-import")
def test_all_of_a_device_moves_to_another(
    lived_in: tuple[Device, str], make_device: Callable[[str], Device]
) -> None:
    source, token = lived_in
    target = make_device("target")
    target.store.install("com.example.own")
    assert target.store.resolve(token) is None
    state = read_export(source.export())
    assert (state.clock, state.packages) == (CLOCK, (AGENT, SHOP))
    import_state(target.path, state)
    assert target.store.list() == source.store.list()
    assert target.store.resolve(token) == source.store.resolve(token)
    assert target.export() == source.export()
    for table in ("settings", "ledger", "journal"):
        query = f"SELECT * FROM {table}"
        assert (
            target.connection.execute(query).fetchall()
            == source.connection.execute(query).fetchall()
            != []
        )
    journal = Journal(target.connection, clock=DeviceClock(ClockMode.VIRTUAL))
    assert [entry.package_name for entry in journal.read()] == [AGENT]
    _, next_token = target.store.install("com.example.next")
    assert target.store.resolve(next_token) is not None


def test_an_export_holds_hashes_of_tokens_only_and_no_launch_tokens(
    lived_in: tuple[Device, str],
) -> None:
    source, token = lived_in
    launch = source.store.issue_launch_token(AGENT, os.getpid())
    blob = source.export()
    assert sha256(token.encode()).hexdigest().encode() in blob
    assert sha256(launch.encode()).hexdigest().encode() not in blob
    assert token.encode() not in blob
    tokens = read_export(blob).tables["tokens"]
    assert (len(tokens.rows), tokens.columns[2]) == (2, "pid")


def test_running_apps_keep_their_identity_where_their_package_is_still_there(
    lived_in: tuple[Device, str], make_device: Callable[[str], Device]
) -> None:
    source, _ = lived_in
    target = make_device("target")
    tokens = {}
    for name in ("com.example.own", SHOP):
        target.store.install(name)
        tokens[name] = target.store.issue_launch_token(name, os.getpid())
    import_state(target.path, read_export(source.export()))
    assert target.store.resolve(tokens["com.example.own"]) is None
    found = target.store.resolve(tokens[SHOP])
    assert found is not None
    assert (found.package_name, found.uid) == (SHOP, source.store.get(SHOP).uid)  # type: ignore[union-attr]


def test_a_table_that_the_export_has_not_got_becomes_empty(
    lived_in: tuple[Device, str], make_device: Callable[[str], Device]
) -> None:
    source, _ = lived_in
    empty = make_device("empty").export()
    import_state(source.path, read_export(empty))
    assert source.store.list() == ()
    assert source.connection.execute("SELECT count(*) FROM ledger").fetchone() == (0,)


def rebuilt(blob: bytes, change: Callable[[Any], object], version: int = 1) -> bytes:
    """The export with another body and the right checksum for it."""
    body = json.loads(blob.partition(b"\n")[2])
    change(body)
    made = json.dumps(body).encode()
    head = f"AICORE-SIM-STATE {version} {sha256(made).hexdigest()} {len(made)}\n"
    return head.encode() + made


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda blob: b"", "no export of a device"),
        (lambda blob: b"SQLite format 3\x00" + blob, "no export of a device"),
        (lambda blob: blob[:30], "first line cannot be read"),
        (lambda blob: blob[:-1], "cut off"),
        (lambda blob: blob[: len(blob) // 2], "cut off"),
        (lambda blob: blob + b" ", "checksum is another"),
        (lambda blob: blob.replace(b"com.example", b"org.example"), "checksum is another"),
        (lambda blob: bytes(SIZE_LIMIT + 1), "the limit is"),
        (lambda blob: rebuilt(blob, lambda body: None, version=2), "newer simulator .*format 2"),
        (lambda blob: rebuilt(blob, lambda body: body.update(schema=99)), "schema 99"),
        (lambda blob: rebuilt(blob, lambda body: body.pop("clock")), "cannot be read: KeyError"),
        (
            lambda blob: rebuilt(blob, lambda body: body["clock"].update(mode="FAST")),
            r"clock\.mode: 'FAST' is none of REAL",
        ),
        (lambda blob: rebuilt(blob, lambda body: body["tables"].pop("packages")), "no table"),
        (
            lambda blob: rebuilt(blob, lambda body: body["tables"].update(a=None)),
            "cannot be read: TypeError",
        ),
        (
            lambda blob: rebuilt(
                blob, lambda body: body["tables"].update(x=body["tables"]["packages"])
            ),
            "'x' is made by another statement",
        ),
        (
            lambda blob: rebuilt(
                blob, lambda body: body["tables"]["packages"]["columns"].append('a"; DROP')
            ),
            "is no name of a table",
        ),
        (
            lambda blob: rebuilt(blob, lambda body: body["tables"]["settings"]["rows"].append([1])),
            "has not 2 values",
        ),
        (
            lambda blob: rebuilt(
                blob, lambda body: body["tables"]["settings"]["rows"].append(["a", True])
            ),
            "True is no value",
        ),
        (
            lambda blob: rebuilt(
                blob, lambda body: body["tables"]["settings"]["rows"].append(["a", {"x": 1}])
            ),
            "cannot be read: KeyError",
        ),
    ],
)
@pytest.mark.requirement("simulator.export-import")
def test_bytes_that_are_no_whole_export_are_refused(
    lived_in: tuple[Device, str], damage: Callable[[bytes], bytes], problem: str
) -> None:
    with pytest.raises(ExportError, match=problem):
        read_export(damage(lived_in[0].export()))


@given(place=st.integers(0, 10**6), flip=st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_no_byte_can_change_unnoticed(place: int, flip: int) -> None:
    body = b'{"schema": 1, "clock": {"mode": "REAL", "now_ns": 1}, "tables": {}}'
    blob = bytearray(f"AICORE-SIM-STATE 1 {sha256(body).hexdigest()} {len(body)}\n".encode() + body)
    blob[place % len(blob)] ^= flip
    with pytest.raises(ExportError):
        read_export(bytes(blob))


CHANGES: list[tuple[Callable[[Any], object], str]] = [
    (
        lambda tables: tables["settings"].update(columns=["key", "text"]),
        "'settings' has the columns key, text in the export and key, value",
    ),
    (
        lambda tables: tables["grants"]["rows"].append(["com.example.nobody", "x"]),
        "'grants' names something that is not there",
    ),
    (lambda tables: tables["packages"]["rows"].append([SHOP, 10009, ""]), "does not fit"),
    (lambda tables: tables["packages"]["rows"].append(["a.b", "ten", ""]), "does not fit"),
    (lambda tables: tables["packages"]["rows"].append(["a.b", 2**70, ""]), "does not fit"),
    (lambda tables: tables["ledger"].update(sql="CREATE TABLE ledger (oops"), "does not fit"),
    (
        lambda tables: tables["ledger"].update(
            sql="CREATE TABLE ledger (uid INTEGER); DROP TABLE packages"
        ),
        "does not fit",
    ),
    (
        lambda tables: tables["ledger"].update(sql="CREATE TABLE ledger (uid INTEGER)"),
        "'ledger' has the columns uid, used, extra in the export and uid on this device",
    ),
]


@pytest.mark.parametrize(("change", "problem"), CHANGES)
def test_a_state_that_does_not_fit_changes_nothing(
    lived_in: tuple[Device, str],
    make_device: Callable[[str], Device],
    change: Callable[[Any], object],
    problem: str,
) -> None:
    target = make_device("target")
    target.store.install("com.example.own")
    before = target.everything()
    blob = rebuilt(lived_in[0].export(), lambda body: change(body["tables"]))
    with pytest.raises(ExportError, match=problem):
        import_state(target.path, read_export(blob))
    assert target.everything() == before


def test_a_device_that_another_process_writes_to_is_not_half_replaced(
    lived_in: tuple[Device, str],
    make_device: Callable[[str], Device],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = make_device("target")
    target.store.install("com.example.own")
    before = target.everything()
    state = read_export(lived_in[0].export())
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **options: connect(*args, **{**options, "timeout": 0})
    )
    target.connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(ExportError, match="locked"):
        import_state(target.path, state)
    target.connection.execute("ROLLBACK")
    assert target.everything() == before
    import_state(target.path, state)


def test_a_device_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="aicore-sim up"):
        export_state(tmp_path / "none.db", clock=CLOCK)
