"""Booting, stopping and losing a device, with real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from tests.cli.processes import Up, processes_of, run, script, wait_until


@pytest.fixture
def model(tmp_path: Path) -> str:
    return script(tmp_path / "script.yaml")


@pytest.fixture
def device_dir(tmp_path: Path) -> Path:
    return tmp_path / "device"


@pytest.mark.requirement("simulator.command.ready")
def test_up_tells_where_the_device_is_and_never_a_token(device_dir: Path, model: str) -> None:
    ready_file = device_dir.parent / "ready.json"
    with Up(device_dir, "--model", model, "--ready-file", str(ready_file), "--seed", "7") as up:
        assert set(up.facts) == {
            "version",
            "device_dir",
            "pid",
            "aicore",
            "appfunctions",
            "model",
            "profile",
            "platform",
            "seed",
        }
        assert up.facts["pid"] == up.process.pid
        assert up.facts["seed"] == 7
        wait_until(ready_file.exists, "the ready file")
        assert json.loads(ready_file.read_text()) == up.facts
        token = (device_dir / "control.token").read_text()
        assert token not in up.output + up.errors + ready_file.read_text()


@pytest.mark.requirement("simulator.device.private")
def test_everything_in_the_device_directory_is_private(device_dir: Path, model: str) -> None:
    with Up(device_dir, "--model", model):
        modes = {
            path: stat.S_IMODE(path.stat().st_mode)
            for path in (device_dir, *device_dir.rglob("*"))
            if not path.name.startswith("device.db-")
        }
        assert [str(p) for p, mode in modes.items() if mode & 0o077] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_and_is_no_failure(
    device_dir: Path, model: str, number: signal.Signals
) -> None:
    with Up(device_dir, "--model", model) as up:
        assert len(processes_of(device_dir)) >= 3
        assert up.end(number) == 0
        assert processes_of(device_dir) == {}
        assert not (device_dir / "aicore.sock").exists()
        assert not (device_dir / "appfunctions.sock").exists()


@pytest.mark.requirement("simulator.device.one-owner")
def test_a_second_up_is_refused_with_the_pid_of_the_first(device_dir: Path, model: str) -> None:
    with Up(device_dir, "--model", model) as up:
        second = run("up", "--device-dir", str(device_dir), "--model", model)
        assert second.returncode == 1
        assert f"process {up.process.pid}" in second.stderr
        assert run("status", "--device-dir", str(device_dir)).returncode == 0


def test_two_devices_run_side_by_side(tmp_path: Path, model: str) -> None:
    with (
        Up(tmp_path / "one", "--model", model) as one,
        Up(tmp_path / "two", "--model", model) as two,
    ):
        assert one.facts["aicore"]["address"] != two.facts["aicore"]["address"]
        for name in ("one", "two"):
            assert run("status", "--device-dir", str(tmp_path / name)).returncode == 0


@pytest.mark.requirement("simulator.command.no-orphans", "simulator.device.one-owner")
def test_killing_up_leaves_no_process_and_the_next_up_works(device_dir: Path, model: str) -> None:
    with Up(device_dir, "--model", model) as up:
        up.end(signal.SIGKILL)
        wait_until(lambda: not processes_of(device_dir), "the daemons to end")
    with Up(device_dir, "--model", model) as again:
        assert again.end() == 0


def test_the_next_up_works_while_the_daemons_of_a_killed_one_are_still_ending(
    device_dir: Path, model: str
) -> None:
    with Up(device_dir, "--model", model) as up:
        up.process.kill()
        up.process.wait(timeout=5)
        with Up(device_dir, "--model", model) as again:
            assert again.end() == 0


@pytest.mark.requirement("simulator.command.no-orphans")
@pytest.mark.parametrize("daemon", ["aicore", "appfunctions"])
def test_when_a_daemon_dies_up_stops_the_other_and_exits_with_3(
    device_dir: Path, model: str, daemon: str
) -> None:
    with Up(device_dir, "--model", model) as up:
        os.kill(up.facts[daemon]["pid"], signal.SIGKILL)
        assert up.wait() == 3
        assert f"the {daemon} daemon died; its log ends:" in up.errors
        assert processes_of(device_dir) == {}
    with Up(device_dir, "--model", model) as again:
        assert again.end() == 0


@pytest.mark.requirement("simulator.command.detach")
def test_detached_up_returns_although_its_output_is_a_pipe(device_dir: Path, model: str) -> None:
    started = run("up", "--detach", "--device-dir", str(device_dir), "--model", model)
    try:
        assert started.returncode == 0, started.stderr
        facts = json.loads(started.stdout.removeprefix("READY "))
        assert run("wait", "--device-dir", str(device_dir)).returncode == 0
        shown = json.loads(run("status", "--json", "--device-dir", str(device_dir)).stdout)
        assert shown["running"]
        assert shown["pid"] == facts["pid"]
        assert shown["generations"] == {
            "running": 0,
            "waiting": 0,
            "slots": 1,
            "places": 8,
            "now": [],
        }
        assert (shown["quota"], shown["pace"], shown["clock"]["mode"]) == (
            "token-bucket",
            "host",
            "REAL",
        )
        printed = run("env", "--device-dir", str(device_dir)).stdout
        assert f"export AICORE_SIM_ADDRESS={facts['aicore']['address']}" in printed
        assert "TOKEN" not in printed
        assert run("logs", "aicore", "--device-dir", str(device_dir)).stdout
    finally:
        stopped = run("stop", "--device-dir", str(device_dir))
    assert stopped.returncode == 0
    assert processes_of(device_dir) == {}
    assert run("stop", "--device-dir", str(device_dir)).returncode == 0
    assert run("status", "--device-dir", str(device_dir)).returncode == 4
    assert run("wait", "--timeout", "0", "--device-dir", str(device_dir)).returncode == 4


def test_detached_up_reports_why_the_device_did_not_start(device_dir: Path) -> None:
    started = run(
        "up", "--detach", "--device-dir", str(device_dir), "--model", "scripted:/nowhere.yaml"
    )
    assert started.returncode != 0
    assert "/nowhere.yaml" in started.stderr


@pytest.mark.requirement("simulator.command.port-in-use")
def test_a_port_in_use_is_a_clear_error_and_nothing_is_left(device_dir: Path, model: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run(
            "up", "--device-dir", str(device_dir), "--model", model, "--aicore-address", address
        )
    assert done.returncode == 1
    assert address in done.stderr
    assert processes_of(device_dir) == {}


@pytest.mark.requirement("simulator.command.port-in-use")
def test_the_device_serves_on_loopback_ports_that_the_system_chose(
    device_dir: Path, model: str
) -> None:
    addresses = ("--aicore-address", "127.0.0.1:0", "--appfunctions-address", "127.0.0.1:0")
    with Up(device_dir, "--model", model, *addresses) as up:
        for name in ("aicore", "appfunctions"):
            assert int(up.facts[name]["address"].rpartition(":")[2]) > 0
        assert run("status", "--device-dir", str(device_dir)).returncode == 0


def test_only_loopback_and_sockets_are_served(device_dir: Path, model: str) -> None:
    done = run(
        "up", "--device-dir", str(device_dir), "--model", model, "--aicore-address", "0.0.0.0:0"
    )
    assert done.returncode == 1
    assert "loopback" in done.stderr


@pytest.mark.requirement("simulator.device.short-socket")
def test_a_device_directory_too_deep_for_a_socket_gets_a_short_private_folder(
    tmp_path: Path, model: str
) -> None:
    deep = tmp_path / ("d" * 90) / "device"
    deep.parent.mkdir()
    with Up(deep, "--model", model) as up:
        path = Path(up.facts["aicore"]["address"].removeprefix("unix:"))
        assert len(str(path)) <= 100
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--device", "pixel-99"), "pixel-99"),
        (("--platform", "android-15"), "android-15"),
        (("--app", "com.example.shop"), "PACKAGE=MODULE:CLASS"),
        (("--app", "com.example.shop=nowhere:Nothing"), "nowhere"),
        (("--model", "no-such-model"), "no-such-model"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(
    device_dir: Path, model: str, arguments: tuple[str, str], named: str
) -> None:
    done = run("up", "--device-dir", str(device_dir), "--model", model, *arguments)
    assert done.returncode != 0
    assert named in done.stderr
    assert processes_of(device_dir) == {}


def test_up_stops_at_once_while_it_is_booting_and_leaves_nothing(
    device_dir: Path, model: str, tmp_path: Path
) -> None:
    (tmp_path / "slow_app.py").write_text("import threading\nthreading.Event().wait(600)\n")
    up = Up(device_dir, "--model", model, "--app", "com.example.slow=slow_app:App",
            env={"PYTHONPATH": str(tmp_path)})  # fmt: skip
    try:
        wait_until(lambda: len(processes_of(device_dir)) >= 3, "the host to start")
        assert up.end(signal.SIGTERM) == 0
        assert processes_of(device_dir) == {}
    finally:
        up.close()


def test_killing_up_while_it_is_booting_leaves_nothing(
    device_dir: Path, model: str, tmp_path: Path
) -> None:
    (tmp_path / "slow_app.py").write_text("import threading\nthreading.Event().wait(600)\n")
    up = Up(device_dir, "--model", model, "--app", "com.example.slow=slow_app:App",
            env={"PYTHONPATH": str(tmp_path)})  # fmt: skip
    try:
        wait_until(lambda: len(processes_of(device_dir)) >= 3, "the host to start")
    finally:
        up.close()
    with Up(device_dir, "--model", model) as again:
        assert again.end() == 0


def test_a_missing_folder_for_the_ready_file_is_noticed_at_once(
    device_dir: Path, model: str
) -> None:
    done = run("up", "--device-dir", str(device_dir), "--model", model, "--ready-file", "/no/where")
    assert done.returncode == 2
    assert "/no/where" in done.stderr


@pytest.mark.parametrize("place", ["/dev/null/x", "~no-such-user-here/x", "/" + "n" * 300])
def test_a_device_directory_that_cannot_be_is_one_line(place: str, model: str) -> None:
    done = run("up", "--device-dir", place, "--model", model)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("aicore-sim: ")
    assert len(done.stderr.splitlines()) == 1


def test_up_starts_from_the_state_of_a_scenario(tmp_path: Path, device_dir: Path) -> None:
    scenario = tmp_path / "state.yaml"
    scenario.write_text(
        "title: in the background\n"
        "device: {importance: {com.example.x: background}, script: [{text: never}]}\n"
        "apps: [{package: com.example.x}]\n"
    )
    with Up(device_dir, "--scenario", str(scenario)) as up:
        assert up.facts["model"] == "scripted"
        shown = run("ctl", "importance", "--json", "--device-dir", str(device_dir))
        assert "background" in shown.stdout.lower(), shown.stderr
    refused = run("up", "--device-dir", str(device_dir), "--scenario", str(scenario), "--seed", "3")
    assert refused.returncode == 2
    assert "--seed" in refused.stderr
