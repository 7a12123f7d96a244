"""What changes on the device, for those that watch it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from aicore_protos import device_pb2
from aicore_sim.device.errors import FaultKind, SimulatorFault

WATCHER_LIMIT = 10_000
"""Events that a watcher may be behind."""


class DeviceEvents:
    """Hands every event to every watcher, in order. Belongs to one event loop."""

    def __init__(self) -> None:
        self._watchers: set[asyncio.Queue[device_pb2.DeviceEvent | None]] = set()
        self._closed = False

    @property
    def watched(self) -> bool:
        """Whether anybody watches, so that an event is worth making."""
        return bool(self._watchers)

    def tell(self, event: device_pb2.DeviceEvent) -> None:
        """A watcher that is WATCHER_LIMIT events behind is dropped."""
        for watcher in tuple(self._watchers):
            if watcher.qsize() >= WATCHER_LIMIT:
                watcher.put_nowait(None)
                self._watchers.discard(watcher)
            else:
                watcher.put_nowait(event)

    def close(self) -> None:
        """Tell everybody that the device stops, and end their streams. Idempotent."""
        if not self._closed:
            self._closed = True
            self.tell(device_pb2.DeviceEvent(shutdown=device_pb2.DeviceEvent.Shutdown()))

    async def watch(
        self, *present: device_pb2.DeviceEvent
    ) -> AsyncGenerator[device_pb2.DeviceEvent, None]:
        """`present`, and then what happens. Raises SimulatorFault for a watcher that is dropped."""
        watcher: asyncio.Queue[device_pb2.DeviceEvent | None] = asyncio.Queue()
        self._watchers.add(watcher)
        try:
            for event in present:
                yield event
            while not self._closed or not watcher.empty():
                item = await watcher.get()
                if item is None:
                    raise SimulatorFault(
                        FaultKind.ILLEGAL_STATE,
                        f"this watcher was {WATCHER_LIMIT} events behind and was dropped",
                    )
                yield item
        finally:
            with contextlib.suppress(KeyError):
                self._watchers.remove(watcher)
