"""`ctl`: what the control service can do to a running device."""

from aicore_sim.cli.ctl.app import app

__all__ = ["app"]
