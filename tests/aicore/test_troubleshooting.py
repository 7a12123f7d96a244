"""docs/troubleshooting.md: every error text on the page is one that is really said."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aicore_client import (
    Agent,
    AgentRunner,
    Content,
    DeviceConnection,
    Generation,
)
from aicore_client.connection import read_environment
from aicore_protos import aicore_pb2, device_pb2
from aicore_sim.cli.main import app
from aicore_sim.device.clock import ClockMode
from aicore_sim.device.errors import DeviceError
from aicore_sim.device.home import DeviceHome, DeviceInUse
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference.recording import RecordingError, load_recording
from aicore_sim.inference.replay import replay_backend
from aicore_sim.rpc.server import AddressError
from aicore_sim.rpc.version import check_version
from aicore_sim.server import AicoreServer
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import prompt
from tests.aicore.conftest import Daemon, StartDaemon

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md").read_text()
HEADINGS = [heading.strip("`") for heading in re.findall(r"^### (.+)$", PAGE, re.MULTILINE)]


@dataclass(frozen=True, kw_only=True)
class Rig:
    start_daemon: StartDaemon
    folder: Path
    monkeypatch: pytest.MonkeyPatch


Reproduction = Callable[[Rig], Awaitable[str]]


async def said_by(work: Awaitable[Any]) -> str:
    try:
        await work
    except Exception as error:
        return str(error)
    raise AssertionError("nothing failed")


async def cli(*words: str) -> str:
    """The message of a command that ends before it boots anything."""
    result = await asyncio.to_thread(CliRunner().invoke, app, list(words))
    assert result.exit_code != 0
    return str(result.exception)


@asynccontextmanager
async def connected(daemon: Daemon, token: str | None = None) -> Any:
    async with DeviceConnection(
        daemon.server.address, "unix:/nowhere", token or daemon.app_token
    ) as connection:
        yield Generation.get_client(connection=connection)


async def asked(rig: Rig, texts: list[str], token: str | None = None, **options: Any) -> str:
    """The error of the last of several prompts."""
    async with rig.start_daemon(**options) as daemon, connected(daemon, token) as model:
        for text in texts[:-1]:
            await model.generate_content(text)
        return await said_by(model.generate_content(texts[-1]))


async def no_device(rig: Rig) -> str:
    for name in ("AICORE_SIM_ADDRESS", "APPFUNCTIONS_ADDRESS", "AICORE_SIM_TOKEN"):
        rig.monkeypatch.delenv(name, raising=False)
    with pytest.raises(Exception, match="No simulated device") as missing:
        read_environment()
    return str(missing.value)


async def not_running(rig: Rig) -> str:
    return await cli("status", "--device-dir", str(rig.folder / "none"))


async def in_use(rig: Rig) -> str:
    home = DeviceHome(rig.folder / "held")
    home.prepare()
    with home.lock("device"), pytest.raises(DeviceInUse) as held, home.lock("device"):
        pass
    return str(held.value)


async def address_in_use(rig: Rig) -> str:
    async with rig.start_daemon(address="127.0.0.1:0") as daemon:
        options = replace(
            daemon.server.options, home=DeviceHome(rig.folder / "b"), address=daemon.server.address
        )
        with pytest.raises(AddressError) as taken:
            await AicoreServer(options).start()
    return str(taken.value)


async def daemon_gone(rig: Rig) -> str:
    async with DeviceConnection("unix:/nowhere/a", "unix:/nowhere/b", "t") as connection:
        return await said_by(Generation.get_client(connection=connection).generate_content("hi"))


async def foreign_token(rig: Rig) -> str:
    return await asked(rig, ["hi"], token="run_of-yesterday")


async def other_version(rig: Rig) -> str:
    with pytest.raises(DeviceError) as refused:
        check_version("0.0.1")
    return refused.value.message


async def unknown_model(rig: Rig) -> str:
    return await cli("exec", "--model", "gpt", "--", "true")


async def not_pulled(rig: Rig) -> str:
    rig.monkeypatch.setenv("AICORE_SIM_CACHE", str(rig.folder))
    return await cli("eval", "tools")


async def busy(rig: Rig) -> str:
    return await asked(rig, ["hi"], script="- error: {code: BUSY}")


async def background(rig: Rig) -> str:
    async with rig.start_daemon(script="- text: a") as daemon, connected(daemon) as model:
        request = device_pb2.SetImportanceRequest(
            package_name="com.example.app", importance=device_pb2.BACKGROUND
        )
        await daemon.shell.call("SetImportance", request)
        return await said_by(model.generate_content("hi"))


async def not_available(rig: Rig) -> str:
    async with rig.start_daemon(script="- text: a") as daemon, connected(daemon) as model:
        request = device_pb2.SetAvailabilityRequest(status=aicore_pb2.DOWNLOADABLE)
        await daemon.shell.call("SetAvailability", request)
        return await said_by(model.generate_content("hi"))


async def no_feature(rig: Rig) -> str:
    return await asked(rig, ["hi"], script="- text: a", profile="unlocked-bootloader")


async def too_large(rig: Rig) -> str:
    return await asked(rig, ["word " * 9000], script="- text: a")


async def max_turns(rig: Rig) -> str:
    script = "- {function_calls: [{name: look}], repeat: 10}"
    async with (
        rig.start_daemon(script=script) as daemon,
        DeviceConnection(daemon.server.address, "unix:/nowhere", daemon.app_token) as connection,
    ):
        runner = AgentRunner(Agent(), connection=connection)
        content = Content.builder().text("Look.").build()

        async def run() -> None:
            async for _ in runner.run_single_turn_async(content):
                pass

        return await said_by(run())


SHOP = (Path(__file__).resolve().parents[2] / "examples" / "node_client" / "shop.py").read_text()


async def denied(rig: Rig) -> str:
    (rig.folder / "shop.py").write_text(SHOP)
    run = (
        "aicore-sim pm install com.example.other > /dev/null; appfunctions-host "
        "execute-app-function --as com.example.other --package com.example.shop "
        '--function com.example.shop.Shop#fetch_order_details --parameters \'{"orderId": "1"}\''
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [
            sys.executable, "-m", "aicore_sim", "exec", "--as", "com.example.shop",
            "--app", "com.example.shop=shop:Shop", "--model", "echo", "--", "bash", "-c", run,
        ],
        capture_output=True, text=True, timeout=60, cwd=rig.folder,
        env={
            **os.environ,
            "AICORE_SIM_HOME": str(rig.folder / "d"),
            "PATH": os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"])),
        },
    )  # fmt: skip
    assert done.returncode != 0
    return str(done.stdout) + str(done.stderr)


async def no_step(rig: Rig) -> str:
    return await asked(rig, ["one", "two"], script="- text: a")


async def wrong_step(rig: Rig) -> str:
    script = "- {text: a, expect: {last_message_contains: order}}"
    return await asked(rig, ["Hello"], script=script)


async def left_over(rig: Rig) -> str:
    script = rig.folder / "s.yaml"
    script.write_text("- text: a\n")
    command = [sys.executable, "-m", "aicore_sim", "exec", "--model", f"scripted:{script}"]
    done = await asyncio.to_thread(
        subprocess.run, [*command, "--", "true"], capture_output=True, text=True, timeout=60,
        env={**os.environ, "AICORE_SIM_HOME": str(rig.folder / "device")},
    )  # fmt: skip
    assert done.returncode == 6
    return str(done.stderr)


async def bad_key(rig: Rig) -> str:
    script = rig.folder / "s.yaml"
    script.write_text("- txt: a\n")
    command = [sys.executable, "-m", "aicore_sim", "serve", "--model", f"scripted:{script}"]
    done = await asyncio.to_thread(
        subprocess.run, [*command, "--device-dir", str(rig.folder / "d")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    return str(done.stderr)


async def _recorded(rig: Rig) -> Path:
    path = rig.folder / "run.jsonl"
    async with rig.start_daemon(script="- text: a", record=path) as daemon:
        await daemon.app.generate(prompt("one"))
    return path


async def other_request(rig: Rig) -> str:
    recording = await asyncio.to_thread(load_recording, await _recorded(rig))
    clock = DeviceClock(ClockMode.REAL)
    backend = replay_backend(recording, clock=clock)
    return await asked(rig, ["two"], backend=backend, device_clock=clock)


async def unfinished(rig: Rig) -> str:
    path = await _recorded(rig)
    await asyncio.to_thread(path.write_bytes, (await asyncio.to_thread(path.read_bytes))[:-9])
    with pytest.raises(RecordingError) as refused:
        await asyncio.to_thread(load_recording, path)
    return str(refused.value)


async def changed(rig: Rig) -> str:
    path = await _recorded(rig)
    data = await asyncio.to_thread(path.read_bytes)
    await asyncio.to_thread(path.write_bytes, data.replace(b"one", b"two"))
    with pytest.raises(RecordingError) as refused:
        await asyncio.to_thread(load_recording, path)
    return str(refused.value)


async def no_script(rig: Rig) -> str:
    async with rig.start_daemon(backend=HandDrivenBackend()) as daemon:
        fault = await daemon.shell.fault("LoadScript", device_pb2.LoadScriptRequest(yaml=""))
        return str(fault.message)


async def shell_only(rig: Rig) -> str:
    async with rig.start_daemon() as daemon:
        fault = await daemon.app.fault("GetDevice", device_pb2.GetDeviceRequest())
        return str(fault.message)


# In the order of the page.
REPRODUCTIONS: list[Any] = [
    no_device, not_running, in_use, address_in_use, unknown_model, not_pulled, other_version,
    daemon_gone, foreign_token, shell_only, busy, background, not_available, no_feature,
    too_large, max_turns, denied, no_step, wrong_step, left_over, bad_key, no_script,
    other_request, unfinished, changed,
]  # fmt: skip


@pytest.fixture
def rig(start_daemon: StartDaemon, short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(start_daemon=start_daemon, folder=short_dir, monkeypatch=monkeypatch)


@pytest.mark.requirement("simulator.docs.troubleshooting")
@pytest.mark.parametrize(
    ("heading", "reproduce"),
    list(zip(HEADINGS, REPRODUCTIONS, strict=True)),
    ids=[reproduce.__name__ for reproduce in REPRODUCTIONS],
)
async def test_the_text_of_the_page_is_what_is_said(
    rig: Rig, heading: str, reproduce: Reproduction
) -> None:
    pattern = ".*".join(re.escape(part) for part in heading.split("…"))
    said = await reproduce(rig)
    assert re.search(pattern, said, re.DOTALL), said


def test_the_headings_are_so_long_that_they_find_one_text() -> None:
    for heading in HEADINGS:
        assert max(map(len, heading.split("…"))) >= 12, heading
    assert len(set(HEADINGS)) == len(HEADINGS)
