"""`android.os.CancellationSignal` of a running execution, as the host sees it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from aicore_sim.device.errors import FaultKind, SimulatorFault


class Cancellation:
    """Set once, heard by whoever listens. For one event loop."""

    def __init__(self) -> None:
        self._cancelled = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Idempotent."""
        if self._cancelled.is_set():
            return
        self._cancelled.set()
        for listener in tuple(self._listeners):
            listener()

    async def wait(self) -> None:
        await self._cancelled.wait()

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `listener` on cancellation, at once when that has been."""
        self._listeners.append(listener)
        if self.is_cancelled:
            listener()
        try:
            yield
        finally:
            self._listeners.remove(listener)


class Cancellations:
    """The running executions that their callers can cancel by an id of their own."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], Cancellation] = {}

    @contextlib.contextmanager
    def open(self, calling_package: str, cancellation_id: str) -> Iterator[Cancellation]:
        """Around an execution. Raises SimulatorFault (ALREADY_EXISTS) for an id in use."""
        made = Cancellation()
        if not cancellation_id:
            yield made
            return
        key = (calling_package, cancellation_id)
        if key in self._running:
            raise SimulatorFault(
                FaultKind.ALREADY_EXISTS,
                f"cancellation_id: {cancellation_id[:80]!r} names a running call already",
            )
        self._running[key] = made
        try:
            yield made
        finally:
            del self._running[key]

    def cancel(self, calling_package: str, cancellation_id: str) -> None:
        """Without effect for an id of no running call."""
        found = self._running.get((calling_package, cancellation_id))
        if found is not None:
            found.cancel()
