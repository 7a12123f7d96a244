"""The handshake of versions: a client and a daemon that do not fit say so in plain words.

A client may send its version as `aicore-sim-version` metadata with any call; clients of other
languages, such as grpcurl, send none and are served.
"""

from __future__ import annotations

from importlib.metadata import version

from aicore_sim.device.errors import FaultKind, SimulatorFault

VERSION = version("aicore-sim")
VERSION_METADATA = "aicore-sim-version"


def check_version(client: str) -> None:
    """Raises SimulatorFault (INVALID_REQUEST) unless the major and minor numbers are the same."""
    if client.split(".")[:2] != VERSION.split(".")[:2]:
        raise SimulatorFault(
            FaultKind.INVALID_REQUEST,
            f"this client is of aicore-sim {client!r} and the device runs {VERSION!r}; "
            "install the same version in both places, and restart the device",
        )
