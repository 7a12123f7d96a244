"""The pytest plugin, in pytest processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aicore_sim.device.process import is_alive, start_time
from tests.aicore.calls import eventually

WAIT = 60.0
IMPORTS = """
from aicore_client import Generation
from aicore_client.blocking import run_blocking
from aicore_sim.testing import BUSY

def ask(connection):
    return run_blocking(Generation.get_client(connection=connection).generate_content("hi"))
"""


def _pytest(folder: Path, body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_user.py").write_text(IMPORTS + body)
    return subprocess.run(
        _command(*arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT,
    )


def _command(*arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-W",
        "error",
        *arguments,
    ]


PASSES = """
import pytest
from aicore_client import GenAiException

def test_busy(device, caller, scripted_model):
    scripted_model([{"text": "yes"}])
    connection = caller("com.example.app")
    with device.fault(BUSY, times=1):
        with pytest.raises(GenAiException):
            ask(connection)
    assert ask(connection).candidates[0].text == "yes"

def test_the_device_is_new_for_each_test(device):
    assert device.packages() == ()
    assert device.journal.entries() == ()

def test_time_stands_still(virtual_clock):
    before = virtual_clock.now()
    virtual_clock.advance(3600)
    assert virtual_clock.now() == before + 3600
"""


@pytest.mark.requirement("simulator.testing.plugin")
@pytest.mark.parametrize(
    "arguments", [(), ("--device-env", "local"), ("--device-env", "virtual-time"), ("-n", "2")]
)
def test_tests_pass_without_any_configuration(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = _pytest(tmp_path, PASSES, *arguments)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert "conduct on the simulated device" in done.stdout
    assert "busy-retried-at-once" in done.stdout


@pytest.mark.requirement("simulator.testing.plugin")
def test_a_failure_shows_the_journal_the_seed_and_the_daemons_logs(tmp_path: Path) -> None:
    body = """
def test_wrong(device, caller):
    device.set_script([{"text": "yes"}])
    ask(caller("com.example.app"))
    assert False
"""
    done = _pytest(tmp_path, body, "--device-env", "local")
    assert "1 failed" in done.stdout
    for shown in ("seed 0", "com.example.app GenerateContent: ok", "--- aicore ---"):
        assert shown in done.stdout


def test_left_over_steps_fail_the_test(tmp_path: Path) -> None:
    done = _pytest(tmp_path, "def test_it(scripted_model):\n    scripted_model([{'text': 'a'}])\n")
    assert "step 1" in done.stdout
    assert "1 passed, 1 error" in done.stdout


def test_an_unknown_environment_is_refused(tmp_path: Path) -> None:
    done = _pytest(tmp_path, PASSES, "--device-env", "loca")
    assert done.returncode == 4
    assert "'loca'" in done.stderr


def test_the_plugin_imports_nothing_until_a_fixture_is_used(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(
        "import sys\ndef test_it():\n"
        "    assert 'aicore_sim.pytest_plugin' in sys.modules\n"
        "    assert not {'grpc', 'pydantic', 'aicore_sim.testing'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        _command(), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=WAIT
    )
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.requirement("simulator.testing.plugin.no-orphans")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_no_daemon_outlives_pytest(tmp_path: Path, number: signal.Signals) -> None:
    pids = tmp_path / "pids"
    (tmp_path / "test_user.py").write_text(
        "import pathlib, threading\n"
        "def test_it(device):\n"
        "    facts = device.facts\n"
        f"    made = pathlib.Path({str(pids)!r} + '.new')\n"
        "    made.write_text(f\"{facts['aicore']['pid']} {facts['appfunctions']['pid']}\")\n"
        f"    made.rename({str(pids)!r})\n"
        "    threading.Event().wait(60)\n"
    )
    running = subprocess.Popen(  # noqa: ASYNC220
        _command("--device-env", "local"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await eventually(pids.exists, timeout=30)
        daemons = [(pid, start_time(pid)) for pid in map(int, pids.read_text().split())]
        assert all(is_alive(pid, started) for pid, started in daemons)
        os.kill(running.pid, number)
        await eventually(
            lambda: not any(is_alive(pid, started) for pid, started in daemons), timeout=20
        )
    finally:
        running.kill()
        running.wait(10)
