"""Puts a running device into the state that a scenario describes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aicore_protos import device_pb2
from aicore_sim.cli.control import Control
from aicore_sim.cli.ctl.availability import progression
from aicore_sim.cli.ctl.importance import wire
from aicore_sim.cli.scenario.format import DeviceState, Scenario
from aicore_sim.device.profile import PlatformName


@dataclass(frozen=True, kw_only=True)
class BootOptions:
    """What must be known before the device boots."""

    profile: str
    platform: PlatformName
    seed: int
    pace: Literal["host", "phone"]
    scripted: bool
    """The scenario brings a script, so the model must be `scripted`."""


def boot_options(scenario: Scenario) -> BootOptions:
    """The part of a scenario that `up` needs first."""
    device = scenario.device
    return BootOptions(
        profile=device.profile,
        platform=device.platform,
        seed=device.seed,
        pace=device.pace,
        scripted=device.script is not None,
    )


def apply_scenario(control: Control, scenario: Scenario) -> dict[str, str]:
    """Install the apps and set the state; the steps are left to `scenario run`.

    Returns the apps' tokens by package. Raises CommandError: what the device refuses was not set,
    what came before it was.
    """
    tokens = {
        app.package: control.install_app(
            device_pb2.InstallPackageRequest(package_name=app.package, permissions=app.permissions)
        ).token
        for app in scenario.apps
    }
    apply_state(control, scenario.device)
    return tokens


def apply_state(control: Control, state: DeviceState) -> None:
    """Set what `state` names, in the order in which a device would notice it."""
    if state.network is not None or state.disk is not None:
        request = device_pb2.SetAvailabilityRequest()
        if state.network is not None:
            request.network_available = state.network == "on"
        if state.disk is not None:
            request.disk_full = state.disk == "full"
        control.set_availability(request)
    if state.download is not None:
        control.control_download(
            device_pb2.ControlDownloadRequest(progression=progression(state.download))
        )
    if state.availability is not None:
        control.set_availability(device_pb2.SetAvailabilityRequest(status=state.availability.name))
    if state.quota is not None:
        control.set_quota(device_pb2.SetQuotaRequest(model=state.quota))
    if state.foreground is not None:
        exclusive = state.foreground == "exclusive"
        control.set_importance(device_pb2.SetImportanceRequest(exclusive=exclusive))
    for package, level in state.importance.items():
        control.set_importance(
            device_pb2.SetImportanceRequest(package_name=package, importance=wire(level))
        )
    if state.faults is not None:
        control.clear_faults()
        for fault in state.faults:
            control.add_fault(fault)
    if state.script is not None:
        control.load_script(state.script)
