"""The DeviceClock service: the time that apps follow. And the clock's part of DeviceControl."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from aicore_protos import device_pb2, device_pb2_grpc
from aicore_sim.device.clock import (
    LATEST_NS,
    NANOS,
    Clock,
    ClockError,
    ClockMode,
    ClockState,
    SleeperNotIdle,
)
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.packages import Identity
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.device.virtual_clock_apps import RemoteApps
from aicore_sim.rpc.identity import caller
from aicore_sim.service.refusals import invalid
from aicore_sim.service.unimplemented import refuse_the_rest

SERVICE = device_pb2.DESCRIPTOR.services_by_name["DeviceClock"]


@refuse_the_rest(SERVICE)
class DeviceClockServicer(device_pb2_grpc.DeviceClockServicer):
    """GetTime and SleepUntil. What apps owe the clock: aicore_sim.device.virtual_clock_apps."""

    def __init__(
        self, clock: Clock, *, resolve: Callable[[str], Identity | None] | None = None
    ) -> None:
        """`resolve` tells, by a token that it does not know any more, that an app has ended.

        A clock that is no DeviceClock is followed as the host's.
        """
        self._clock = clock if isinstance(clock, DeviceClock) else DeviceClock(host=clock)
        self._resolve = resolve
        self.apps = RemoteApps(self._clock)

    async def GetTime(
        self, request: device_pb2.GetTimeRequest, context: Any
    ) -> device_pb2.ClockState:
        self.apps.got_time(token_of(context))
        return to_message(self._clock.state)

    async def SleepUntil(
        self, request: device_pb2.SleepUntilRequest, context: Any
    ) -> device_pb2.ClockState:
        time_ns = _time_ns(request)
        token, resolve = token_of(context), self._resolve
        try:
            await self.apps.sleep_until(
                token,
                time_ns,
                label=caller().package_name,
                is_gone=None if resolve is None else lambda: resolve(token) is None,
            )
        except ClockError as error:
            raise SimulatorFault(FaultKind.ILLEGAL_STATE, str(error)) from None
        return to_message(self._clock.state)


async def advance_clock(
    clock: DeviceClock, request: device_pb2.AdvanceClockRequest
) -> device_pb2.ClockState:
    """Answer DeviceControl.AdvanceClock.

    Raises SimulatorFault: INVALID_REQUEST for a duration that is missing, negative or too long,
    ILLEGAL_STATE for a real clock and for a sleeper that is not idle again.
    """
    if not request.HasField("duration"):
        raise invalid("duration", "name how far to advance")
    nanos = request.duration.ToNanoseconds()
    if nanos < 0:
        raise invalid("duration", f"{nanos / NANOS:g} s is negative; a clock is never set back")
    if clock.now_ns() + nanos > LATEST_NS:
        raise invalid("duration", f"{nanos / NANOS:g} s leads beyond the year 9999")
    try:
        return to_message(await clock.advance_ns(nanos))
    except (ClockError, SleeperNotIdle) as error:
        raise SimulatorFault(FaultKind.ILLEGAL_STATE, str(error)) from None


def set_clock(clock: DeviceClock, request: device_pb2.SetClockRequest) -> device_pb2.ClockState:
    """Answer DeviceControl.SetClock.

    Raises SimulatorFault: INVALID_REQUEST for a mode that is missing or unknown, ILLEGAL_STATE
    during an advance.
    """
    try:
        mode = ClockMode(request.mode)
    except ValueError:
        names = ", ".join(ClockMode.__members__)
        raise invalid("mode", f"{request.mode} is none of {names}") from None
    try:
        return to_message(clock.set_mode(mode))
    except ClockError as error:
        raise SimulatorFault(FaultKind.ILLEGAL_STATE, str(error)) from None


def to_message(state: ClockState) -> device_pb2.ClockState:
    now = Timestamp()
    now.FromNanoseconds(state.now_ns)
    return device_pb2.ClockState(now=now, mode=state.mode.name)


def token_of(context: Any) -> str:
    """The token of the running call, which names the app for `DeviceClockServicer.apps`."""
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            return str(value).partition(" ")[2]
    return ""


def _time_ns(request: device_pb2.SleepUntilRequest) -> int:
    if not request.HasField("time"):
        raise invalid("time", "name the time to sleep until")
    if not 0 <= request.time.nanos < NANOS:
        raise invalid("time.nanos", f"{request.time.nanos} is not from 0 to 999,999,999")
    time_ns = request.time.seconds * NANOS + request.time.nanos
    if time_ns > LATEST_NS:
        raise invalid("time", "no clock goes beyond the year 9999")
    return time_ns
