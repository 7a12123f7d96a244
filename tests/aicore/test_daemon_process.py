"""The daemon as a real process: start, ready file, stop, and what happens to it when killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from aicore_protos import aicore_pb2
from aicore_sim import __version__
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.process import is_alive
from tests.aicore.calls import App, eventually, prompt

ROOT = Path(__file__).resolve().parent.parent.parent
START_TIMEOUT = 30.0
STOP_TIMEOUT = 5.0


@dataclass(kw_only=True)
class Started:
    process: Process
    facts: dict[str, Any]
    home: DeviceHome

    async def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit code and log."""
        self.process.send_signal(number)
        return await self.ended()

    async def ended(self) -> tuple[int, str]:
        _, log = await asyncio.wait_for(self.process.communicate(), STOP_TIMEOUT)
        assert self.process.returncode is not None
        return self.process.returncode, log.decode()


async def spawn(home: Path, pass_fds: tuple[int, ...] = (), **options: Any) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.aicore.serve_process",
        str(home),
        json.dumps(options),
        cwd=ROOT,
        stderr=PIPE,
        pass_fds=pass_fds,
    )


async def refused(home: Path, **options: Any) -> str:
    """The log of a daemon that must not start."""
    process = await spawn(home, **options)
    _, log = await asyncio.wait_for(process.communicate(), START_TIMEOUT)
    assert process.returncode == 1
    return log.decode()


@asynccontextmanager
async def daemon(
    home: Path, *, model: str = "scripted", pass_fds: tuple[int, ...] = (), **options: Any
) -> AsyncIterator[Started]:
    ready = home.parent / f"{home.name}.ready"
    ready.unlink(missing_ok=True)
    process = await spawn(home, pass_fds, model=model, ready_file=str(ready), **options)
    try:
        await eventually(lambda: ready.exists() or process.returncode is not None, START_TIMEOUT)
        assert process.returncode is None, "the daemon ended before it was ready"
        facts = json.loads(ready.read_text())
        yield Started(process=process, facts=facts, home=DeviceHome(home))
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.wait_for(process.communicate(), STOP_TIMEOUT)


@asynccontextmanager
async def shell(started: Started) -> AsyncIterator[App]:
    async with grpc.aio.insecure_channel(started.facts["address"]) as channel:
        yield App(channel, started.home.read_control_token())


async def test_a_daemon_is_ready_serves_and_stops_in_order(short_dir: Path) -> None:
    script = short_dir / "script.yaml"
    script.write_text("- text: hello\n- text: unused\n")
    home = short_dir / "d"
    ready = short_dir / "d.ready"
    async with daemon(home, model=f"scripted:{script}", seed=42) as started:
        assert started.facts == {
            "version": __version__,
            "pid": started.process.pid,
            "address": f"unix:{home / 'aicore.sock'}",
            "model": f"scripted:{script}",
            "profile": "pixel-10",
            "seed": 42,
        }
        async with shell(started) as app:
            assert (await app.generate())[0].text == "hello"
        code, log = await started.stop()
    assert code == 0
    assert "WARNING" in log
    assert "the script has 1 steps left over: step 2: text 'unused'" in log
    assert "rpc=GenerateContent caller=com.android.shell outcome=ok" in log
    assert not ready.exists()
    assert not (home / "aicore.sock").exists()


@pytest.mark.requirement("simulator.device.private")
async def test_files_of_the_device_are_private(short_dir: Path) -> None:
    home = short_dir / "d"
    async with daemon(home):
        modes = {
            str(path.relative_to(home)): stat.S_IMODE(path.stat().st_mode)
            for path in [home, *home.rglob("*")]
        }
        ready = stat.S_IMODE((short_dir / "d.ready").stat().st_mode)
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    assert (modes["."], modes["logs"]) == (0o700, 0o700)
    assert (modes["device.db"], modes["control.token"], modes["aicore.sock"]) == (0o600,) * 3
    assert ready == 0o600


@pytest.mark.requirement("simulator.device.one-owner")
async def test_a_second_daemon_is_refused_with_the_pid_of_the_first(short_dir: Path) -> None:
    async with daemon(short_dir / "d") as first:
        log = await refused(short_dir / "d", model="scripted")
        assert f"is in use by process {first.process.pid}" in log
        async with shell(first) as app:
            assert (await app.device()).pid == first.process.pid


@pytest.mark.requirement("simulator.device.one-owner")
async def test_a_killed_daemon_is_taken_over(short_dir: Path) -> None:
    async with daemon(short_dir / "d") as first:
        await first.stop(signal.SIGKILL)
    assert (short_dir / "d" / "aicore.sock").exists()
    async with daemon(short_dir / "d") as second, shell(second) as app:
        assert (await app.device()).pid == second.process.pid


async def test_the_end_of_the_parents_pipe_ends_the_daemon(short_dir: Path) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end), os.fdopen(write_end, "w") as parents_end:
        async with daemon(
            short_dir / "d", pass_fds=(read_end,), exit_with_parent_fd=read_end
        ) as started:
            parents_end.close()
            code, _ = await started.ended()
    assert code == 0


@pytest.mark.requirement("simulator.command.no-orphans")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills with the parent")
async def test_killing_the_parent_kills_the_daemon(short_dir: Path) -> None:
    starter = (
        "import json, os, subprocess, sys; options = json.loads(sys.argv[2]);"
        "options['parent_pid'] = os.getpid();"
        "child = subprocess.Popen([sys.executable, '-m', 'tests.aicore.serve_process',"
        " sys.argv[1], json.dumps(options)]); print(child.pid, flush=True); child.wait()"
    )
    ready = short_dir / "ready"
    options = {"model": "scripted", "ready_file": str(ready)}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", starter, str(short_dir / "d"), json.dumps(options),
        cwd=ROOT, stdout=PIPE,
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(await asyncio.wait_for(parent.stdout.readline(), START_TIMEOUT))
    try:
        await eventually(ready.exists, START_TIMEOUT)
        parent.kill()
        await asyncio.wait_for(parent.wait(), STOP_TIMEOUT)
        await eventually(lambda: not is_alive(pid), STOP_TIMEOUT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def test_a_running_stream_does_not_hold_up_the_stop(short_dir: Path) -> None:
    script = short_dir / "script.yaml"
    script.write_text("- {text: a b c, chunk_delay: 3600}")
    model = f"scripted:{script}"
    async with daemon(short_dir / "d", model=model) as started, shell(started) as app:
        stream = app.start("GenerateContent", prompt("hi"))
        assert (await stream.read()).text == "a"
        code, _ = await started.stop(signal.SIGINT)
        with pytest.raises(grpc.aio.AioRpcError):
            await stream.read()
    assert code == 0


@pytest.mark.requirement("simulator.command.port-in-use")
async def test_a_port_is_chosen_and_one_in_use_is_refused(short_dir: Path) -> None:
    async with daemon(short_dir / "d", address="127.0.0.1:0") as first:
        address = first.facts["address"]
        assert address.startswith("127.0.0.1:")
        assert not address.endswith(":0")
        async with shell(first) as app:
            await app.call("CheckStatus", aicore_pb2.CheckStatusRequest())
        log = await refused(short_dir / "e", model="scripted", address=address)
    assert f"cannot serve on {address!r}" in log


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model": "scripted:/nowhere/script.yaml"}, "cannot read script '/nowhere/script.yaml'"),
        ({"model": "scripted", "profile": "pixel-99"}, "unknown device profile 'pixel-99'"),
        ({"model": "scripted", "quota": "leaky"}, "--quota: there is no quota model 'leaky'"),
        ({"model": "scripted", "address": "0.0.0.0:80"}, "'0.0.0.0:80' is not served"),
        ({"model": "scripted", "address": "unix:a.sock"}, "'unix:a.sock' needs an absolute path"),
    ],
)
async def test_a_daemon_that_cannot_start_says_why(
    short_dir: Path, options: dict[str, Any], named: str
) -> None:
    log = await refused(short_dir / "d", **options)
    assert f"AICore cannot start: {named}" in log
    assert "Traceback" not in log


@pytest.mark.requirement("aicore.availability.unavailable-model")
@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({}, ["'genai_config.json'"]),
        ({"genai_config.json": '{"modle": {}}'}, ["genai_config.json", "modle"]),
        ({"genai_config.json": "{"}, ["genai_config.json"]),
    ],
)
async def test_a_model_folder_that_cannot_be_used_leaves_the_daemon_up(
    short_dir: Path, files: dict[str, str], named: list[str]
) -> None:
    folder = short_dir / "model"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    async with daemon(short_dir / "d", model=str(folder)) as started:
        async with shell(started) as app:
            status = await app.call("CheckStatus", aicore_pb2.CheckStatusRequest())
            assert status.status == aicore_pb2.UNAVAILABLE
            fault = await app.fault("GenerateContent", prompt("hi"), stream=True)
            assert fault.error_code == 8
            reason = (await app.device()).unavailable_reason
        code, log = await started.stop()
    assert code == 0
    assert f"WARNING aicore_sim.service.model model={folder} is unavailable: {reason}" in log
    assert [word for word in named if word not in reason] == []


async def test_a_killed_daemon_ends_a_running_stream_at_once(short_dir: Path) -> None:
    script = short_dir / "script.yaml"
    script.write_text("- {text: a b c, chunk_delay: 3600}")
    model = f"scripted:{script}"
    async with daemon(short_dir / "d", model=model) as started, shell(started) as app:
        stream = app.start("GenerateContent", prompt("hi"))
        await stream.read()
        started.process.kill()
        async with asyncio.timeout(2.0):
            with pytest.raises(grpc.aio.AioRpcError) as broken:
                await stream.read()
    assert broken.value.code() is grpc.StatusCode.UNAVAILABLE
