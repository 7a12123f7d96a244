"""Watching app functions come, go and change.

https://developer.android.com/reference/android/app/appfunctions/AppFunctionObserver
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import grpc

from aicore_client._boundary import Service, require_own_cancellation, translate
from aicore_client.connection import DeviceConnection
from aicore_client.errors import AppFunctionException
from aicore_client.metadata import AppFunctionName, name_from_wire
from aicore_protos import appfunctions_pb2


class AppFunctionsChangeEvent:
    """https://developer.android.com/reference/kotlin/androidx/appfunctions/AppFunctionsChangeEvent"""

    @dataclass(frozen=True)
    class MetadataChanged:
        """Functions of these packages came, went or changed."""

        changed_package_names: frozenset[str]

    @dataclass(frozen=True)
    class StatesChanged:
        """The effective states of these functions changed."""

        changed_function_names: frozenset[AppFunctionName]


ChangeEvent = AppFunctionsChangeEvent.MetadataChanged | AppFunctionsChangeEvent.StatesChanged


class AppFunctionObservation:
    """What the app may discover, as it changes: an async context manager and iterator of events.

    A change that is made after the block was entered is never missed. Android calls an observer
    back; here the app asks for the next event, and one that asks slowly gets the oldest changes
    merged. `cancel` ends the iteration, also one that waits. Without the block the observation
    begins with the first event that is asked for. An observation is used once.

    Entering and iterating raise AppFunctionException, with 2000 when the host goes away, and
    NoSuchMethodError where the platform has no observers.
    """

    def __init__(
        self, connection: DeviceConnection, request: appfunctions_pb2.ObserveRequest
    ) -> None:
        self._connection = connection
        self._request = request
        self._call: Any = None
        self._reading: asyncio.Task[Any] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Idempotent."""
        self._cancelled = True
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChangeEvent:
        await self._begin()
        while True:
            response = await self._next_message()
            if response is None:
                raise StopAsyncIteration
            match response.WhichOneof("event"):
                case "metadata_changed":
                    packages = response.metadata_changed.package_names
                    return AppFunctionsChangeEvent.MetadataChanged(frozenset(packages))
                case "states_changed":
                    names = map(name_from_wire, response.states_changed.names)
                    return AppFunctionsChangeEvent.StatesChanged(frozenset(names))
                case _:  # of a later version
                    continue

    async def _begin(self) -> None:
        """Waits for the empty message that says that the observation has begun."""
        if self._call is not None or self._cancelled:
            return
        self._call = self._connection.app_functions().Observe(
            self._request, metadata=self._connection.metadata
        )
        try:
            async with asyncio.timeout(self._connection.call_timeout):
                await self._next_message()
        except TimeoutError:
            self.cancel()
            raise _ended("The AppFunction host did not begin the observation in time.") from None

    async def _next_message(self) -> Any:
        """None when the observation was cancelled.

        The read is a task of its own, because gRPC ends a stream whose read is cancelled: asking
        for an event with a time limit must not end the observation.
        """
        if self._cancelled:
            return None
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(_retrieve)
        reading = self._reading
        await asyncio.wait([reading])
        self._reading = None
        return reading.result()

    async def _read(self) -> Any:
        try:
            response = await self._call.read()
        except grpc.RpcError as error:
            raise translate(error, Service.APP_FUNCTIONS) from None
        except asyncio.CancelledError:
            if self._cancelled:
                return None
            require_own_cancellation(Service.APP_FUNCTIONS)
            raise
        if self._cancelled:
            return None
        if response is grpc.aio.EOF:
            raise _ended("The AppFunction host ended the observation.")
        return response


def _ended(text: str) -> AppFunctionException:
    return AppFunctionException(AppFunctionException.ERROR_SYSTEM_ERROR, text)


def _retrieve(reading: asyncio.Task[Any]) -> None:
    """Nobody may ask for another event, and then a failure is of no interest."""
    if not reading.cancelled():
        reading.exception()
