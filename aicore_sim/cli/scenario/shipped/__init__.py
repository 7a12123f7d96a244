"""Scenarios that come with the simulator, one YAML file each."""
