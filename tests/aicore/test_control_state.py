"""The clock, the journal, resets and the state of a device, through the control service."""

from __future__ import annotations

import asyncio
import hashlib
import json

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from aicore_protos import aicore_pb2, device_pb2, errors_pb2
from aicore_sim.device.clock import VIRTUAL_EPOCH
from aicore_sim.device.home import DeviceHome
from aicore_sim.server import AicoreServer, ServeOptions
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import TIMEOUT, App, prompt
from tests.aicore.conftest import Daemon, StartDaemon
from tests.aicore.device_calls import (
    APP,
    OK,
    add_fault,
    advance,
    ended,
    install,
    journal,
    outcome,
    rest_of,
    set_importance,
    status,
    until,
)

MODE = device_pb2.SetClockRequest
SCOPE = device_pb2.ResetRequest
DOWNLOADABLE = aicore_pb2.DOWNLOADABLE


async def now(daemon: Daemon) -> float:
    state = await daemon.app.call("GetTime", device_pb2.GetTimeRequest())
    seconds: float = state.now.ToNanoseconds() / 1e9
    return seconds


@pytest.mark.requirement("simulator.clock.virtual")
async def test_virtual_time_stands_still_until_it_is_advanced_or_set(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(clock="virtual") as daemon:
        assert await now(daemon) == VIRTUAL_EPOCH
        state = await advance(daemon, 3 * 3600)
        assert (state.mode, state.now.seconds) == (MODE.VIRTUAL, VIRTUAL_EPOCH + 10_800)
        to = Timestamp(seconds=VIRTUAL_EPOCH + 20_000)
        state = await daemon.shell.call("SetClock", device_pb2.SetClockRequest(time=to))
        assert state.now == to
        state = await daemon.shell.call("SetClock", device_pb2.SetClockRequest(mode=MODE.REAL))
        before = await now(daemon)
        assert before >= to.seconds
        await daemon.shell.call("SetClock", device_pb2.SetClockRequest(mode=MODE.FROZEN))
        frozen = await now(daemon)
        assert frozen >= before
        assert await now(daemon) == frozen
        later = Timestamp(seconds=VIRTUAL_EPOCH + 30_000)
        await daemon.shell.call("SetClock", device_pb2.SetClockRequest(time=later))
        assert await now(daemon) == later.seconds


@pytest.mark.requirement("simulator.clock.virtual")
async def test_an_advance_wakes_apps_that_sleep_on_the_devices_clock(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(clock="virtual") as daemon:
        until_ = Timestamp(seconds=VIRTUAL_EPOCH + 5)
        sleeper = daemon.app.start("SleepUntil", device_pb2.SleepUntilRequest(time=until_))
        await until(daemon, lambda _: len(daemon.server.device.generations.clock.sleepers) > 1)

        async def wake() -> object:
            woken = await sleeper
            await now(daemon)  # it has nothing more to do
            return woken.now

        woken = asyncio.ensure_future(wake())
        await advance(daemon, 5)
        assert await asyncio.wait_for(woken, TIMEOUT) == until_


@pytest.mark.requirement("simulator.clock.virtual", "simulator.device.state-survives-restart")
async def test_a_restarted_device_never_shows_an_earlier_time(start_daemon: StartDaemon) -> None:
    async with start_daemon(clock="virtual") as daemon:
        await advance(daemon, 100)
    async with start_daemon(clock="virtual") as daemon:
        assert await now(daemon) == VIRTUAL_EPOCH + 100
    async with start_daemon(clock="real") as daemon:
        real = await now(daemon)
        assert real > VIRTUAL_EPOCH + 100
    async with start_daemon(clock="virtual") as daemon:
        assert await now(daemon) >= real


@pytest.mark.parametrize(
    ("name", "request_", "kind", "named"),
    [
        ("AdvanceClock", device_pb2.AdvanceClockRequest(), "INVALID_REQUEST", "duration: "),
        ("AdvanceClock", device_pb2.AdvanceClockRequest(duration=Duration(seconds=-5)),
         "INVALID_REQUEST", "duration: -5 s is negative; a clock is never set back"),
        ("AdvanceClock", device_pb2.AdvanceClockRequest(duration=Duration(seconds=5)),
         "ILLEGAL_STATE", "a real clock follows the host"),
        ("SetClock", device_pb2.SetClockRequest(), "INVALID_REQUEST", "mode: "),
        ("SetClock", device_pb2.SetClockRequest(mode=7), "INVALID_REQUEST", "mode: 7 is none"),  # type: ignore[arg-type]
        ("SetClock", device_pb2.SetClockRequest(mode=MODE.FROZEN, time=Timestamp(seconds=5)),
         "INVALID_REQUEST", "time: it is "),
        ("SetClock", device_pb2.SetClockRequest(time=Timestamp(seconds=2**35)),
         "INVALID_REQUEST", "time: a real clock follows the host"),
    ],
)  # fmt: skip
async def test_a_wrong_clock_request_changes_nothing(
    start_daemon: StartDaemon, name: str, request_: object, kind: str, named: str
) -> None:
    async with start_daemon() as daemon:
        fault = await daemon.shell.fault(name, request_)
        mode = (await daemon.shell.device()).clock.mode
    assert fault.kind == errors_pb2.SimulatorError.Kind.Value(kind)
    assert fault.message.startswith(named)
    assert mode == MODE.REAL


@pytest.mark.requirement("simulator.journal")
async def test_the_journal_holds_every_decision_and_never_what_was_said(
    start_daemon: StartDaemon,
) -> None:
    script = "- {text: answer-secret, usage: {cached_input_tokens: 1}}\n- text: two"
    async with start_daemon(script=script, clock="virtual") as daemon:
        following = daemon.shell.start("ReadJournal", device_pb2.ReadJournalRequest(follow=True))
        other = await install(daemon, "com.example.other")
        await status(daemon.app)
        await outcome(daemon.app, prompt("prompt-secret here"))
        await daemon.shell.call("SetImportance", set_importance("BACKGROUND"))
        await outcome(daemon.app, prompt("prompt-secret"))
        await advance(daemon, 60)
        await outcome(other)
        seen = [await following.read() for _ in range(4)]
        assert seen == await journal(daemon)
        assert [(e.id, e.rpc, e.package_name, e.decision, e.error_code) for e in seen] == [
            (1, "CheckStatus", APP, "ok", 0),
            (2, "GenerateContent", APP, "ok", 0),
            (3, "GenerateContent", APP, "foreground", 30),
            (4, "GenerateContent", "com.example.other", "ok", 0),
        ]
        assert dict(seen[1].figures) == {
            "queue_seconds": 0, "load_seconds": 0, "prefill_seconds": 0, "decode_seconds": 0,
            "input_tokens": 4, "cached_tokens": 1, "output_tokens": 3, "answer_chars": 13,
            "device_seconds": pytest.approx(3 / 940 + 3 / 9.6),
        }  # fmt: skip
        assert seen[3].time.seconds - seen[2].time.seconds == 60
        assert "secret" not in str(seen)
        assert await journal(daemon, rpc="CheckStatus") == seen[:1]
        assert await journal(daemon, package_name="com.example.other") == seen[3:]
        assert await journal(daemon, after_id=2) == seen[2:]
        assert await journal(daemon, last=1) == seen[3:]
        bad = device_pb2.ReadJournalRequest(last=-1)
        fault = await daemon.shell.fault("ReadJournal", bad, stream=True)
        assert fault.message == "last: -1 is negative"
    async with start_daemon(clock="virtual") as daemon:
        assert await journal(daemon) == seen


@pytest.mark.requirement("simulator.reset")
async def test_resets_are_graded(start_daemon: StartDaemon) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend, clock="virtual") as daemon:

        async def reset(*scopes: int) -> None:
            request = device_pb2.ResetRequest(scopes=scopes)  # type: ignore[arg-type]
            await daemon.shell.call("Reset", request)

        async def used() -> bool:
            request = device_pb2.GetQuotaRequest(package_name=APP)
            left: float = (await daemon.shell.call("GetQuota", request)).available_seconds
            return left < 30

        charge = device_pb2.SetQuotaRequest(package_name=APP, charge_seconds=10)
        await daemon.shell.call("SetQuota", charge)
        await add_fault(daemon, match={"rpc": "Warmup"}, action={"error_code": 9})
        await status(daemon.app)
        await reset(SCOPE.JOURNAL)
        assert (await journal(daemon), await used()) == ([], True)
        assert (await daemon.shell.device()).faults == 1
        await reset(SCOPE.FAULTS)
        assert (await daemon.shell.device()).faults == 0
        await reset(SCOPE.QUOTA)
        assert not await used()
        streams = [daemon.app.start("GenerateContent", prompt("hi")) for _ in range(2)]
        await until(daemon, lambda device: device.waiting == 1)
        await reset(SCOPE.CONVERSATIONS)
        assert [(await ended(stream)).error_code for stream in streams] == [7, 7]
        await daemon.shell.call("SetQuota", charge)
        await add_fault(daemon, action={"error_code": 9})
        await reset(SCOPE.ALL)
        assert ((await daemon.shell.device()).faults, await used()) == (0, False)
        assert await status(daemon.app) == aicore_pb2.AVAILABLE
        for scopes, named in (((), "scopes: name what"), ((99,), "scopes: 99 is none of")):
            bad = device_pb2.ResetRequest(scopes=scopes)  # type: ignore[arg-type]
            assert (await daemon.shell.fault("Reset", bad)).message.startswith(named)


@pytest.mark.requirement("simulator.reset")
async def test_a_factory_reset_leaves_a_new_phone(start_daemon: StartDaemon) -> None:
    async with start_daemon(clock="virtual") as daemon:
        await daemon.shell.call(
            "SetAvailability", device_pb2.SetAvailabilityRequest(status=DOWNLOADABLE)
        )
        await daemon.shell.call("SetImportance", set_importance("BACKGROUND"))
        await advance(daemon, 100)
        request = device_pb2.ResetRequest(scopes=[SCOPE.FACTORY])
        await daemon.shell.call("Reset", request)
        fault = await daemon.app.fault("CheckStatus", aicore_pb2.CheckStatusRequest())
        assert fault.kind == errors_pb2.SimulatorError.UNAUTHENTICATED
        packages = await daemon.shell.call("ListPackages", device_pb2.ListPackagesRequest())
        assert not packages.packages
        again = await install(daemon, APP)
        assert await status(again) == aicore_pb2.AVAILABLE
        await daemon.shell.call("LoadScript", device_pb2.LoadScriptRequest(yaml="- text: ok"))
        assert await outcome(again) == OK
        state = await again.call("GetTime", device_pb2.GetTimeRequest())
        assert state.now.seconds == VIRTUAL_EPOCH + 100


@pytest.mark.requirement("simulator.export-import")
async def test_an_exported_state_is_taken_over_by_another_device(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script="- text: ok", clock="virtual") as daemon:
        await install(daemon, "com.example.other")
        await advance(daemon, 50)
        assert await outcome(daemon.app) == OK
        charge = device_pb2.SetQuotaRequest(package_name=APP, charge_seconds=40)
        quota = await daemon.shell.call("SetQuota", charge)
        await daemon.shell.call(
            "SetAvailability", device_pb2.SetAvailabilityRequest(disk_full=True)
        )
        entries = await journal(daemon)
        exported = await daemon.shell.call("ExportState", device_pb2.ExportStateRequest())
        assert daemon.app_token.encode() not in exported.state
        home = DeviceHome(daemon.home.path.parent / "second")
        options = ServeOptions(model="scripted", home=home, clock="virtual")
        async with (
            AicoreServer(options) as second,
            grpc.aio.insecure_channel(second.address) as channel,
        ):
            shell, app = App(channel, home.read_control_token()), App(channel, daemon.app_token)
            found = await shell.call(
                "ImportState", device_pb2.ImportStateRequest(state=exported.state)
            )
            assert list(found.packages) == [APP, "com.example.other"]
            assert found.clock.now.seconds == VIRTUAL_EPOCH + 50
            # The token that the first device issued is known here, too.
            assert await status(app) == aicore_pb2.AVAILABLE
            asked = device_pb2.GetQuotaRequest(package_name=APP)
            assert await shell.call("GetQuota", asked) == quota
            shown = await shell.call("GetAvailability", device_pb2.GetAvailabilityRequest())
            assert shown.disk_full
            read = device_pb2.ReadJournalRequest(rpc="GenerateContent")
            assert await rest_of(shell.start("ReadJournal", read)) == entries
            assert await outcome(app) == 9


@pytest.mark.requirement("simulator.export-import")
async def test_a_damaged_export_is_refused_and_nothing_changes(start_daemon: StartDaemon) -> None:
    async with start_daemon(clock="virtual") as daemon:
        exported = (await daemon.shell.call("ExportState", device_pb2.ExportStateRequest())).state
        head, _, body = exported.partition(b"\n")
        table = json.loads(body)
        table["clock"]["now_ns"] = -1
        wrong = json.dumps(table).encode()
        digest = hashlib.sha256(wrong).hexdigest()
        forged = f"AICORE-SIM-STATE 1 {digest} {len(wrong)}\n".encode() + wrong
        for state, named in (
            (b"", "no export of a device"),
            (exported[:-1], "cut off"),
            (head + b"\n" + body.replace(b"com.example", b"org.example"), "damaged"),
            (forged, "clock.now_ns: -1 is no time"),
        ):
            request = device_pb2.ImportStateRequest(state=state)
            fault = await daemon.shell.fault("ImportState", request)
            assert fault.kind == errors_pb2.SimulatorError.INVALID_REQUEST
            assert fault.message.startswith("state: ")
            assert named in fault.message
        assert await status(daemon.app) == aicore_pb2.AVAILABLE
        await advance(daemon, 1)
        fault = await daemon.shell.fault(
            "ImportState", device_pb2.ImportStateRequest(state=exported)
        )
        assert fault.kind == errors_pb2.SimulatorError.ILLEGAL_STATE
        assert "a clock is never set back" in fault.message


@pytest.mark.requirement("simulator.watch")
async def test_a_watcher_sees_the_present_and_every_change_in_order(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(clock="virtual") as daemon:
        await daemon.server.wait_ready()
        watch = daemon.shell.start("WatchDevice", device_pb2.WatchDeviceRequest())
        present = [await watch.read() for _ in range(4)]
        assert [event.WhichOneof("event") for event in present] == [
            "package_changed", "clock_changed", "availability_changed", "model_changed",
        ]  # fmt: skip
        assert present[0].package_changed.package.package_name == APP
        assert present[3].model_changed.state == device_pb2.LOADED
        await install(daemon, "com.example.other")
        await daemon.shell.call(
            "SetAvailability", device_pb2.SetAvailabilityRequest(disk_full=True)
        )
        await daemon.shell.call(
            "UninstallPackage", device_pb2.UninstallPackageRequest(package_name=APP)
        )
        await advance(daemon, 300)
        changes = [await watch.read() for _ in range(6)]
        await daemon.server.stop()
        changes += await rest_of(watch)
    assert [event.WhichOneof("event") for event in changes] == [
        "package_changed", "availability_changed", "package_removed", "model_changed",
        "model_changed", "clock_changed", "shutdown",
    ]  # fmt: skip
    assert changes[1].availability_changed.disk_full
    assert changes[2].package_removed.package_name == APP
    assert changes[4].model_changed.state == device_pb2.UNLOADED
