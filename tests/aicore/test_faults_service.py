"""Faults as apps meet them, and a worker that dies."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from aicore_protos import aicore_pb2, device_pb2, errors_pb2
from aicore_sim.inference.onnx_backend import OnnxBackend
from tests.aicore.calls import TIMEOUT, eventually, prompt
from tests.aicore.conftest import Daemon, StartDaemon
from tests.aicore.device_calls import (
    APP,
    OK,
    add_fault,
    advance,
    ended,
    failure,
    install,
    journal,
    outcome,
    rest_of,
    until,
)
from tests.inference.synthetic import build_synthetic_model

CALL = "- {text: Let me look., function_calls: [{name: fetch, args: {id: 1}}]}\n"


@pytest.fixture(scope="module")
def synthetic_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_synthetic_model(tmp_path_factory.mktemp("models") / "synthetic")


async def kinds(daemon: Daemon) -> list[str | None]:
    chunks = await daemon.app.generate()
    return [chunk.WhichOneof("chunk") for chunk in chunks]


@pytest.mark.requirement("aicore.error.codes-pass", "simulator.faults")
@pytest.mark.parametrize(
    "code", [0, 4, 6, 7, 8, 9, 11, 12, 15, 16, 27, 28, 29, 30, 501, 601, 604, 606, -101, -9999]
)
async def test_any_code_can_be_injected_and_arrives_as_it_is(
    start_daemon: StartDaemon, code: int
) -> None:
    async with start_daemon(script="- text: ok") as daemon:
        await add_fault(
            daemon, match={"rpc": "GenerateContent"}, action={"error_code": code}, times=1
        )
        found = await daemon.app.fault("GenerateContent", prompt("hi"), stream=True)
        assert isinstance(found, errors_pb2.GenAiError)
        assert found.error_code == code
        assert (code < 0) == (found.error_type == 0)
        assert await outcome(daemon.app) == OK
        first = (await journal(daemon))[0]
        quota = await daemon.shell.call("GetQuota", device_pb2.GetQuotaRequest(package_name=APP))
    assert (first.decision, first.error_code) == ("fault:fault-1", code)
    assert quota.available_seconds > 29


@pytest.mark.requirement("simulator.faults")
async def test_faults_are_counted_and_listed(start_daemon: StartDaemon) -> None:
    async with start_daemon(script="- text: ok\n" * 3) as daemon:
        await add_fault(
            daemon,
            id="busy-twice",
            match={"rpc": "GenerateContent", "package_name": APP},
            action={"error_code": 9},
            after=1,
            times=2,
        )
        other = await install(daemon, "com.example.other")
        assert await outcome(other) == OK
        codes = [await outcome(daemon.app) for _ in range(4)]
        assert codes == [OK, 9, 9, OK]
        listed = await daemon.shell.call("ListFaults", device_pb2.ListFaultsRequest())
        assert [(one.id, one.hits, one.times, one.after) for one in listed.faults] == [
            ("busy-twice", 2, 2, 1)
        ]
        assert (await daemon.shell.device()).faults == 1
        fault = await daemon.shell.fault(
            "ClearFaults", device_pb2.ClearFaultsRequest(ids=["busy-twice", "no-such"])
        )
        assert fault.kind == errors_pb2.SimulatorError.NOT_FOUND
        assert (await daemon.shell.device()).faults == 1
        cleared = await daemon.shell.call("ClearFaults", device_pb2.ClearFaultsRequest())
        assert (cleared.cleared, (await daemon.shell.device()).faults) == (1, 0)


async def test_a_fault_ends_at_a_device_time(start_daemon: StartDaemon) -> None:
    async with start_daemon(script="- text: ok", clock="virtual") as daemon:
        now = (await daemon.shell.device()).clock.now
        until_ = Timestamp(seconds=now.seconds + 60)
        await add_fault(daemon, action={"error_code": 9}, until=until_)
        assert await outcome(daemon.app) == 9
        await advance(daemon, 60)
        assert await outcome(daemon.app) == OK


@pytest.mark.requirement("simulator.faults.status-delay")
async def test_a_delay_passes_on_the_clock_and_the_call_can_be_cancelled(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(clock="virtual") as daemon:
        await add_fault(daemon, match={"rpc": "CheckStatus"}, action={"delay": Duration(seconds=3)})
        clock = daemon.server.device.generations.clock
        call = daemon.app.start("CheckStatus", aicore_pb2.CheckStatusRequest())
        answer = asyncio.ensure_future(_answered(call))
        await eventually(
            lambda: any(one.label for one in clock.sleepers if one.label != "idle-unload")
        )
        assert not answer.done()
        await advance(daemon, 3)
        assert (await asyncio.wait_for(answer, TIMEOUT)).status == aicore_pb2.AVAILABLE
        left = daemon.app.start("CheckStatus", aicore_pb2.CheckStatusRequest())
        await eventually(lambda: len(clock.sleepers) == 2)
        left.cancel()
        await eventually(lambda: len(clock.sleepers) == 1)
        assert (await journal(daemon))[-1].decision == "cancelled"


async def _answered(call: Any) -> Any:
    return await call


async def test_a_fault_fails_a_download_as_an_item(start_daemon: StartDaemon) -> None:
    async with start_daemon() as daemon:
        await add_fault(daemon, match={"rpc": "Download"}, action={"error_code": 501})
        (item,) = await rest_of(daemon.app.start("Download", aicore_pb2.DownloadRequest()))
    assert (item.failed.error.error_code, item.failed.error.error_type) == (501, 1)


async def test_a_stream_fails_or_is_dropped_after_so_many_tokens(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script="- text: one two three four\n" * 2) as daemon:
        await add_fault(
            daemon, action={"fail_after_tokens": {"tokens": 2, "error_code": 15}}, times=1
        )
        stream = daemon.app.start("GenerateContent", prompt("hi"))
        assert [(await stream.read()).text for _ in range(2)] == ["one", " two"]
        assert (await ended(stream)).error_code == 15
        await add_fault(daemon, action={"drop_after_tokens": 3}, times=1)
        assert await kinds(daemon) == ["text"] * 3
        entries = await journal(daemon)
    assert [entry.figures["output_tokens"] for entry in entries] == [2, 3]
    assert [entry.decision for entry in entries] == ["fault:fault-1", "fault:fault-2"]


@pytest.mark.requirement("simulator.faults")
async def test_a_model_can_be_made_to_answer_badly(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=CALL * 4) as daemon:
        for malformed in ("BROKEN_CALL", "TRUNCATED_CALL", "EMPTY_OUTPUT"):
            await add_fault(daemon, action={"malformed": malformed}, times=1)
        text = ["text"] * 3
        assert await kinds(daemon) == [*text, "malformed_function_call", "finish"]
        cut = await daemon.app.generate()
        assert [chunk.WhichOneof("chunk") for chunk in cut] == [
            *text, "malformed_function_call", "finish",
        ]  # fmt: skip
        assert cut[-1].finish.reason == aicore_pb2.MAX_TOKENS
        (empty,) = await daemon.app.generate()
        assert (empty.finish.reason, empty.finish.usage.output_tokens) == (aicore_pb2.STOP, 0)
        assert await kinds(daemon) == [*text, "function_call", "finish"]


async def test_a_scripted_model_can_crash_too(start_daemon: StartDaemon) -> None:
    async with start_daemon(
        script="- {text: one two, chunk_delay: 1}\n- text: ok", clock="virtual"
    ) as daemon:
        await add_fault(daemon, action={"kill_worker": {}}, times=1)
        stream = daemon.app.start("GenerateContent", prompt("hi"))
        waiting = daemon.app.start("GenerateContent", prompt("hi"))
        assert (await stream.read()).text == "one"
        await until(daemon, lambda device: device.waiting == 1)
        await advance(daemon, 1)
        error = await ended(stream)
        assert (error.error_code, error.error_type) == (29, 2)
        assert "the inference worker died" in error.message
        assert [chunk.text for chunk in await rest_of(waiting)] == ["ok", ""]


@pytest.mark.requirement("aicore.error.worker-dead")
async def test_when_the_worker_dies_one_call_fails_and_the_one_in_line_goes_on(
    start_daemon: StartDaemon, synthetic_dir: Path
) -> None:
    backend = OnnxBackend(synthetic_dir, threads=1)
    async with start_daemon(backend=backend, quota="off") as daemon:
        async with asyncio.timeout(20):
            await daemon.server.wait_ready()
        pid = backend.worker_pid
        assert pid is not None
        await add_fault(daemon, action={"kill_worker": {}}, times=1)
        both = [daemon.app.start("GenerateContent", prompt("Hi~")) for _ in range(2)]
        died, went_on = await _died_and_went_on(both)
        assert died == 29
        went_on.cancel()
        await until(daemon, lambda device: not device.running)

        stream = daemon.app.start("GenerateContent", prompt("Hi~"))
        assert (await stream.read()).WhichOneof("chunk") == "text"
        waiting = daemon.app.start("GenerateContent", prompt("Hi~"))
        await until(daemon, lambda device: device.waiting == 1)
        assert backend.worker_pid is not None
        os.kill(backend.worker_pid, signal.SIGSEGV)
        assert (await ended(stream)).error_code == 29
        async with asyncio.timeout(TIMEOUT):
            assert (await waiting.read()).WhichOneof("chunk") == "text"
        waiting.cancel()
        await until(daemon, lambda device: not device.running)
        assert backend.worker_pid not in (None, pid)
        decisions = [entry.decision for entry in await journal(daemon, rpc="GenerateContent")]
    assert decisions == ["fault:fault-1", "cancelled", "model", "cancelled"]


async def _died_and_went_on(streams: list[Any]) -> tuple[int, Any]:
    """The code of the stream that failed, and the stream that did not, in whatever order."""
    failed = asyncio.ensure_future(ended(streams[0])), asyncio.ensure_future(ended(streams[1]))
    done, pending = await asyncio.wait(failed, timeout=TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
    assert (len(done), len(pending)) == (1, 1)
    pending.pop().cancel()
    return done.pop().result().error_code, streams[0 if failed[1].done() else 1]


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (device_pb2.Fault(), "action"),
        (device_pb2.Fault(match={"rpc": "Generate"}, action={"error_code": 9}),
         "match.rpc: 'Generate' is none of the calls"),
        (device_pb2.Fault(action={"error_code": 9}, times=-1), "times"),
        (device_pb2.Fault(action={"error_code": 9}, hits=3), "hits"),
        (device_pb2.Fault(action={"delay": Duration(seconds=-1)}), "action.delay"),
        (device_pb2.Fault(action={"drop_after_tokens": -1}), "action.drop_after_tokens"),
        (device_pb2.Fault(action={"malformed": 0}), "action.malformed"),
    ],
)  # fmt: skip
async def test_a_wrong_fault_names_the_key_and_is_not_added(
    start_daemon: StartDaemon, fault: device_pb2.Fault, named: str
) -> None:
    async with start_daemon() as daemon:
        request = device_pb2.AddFaultRequest(fault=fault)
        found = await daemon.shell.fault("AddFault", request)
        assert found.kind == errors_pb2.SimulatorError.INVALID_REQUEST
        assert found.message.startswith("fault: ")
        assert named in found.message
        assert (await daemon.shell.device()).faults == 0


async def test_what_several_apps_meet_does_not_mix(start_daemon: StartDaemon) -> None:
    async with start_daemon(script="- text: ok") as daemon:
        other = await install(daemon, "com.example.other")
        await add_fault(daemon, match={"package_name": APP}, action={"error_code": 30})
        assert (await failure(daemon.app)).error_code == 30
        assert await outcome(other) == OK
