"""How the services say that a request is wrong, or asks for what a later version will do."""

from __future__ import annotations

from aicore_sim.device.errors import FaultKind, SimulatorFault


def invalid(field: str, problem: str) -> SimulatorFault:
    """A request that breaks a rule; `field` is the path of the field in its message."""
    return SimulatorFault(FaultKind.INVALID_REQUEST, f"{field}: {problem}")


def unimplemented(what: str) -> SimulatorFault:
    """`what` is the call or the field that a later version will answer."""
    return SimulatorFault(
        FaultKind.UNIMPLEMENTED, f"{what} is not implemented in this version of the simulator"
    )
