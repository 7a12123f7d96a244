"""Who makes the running call."""

from __future__ import annotations

from contextvars import ContextVar

from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.packages import Identity

_caller: ContextVar[Identity] = ContextVar("caller")


def caller() -> Identity:
    """The identity behind the token of the running call.

    Raises LookupError outside a call that `BoundaryInterceptor` let through.
    """
    return _caller.get()


def set_caller(identity: Identity) -> None:
    """For the interceptor, and for tests of servicers without a server."""
    _caller.set(identity)


def require_shell(call: str) -> None:
    """Raises SimulatorFault (FORBIDDEN) unless the caller holds the control token."""
    identity = caller()
    if not identity.is_shell:
        raise SimulatorFault(
            FaultKind.FORBIDDEN,
            f"{call} needs the device's control token; "
            f"the token of {identity.package_name!r} may not control the device",
        )
