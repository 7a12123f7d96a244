"""The DeviceClock service: the time that apps follow."""

from __future__ import annotations

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from aicore_protos import device_pb2, device_pb2_grpc
from aicore_sim.device.clock import Clock
from aicore_sim.service.refusals import invalid
from aicore_sim.service.unimplemented import refuse_the_rest

SERVICE = device_pb2.DESCRIPTOR.services_by_name["DeviceClock"]
_NANOS = 1_000_000_000
# A step of the host's clock is noticed after this many seconds at the latest.
_LONGEST_NAP = 30.0


@refuse_the_rest(SERVICE)
class DeviceClockServicer(device_pb2_grpc.DeviceClockServicer):
    """GetTime and SleepUntil, on real time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def GetTime(
        self, request: device_pb2.GetTimeRequest, context: Any
    ) -> device_pb2.ClockState:
        return self._state()

    async def SleepUntil(
        self, request: device_pb2.SleepUntilRequest, context: Any
    ) -> device_pb2.ClockState:
        if not request.HasField("time"):
            raise invalid("time", "name the time to sleep until")
        until = request.time.seconds + request.time.nanos / _NANOS
        while (left := until - self._clock.now()) > 0:
            await self._clock.sleep(min(left, _LONGEST_NAP))
        return self._state()

    def _state(self) -> device_pb2.ClockState:
        now = Timestamp()
        now.FromNanoseconds(round(self._clock.now() * _NANOS))
        return device_pb2.ClockState(now=now, mode=device_pb2.SetClockRequest.REAL)
