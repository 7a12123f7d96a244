"""The device's time for an app: what its waits have to follow in virtual time (ours).

On a phone an app reads the phone's clock; here the device has one of its own.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from aicore_client._boundary import Service, unary
from aicore_client.connection import DeviceConnection, default_connection
from aicore_protos import device_pb2


class DeviceClock:
    """Reads the device's clock and sleeps on it. Raises GenAiException (601) without AICore.

    Whoever advances a virtual clock waits until an app that woke up has done its work: until its
    next call of AICore has ended, its next sleep begins, or it asks for the time.
    """

    def __init__(self, connection: DeviceConnection | None = None) -> None:
        self._given_connection = connection

    async def now(self) -> datetime:
        """The device's time, in UTC."""
        connection = self._connection
        call = connection.clock().GetTime(
            device_pb2.GetTimeRequest(),
            metadata=connection.metadata,
            timeout=connection.call_timeout,
        )
        state: device_pb2.ClockState = await unary(call, Service.AICORE)
        return state.now.ToDatetime(tzinfo=UTC)

    async def sleep(self, delay: timedelta | float) -> None:
        """Returns when `delay` (a timedelta, or seconds) of device time has passed.

        With `--clock virtual` that is when the time was advanced so far, however long it takes.
        """
        wait = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
        connection = self._connection
        due = Timestamp()
        due.FromDatetime(await self.now() + max(wait, timedelta()))
        # No deadline: the host's seconds say nothing about the device's.
        call = connection.clock().SleepUntil(
            device_pb2.SleepUntilRequest(time=due), metadata=connection.metadata
        )
        await unary(call, Service.AICORE)

    @property
    def _connection(self) -> DeviceConnection:
        return self._given_connection or default_connection()


__all__ = ["DeviceClock"]
