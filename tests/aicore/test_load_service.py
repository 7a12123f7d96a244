"""Loading, unloading and pacing on virtual time, and the line in front of a cold model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc

from aicore_protos import aicore_pb2, device_pb2
from aicore_sim.device.clock import ClockMode
from aicore_sim.device.virtual_clock import DeviceClock
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import TIMEOUT, App, eventually, prompt
from tests.aicore.conftest import Daemon, StartDaemon
from tests.aicore.device_calls import (
    OK,
    advance,
    ended,
    install,
    journal,
    outcome,
    rest_of,
    status,
    until,
)

BUSY = 9
COLD, IDLE = 12.0, 300.0
PHONE = {"clock": "virtual", "pace": "phone"}


async def timed(daemon: Daemon, name: str, request: object) -> float:
    """Device seconds that a call takes: time moves only while it waits for time."""
    clock = daemon.server.device.generations.clock
    started = clock.monotonic()
    call = daemon.app.start(name, request)
    done = asyncio.ensure_future(rest_of(call) if name == "GenerateContent" else _whole(call))
    async with asyncio.timeout(TIMEOUT):
        while not done.done():
            due = [one for one in clock.sleepers if one.label != "idle-unload"]
            if due:
                await clock.advance_to_next()
            await asyncio.wait({done}, timeout=0.002)
    await done
    return clock.monotonic() - started


async def _whole(call: object) -> object:
    return await call  # type: ignore[misc]


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.requirement("aicore.queue.full-is-busy", "aicore.queue.contention-has-no-delay")
async def test_the_queue_keeps_its_limit_with_a_cold_and_with_a_loaded_model(
    start_daemon: StartDaemon, short_dir: Path, loaded: bool
) -> None:
    profile = short_dir / "small.toml"
    profile.write_text('extends = "pixel-10"\n[queue]\nwaiting = 1\n')
    backend = HandDrivenBackend(loaded=loaded)
    async with start_daemon(backend=backend, profile=str(profile)) as daemon:
        if loaded:
            await daemon.server.wait_ready()
        calls = [asyncio.ensure_future(outcome(daemon.app)) for _ in range(6)]
        await eventually(lambda: sum(call.done() for call in calls) == 4)
        device = await daemon.shell.device()
        assert (device.running, device.waiting, device.places) == (1, 1, 1)
        assert {call.result() for call in calls if call.done()} == {BUSY}
        assert len(backend.requests) == (1 if loaded else 0)
        backend.may_load.set()
        backend.finish()
        backend.release()
        codes = await asyncio.wait_for(asyncio.gather(*calls), TIMEOUT)
        refused = [entry for entry in await journal(daemon) if entry.error_code == BUSY]
    assert sorted(codes) == [OK, OK, BUSY, BUSY, BUSY, BUSY]
    assert {entry.decision for entry in refused} == {"queue"}


async def test_a_queue_that_fails_fast_has_no_line(
    start_daemon: StartDaemon, short_dir: Path
) -> None:
    profile = short_dir / "fast.toml"
    profile.write_text('extends = "pixel-10"\n[queue]\nfail_fast = true\n')
    script = "- {text: ok, delay: 1}\n" * 20
    async with start_daemon(script=script, profile=str(profile), clock="virtual") as daemon:
        for _ in range(10):
            first = daemon.app.start("GenerateContent", prompt("hi"))
            await until(daemon, lambda device: device.running == 1)
            assert await outcome(daemon.app) == BUSY
            await advance(daemon, 1)
            # The slot is free by the time the app sees the end.
            assert [item.WhichOneof("chunk") for item in await rest_of(first)] == ["text", "finish"]
            second = daemon.app.start("GenerateContent", prompt("hi"))
            await until(daemon, lambda device: device.running == 1)
            await advance(daemon, 1)
            assert (await ended(second)).error_code == OK


@pytest.mark.requirement("aicore.load.cold", "prompt.model.warmup")
async def test_the_first_call_pays_for_loading_and_warming_up_pays_before(
    start_daemon: StartDaemon,
) -> None:
    script = "- text: one two three\n" * 3
    per_answer = 0.1 + 1 / 940 + 2 / 9.6
    async with start_daemon(script=script, **PHONE) as daemon:
        await daemon.server.wait_ready()
        assert (await daemon.shell.device()).model_state == device_pb2.UNLOADED
        cold = await timed(daemon, "GenerateContent", prompt("hi"))
        warm = await timed(daemon, "GenerateContent", prompt("hi"))
        entries = await journal(daemon, rpc="GenerateContent")
    assert cold == pytest.approx(COLD + per_answer)
    assert warm == pytest.approx(per_answer)
    assert [entry.figures["load_seconds"] for entry in entries] == pytest.approx([COLD, 0])
    assert entries[1].figures["prefill_seconds"] == pytest.approx(0.1 + 1 / 940)
    assert entries[1].figures["decode_seconds"] == pytest.approx(2 / 9.6)
    async with start_daemon(script=script, **PHONE) as daemon:
        await daemon.server.wait_ready()
        quota = await daemon.shell.call("GetQuota", device_pb2.GetQuotaRequest())
        assert await timed(daemon, "Warmup", aicore_pb2.WarmupRequest()) == pytest.approx(COLD)
        assert await daemon.shell.call("GetQuota", device_pb2.GetQuotaRequest()) == quota
        assert await timed(daemon, "GenerateContent", prompt("hi")) == pytest.approx(per_answer)
        script_state = await daemon.shell.call("GetScript", device_pb2.GetScriptRequest())
    assert script_state.consumed == 1


async def test_at_the_hosts_pace_nothing_waits_for_device_time(start_daemon: StartDaemon) -> None:
    async with start_daemon(script="- text: one two three", clock="virtual") as daemon:
        before = await daemon.shell.device()
        assert await outcome(daemon.app, prompt("word " * 3000)) == OK
        assert (await daemon.shell.device()).clock == before.clock


@pytest.mark.requirement("aicore.load.phases")
async def test_the_state_of_a_generation_shows_what_it_waits_for(
    start_daemon: StartDaemon,
) -> None:
    phases = device_pb2.Generation
    script = "- {text: one two, delay: 2, chunk_delay: 3}\n- text: later"
    async with start_daemon(script=script, **PHONE) as daemon:
        await daemon.server.wait_ready()
        streams = [daemon.app.start("GenerateContent", prompt("hi")) for _ in range(2)]

        async def shown() -> list[int]:
            device = await until(daemon, lambda device: len(device.generations) == 2)
            return [generation.phase for generation in device.generations]

        await until(daemon, lambda device: (device.running, device.waiting) == (1, 1))
        assert await shown() == [phases.LOADING_MODEL, phases.QUEUED]
        assert (await daemon.shell.device()).model_state == device_pb2.LOADING
        await advance(daemon, COLD)
        assert await shown() == [phases.PREFILL, phases.QUEUED]
        await advance(daemon, 2)
        assert await shown() == [phases.DECODING, phases.QUEUED]
        await advance(daemon, 3)
        assert [len(await rest_of(stream)) for stream in streams[:1]] == [3]
        await until(daemon, lambda device: len(device.generations) == 1)
        await advance(daemon, 1)
        await rest_of(streams[1])
        entry = (await journal(daemon, last=1))[0]
    assert entry.figures["queue_seconds"] == pytest.approx(COLD + 5)


@pytest.mark.requirement("aicore.load.idle-unload")
async def test_an_idle_model_is_unloaded_and_the_next_call_shows_the_load(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script="- text: ok\n" * 3, **PHONE) as daemon:
        await timed(daemon, "Warmup", aicore_pb2.WarmupRequest())
        device = await daemon.shell.device()
        assert device.model_state == device_pb2.LOADED
        assert device.unload_at.seconds - device.clock.now.seconds == IDLE
        await advance(daemon, IDLE - 1)
        await timed(daemon, "GenerateContent", prompt("hi"))
        await advance(daemon, IDLE - 1)
        assert (await daemon.shell.device()).model_state == device_pb2.LOADED
        await advance(daemon, 1)
        device = await daemon.shell.device()
        assert (device.model_state, device.HasField("unload_at")) == (device_pb2.UNLOADED, False)
        assert await status(daemon.app) == aicore_pb2.AVAILABLE
        info = await daemon.app.call("GetModelInfo", aicore_pb2.GetModelInfoRequest())
        assert info.simulated_by == "scripted"
        await timed(daemon, "GenerateContent", prompt("hi"))
        loads = [e.figures["load_seconds"] for e in await journal(daemon, rpc="GenerateContent")]
    assert loads == pytest.approx([0, COLD])


async def test_a_model_in_use_is_not_unloaded(start_daemon: StartDaemon) -> None:
    script = "- {text: one two, chunk_delay: 1000}"
    async with start_daemon(script=script, clock="virtual") as daemon:
        stream = daemon.app.start("GenerateContent", prompt("hi"))
        assert (await stream.read()).text == "one"
        await advance(daemon, 999)
        assert (await daemon.shell.device()).model_state == device_pb2.LOADED
        await advance(daemon, 1)
        await rest_of(stream)
        await advance(daemon, IDLE)
        assert (await daemon.shell.device()).model_state == device_pb2.UNLOADED


async def test_unloading_can_be_switched_off(start_daemon: StartDaemon, short_dir: Path) -> None:
    profile = short_dir / "keep.toml"
    profile.write_text('extends = "pixel-10"\n[load]\nidle_unload_seconds = 0\n')
    async with start_daemon(clock="virtual", profile=str(profile)) as daemon:
        await daemon.server.wait_ready()
        await advance(daemon, 86_400)
        device = await daemon.shell.device()
    assert (device.model_state, device.HasField("unload_at")) == (device_pb2.LOADED, False)


class SlowlyLoading(HandDrivenBackend):
    """Loads anew after each stop, when `may_load` lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = 0

    async def start(self) -> None:
        self.loads += 1
        await super().start()


@pytest.mark.requirement("aicore.load.goes-on")
async def test_a_load_goes_on_when_the_client_that_caused_it_leaves(
    start_daemon: StartDaemon,
) -> None:
    backend = SlowlyLoading()
    async with start_daemon(backend=backend, clock="virtual") as daemon:
        await daemon.server.wait_ready()
        await advance(daemon, IDLE)
        await until(daemon, lambda device: device.model_state == device_pb2.UNLOADED)
        backend.may_load.clear()
        leaver = daemon.app.start("GenerateContent", prompt("hi"))
        await until(daemon, lambda device: device.model_state == device_pb2.LOADING)
        leaver.cancel()
        await until(daemon, lambda device: not device.running)
        assert (await daemon.shell.device()).model_state == device_pb2.LOADING
        next_one = daemon.app.start("GenerateContent", prompt("next"))
        await until(daemon, lambda device: device.running == 1)
        backend.may_load.set()
        backend.finish()
        assert (await ended(next_one)).error_code == OK
        assert backend.loads == 2


@pytest.mark.requirement("aicore.availability.while-loading")
async def test_status_and_health_answer_in_no_time_while_the_model_loads_or_reads_a_long_prompt(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend(loaded=False)
    loop = asyncio.get_running_loop()

    async def slowest(daemon: Daemon) -> float:
        checks = health_pb2_grpc.HealthStub(daemon.channel)
        times = []
        for _ in range(20):
            started = loop.time()
            await status(daemon.app)
            await checks.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT)
            times.append(loop.time() - started)
        return sorted(times)[-2]

    async with start_daemon(backend=backend) as daemon:
        stream = daemon.app.start("GenerateContent", prompt("word " * 3900))
        await until(daemon, lambda device: device.model_state == device_pb2.LOADING)
        assert await slowest(daemon) < 0.1
        backend.may_load.set()
        await eventually(lambda: backend.open == 1)
        assert await slowest(daemon) < 0.1
        stream.cancel()


@pytest.mark.requirement(
    "prompt.generate.cancel-stops-model", "aicore.generate.cancel-within-two-tokens"
)
async def test_a_cancelled_stream_frees_the_slot_for_the_next_a_hundred_times(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend, quota="off") as daemon:
        for _ in range(100):
            stream = daemon.app.start("GenerateContent", prompt("hi"))
            async with asyncio.timeout(1.0):
                await eventually(lambda: backend.open == 1)
                backend.release(3)
                for _ in range(3):
                    assert (await stream.read()).text == "token "
                stream.cancel()
                await backend.closed.wait()
        await until(daemon, lambda device: not device.running)
        entries = await journal(daemon, rpc="GenerateContent")
    assert [entry.decision for entry in entries] == ["cancelled"] * 100
    # The model wrote what was read, and not on and on.
    assert max(entry.figures["output_tokens"] for entry in entries) <= 5


@pytest.mark.requirement("aicore.queue.fair")
async def test_requests_of_clients_that_left_the_line_are_never_started(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        first = daemon.app.start("GenerateContent", prompt("first"))
        await until(daemon, lambda device: device.running == 1)
        async with grpc.aio.insecure_channel(daemon.server.address) as channel:
            leaving = App(channel, daemon.app_token)
            streams = [leaving.start("GenerateContent", prompt(f"left {n}")) for n in range(2)]
            await until(daemon, lambda device: device.waiting == len(streams))
        last = daemon.app.start("GenerateContent", prompt("last"))
        await until(daemon, lambda device: device.waiting == 1)
        first.cancel()
        await eventually(lambda: len(backend.requests) == 2)
        backend.finish()
        await rest_of(last)
        said = [str(request.contents) for request in backend.requests]
    assert len(said) == 2
    assert "first" in said[0]
    assert "last" in said[1]


async def test_parallel_apps_get_their_own_answers(start_daemon: StartDaemon) -> None:
    script = "".join(
        f"- {{text: secret{n}, expect: {{last_message_contains: word{n}}}}}\n" for n in range(5)
    )
    async with start_daemon(script=script) as daemon:
        apps = [await install(daemon, f"com.example.app{n}") for n in range(5)]
        answers = [
            [chunk.text async for chunk in app.start("GenerateContent", prompt(f"word{n}"))]
            for n, app in enumerate(apps)
        ]
    assert ["".join(chunks) for chunks in answers] == [f"secret{n}" for n in range(5)]


@pytest.mark.requirement("aicore.stall")
async def test_a_model_that_falls_silent_is_a_typed_error_and_others_go_on(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        daemon.server.device.generations._stall_seconds = 0.05
        stream = daemon.app.start("GenerateContent", prompt("hi"))
        backend.release()
        assert (await stream.read()).text == "token "
        error = await ended(stream)
        assert (error.error_code, error.error_type) == (29, 2)
        assert "said nothing for 0.05 s" in error.message
        backend.finish()
        assert await outcome(daemon.app) == OK


@pytest.mark.requirement("simulator.clock.computing")
async def test_an_advance_waits_for_a_call_that_computes_and_counts_it_at_its_time(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend, clock="virtual") as daemon:
        await daemon.server.wait_ready()
        call = asyncio.ensure_future(outcome(daemon.app))
        await eventually(lambda: backend.open == 1)
        moved = asyncio.ensure_future(advance(daemon, 3600))
        await eventually(lambda: bool(daemon.server.device.generations.clock.busy))
        assert not moved.done()
        backend.finish()
        assert await asyncio.wait_for(call, TIMEOUT) == OK
        await asyncio.wait_for(moved, TIMEOUT)
        entry = [one for one in await journal(daemon) if one.rpc == "GenerateContent"][-1]
        assert entry.time.seconds == 1_767_225_600


async def test_an_advance_names_a_call_that_computes_too_long(start_daemon: StartDaemon) -> None:
    backend = HandDrivenBackend()
    clock = DeviceClock(ClockMode.VIRTUAL, idle_timeout=0.2)
    async with start_daemon(backend=backend, device_clock=clock) as daemon:
        await daemon.server.wait_ready()
        call = asyncio.ensure_future(outcome(daemon.app))
        await eventually(lambda: backend.open == 1)
        duration = Duration(seconds=60)
        request = device_pb2.AdvanceClockRequest(duration=duration)
        fault = await daemon.shell.fault("AdvanceClock", request)
        assert "a generation of com.example.app" in fault.message
        backend.finish()
        assert await asyncio.wait_for(call, TIMEOUT) == OK
