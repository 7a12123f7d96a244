"""Recorded runs: what is in the file, what is answered from it, and what is refused."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from aicore_protos import aicore_pb2, device_pb2
from aicore_sim.device.clock import ClockMode
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference import replay
from aicore_sim.inference.backend import GenerateRequest
from aicore_sim.inference.onnx_backend import OnnxBackend
from aicore_sim.inference.recording import Recording, RecordingError, load_recording
from aicore_sim.inference.replay import replay_backend
from aicore_sim.inference.request_text import last_text
from aicore_sim.inference.scripted_model import ScriptedModel, compute
from aicore_sim.rpc.values import to_object
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import App, detail_of, eventually, only_member, prompt
from tests.aicore.conftest import Daemon, StartDaemon
from tests.inference.synthetic import HELLO, build_synthetic_model

SCRIPT = """
- {thought: Hm., text: Let me look., function_calls: [{name: fetch, args: {id: 7, z: [1.5, null]}}]}
- error: {code: 15, message: Filtered., after_chunks: 1}
  text: It is
- {text: Done., usage: {output_tokens: 40}, finish_reason: max_tokens}
"""
Outcome = Any


def shape(chunk: aicore_pb2.GenerateContentResponse) -> tuple[str, Any]:
    """A chunk without the id of a call, which is new each time."""
    name = chunk.WhichOneof("chunk") or ""
    if name == "function_call":
        return name, (chunk.function_call.name, str(chunk.function_call.args))
    return name, str(getattr(chunk, name))


async def outcome(app: App, request: aicore_pb2.GenerateContentRequest) -> Outcome:
    """What a call gave: its chunks, and the code and text of its failure."""
    said: list[Any] = []
    try:
        async for chunk in app.start("GenerateContent", request):
            said.append(shape(chunk))  # noqa: PERF401 - kept when the stream fails
    except grpc.aio.AioRpcError as error:
        failed = only_member(detail_of(error))
        code = getattr(failed, "error_code", None) or failed.kind
        return [*said, (code, failed.message)]
    return said


async def loaded(path: Path) -> Recording:
    return await asyncio.to_thread(load_recording, path)


async def play(app: App) -> list[Outcome]:
    count = aicore_pb2.CountTokensRequest(request=prompt("How long is this?"))
    first = [(await app.call("CountTokens", count)).total_tokens]
    return first + [await outcome(app, prompt(text)) for text in ("one", "two", "three")]


@pytest.fixture
def run(short_dir: Path) -> Path:
    return short_dir / "run.jsonl"


@pytest.fixture
def replaying(start_daemon: StartDaemon, run: Path) -> Any:
    """Starts a daemon that answers from the recorded run."""

    @asynccontextmanager
    async def start(clock: DeviceClock | None = None) -> AsyncIterator[Daemon]:
        made = clock or DeviceClock(ClockMode.REAL)
        backend = replay_backend(await loaded(run), clock=made)
        async with start_daemon(backend=backend, device_clock=made) as daemon:
            yield daemon

    return start


@pytest.mark.requirement("simulator.replay.same-answers")
async def test_a_replayed_run_gives_the_same_chunks_counts_and_failures(
    start_daemon: StartDaemon, run: Path, replaying: Any
) -> None:
    async with start_daemon(script=SCRIPT, record=run) as daemon:
        recorded = await play(daemon.app)
        info = await daemon.app.call("GetModelInfo", aicore_pb2.GetModelInfoRequest())
    assert [len(one) for one in recorded[1:]] == [6, 2, 2]
    async with replaying() as daemon:
        assert await play(daemon.app) == recorded
        assert await daemon.app.call("GetModelInfo", aicore_pb2.GetModelInfoRequest()) == info
        state = await daemon.shell.call("GetScript", device_pb2.GetScriptRequest())
        assert (state.steps, state.consumed, list(state.remaining)) == (3, 3, [])


@pytest.mark.requirement("simulator.replay.stable-file")
async def test_the_same_run_gives_the_same_bytes_without_seeds_ids_times_and_paths(
    start_daemon: StartDaemon, run: Path, short_dir: Path
) -> None:
    files = []
    for number in range(2):
        path = short_dir / f"run-{number}.jsonl"
        async with start_daemon(script=SCRIPT, record=path) as daemon:
            if number:
                # Another random history: a seed more was drawn before.
                daemon.server.device.generations._random.getrandbits(9)
            await play(daemon.app)
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert str(short_dir).encode() not in files[0]
    assert b'"seed' not in files[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in files[0].splitlines()]
    assert list(lines[0]) == ["format", "version", "model", "keeps_prefixes"]
    assert [line.get("kind") for line in lines[1:]] == ["answer"] * 3 + ["count", "end"]
    assert lines[1]["request"] == {
        "contents": [{"role": "user", "parts": [{"kind": "text", "text": "one"}]}]
    }
    assert lines[1]["input_tokens"] == 1


async def test_a_file_that_was_open_to_others_is_closed_to_them(
    start_daemon: StartDaemon, run: Path
) -> None:
    run.write_text("old")
    run.chmod(0o644)
    async with start_daemon(script="", record=run):
        pass
    assert stat.S_IMODE(run.stat().st_mode) == 0o600
    assert (await loaded(run)).answers == ()


def with_call(call_id: str, result: str = "ok") -> aicore_pb2.GenerateContentRequest:
    request = prompt("one")
    call = request.contents.add(role=aicore_pb2.MODEL).parts.add().function_call
    call.id, call.name = call_id, "fetch"
    response = request.contents.add(role=aicore_pb2.USER).parts.add().function_response
    response.id, response.name = call_id, "fetch"
    response.response.CopyFrom(to_object({"result": result}))
    return request


@pytest.mark.requirement("simulator.replay.stable-file")
async def test_random_ids_of_calls_and_drawn_seeds_are_no_difference_but_chosen_seeds_are(
    start_daemon: StartDaemon, run: Path, replaying: Any
) -> None:
    async with start_daemon(script="- {text: a, repeat: 2}", record=run) as daemon:
        await outcome(daemon.app, with_call("call-8f3a"))
        await outcome(daemon.app, prompt("seeded", sampling=aicore_pb2.Sampling(seed=4)))
    async with replaying() as daemon:
        assert (await outcome(daemon.app, with_call("call-0001")))[0] == ("text", "a")
        [(_, message)] = await outcome(
            daemon.app, prompt("seeded", sampling=aicore_pb2.Sampling(seed=5))
        )
        assert '-  "seed": 4' in message
        assert '+  "seed": 5' in message
        assert (await outcome(daemon.app, prompt("seeded", sampling=aicore_pb2.Sampling(seed=4))))[
            0
        ] == ("text", "a")


@pytest.mark.requirement("simulator.replay.drift")
async def test_the_first_request_that_differs_is_refused_with_a_diff_and_in_the_journal(
    start_daemon: StartDaemon, run: Path, replaying: Any
) -> None:
    async with start_daemon(script="- {text: a, repeat: 2}", record=run) as daemon:
        await outcome(daemon.app, prompt("Where is ORD-1?", system_instruction="Be kind."))
        await outcome(daemon.app, prompt("Thanks."))
    async with replaying() as daemon:
        different = prompt("Where is ORD-2?", system_instruction="Be kind.")
        [(kind, message)] = await outcome(daemon.app, different)
        assert kind == 14
        assert message.startswith("request 1 of com.example.app differs from the recorded one")
        assert '-     "text": "Where is ORD-1?"' in message
        assert '+     "text": "Where is ORD-2?"' in message
        assert "Be kind" not in message
        # Out of order is another request, too, and nothing is used up by a refusal.
        [(kind, _)] = await outcome(daemon.app, prompt("Thanks."))
        assert kind == 14
        same = prompt("Where is ORD-1?", system_instruction="Be kind.")
        assert (await outcome(daemon.app, same))[0] == ("text", "a")
        assert (await outcome(daemon.app, prompt("Thanks.")))[0] == ("text", "a")
        [(kind, message)] = await outcome(daemon.app, prompt("Thanks."))
        assert (kind, "is not in the recorded run, which has 2 of this app" in message) == (
            14,
            True,
        )
        entries = daemon.shell.start("ReadJournal", device_pb2.ReadJournalRequest())
        decisions = [e.decision async for e in entries if e.rpc == "GenerateContent"]
        assert decisions[-5:] == ["replay-drift", "replay-drift", "ok", "ok", "replay-drift"]


@pytest.mark.requirement("simulator.replay.left-over")
async def test_recorded_answers_that_nobody_asked_for_are_listed(
    start_daemon: StartDaemon, run: Path, replaying: Any
) -> None:
    async with start_daemon(script="- {text: a, repeat: 2}", record=run) as daemon:
        await outcome(daemon.app, prompt("one"))
        await outcome(daemon.app, prompt("two"))
    async with replaying() as daemon:
        await outcome(daemon.app, prompt("one"))
        state = await daemon.shell.call("GetScript", device_pb2.GetScriptRequest())
        assert list(state.remaining) == ["answer 2 of com.example.app: 'two'"]
        refused = await daemon.shell.fault("LoadScript", device_pb2.LoadScriptRequest(yaml=""))
        assert "follows no script" in refused.message


async def second_app(daemon: Daemon) -> App:
    request = device_pb2.InstallPackageRequest(package_name="com.example.other")
    return daemon.caller((await daemon.shell.call("InstallPackage", request)).token)


@pytest.mark.requirement("simulator.replay.order")
async def test_apps_do_not_wait_for_each_other_but_each_keeps_its_own_order(
    start_daemon: StartDaemon, run: Path, replaying: Any
) -> None:
    async with start_daemon(script="- text: a\n- text: b\n- text: c", record=run) as daemon:
        other = await second_app(daemon)
        for app, text in ((daemon.app, "one"), (other, "one"), (daemon.app, "two")):
            await outcome(app, prompt(text))
    async with replaying() as daemon:
        other = await second_app(daemon)
        assert (await outcome(other, prompt("one")))[0] == ("text", "b")
        [(kind, _)] = await outcome(daemon.app, prompt("two"))
        assert kind == 14
        assert (await outcome(daemon.app, prompt("one")))[0] == ("text", "a")
        assert (await outcome(daemon.app, prompt("two")))[0] == ("text", "c")


@pytest.mark.requirement("simulator.replay.order")
async def test_conversations_of_an_app_that_asked_at_once_are_each_in_order(
    start_daemon: StartDaemon, run: Path, replaying: Any
) -> None:
    def later(first: str) -> aicore_pb2.GenerateContentRequest:
        request = prompt(first)
        request.contents.add(role=aicore_pb2.MODEL).parts.add(text="ok")
        request.contents.add(role=aicore_pb2.USER).parts.add(text="go on")
        return request

    both_ask = asyncio.Event()

    async def animal(request: GenerateRequest) -> str:
        await both_ask.wait()
        return last_text(request)

    model = ScriptedModel(compute(animal, repeat=2), otherwise="echo")
    async with start_daemon(backend=model.backend(), record=run) as daemon:
        calls = [
            asyncio.create_task(outcome(daemon.app, prompt(text))) for text in ("cats", "dogs")
        ]
        await eventually(lambda: len(daemon.server.device.generations.calls) == 2)
        both_ask.set()
        await asyncio.gather(*calls)
        await outcome(daemon.app, later("cats"))
        await outcome(daemon.app, later("dogs"))
    assert (await loaded(run)).concurrent == ("com.example.app",)
    async with replaying() as daemon:
        assert (await outcome(daemon.app, prompt("dogs")))[0] == ("text", "dogs")
        [(kind, _)] = await outcome(daemon.app, later("cats"))
        assert kind == 14
        assert (await outcome(daemon.app, later("dogs")))[0] == ("text", "go")
        assert (await outcome(daemon.app, prompt("cats")))[0] == ("text", "cats")
        assert (await outcome(daemon.app, later("cats")))[0] == ("text", "go")


@pytest.mark.requirement("simulator.replay.timing")
async def test_an_answer_takes_the_device_time_that_it_took_when_it_was_recorded(
    start_daemon: StartDaemon, run: Path, replaying: Any
) -> None:
    async def timed(daemon: Daemon, clock: DeviceClock) -> list[tuple[str, float]]:
        """The answer's texts, and for how many seconds each was slept."""
        call = daemon.app.start("GenerateContent", prompt("hi"))
        said: list[tuple[str, float]] = []
        for _ in range(2):
            # What sleeps for minutes waits to unload the idle model.
            await eventually(lambda: any(one.due - clock.now() < 60 for one in clock.sleepers))
            left = clock.sleepers[0].due - clock.now()
            request = device_pb2.AdvanceClockRequest()
            request.duration.FromNanoseconds(round(left * 1e9))
            await daemon.shell.call("AdvanceClock", request)
            said.append(((await call.read()).text, round(left, 6)))
        assert (await call.read()).WhichOneof("chunk") == "finish"
        return said

    script = "- {text: a b, delay: 2, chunk_delay: 0.5}"
    clock = DeviceClock(ClockMode.VIRTUAL)
    async with start_daemon(script=script, record=run, device_clock=clock) as daemon:
        recorded = await timed(daemon, clock)
    assert recorded == [("a", 2.0), (" b", 0.5)]
    clock = DeviceClock(ClockMode.VIRTUAL)
    async with replaying(clock) as daemon:
        assert await timed(daemon, clock) == recorded


@pytest.mark.requirement("simulator.replay.same-answers")
async def test_an_answer_that_the_app_stopped_is_stopped_again(
    start_daemon: StartDaemon, run: Path, replaying: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend, record=run) as daemon:
        call = daemon.app.start("GenerateContent", prompt("hi"))
        backend.release(2)
        assert [(await call.read()).text for _ in range(2)] == ["token ", "token "]
        call.cancel()
        await asyncio.wait_for(backend.closed.wait(), 5)
    [answer] = (await loaded(run)).answers
    assert (len(answer.answer), answer.interrupted) == (2, True)
    async with replaying() as daemon:
        call = daemon.app.start("GenerateContent", prompt("hi"))
        assert [(await call.read()).text for _ in range(2)] == ["token ", "token "]
        call.cancel()
        await eventually(lambda: not daemon.server.device.generations.calls)
    monkeypatch.setattr(replay, "STOP_SECONDS", 0.01)
    async with replaying() as daemon:
        *_, (kind, message) = await outcome(daemon.app, prompt("hi"))
        assert (kind, "nothing stops it now" in message) == (14, True)


@pytest.mark.requirement("simulator.replay.same-answers")
async def test_a_run_of_a_real_engine_is_replayed_without_it(
    start_daemon: StartDaemon, run: Path, replaying: Any, tmp_path: Path
) -> None:
    folder = build_synthetic_model(tmp_path / "synthetic")

    async def ask(app: App) -> list[Outcome]:
        made = [await outcome(app, prompt("Say hello!")), await outcome(app, prompt("Call it&"))]
        cached = aicore_pb2.CreateCachedContextRequest()
        cached.cached_context.name = "kind"
        cached.cached_context.prompt_prefix = "Be kind."
        await app.call("CreateCachedContext", cached)
        return made

    backend = OnnxBackend(folder, threads=1)
    async with start_daemon(backend=backend, record=run) as daemon:
        recorded = await ask(daemon.app)
        info = await daemon.app.call("GetModelInfo", aicore_pb2.GetModelInfoRequest())
    assert "".join(text for kind, text in recorded[0] if kind == "text") == HELLO
    assert str(tmp_path) not in run.read_text()
    async with replaying() as daemon:
        assert await ask(daemon.app) == recorded
        replayed = await daemon.app.call("GetModelInfo", aicore_pb2.GetModelInfoRequest())
        assert replayed.token_limit == info.token_limit
        assert list(replayed.features) == list(info.features)


async def test_a_request_that_the_script_did_not_answer_is_not_in_the_recorded_run(
    start_daemon: StartDaemon, run: Path
) -> None:
    async with start_daemon(script="- text: a", record=run) as daemon:
        await outcome(daemon.app, prompt("one"))
        await outcome(daemon.app, prompt("two"))
    assert len((await loaded(run)).answers) == 1


@pytest.fixture
async def lines(start_daemon: StartDaemon, run: Path) -> list[bytes]:
    async with start_daemon(script="- text: a", record=run) as daemon:
        await outcome(daemon.app, prompt("one"))
    return run.read_bytes().splitlines(keepends=True)


@pytest.mark.requirement("simulator.replay.damaged")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ls: [], "is no recorded run: its first line does not say format"),
        (lambda ls: [b'{"a": 1}\n', *ls[1:]], "is no recorded run"),
        (lambda ls: [ls[0].replace(b'"version": 1', b'"version": 2'), *ls[1:]], "has version 2"),
        (lambda ls: ls[:-1], "was not finished: its last line is no end"),
        (lambda ls: [*ls[:-1], ls[-1].rstrip()], "was not finished"),
        (lambda ls: [ls[0], ls[1].replace(b"one", b"two"), ls[2]], "was changed after it was"),
        (lambda ls: [ls[0], ls[2]], "was changed after it was recorded: its SHA-256 is"),
        (lambda ls: [*ls, b"{}\n"], "was not finished"),
    ],
)
async def test_a_damaged_or_unknown_file_is_refused(
    lines: list[bytes], run: Path, change: Any, message: str
) -> None:
    assert len(lines) == 3
    run.write_bytes(b"".join(change(lines)))
    with pytest.raises(RecordingError, match=message):
        await loaded(run)


async def test_lines_that_are_no_answers_are_named(lines: list[bytes], run: Path) -> None:
    import hashlib

    broken = [lines[0], lines[1].replace(b'"app"', b'"apps"')]
    digest = hashlib.sha256(b"".join(broken)).hexdigest()
    end = json.loads(lines[2]) | {"sha256": digest}
    run.write_bytes(b"".join([*broken, json.dumps(end).encode() + b"\n"]))
    with pytest.raises(RecordingError, match="line 2, key 'app': Field required"):
        await loaded(run)
    with pytest.raises(RecordingError, match="cannot read recording .*No such file"):
        await loaded(run.with_name("none.jsonl"))
