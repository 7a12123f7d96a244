"""Apps that follow the device's clock over a socket, and what an advance owes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from aicore_protos import device_pb2, device_pb2_grpc
from aicore_sim.device.clock import ClockError, ClockMode, ClockState, RealClock, SleeperNotIdle
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.packages import Identity
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.device.virtual_clock_apps import GET_TIME_GRACE, RemoteApps
from aicore_sim.rpc.server import start_server
from aicore_sim.service.clock import (
    SERVICE,
    DeviceClockServicer,
    advance_clock,
    set_clock,
    token_of,
)

LIMIT = 5.0
START = 1000


class App:
    """A process with the token `name`."""

    def __init__(self, channel: grpc.aio.Channel, name: str) -> None:
        self._stub = device_pb2_grpc.DeviceClockStub(channel)
        self._metadata = (("authorization", f"Bearer {name}"),)

    async def time(self) -> float:
        return now_of(await self._stub.GetTime(device_pb2.GetTimeRequest(), **self._options()))

    def sleep_until(self, seconds: float) -> Any:
        time = Timestamp()
        time.FromNanoseconds(round(seconds * 1e9))
        return self._stub.SleepUntil(device_pb2.SleepUntilRequest(time=time), **self._options())

    def send(self, request: device_pb2.SleepUntilRequest) -> Any:
        return self._stub.SleepUntil(request, **self._options())

    def _options(self) -> dict[str, Any]:
        return {"metadata": self._metadata, "timeout": LIMIT}


class Device:
    def __init__(self, clock: DeviceClock) -> None:
        self.clock = clock
        self.ended: set[str] = set()
        self.servicer = DeviceClockServicer(clock, resolve=self.resolve)
        self.channel: grpc.aio.Channel = None

    def resolve(self, token: str) -> Identity | None:
        if token in self.ended:
            return None
        return Identity(
            package_name=f"com.example.{token}",
            uid=10000,
            permissions=frozenset(),
            signing_digest="",
            allowlist_targets=frozenset(),
        )

    def app(self, name: str = "app") -> App:
        return App(self.channel, name)

    async def asleep(self, count: int) -> None:
        async with asyncio.timeout(LIMIT):
            while len(self.clock.sleepers) != count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


@asynccontextmanager
async def device(
    mode: ClockMode = ClockMode.VIRTUAL, *, idle_timeout: float = LIMIT
) -> AsyncIterator[Device]:
    now = None if mode is ClockMode.REAL else START
    made = Device(DeviceClock(mode, now=now, idle_timeout=idle_timeout))
    server = await start_server(
        address="127.0.0.1:0",
        resolve=made.resolve,
        services=[SERVICE.full_name],
        register=lambda server: device_pb2_grpc.add_DeviceClockServicer_to_server(
            made.servicer, server
        ),
    )
    try:
        async with grpc.aio.insecure_channel(server.address) as made.channel:
            yield made
    finally:
        await server.stop(0)


def now_of(state: device_pb2.ClockState) -> float:
    return state.now.ToNanoseconds() / 1e9


@pytest.mark.requirement("simulator.clock.virtual")
async def test_an_app_sleeps_until_the_clock_is_advanced() -> None:
    async with device() as phone:
        app = phone.app()
        assert await app.time() == START
        call = app.sleep_until(START + 60)
        await phone.asleep(1)
        assert phone.clock.sleepers[0].label == "com.example.app"
        advance = asyncio.create_task(phone.clock.advance(3600))
        state = await call
        assert (now_of(state), state.mode) == (START + 60, device_pb2.SetClockRequest.VIRTUAL)
        assert not advance.done()
        await app.time()
        await asyncio.wait_for(advance, LIMIT)
        assert await app.time() == START + 3600


async def test_an_app_that_sleeps_again_and_again_sees_every_time_it_asked_for() -> None:
    async with device() as phone:
        seen: list[float] = []

        async def poll(app: App) -> None:
            now = await app.time()
            for _ in range(20):
                now = now_of(await app.sleep_until(now + 1))
                seen.append(now)
            await app.time()

        pollers = [asyncio.create_task(poll(phone.app(f"app{n}"))) for n in range(3)]
        await phone.asleep(3)
        await asyncio.wait_for(phone.clock.advance(30), LIMIT)
        await asyncio.wait_for(asyncio.gather(*pollers), LIMIT)
        assert phone.servicer.apps.awake == 0
        assert seen == [START + 1.0 + second for second in range(20) for _ in range(3)]


async def test_asking_the_time_first_does_not_lose_the_sleep_that_follows() -> None:
    async with device() as phone:
        seen: list[float] = []

        async def poll() -> None:
            app = phone.app()
            for _ in range(20):
                now = await app.time()
                seen.append(now_of(await app.sleep_until(now + 1)))
            await app.time()

        task = asyncio.create_task(poll())
        await phone.asleep(1)
        await asyncio.wait_for(phone.clock.advance(30), LIMIT)
        assert seen == [START + 1.0 + second for second in range(20)]
        await task


async def test_an_app_that_never_calls_again_is_named_once() -> None:
    async with device(idle_timeout=0.1) as phone:
        calls = [phone.app().sleep_until(START + second) for second in (1, 5)]
        await phone.asleep(2)
        with pytest.raises(SleeperNotIdle, match=r"^com\.example\.app woke up") as stuck:
            await phone.clock.advance(3)
        assert (stuck.value.now, stuck.value.left) == (START + 1, 2.0)
        assert (await phone.clock.advance(2)).now == START + 3
        assert phone.servicer.apps.awake == 0
        await calls[0]
        calls[1].cancel()
        await phone.asleep(0)


async def test_an_app_whose_process_has_ended_is_not_waited_for() -> None:
    async with device() as phone:
        call = phone.app().sleep_until(START + 1)
        await phone.asleep(1)
        advance = asyncio.create_task(phone.clock.advance(3))
        await call
        assert not advance.done()
        phone.ended.add("app")
        assert (await asyncio.wait_for(advance, LIMIT)).now == START + 3


async def test_a_caller_that_leaves_leaves_the_clock() -> None:
    async with device() as phone:
        calls = [phone.app(f"app{n}").sleep_until(START + 1) for n in range(50)]
        await phone.asleep(50)
        for call in calls[::2]:
            call.cancel()
        await phone.asleep(25)
        advance = asyncio.create_task(phone.clock.advance(1))
        await asyncio.gather(*calls[1::2])
        await asyncio.gather(*(phone.app(f"app{n}").time() for n in range(1, 50, 2)))
        await asyncio.wait_for(advance, LIMIT)


async def test_a_time_that_has_come_answers_at_once_and_real_time_flows() -> None:
    async with device() as phone:
        assert now_of(await phone.app().sleep_until(START)) == START
        assert phone.clock.busy == ()
    async with device(ClockMode.REAL) as phone:
        until = RealClock().now() + 0.02
        assert now_of(await phone.app().sleep_until(until)) >= until - 1e-6
        assert abs(await phone.app().time() - RealClock().now()) < 1.0


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (device_pb2.SleepUntilRequest(), "time: name the time to sleep until"),
        (
            device_pb2.SleepUntilRequest(time=Timestamp(seconds=2**62)),
            "time: no clock goes beyond the year 9999",
        ),
        (
            device_pb2.SleepUntilRequest(time=Timestamp(seconds=1, nanos=-1)),
            "time.nanos: -1 is not from 0 to 999,999,999",
        ),
    ],
)
async def test_a_time_that_is_none_is_refused_by_its_field(
    request_: device_pb2.SleepUntilRequest, message: str
) -> None:
    async with device() as phone:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await phone.app().send(request_)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == message


async def test_a_caller_that_leaves_as_it_wakes_is_not_waited_for() -> None:
    clock, apps, call = await in_process_app()
    clock.restore(ClockState(mode=ClockMode.VIRTUAL, now_ns=clock.now_ns() + 10**9))
    call.cancel()
    await asyncio.wait({call}, timeout=LIMIT)
    assert (len(clock.busy), apps.awake) == (0, 0)


async def test_the_number_of_sleeping_apps_is_bounded() -> None:
    clock = DeviceClock(ClockMode.VIRTUAL, now=START)
    apps = RemoteApps(clock, limit=2)
    due = clock.now_ns() + 1
    tasks = [asyncio.create_task(apps.sleep_until("app", due, label="app")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ClockError, match="2 sleepers wait"):
        await apps.sleep_until("other", due, label="other")
    tasks[0].cancel()
    await asyncio.wait({tasks[0]})
    tasks.append(asyncio.create_task(apps.sleep_until("other", due, label="other")))
    await asyncio.sleep(0)
    assert [one.label for one in clock.sleepers] == ["app", "other"]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def in_process_app(
    idle_timeout: float = LIMIT,
) -> tuple[DeviceClock, RemoteApps, asyncio.Task[None]]:
    """A clock on which an app sleeps for a second."""
    clock = DeviceClock(ClockMode.VIRTUAL, now=START, idle_timeout=idle_timeout)
    apps = RemoteApps(clock)
    due = clock.now_ns() + 10**9
    task = asyncio.create_task(apps.sleep_until("token", due, label="app"))
    await asyncio.sleep(0)
    return clock, apps, task


async def test_a_call_stands_in_for_its_app_and_may_sleep_on_the_clock() -> None:
    clock, apps, woken = await in_process_app()
    advance = asyncio.create_task(clock.advance(10))
    await asyncio.wait_for(woken, LIMIT)
    with apps.serving("token"):
        async with asyncio.timeout(LIMIT):
            await clock.sleep(1.5)
        assert (clock.now(), clock.busy) == (START + 2.5, ("app",))
    assert (clock.busy, advance.done()) == (("app",), False)
    again = asyncio.create_task(apps.sleep_until("token", clock.now_ns() + 10**9, label="app"))
    async with asyncio.timeout(LIMIT):
        await again
    assert clock.now() == START + 3.5
    apps.got_time("token")
    assert (await asyncio.wait_for(advance, LIMIT)).now == START + 10
    with apps.serving("token"):
        assert clock.busy == ()


async def test_each_sleep_answers_one_and_asking_the_time_answers_all() -> None:
    clock, apps, first = await in_process_app()
    more = [
        asyncio.create_task(apps.sleep_until("token", clock.now_ns() + 10**9, label="app"))
        for _ in range(2)
    ]
    await asyncio.sleep(0)
    advance = asyncio.create_task(clock.advance(1))
    await asyncio.wait_for(asyncio.gather(first, *more), LIMIT)
    assert len(clock.busy) == 3
    later = asyncio.create_task(apps.sleep_until("token", clock.now_ns() + 1, label="app"))
    await asyncio.sleep(0)
    assert len(clock.busy) == 2
    before = asyncio.get_running_loop().time()
    apps.got_time("token")
    await asyncio.wait_for(advance, LIMIT)
    assert asyncio.get_running_loop().time() - before >= GET_TIME_GRACE * 0.9
    later.cancel()
    await asyncio.wait({later})


async def test_an_app_that_advances_the_clock_itself_is_idle() -> None:
    clock, apps, woken = await in_process_app(idle_timeout=0.1)
    with pytest.raises(SleeperNotIdle):
        await clock.advance(5)
    await woken
    clock, apps, woken = await in_process_app()
    advance = asyncio.create_task(clock.advance(5))
    await asyncio.wait_for(woken, LIMIT)
    apps.release("token")
    await asyncio.wait_for(advance, LIMIT)


async def refusal(call: Callable[[], Awaitable[object]]) -> tuple[FaultKind, str]:
    with pytest.raises(SimulatorFault) as refused:
        await call()
    return refused.value.kind, refused.value.message


async def test_the_shell_advances_and_stops_the_clock_by_messages() -> None:
    clock = DeviceClock(ClockMode.VIRTUAL, now=START, idle_timeout=0.05)
    hours = device_pb2.AdvanceClockRequest(duration=Duration(seconds=3 * 3600, nanos=1))
    state = await advance_clock(clock, hours)
    assert state.now.ToNanoseconds() == (START + 3 * 3600) * 10**9 + 1
    frozen = set_clock(clock, device_pb2.SetClockRequest(mode=device_pb2.SetClockRequest.FROZEN))
    assert (frozen.mode, frozen.now) == (device_pb2.SetClockRequest.FROZEN, state.now)
    empty, back, far = (
        device_pb2.AdvanceClockRequest(),
        device_pb2.AdvanceClockRequest(duration=Duration(seconds=-60)),
        device_pb2.AdvanceClockRequest(duration=Duration(seconds=2**50)),
    )
    wrong = FaultKind.INVALID_REQUEST
    assert [await refusal(lambda r=r: advance_clock(clock, r)) for r in (empty, back, far)] == [  # type: ignore[misc]
        (wrong, "duration: name how far to advance"),
        (wrong, "duration: -60 s is negative; a clock is never set back"),
        (wrong, "duration: 1.1259e+15 s leads beyond the year 9999"),
    ]
    with pytest.raises(SimulatorFault, match="mode: 0 is none of REAL, VIRTUAL, FROZEN"):
        set_clock(clock, device_pb2.SetClockRequest())

    async def stuck() -> None:
        await clock.sleep(1, label="download")
        await asyncio.Event().wait()

    task = asyncio.create_task(stuck())
    await asyncio.sleep(0)
    kind, message = await refusal(lambda: advance_clock(clock, hours))
    assert (kind, message.split(" woke")[0]) == (FaultKind.ILLEGAL_STATE, "download")
    task.cancel()
    await asyncio.wait({task})
    set_clock(clock, device_pb2.SetClockRequest(mode=device_pb2.SetClockRequest.REAL))
    kind, message = await refusal(lambda: advance_clock(clock, hours))
    assert (kind, "FROZEN first" in message) == (FaultKind.ILLEGAL_STATE, True)


async def test_the_mode_cannot_change_during_an_advance() -> None:
    clock, apps, woken = await in_process_app()
    advance = asyncio.create_task(clock.advance(5))
    await asyncio.wait_for(woken, LIMIT)
    with pytest.raises(SimulatorFault, match="being advanced") as refused:
        set_clock(clock, device_pb2.SetClockRequest(mode=device_pb2.SetClockRequest.REAL))
    assert refused.value.kind is FaultKind.ILLEGAL_STATE
    apps.release("token")
    await asyncio.wait_for(advance, LIMIT)


def test_the_token_of_a_call_names_the_app() -> None:
    assert token_of(_Context((("x", "y"), ("authorization", "Bearer app_1")))) == "app_1"
    assert token_of(_Context(None)) == ""


class _Context:
    def __init__(self, metadata: tuple[tuple[str, str], ...] | None) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> tuple[tuple[str, str], ...] | None:
        return self._metadata
