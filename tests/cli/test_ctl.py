"""`ctl` against a daemon, and what it refuses before it asks one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aicore_client import DeviceConnection, Generation
from aicore_protos import device_pb2
from aicore_sim.cli.control import CommandError, Control, connect
from aicore_sim.cli.main import app
from aicore_sim.device.clock import ClockMode
from aicore_sim.device.database import open_database
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.process import start_time
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.server import AicoreServer, ServeOptions
from appfunctions_host.policy import PolicySetting

APP = "com.example.app"


class Device:
    """A daemon on virtual time in a thread of this process, and the command line beside it."""

    def __init__(self, home: DeviceHome, control: Control) -> None:
        self.home = home
        self.control = control

    def __call__(self, *arguments: str) -> str:
        """The output of `ctl` with these arguments. Raises CommandError."""
        return ctl(*arguments, "--device-dir", str(self.home.path))

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


def ctl(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["ctl", *arguments])
    if isinstance(result.exception, CommandError):
        raise result.exception
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@contextmanager
def running(home: DeviceHome) -> Iterator[str]:
    """The address of a daemon that serves from a thread of its own, as `up`'s does from a
    process."""
    ready = threading.Event()
    found: list[Any] = []

    async def serve() -> None:
        stop = asyncio.Event()
        script = home.path / "script.yaml"
        script.write_text("- text: one\n- text: two\n")
        server = AicoreServer(
            ServeOptions(model=f"scripted:{script}", home=home, seed=7),
            device_clock=DeviceClock(ClockMode.VIRTUAL),
        )
        async with server:
            found.extend((server.address, asyncio.get_running_loop(), stop))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(5)
        yield found[0]
    finally:
        if found:
            found[1].call_soon_threadsafe(found[2].set)
        thread.join(5)


@pytest.fixture(scope="module")
def booted() -> Iterator[Device]:
    with tempfile.TemporaryDirectory(prefix="aicore-") as name:
        home = DeviceHome(Path(name))
        home.prepare()
        with (
            running(home) as address,
            connect(address, home.read_control_token()) as control,
        ):
            _publish(home, control.get_device())
            control.ensure_installed(APP)
            yield Device(home, control)


@pytest.fixture
def device(booted: Device) -> Device:
    """The device with nothing left of the test before."""
    booted.control.reset(["ALL"])
    return booted


@pytest.mark.requirement("simulator.command.ctl.bad-input")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["clock", "advance", "3"], ("DURATION", "'3'")),
        (["clock", "set", "fast"], ("MODE", "'fast'", "virtual")),
        (["clock", "set", "virtual", "--time", "noon"], ("--time", "'noon'")),
        (["quota", "charge", APP, "-3s"], ()),
        (["availability", "set", "THERE"], ("STATUS", "'THERE'", "DOWNLOADABLE")),
        (["network", "slow"], ("STATE", "'slow'", "on, off")),
        (["disk", "broken"], ("STATE", "'broken'", "full, ok")),
        (["download", "progression", "fast"], ("RULE", "'fast'", "polls=3")),
        (["download", "advance", "much"], ("SIZE", "'much'")),
        (["download", "fail", "NOPE"], ("CODE", "'NOPE'")),
        (["importance", APP], ("LEVEL", APP)),
        (["importance", APP, "hidden"], ("LEVEL", "'hidden'", "background")),
        (["foreground", "shared"], ("MODE", "'shared'")),
        (["fault", "add"], ("exactly one", "none was")),
        (["fault", "add", "--error", "9", "--kill-worker"], ("exactly one", "2 were")),
        (["fault", "add", "--error", "BUSYY"], ("--error", "'BUSYY'")),
        (["fault", "add", "--delay", "3"], ("--delay", "'3'")),
        (["fault", "add", "--fail-after", "3"], ("--fail-after", "'3'", "TOKENS:CODE")),
        (["fault", "add", "--malformed", "odd"], ("--malformed", "'odd'", "broken-call")),
        (["fault", "add", "--drop-after", "-1"], ("--drop-after", "-1")),
        (["fault", "add", "--error", "9", "--times", "-1"], ("--times", "-1")),
        (["fault", "add", "--error", "9", "--until", "soon"], ("--until", "'soon'")),
        (["journal", "--last", "-1"], ("--last", "-1")),
        (["reset", "quota", "everything"], ("SCOPE", "'everything'", "conversations")),
        (["script", "load", "/nowhere/script.yaml"], ("FILE", "/nowhere/script.yaml")),
        (["import", "/nowhere/state"], ("FILE", "/nowhere/state")),
    ],
)
def test_bad_input_names_flag_and_value_before_any_device_is_asked(
    arguments: list[str], named: tuple[str, ...], tmp_path: Path
) -> None:
    result = CliRunner().invoke(app, ["ctl", *arguments, "--device-dir", str(tmp_path)])
    if named:
        assert isinstance(result.exception, CommandError)
        assert result.exception.exit_code == 2
        assert all(word in str(result.exception) for word in named), str(result.exception)
    else:
        assert result.exit_code == 2


def test_without_a_device_every_command_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="aicore-sim up") as refused:
        ctl("clock", "now", "--device-dir", str(tmp_path))
    assert refused.value.exit_code == 4


@pytest.mark.requirement("simulator.clock.virtual", "simulator.command.ctl.clock")
def test_the_clock_moves_as_far_as_it_is_told(device: Device) -> None:
    before = device.json("clock", "now")
    assert before["mode"] == "virtual"
    after = device.json("clock", "advance", "2m30s")
    assert device.json("clock", "now") == after
    begin, end = (_seconds(state["now"]) for state in (before, after))
    assert end - begin == 150


@pytest.mark.requirement("simulator.command.ctl.clock")
def test_a_clock_is_frozen_and_set_virtual_again(device: Device) -> None:
    assert device.json("clock", "freeze")["mode"] == "frozen"
    assert device.json("clock", "set", "virtual")["mode"] == "virtual"
    with pytest.raises(CommandError):
        device("clock", "set", "virtual", "--time", "1999-01-01T00:00:00Z")


@pytest.mark.requirement("simulator.command.ctl.quota")
def test_a_quota_is_charged_shown_and_reset(device: Device) -> None:
    device("quota", "set", "token-bucket")
    (charged,) = device.json("quota", "charge", APP, "40s")
    assert (charged["package"], charged["model"]) == (APP, "token-bucket")
    assert charged["available_seconds"] == 0
    assert charged["retry_delay"] > 0
    assert charged["app_battery"]["device_seconds"] == 40
    assert APP in device("quota", "show", APP)
    (fresh,) = device.json("quota", "reset", APP)
    assert (fresh["available_seconds"], fresh["retry_delay"]) == (30, 0)


@pytest.mark.requirement("simulator.command.ctl.quota")
def test_an_unknown_quota_model_is_named_and_nothing_changes(device: Device) -> None:
    device("quota", "set", "sliding-calls")
    with pytest.raises(CommandError, match=r"'weekly'.*token-bucket"):
        device("quota", "set", "weekly")
    assert device.json("quota", "show", APP)[0]["model"] == "sliding-calls"
    assert device.json("quota", "set", "off")[0]["model"] == "off"
    device("quota", "set", "token-bucket")


@pytest.mark.requirement("simulator.command.ctl.availability")
def test_availability_network_disk_and_downloads_are_set_and_shown(device: Device) -> None:
    assert device.json("network", "off")["network"] == "off"
    assert device.json("disk", "full")["disk"] == "full"
    assert device.json("network", "on")["network"] == "on"
    found = device.json("disk", "ok")
    assert (found["network"], found["disk"]) == ("on", "ok")
    assert device.json("download", "progression", "polls=4")["progression"] == "polls=4"
    (feature,) = device.json("availability", "set", "DOWNLOADING")["features"]
    assert (feature["feature_id"], feature["status"]) == (636, "DOWNLOADING")
    (feature,) = device.json("download", "advance", "1GB")["features"]
    assert (feature["downloaded_bytes"], feature["total_bytes"]) == (10**9, 3 * 10**9)
    (feature,) = device.json("download", "fail", "NOT_ENOUGH_DISK_SPACE")["features"]
    assert feature["status"] == "DOWNLOADABLE"
    device("availability", "set", "DOWNLOADING")
    (feature,) = device.json("download", "complete")["features"]
    assert feature["status"] == "AVAILABLE"
    with pytest.raises(CommandError, match="download"):
        device("download", "complete")
    assert "AVAILABLE" in device("availability", "show")


@pytest.mark.requirement("simulator.command.ctl.importance")
def test_importance_is_set_for_an_app_and_shown_for_all(device: Device) -> None:
    found = device.json("importance", APP, "foreground-service")
    assert found["apps"][APP] == "foreground_service"
    assert device.json("foreground", "exclusive")["foreground"] == "exclusive"
    assert "foreground service" in device("importance")
    assert device.json("foreground", "free")["foreground"] == "free"
    assert device.json("importance", APP, "top")["apps"][APP] == "top"
    with pytest.raises(CommandError, match=r"com\.nobody"):
        device("importance", "com.nobody", "top")


@pytest.mark.requirement("simulator.command.ctl.fault")
def test_faults_are_added_listed_with_hits_and_cleared(device: Device) -> None:
    device("fault", "add", "--error", "busy", "--rpc", "GenerateContent", "--times", "2")
    device("fault", "add", "--delay", "1.5s", "--package", APP, "--id", "slow")
    device("fault", "add", "--fail-after", "3:15")
    device("fault", "add", "--malformed", "broken-call", "--after", "1")
    device("fault", "add", "--kill-worker", "--until", "2030-01-01T00:00:00Z")
    listed = device.json("fault", "list")
    assert [fault["action"] for fault in listed] == [
        {"error_code": 9},
        {"delay": "1.500s"},
        {"fail_after_tokens": {"tokens": 3, "error_code": 15}},
        {"malformed": "BROKEN_CALL"},
        {"kill_worker": {}},
    ]
    assert [fault["hits"] for fault in listed] == [0] * 5
    assert listed[0]["match"]["rpc"] == "GenerateContent"
    assert (listed[0]["times"], listed[3]["after"]) == (2, 1)
    assert listed[4]["until"] == "2030-01-01T00:00:00Z"
    assert "error 15 RESPONSE_GENERATION_ERROR after 3 tokens" in device("fault", "list")
    with pytest.raises(CommandError, match="NoSuchCall"):
        device("fault", "add", "--error", "9", "--rpc", "NoSuchCall")
    with pytest.raises(CommandError, match="BUSY is a GenAiException's"):
        device("fault", "add", "--error", "BUSY", "--rpc", "Execute")
    with pytest.raises(CommandError, match="add --rpc Execute"):
        device("fault", "add", "--error", "ERROR_DENIED", "--rpc", "GenerateContent")
    assert device.json("fault", "clear", "slow") == {"cleared": 1}
    assert device.json("fault", "clear") == {"cleared": 4}
    assert device.json("fault", "list") == []


@pytest.mark.requirement("simulator.command.ctl.script")
def test_a_script_is_loaded_and_shown(device: Device, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text("- text: first\n- text: second\n")
    assert device.json("script", "load", str(file)) == {
        "steps": 2,
        "consumed": 0,
        "remaining": ["step 1: text 'first'", "step 2: text 'second'"],
    }
    file.write_text("- texxt: wrong\n")
    with pytest.raises(CommandError, match="texxt"):
        device("script", "load", str(file))
    assert device.json("script", "show")["steps"] == 2


@pytest.mark.requirement("simulator.command.ctl.journal")
def test_the_journal_is_filtered_by_app_and_call(device: Device) -> None:
    device("quota", "show", APP)
    everything = device.json("journal")
    assert all(
        set(entry) == {"id", "time", "rpc", "package", "decision", "error_code", "figures"}
        for entry in everything
    )
    assert device.json("journal", "--package", "com.nobody") == []
    assert device.json("journal", "--rpc", "NoSuchCall") == []
    assert len(device.json("journal", "--last", "1")) <= 1


@pytest.mark.requirement("simulator.command.ctl.journal")
def test_the_journal_can_be_followed_until_ctrl_c(device: Device) -> None:
    device("quota", "show", APP)
    command = [sys.executable, "-m", "aicore_sim", "ctl", "journal", "-f", "--json"]
    token = device.control.launch_token(APP, os.getpid())
    with subprocess.Popen(
        [*command, "--rpc", "CheckStatus", "--device-dir", str(device.home.path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as follower:
        try:
            asyncio.run(_check_status(device, token))
            # The follower has printed the call, or prints it when it has connected.
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                assert follower.stdout is not None
                line = pool.submit(follower.stdout.readline).result(timeout=20)
            entry = json.loads(line)
            assert (entry["rpc"], entry["package"]) == ("CheckStatus", APP)
            follower.send_signal(signal.SIGINT)
            assert follower.wait(5) == 0
        finally:
            follower.kill()


@pytest.mark.requirement("simulator.command.ctl.export")
def test_an_exported_state_comes_back_and_a_damaged_one_changes_nothing(
    device: Device, tmp_path: Path
) -> None:
    file = tmp_path / "state"
    written = device.json("export", str(file))
    assert written == {"file": str(file), "bytes": file.stat().st_size}
    assert file.stat().st_mode & 0o777 == 0o600
    device.control.ensure_installed("com.example.later")
    damaged = tmp_path / "damaged"
    damaged.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CommandError, match="cut off"):
        device("import", str(damaged))
    names = [package.package_name for package in device.control.packages()]
    assert "com.example.later" in names
    assert device.json("import", str(file))["packages"] == [APP]
    assert [package.package_name for package in device.control.packages()] == [APP]


@pytest.mark.requirement("simulator.command.ctl.app-functions")
def test_the_enterprise_policy_is_shown_set_and_refused_by_name(device: Device) -> None:
    assert device("app-functions", "policy").strip() == "not-controlled-by-policy"
    assert device.json("app-functions", "policy", "disabled") == {"policy": "disabled"}
    with contextlib.closing(open_database(device.home.database_path, create=False)) as database:
        assert not PolicySetting(database).allows_execution()
        with pytest.raises(CommandError, match="'off'") as refused:
            device("app-functions", "policy", "off")
        device("app-functions", "policy", "disabled-cross-profile")
        assert PolicySetting(database).allows_execution()
    assert refused.value.exit_code == 2


@pytest.mark.requirement("simulator.command.ctl.reset")
def test_reset_takes_scopes_and_leaves_packages(device: Device) -> None:
    device("fault", "add", "--error", "9")
    device("quota", "charge", APP, "10s")
    assert device.json("reset", "faults", "quota") == {"reset": ["faults", "quota"]}
    assert device.json("fault", "list") == []
    assert device.json("quota", "show", APP)[0]["available_seconds"] == 30
    assert APP in [package.package_name for package in device.control.packages()]


async def _check_status(device: Device, token: str) -> None:
    address = f"unix:{device.home.socket_path('aicore')}"
    async with DeviceConnection(address, "unix:/nowhere", token) as connection:
        await Generation.get_client(connection=connection).check_status()


def _publish(home: DeviceHome, device: device_pb2.Device) -> None:
    """What `up` publishes, for commands that look for a running device."""
    daemon = {"address": f"unix:{home.socket_path('aicore')}", "pid": device.pid}
    home.write_running(
        {
            "version": device.version,
            "device_dir": device.device_dir,
            "pid": device.pid,
            "pid_started": start_time(device.pid),
            "aicore": daemon,
            "appfunctions": daemon,
            "model": device.model,
            "unavailable_reason": device.unavailable_reason,
            "profile": device.profile,
            "platform": device.platform,
            "seed": device.seed,
        }
    )


def _seconds(time: str) -> float:
    from google.protobuf.timestamp_pb2 import Timestamp

    made = Timestamp()
    made.FromJsonString(time)
    return made.ToNanoseconds() / 1e9
