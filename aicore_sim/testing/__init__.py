"""The testing kit: devices for tests, states that hold for a block, a journal, a verdict."""

from aicore_client import GenAiException
from aicore_sim.cli.control import CommandError
from aicore_sim.testing.device import Device, Script
from aicore_sim.testing.environment import DeviceEnvironment
from aicore_sim.testing.journal import Journal
from aicore_sim.testing.scopes import Scope
from aicore_sim.testing.verdict import RULES, Finding

BUSY = GenAiException.ErrorCode.BUSY

__all__ = [
    "BUSY",
    "RULES",
    "CommandError",
    "Device",
    "DeviceEnvironment",
    "Finding",
    "Journal",
    "Scope",
    "Script",
]
