"""The suites that come with the simulator."""
