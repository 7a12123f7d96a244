"""DeviceControl: availability of features, and their downloads."""

from __future__ import annotations

import logging
import math
from typing import Any

from aicore_protos import aicore_pb2, device_pb2
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.profile import DownloadProfile
from aicore_sim.policy.availability import Availability
from aicore_sim.policy.availability_store import FeatureStatus
from aicore_sim.rpc.identity import require_shell
from aicore_sim.service.generation import Generations
from aicore_sim.service.parts import DeviceParts
from aicore_sim.service.refusals import invalid

logger = logging.getLogger(__name__)

_RULES = {
    "immediate": device_pb2.DownloadProgression.IMMEDIATE,
    "seconds": device_pb2.DownloadProgression.SECONDS,
    "polls": device_pb2.DownloadProgression.POLLS,
    "manual": device_pb2.DownloadProgression.MANUAL,
}
_POLLS_LIMIT = 10_000


class AvailabilityCalls:
    """The calls of DeviceControl about availability."""

    def __init__(self, parts: DeviceParts) -> None:
        self._parts = parts
        self._generations = parts.generations
        self._availability: Availability = parts.generations.availability

    async def GetAvailability(
        self, request: device_pb2.GetAvailabilityRequest, context: Any
    ) -> device_pb2.Availability:
        require_shell("GetAvailability")
        return availability_message(self._generations)

    async def SetAvailability(
        self, request: device_pb2.SetAvailabilityRequest, context: Any
    ) -> device_pb2.Availability:
        require_shell("SetAvailability")
        served = [feature.feature_id for feature in self._availability.features]
        feature_id = request.feature_id if request.HasField("feature_id") else None
        if feature_id is not None and feature_id not in served:
            names = ", ".join(map(str, served)) or "none"
            raise invalid("feature_id", f"{feature_id} is not served; this device serves {names}")
        status = None
        if request.HasField("status"):
            try:
                status = FeatureStatus(request.status)
            except ValueError:
                names = ", ".join(FeatureStatus.__members__)
                raise invalid("status", f"{request.status} is none of {names}") from None
            if not served:
                raise invalid("status", "this device serves no feature that could have one")
        if request.HasField("disk_full"):
            self._availability.set_disk_full(request.disk_full)
        if request.HasField("network_available"):
            self._availability.set_network(request.network_available)
        if status is not None:
            self._availability.set_status(status, feature_id=feature_id)
        logger.info("availability was set by the control service")
        return availability_message(self._generations)

    async def ControlDownload(
        self, request: device_pb2.ControlDownloadRequest, context: Any
    ) -> device_pb2.Availability:
        require_shell("ControlDownload")
        step = request.WhichOneof("step")
        try:
            match step:
                case "advance_bytes":
                    self._availability.advance_downloads(request.advance_bytes)
                case "complete" if request.complete:
                    self._availability.complete_downloads()
                case "fail_with":
                    self._availability.fail_downloads(request.fail_with)
                case "progression":
                    self._availability.set_progression(self._progression(request.progression))
                case _:
                    raise invalid("step", "name one: advance_bytes, complete, fail_with or rule")
        except ValueError as error:
            kind = FaultKind.ILLEGAL_STATE
            if step == "advance_bytes" and request.advance_bytes <= 0:
                kind = FaultKind.INVALID_REQUEST
            raise SimulatorFault(kind, f"{step}: {error}") from None
        return availability_message(self._generations)

    def _progression(self, asked: device_pb2.DownloadProgression) -> DownloadProfile:
        names = [name for name, number in _RULES.items() if number == asked.rule]
        if not names:
            raise invalid("progression.rule", f"{asked.rule} is none of {', '.join(_RULES)}")
        changes: dict[str, object] = {"progression": names[0]}
        if names[0] == "seconds":
            if not 0 < asked.seconds < math.inf:
                raise invalid("progression.seconds", f"{asked.seconds:g} is not above 0")
            changes["seconds"] = asked.seconds
        if names[0] == "polls":
            if not 1 <= asked.polls <= _POLLS_LIMIT:
                raise invalid(
                    "progression.polls", f"{asked.polls} is not between 1 and {_POLLS_LIMIT}"
                )
            changes["polls"] = asked.polls
        return self._availability.progression.model_copy(update=changes)


def availability_message(generations: Generations) -> device_pb2.Availability:
    """What the device says of its features to those that control it."""
    availability = generations.availability
    selections = {feature.feature_id: feature for feature in generations.profile.features}
    features = []
    for feature in availability.features:
        chosen = selections[feature.feature_id]
        made = device_pb2.FeatureAvailability(
            feature_id=feature.feature_id,
            model=aicore_pb2.ModelSelection(
                release_stage=chosen.release_stage, preference=chosen.preference
            ),
            status=availability.status(feature.feature_id).name,
            base_model_name=feature.base_model_name,
        )
        download = availability.running_download(feature.feature_id)
        if download is not None:
            made.downloaded_bytes = download.downloaded_bytes
            made.total_bytes = download.total_bytes
        features.append(made)
    state, rule = availability.state, availability.progression
    return device_pb2.Availability(
        features=features,
        network_available=state.network_available,
        disk_full=state.disk_full,
        progression=device_pb2.DownloadProgression(
            rule=_RULES[rule.progression],
            seconds=rule.seconds if rule.progression == "seconds" else 0,
            polls=rule.polls if rule.progression == "polls" else 0,
        ),
    )
