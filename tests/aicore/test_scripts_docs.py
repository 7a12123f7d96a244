"""The scripts of docs/scripts.md: each of the six hand-written fakes, on a device."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import grpc.aio
import pytest

from aicore_protos import aicore_pb2, device_pb2
from aicore_sim.device.clock import ClockMode
from aicore_sim.device.virtual_clock import DeviceClock
from tests.aicore.calls import App, detail_of, eventually, prompt
from tests.aicore.conftest import StartDaemon

PAGE = (Path(__file__).parents[2] / "docs" / "scripts.md").read_text()


def script_after(sentence: str) -> str:
    """The first YAML block after a sentence of the page."""
    block = re.search(r"^```yaml\n(.*?)^```$", PAGE.split(sentence)[1], re.DOTALL | re.MULTILINE)
    assert block is not None
    return block.group(1)


async def said(app: App, text: str, **fields: object) -> str:
    chunks = await app.generate(prompt(text, **fields))
    return "".join(
        f"{chunk.function_call.name}()" if chunk.HasField("function_call") else chunk.text
        for chunk in chunks
    )


async def code(app: App, text: str) -> int:
    try:
        await app.generate(prompt(text))
    except grpc.aio.AioRpcError as error:
        return int(detail_of(error).gen_ai.error_code)
    return 0


@pytest.mark.requirement("simulator.script.fakes")
async def test_the_fake_with_a_fixed_delay(start_daemon: StartDaemon) -> None:
    clock = DeviceClock(ClockMode.VIRTUAL)
    async with start_daemon(script=script_after("A fixed delay"), device_clock=clock) as daemon:
        for _ in range(3):
            before = clock.monotonic()
            call = daemon.app.start("GenerateContent", prompt("Summarise."))
            request = device_pb2.AdvanceClockRequest()
            request.duration.FromMilliseconds(1500)
            # What sleeps for minutes waits to unload the idle model.
            await eventually(lambda: any(one.due - clock.now() < 60 for one in clock.sleepers))
            await daemon.shell.call("AdvanceClock", request)
            assert clock.monotonic() - before == 1.5
            assert "".join([chunk.text async for chunk in call]) == "Here is your summary."


@pytest.mark.requirement("simulator.script.fakes")
async def test_the_fake_that_fails_when_it_is_told_to(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=script_after("Success or failure")) as daemon:
        assert await code(daemon.app, "please fail") == 15
        assert await said(daemon.app, "please work") == "please work"


@pytest.mark.requirement("simulator.script.fakes")
async def test_the_fake_that_is_busy_twice(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=script_after("Busy twice, then fine")) as daemon:
        assert [await code(daemon.app, "hi") for _ in range(2)] == [9, 9]
        assert await said(daemon.app, "hi") == "Third time lucky."


@pytest.mark.requirement("simulator.script.fakes")
async def test_the_fake_with_a_foreground_gate(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=script_after("The foreground gate.")) as daemon:
        request = device_pb2.InstallPackageRequest(package_name="com.example.worker")
        worker = daemon.caller((await daemon.shell.call("InstallPackage", request)).token)
        assert await code(worker, "hi") == 30
        assert await said(daemon.app, "hi") == "hi"
        background = device_pb2.SetImportanceRequest(
            package_name="com.example.app", importance=device_pb2.BACKGROUND
        )
        await daemon.shell.call("SetImportance", background)
        assert await code(daemon.app, "hi") == 30
        status = await daemon.app.call("CheckStatus", aicore_pb2.CheckStatusRequest())
        assert status.status == aicore_pb2.AVAILABLE


@pytest.mark.requirement("simulator.script.fakes")
async def test_the_fake_that_calls_functions_for_keywords(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=script_after("Function calls by keyword")) as daemon:
        assert await said(daemon.app, "Hey, where is my Order?") == "fetch_order_details()"
        assert await said(daemon.app, '{"status": "Out for delivery"}') == (
            "Your order is out for delivery."
        )


@pytest.mark.requirement("simulator.script.fakes")
def test_the_fake_with_a_status(tmp_path: Path) -> None:
    path = tmp_path / "status.yaml"
    path.write_text(script_after("A status, and what follows from it"))
    done = subprocess.run(
        [sys.executable, "-m", "aicore_sim", "scenario", "run", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def test_the_script_with_rules_is_one(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=script_after("## Rules")) as daemon:
        state = await daemon.shell.call("GetScript", device_pb2.GetScriptRequest())
        assert list(state.remaining) == [
            "step 1: text 'Your order is out for delivery.'",
            "rule 2: calls fetch_order_details",
        ]
        assert await said(daemon.app, "one") == "Your order is out for delivery."
        assert await said(daemon.app, "two") == "two"


def test_the_script_in_python_runs_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/scripts.md", "exec"), {})
    assert (tmp_path / "answers.yaml").read_text().startswith("rules:")
