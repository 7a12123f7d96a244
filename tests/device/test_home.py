"""The device directory: modes, locks, sockets and its database."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aicore_sim.device.database import SCHEMA_VERSION, open_database
from aicore_sim.device.home import DeviceHome, DeviceInUse, default_home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def home(tmp_path: Path) -> DeviceHome:
    made = DeviceHome(tmp_path / "device")
    made.prepare()
    return made


@pytest.mark.requirement("simulator.device.private")
def test_a_prepared_directory_is_private_and_has_a_control_token(home: DeviceHome) -> None:
    assert (mode(home.path), mode(home.path / "logs")) == (0o700, 0o700)
    assert mode(home.control_token_path) == 0o600
    assert home.read_control_token().startswith("ctl_")


def test_preparing_again_tightens_the_modes_and_keeps_the_token(home: DeviceHome) -> None:
    token = home.read_control_token()
    home.path.chmod(0o755)
    home.prepare()
    assert mode(home.path) == 0o700
    assert home.read_control_token() == token


def test_two_devices_have_two_control_tokens(home: DeviceHome, tmp_path: Path) -> None:
    other = DeviceHome(tmp_path / "other")
    other.prepare()
    assert other.read_control_token() != home.read_control_token()


def test_a_directory_without_a_device_says_how_to_start_one(tmp_path: Path) -> None:
    empty = DeviceHome(tmp_path)
    with pytest.raises(FileNotFoundError, match="no device in .* start one with `aicore-sim up`"):
        empty.read_control_token()
    with pytest.raises(FileNotFoundError, match="start AICore first"):
        open_database(empty.database_path, create=False)
    assert empty.read_running() is None


def test_the_environment_chooses_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AICORE_SIM_HOME", str(tmp_path / "mine"))
    assert default_home() == tmp_path / "mine"
    assert DeviceHome().path == tmp_path / "mine"


RUNNING = {
    "version": "1.0",
    "device_dir": "/device",
    "pid": 7,
    "pid_started": "123",
    "aicore": {"address": "unix:/device/aicore.sock", "pid": 8},
    "appfunctions": {"address": "unix:/device/appfunctions.sock", "pid": 9},
    "model": "m",
    "unavailable_reason": "",
    "profile": "pixel-10",
    "platform": "android-17.2",
    "seed": 0,
}


def test_facts_of_the_running_device_are_published_privately(home: DeviceHome) -> None:
    home.write_running(RUNNING)
    assert home.read_running() == RUNNING
    assert mode(home.running_path) == 0o600


@pytest.mark.parametrize(
    "damaged",
    [
        b"{",
        b"[]",
        b"{}",
        b"3",
        b"\xff\xfe",
        json.dumps({**RUNNING, "pid": 1}).encode(),
        json.dumps({**RUNNING, "pid_started": None}).encode(),
        json.dumps({**RUNNING, "aicore": {"pid": 8}}).encode(),
    ],
)
def test_damaged_facts_count_as_no_device(home: DeviceHome, damaged: bytes) -> None:
    home.running_path.write_bytes(damaged)
    assert home.read_running() is None


@pytest.mark.parametrize("damaged", [b"", b"ctl_short\n", b"\xff\xfe", b"ctl_" + b"a" * 44])
def test_a_damaged_control_token_is_replaced(home: DeviceHome, damaged: bytes) -> None:
    home.control_token_path.write_bytes(damaged)
    with pytest.raises(FileNotFoundError, match="aicore-sim up"):
        home.read_control_token()
    home.prepare()
    assert home.read_control_token().startswith("ctl_")


def test_a_failed_write_leaves_the_old_file_and_no_litter(home: DeviceHome) -> None:
    home.write_running(RUNNING)
    before = sorted(home.path.iterdir())
    with pytest.raises(UnicodeEncodeError):
        home.write_private(home.running_path, "\ud800")
    assert home.read_running() == RUNNING
    assert sorted(home.path.iterdir()) == before


@pytest.mark.requirement("simulator.device.one-owner")
def test_a_lock_that_is_held_names_the_directory_and_the_holder(home: DeviceHome) -> None:
    with home.lock("aicore"):
        code = (
            "import sys; from pathlib import Path;"
            "from aicore_sim.device.home import DeviceHome, DeviceInUse\n"
            "try:\n    with DeviceHome(Path(sys.argv[1])).lock('aicore'): pass\n"
            "except DeviceInUse as error: print(error.pid, error)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(home.path)],
            capture_output=True, text=True, check=True, timeout=30,
        )  # fmt: skip
    pid, _, message = done.stdout.partition(" ")
    assert int(pid) == os.getpid()
    assert str(home.path) in message
    assert f"process {os.getpid()}" in message
    assert not (home.path / "aicore.pid").exists()


def test_locks_of_different_names_do_not_meet(home: DeviceHome) -> None:
    with home.lock("aicore"), home.lock("up"):
        assert mode(home.path / "aicore.lock") == 0o600
    with home.lock("aicore"):
        pass


@pytest.mark.requirement("simulator.device.one-owner")
def test_the_lock_of_a_killed_process_is_taken_over(home: DeviceHome) -> None:
    code = (
        "import sys; from pathlib import Path; from aicore_sim.device.home import DeviceHome\n"
        "with DeviceHome(Path(sys.argv[1])).lock('aicore'):\n"
        "    print('held', flush=True); input()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(home.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DeviceInUse) as refused, home.lock("aicore", wait=0.05):
            pass
        assert refused.value.pid == holder.pid
        holder.kill()
        holder.wait(5)
    assert (home.path / "aicore.pid").exists()
    with home.lock("aicore", wait=3):
        assert (home.path / "aicore.pid").read_text() == str(os.getpid())


def test_a_socket_lies_in_the_directory_when_its_path_is_short(short_home: DeviceHome) -> None:
    assert short_home.socket_path("aicore") == short_home.path / "aicore.sock"


@pytest.mark.requirement("simulator.device.short-socket")
@pytest.mark.parametrize("runtime", ["short", "too long", None])
def test_a_deep_directory_gets_a_short_private_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str | None
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    if runtime == "too long":
        (tmp_path / ("r" * 90)).mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("r" * 90)))
    home, other = DeviceHome(deep / "a"), DeviceHome(deep / "b")
    made = [
        home.socket_path("aicore"),
        home.socket_path("appfunctions"),
        other.socket_path("aicore"),
    ]
    try:
        assert all(len(os.fsencode(path)) <= 100 for path in made)
        assert made[0].parent == made[1].parent != made[2].parent
        assert mode(made[0].parent) == 0o700
        assert home.socket_path("aicore") == made[0]
    finally:
        for folder in {path.parent for path in made}:
            folder.rmdir()


def test_a_runtime_folder_that_is_a_link_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_home: DeviceHome
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_home.path))
    deep = DeviceHome(tmp_path / ("d" * 60) / ("e" * 60))
    folder = deep.socket_path("aicore").parent
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="belongs to another user"):
        deep.socket_path("aicore")


@pytest.mark.requirement("simulator.device.private")
def test_the_database_is_private_and_in_write_ahead_mode(home: DeviceHome) -> None:
    connection = open_database(home.database_path, create=True)
    try:
        assert mode(home.database_path) == 0o600
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    finally:
        connection.close()


def test_a_database_of_a_newer_simulator_is_refused_untouched(home: DeviceHome) -> None:
    connection = sqlite3.connect(home.database_path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(ValueError, match=f"has schema version {SCHEMA_VERSION + 1}"):
        open_database(home.database_path, create=True)
    connection = sqlite3.connect(home.database_path)
    try:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    finally:
        connection.close()
