"""docs/protocol.md and docs/limits.md say what is so; the protos keep what they promised."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from aicore_sim.cli.errors_command import ERRORS
from aicore_sim.cli.main import _COMMANDS
from aicore_sim.device.errors import AppFunctionCode, AppFunctionError, GenAiError
from aicore_sim.device.profile import load_profile
from aicore_sim.rpc.status import to_status
from scripts.gen_contract import FILES, broken, contract, main

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "protocol.md").read_text()
LIMITS = (ROOT / "docs" / "limits.md").read_text()
CODES = {error.code for error in ERRORS} | {int(code) for code in AppFunctionCode}


def rows(heading: str) -> Iterator[tuple[list[int], str]]:
    """Codes and the second column of the table below a line."""
    table = PAGE.partition(heading)[2]
    for first, second in re.findall(r"^\| ([-\d, ]+) \| (\w+) \|", table, re.MULTILINE):
        yield [int(code) for code in first.split(",")], second


@pytest.mark.requirement("simulator.protocol.contract")
def test_the_protos_keep_what_they_promised() -> None:
    assert main(["--check"]) == 0


@pytest.mark.requirement("simulator.protocol.contract")
def test_what_is_gone_or_changed_is_found() -> None:
    now = contract()
    assert (
        "rpc aicore.sim.v1.AICore/CheckStatus aicore.sim.v1.CheckStatusRequest -> "
        "aicore.sim.v1.CheckStatusResponse" in now
    )
    assert "field aicore.sim.v1.GenAiError.error_code = 1 int32" in now
    assert broken(["field a.B.c = 1 int32", *now], now) == ["field a.B.c = 1 int32"]
    assert broken(now, [*now, "value a.B.C = 7"]) == []


def test_the_protos_are_where_the_page_says() -> None:
    [code] = re.findall(r'`python -c "(import aicore_protos; [^"]+)"`', PAGE)
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    folder = Path(shown.strip())
    assert (folder / "aicore.proto").is_file()
    imports = re.findall(
        r'^import "(aicore_protos/.+)";', (folder / "aicore.proto").read_text(), re.M
    )
    assert all((folder.parent / name).is_file() for name in imports)


def test_the_page_names_every_service() -> None:
    named = set(re.findall(r"^\| `(aicore\.sim\.v1\.\w+)` \|", PAGE, re.MULTILINE))
    assert named == {
        service.full_name for file in FILES for service in file.DESCRIPTOR.services_by_name.values()
    }


def test_the_statuses_are_those_of_the_page() -> None:
    listed = {
        code: status
        for codes, status in rows("The statuses that go with codes")
        if not status.isdigit()
        for code in codes
    }
    for code in sorted(CODES):
        error = AppFunctionError if 1000 <= code < 4000 else GenAiError
        found, _ = to_status(error(code, "text"))
        assert listed.get(code, "INTERNAL") == found.name, code


@pytest.mark.requirement("simulator.protocol.http")
def test_every_code_has_one_http_status_and_the_three_of_the_field_are_these() -> None:
    listed = [(code, int(status)) for codes, status in rows("## Behind HTTP") for code in codes]
    assert sorted(code for code, _ in listed) == sorted(CODES)
    mapped = dict(listed)
    assert (mapped[30], mapped[27], mapped[9]) == (403, 429, 503)


@pytest.mark.requirement("simulator.protocol.reflection")
def test_the_session_with_reflection_runs_as_shown(tmp_path: Path) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    [command] = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "ask.py").write_text(code)
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=100,
        env={
            **os.environ,
            "PATH": os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"])),
            "AICORE_SIM_HOME": str(tmp_path / "device"),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"^    ((?:CheckStatus|GenerateContent) .*)$", PAGE, re.MULTILINE)
    assert done.stdout.splitlines()[-3:] == shown
    assert "aicore.sim.v1.DeviceControl" in done.stdout


@pytest.mark.requirement("simulator.docs.limits")
def test_the_page_of_limits_names_profiles_and_commands_that_exist() -> None:
    for name in re.findall(r"`--device ([a-z0-9-]+)`, `([a-z-]+)`", LIMITS)[0]:
        load_profile(name)
    commands = re.findall(r"`aicore-sim ([a-z-]+)", LIMITS)
    assert set(commands) <= set(_COMMANDS)
    shipped = (ROOT / "aicore_sim" / "cli" / "scenario" / "shipped").glob("*.yaml")
    scenarios = {path.stem for path in shipped}
    assert set(re.findall(r"scenario run ([a-z-]+)`", LIMITS)) <= scenarios


STRACE = ["strace", "-f", "-qq", "-e", "trace=connect,bind,sendto,sendmsg,sendmmsg"]
SHOP = (ROOT / "examples" / "node_client" / "shop.py").read_text()
SCRIPT = (ROOT / "examples" / "node_client" / "answers.yaml").read_text()
AGENT = """
import asyncio
from aicore_client import Agent, AgentRunner, Content

async def main():
    agent = Agent.builder().set_instructions("Be kind.").enable_app_functions(True).build()
    content = Content.builder().text("Where is my order?").build()
    async for event in AgentRunner(agent).run_single_turn_async(content):
        print(event)

asyncio.run(main())
"""


@pytest.mark.requirement("simulator.offline")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_an_agent_run_opens_no_socket_but_local_ones(tmp_path: Path) -> None:
    """Launcher, both daemons, the app with its client: every connect, bind and datagram."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "answers.yaml").write_text(SCRIPT)
    (tmp_path / "agent.py").write_text(AGENT)
    trace = tmp_path / "trace.txt"
    strace = [*STRACE, "-o", str(trace)]
    probe = subprocess.run([*strace, "true"], capture_output=True, check=False, timeout=30)
    if probe.returncode:
        pytest.skip("strace may not trace processes here")
    done = subprocess.run(
        [
            *strace, sys.executable, "-m", "aicore_sim", "exec", "--as", "com.example.shop",
            "--app", "com.example.shop=shop:Shop", "--model", "scripted:answers.yaml",
            "--", sys.executable, "agent.py",
        ],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=100,
        env={**os.environ, "AICORE_SIM_HOME": str(tmp_path / "device")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "arrives at 2:30 PM" in done.stdout
    lines = trace.read_text().splitlines()
    assert sum("connect(" in line and "AF_UNIX" in line for line in lines) >= 3
    assert away(lines) == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_socket_that_is_not_local_would_be_found(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    # Connecting a datagram socket sends nothing.
    code = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        "s.connect(('127.0.0.1', 9)); s.connect(('192.0.2.1', 9))"
    )
    subprocess.run(
        [*STRACE, "-o", str(trace), sys.executable, "-c", code],
        capture_output=True, check=False, timeout=30,
    )  # fmt: skip
    if not trace.exists() or "exited with" in trace.read_text() or not trace.read_text():
        pytest.skip("strace may not trace processes here")
    [found] = away(trace.read_text().splitlines())
    assert '"192.0.2.1"' in found


def away(lines: list[str]) -> list[str]:
    """Calls of a trace with an address that is not of this machine."""
    local = ("sa_family=AF_UNIX", "sa_family=AF_NETLINK", "sa_family=AF_UNSPEC")
    loopback = ('"127.0.0.1"', '"::1"')
    return [
        line
        for line in lines
        if "sa_family=" in line and not any(sign in line for sign in (*local, *loopback))
    ]
