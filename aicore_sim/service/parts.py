"""What the control service controls."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from google.protobuf.timestamp_pb2 import Timestamp

from aicore_sim.device.clock import NANOS
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.journal import Journal
from aicore_sim.device.packages import SHELL_PACKAGE, SHELL_UID, PackageStore
from aicore_sim.device.virtual_clock_apps import RemoteApps
from aicore_sim.policy.availability_store import AvailabilityStore
from aicore_sim.policy.ledger import Ledger
from aicore_sim.service.events import DeviceEvents
from aicore_sim.service.generation import Generations


@dataclass(frozen=True, kw_only=True)
class DeviceParts:
    """The parts of one device."""

    home: DeviceHome
    connection: sqlite3.Connection
    store: PackageStore
    generations: Generations
    ledger: Ledger
    availability_store: AvailabilityStore
    journal: Journal
    apps: RemoteApps
    events: DeviceEvents
    seed: int

    def uid_of(self, package_name: str) -> int:
        """The uid of an installed package; the shell's for no name.

        Raises SimulatorFault (NOT_FOUND).
        """
        if package_name in ("", SHELL_PACKAGE):
            return SHELL_UID
        package = self.store.get(package_name)
        if package is None:
            raise SimulatorFault(
                FaultKind.NOT_FOUND, f"package_name: {package_name!r} is not installed"
            )
        return package.uid


def timestamp(seconds: float) -> Timestamp:
    """A time in seconds since the epoch."""
    made = Timestamp()
    made.FromNanoseconds(round(seconds * NANOS))
    return made
