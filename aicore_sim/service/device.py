"""Puts the parts of a device together, and takes them apart in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3

from aicore_protos import device_pb2
from aicore_sim.device.clock import ClockMode, ClockState
from aicore_sim.device.fault_rules import HOST_RPCS
from aicore_sim.device.faults import FaultPlan
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.journal import Journal
from aicore_sim.device.packages import PackageStore
from aicore_sim.device.profile import DeviceProfile
from aicore_sim.device.shared_clock import kept_clock, save_clock
from aicore_sim.device.shared_faults import SharedFaults
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference.backend import Backend
from aicore_sim.inference.recorder import Recorder
from aicore_sim.inference.replay import ReplayBackend
from aicore_sim.inference.scripted import ScriptedBackend
from aicore_sim.policy.availability import Availability
from aicore_sim.policy.availability_store import AvailabilityState, AvailabilityStore
from aicore_sim.policy.download import ByteSource
from aicore_sim.policy.foreground import Foreground
from aicore_sim.policy.ledger import Ledger
from aicore_sim.policy.quota import Quota
from aicore_sim.service import aicore
from aicore_sim.service.cached_contexts import CachedContexts
from aicore_sim.service.clock import DeviceClockServicer, to_message
from aicore_sim.service.control import (
    DeviceControlServicer,
    availability_changed,
    model_changed,
    warn_of_left_over_steps,
)
from aicore_sim.service.events import DeviceEvents
from aicore_sim.service.generation import STALL_SECONDS, Generations, PaceName
from aicore_sim.service.model import DeviceModel
from aicore_sim.service.parts import DeviceParts

logger = logging.getLogger(__name__)

SHUT_DOWN_TIMEOUT = 0.8
"""Real seconds for running streams to end with their error when the device stops."""
LINGER = 0.1
"""Real seconds in which, after that, new calls still get an answer (8)."""
UNWIND_TIMEOUT = 0.5
_WRITTEN = (ScriptedBackend, ReplayBackend)
"""Models whose answers were written down before."""


class Device:
    """One simulated device, without gRPC around it. Belongs to one event loop."""

    def __init__(
        self,
        profile: DeviceProfile,
        *,
        home: DeviceHome,
        connection: sqlite3.Connection,
        clock: DeviceClock,
        model: DeviceModel,
        source: ByteSource | None,
        seed: int,
        pace: PaceName,
        recorder: Recorder | None = None,
    ) -> None:
        """Raises ValueError for a state in the database that is damaged."""
        self._connection = connection
        self._clock = clock
        self._model = model
        self._events = DeviceEvents()
        self._store = PackageStore(connection, control_token=home.read_control_token())
        self._availability_store = AvailabilityStore(connection)
        self._journal = Journal(connection, clock=clock)
        self._ledger = Ledger(
            connection, clock=clock, keep_seconds=profile.quota.longest_window_seconds
        )
        self._recorder = recorder
        self._ledger_task: asyncio.Task[None] | None = None
        self.generations = Generations(
            profile,
            model,
            clock=clock,
            availability=Availability(
                profile,
                clock=clock,
                source=source,
                state=self._availability_store.load(),
                save=self._save_availability,
            ),
            quota=Quota(profile.quota, clock=clock, ledger=self._ledger),
            foreground=Foreground(exclusive=profile.foreground == "exclusive"),
            faults=FaultPlan(
                rpcs=[*(method.name for method in aicore.SERVICE.methods), *HOST_RPCS],
                clock=clock,
                host=SharedFaults(connection),
                seed=seed,
            ),
            seed=seed,
            pace=pace,
            stall_seconds=None if isinstance(model.backend, _WRITTEN) else STALL_SECONDS,
            recorder=recorder,
        )
        self.clock_servicer = DeviceClockServicer(clock, resolve=self._store.resolve)
        self.aicore_servicer = aicore.AICoreServicer(
            self.generations,
            caches=CachedContexts(connection),
            journal=self._journal,
            apps=self.clock_servicer.apps,
        )
        self.control_servicer = DeviceControlServicer(
            DeviceParts(
                home=home,
                connection=connection,
                store=self._store,
                generations=self.generations,
                ledger=self._ledger,
                availability_store=self._availability_store,
                journal=self._journal,
                apps=self.clock_servicer.apps,
                events=self._events,
                seed=seed,
            )
        )
        self.resolve = self._store.resolve
        clock.on_change(self._clock_changed)
        model.on_change(self._model_changed)

    def start(self) -> None:
        """Begin to load the model, and to write what changes."""
        save_clock(self._connection, self._clock.state)
        self._model.start()
        self._ledger_task = asyncio.create_task(self._ledger.run(), name="quota-ledger")

    async def shut_down(self) -> None:
        """Refuse new calls (8), end running streams with a typed error, tell who watches."""
        had_some = await self.generations.shut_down(SHUT_DOWN_TIMEOUT)
        await self.generations.availability.close()
        self._events.close()
        self._journal.close()
        if had_some:
            await asyncio.sleep(LINGER)

    async def stop(self) -> None:
        """End the model, and write what is not written."""
        queue = self.generations.queue
        try:
            # gRPC cancels the calls that are left and does not wait for their ends.
            async with asyncio.timeout(UNWIND_TIMEOUT):
                await queue.wait_idle()
        except TimeoutError:
            logger.warning("%d generations did not end", queue.running)
        await self._model.stop()
        if self._recorder is not None:
            await self._recorder.close(self._model.backend)
        if isinstance(self._model.backend, _WRITTEN):
            warn_of_left_over_steps(self._model.backend)
        if self._ledger_task is not None:
            self._ledger_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ledger_task
        self._ledger.close()
        self._journal.close()
        save_clock(self._connection, self._clock.state)

    def _save_availability(self, state: AvailabilityState) -> None:
        self._availability_store.save(state)
        if self._events.watched:
            self._events.tell(availability_changed(self.generations))

    def _clock_changed(self, state: ClockState) -> None:
        save_clock(self._connection, state)
        if self._events.watched:
            self._events.tell(device_pb2.DeviceEvent(clock_changed=to_message(state)))

    def _model_changed(self) -> None:
        if self._events.watched:
            self._events.tell(model_changed(self.generations))


def device_clock(connection: sqlite3.Connection, mode: ClockMode) -> DeviceClock:
    """The clock of a device that starts, in the mode that was asked for.

    It never shows an earlier time than before: a virtual one goes on where the device stood.
    Raises ClockError for a state that is damaged.
    """
    kept = kept_clock(connection)
    if kept is None:
        return DeviceClock(mode)
    frozen = mode is ClockMode.VIRTUAL and kept.mode is ClockMode.FROZEN
    return DeviceClock.restored(
        ClockState(mode=ClockMode.FROZEN if frozen else mode, now_ns=kept.now_ns)
    )


def make_model(
    backend: Backend, profile: DeviceProfile, *, name: str, clock: DeviceClock, pace: PaceName
) -> DeviceModel:
    """Only at the phone's pace does a load take the phone's time."""
    return DeviceModel(
        backend,
        name=name,
        clock=clock,
        cold_seconds=profile.load.cold_seconds if pace == "phone" else 0.0,
        idle_unload_seconds=profile.load.idle_unload_seconds,
    )
