"""Scenarios: the state of a device and what an app goes through on it, as a file."""

from aicore_sim.cli.scenario.apply import BootOptions, apply_scenario, boot_options
from aicore_sim.cli.scenario.format import Scenario, load_scenario

__all__ = ["BootOptions", "Scenario", "apply_scenario", "boot_options", "load_scenario"]
