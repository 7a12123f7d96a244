"""A simulated Android device for on-device GenAI: the AICore daemon and its tools."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("aicore-sim")
