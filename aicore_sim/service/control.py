"""The DeviceControl service: what `adb shell` may do. Every call needs the control token."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from aicore_protos import device_pb2, device_pb2_grpc
from aicore_sim import __version__
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.inference.replay import ReplayBackend
from aicore_sim.inference.script import ScriptError
from aicore_sim.inference.script_file import parse_script
from aicore_sim.inference.scripted import ScriptedBackend
from aicore_sim.rpc.identity import require_shell
from aicore_sim.service.clock import to_message
from aicore_sim.service.control_availability import AvailabilityCalls, availability_message
from aicore_sim.service.control_packages import PackageCalls, changed
from aicore_sim.service.control_policy import PolicyCalls
from aicore_sim.service.control_state import StateCalls
from aicore_sim.service.generation import Generations
from aicore_sim.service.parts import DeviceParts, timestamp

logger = logging.getLogger(__name__)

SERVICE = device_pb2.DESCRIPTOR.services_by_name["DeviceControl"]


class DeviceControlServicer(
    PackageCalls,
    PolicyCalls,
    AvailabilityCalls,
    StateCalls,
    device_pb2_grpc.DeviceControlServicer,
):
    """Every call of DeviceControl."""

    def __init__(self, parts: DeviceParts) -> None:
        PackageCalls.__init__(self, parts)
        PolicyCalls.__init__(self, parts)
        AvailabilityCalls.__init__(self, parts)
        StateCalls.__init__(self, parts)

    async def GetDevice(
        self, request: device_pb2.GetDeviceRequest, context: Any
    ) -> device_pb2.Device:
        require_shell("GetDevice")
        generations = self._parts.generations
        profile, model, queue = generations.profile, generations.model, generations.queue
        device = device_pb2.Device(
            version=__version__,
            device_dir=str(self._parts.home.path),
            profile=profile.name,
            platform=profile.platform,
            model=model.name,
            unavailable_reason=model.unavailable_reason or "",
            seed=self._parts.seed,
            pid=os.getpid(),
            running=queue.running,
            waiting=queue.waiting,
            slots=queue.slots,
            places=queue.places,
            model_state=model.state.name,
            clock=to_message(generations.clock.state),
            pace=generations.pace,
            quota_model=generations.quota.active,
            base_model_name=profile.base_model_name,
            generations=[
                device_pb2.Generation(
                    package_name=trace.package_name,
                    phase=trace.phase.name if trace.phase else None,
                    since=timestamp(trace.since),
                )
                for trace in generations.calls
            ],
            faults=len(generations.faults.list()),
        )
        unload_at = model.unload_at
        if unload_at is not None:
            device.unload_at.CopyFrom(timestamp(unload_at))
        return device

    async def LoadScript(
        self, request: device_pb2.LoadScriptRequest, context: Any
    ) -> device_pb2.ScriptState:
        require_shell("LoadScript")
        scripted = self._scripted()
        try:
            script = parse_script(request.yaml, source="LoadScript")
        except ScriptError as error:
            raise SimulatorFault(FaultKind.INVALID_REQUEST, str(error)) from None
        warn_of_left_over_steps(scripted)
        scripted.load(script)
        return _script_state(scripted)

    async def GetScript(
        self, request: device_pb2.GetScriptRequest, context: Any
    ) -> device_pb2.ScriptState:
        require_shell("GetScript")
        backend = self._parts.generations.model.backend
        if isinstance(backend, ReplayBackend):
            return _script_state(backend)
        return _script_state(self._scripted())

    async def WatchDevice(
        self, request: device_pb2.WatchDeviceRequest, context: Any
    ) -> AsyncIterator[device_pb2.DeviceEvent]:
        require_shell("WatchDevice")
        generations = self._parts.generations
        present = [
            *(changed(package) for package in self._parts.store.list()),
            device_pb2.DeviceEvent(clock_changed=to_message(generations.clock.state)),
            availability_changed(generations),
            model_changed(generations),
        ]
        async with aclosing(self._parts.events.watch(*present)) as events:
            async for event in events:
                yield event

    def _scripted(self) -> ScriptedBackend:
        backend = self._parts.generations.model.backend
        if not isinstance(backend, ScriptedBackend):
            raise SimulatorFault(
                FaultKind.INVALID_REQUEST,
                f"the model {self._parts.generations.model.name!r} follows no script; "
                "start the device with --model scripted:FILE",
            )
        return backend


def availability_changed(generations: Generations) -> device_pb2.DeviceEvent:
    return device_pb2.DeviceEvent(availability_changed=availability_message(generations))


def model_changed(generations: Generations) -> device_pb2.DeviceEvent:
    model = generations.model
    made = device_pb2.DeviceEvent.ModelChanged(
        state=model.state.name,
        unavailable_reason=model.unavailable_reason or "",
    )
    return device_pb2.DeviceEvent(model_changed=made)


def warn_of_left_over_steps(scripted: ScriptedBackend | ReplayBackend) -> None:
    """Log the steps that no generation took: the app asked less often than planned."""
    remaining = scripted.remaining()
    if remaining:
        logger.warning(
            "the %s has %d steps left over: %s",
            "recorded run" if isinstance(scripted, ReplayBackend) else "script",
            len(remaining),
            "; ".join(remaining),
        )


def _script_state(scripted: ScriptedBackend | ReplayBackend) -> device_pb2.ScriptState:
    return device_pb2.ScriptState(
        steps=scripted.steps, consumed=scripted.consumed, remaining=scripted.remaining()
    )
