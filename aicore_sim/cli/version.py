"""What `--version` tells."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

EMULATES = {
    "com.google.mlkit:genai-agent": "1.0.0-alpha1",
    "androidx.appfunctions:appfunctions": "1.0.0-alpha13",
}


def facts() -> dict[str, Any]:
    """Versions of the simulator, of what it emulates, and of what it runs on."""
    return {
        "version": version("aicore-sim"),
        "emulates": EMULATES,
        "python": platform.python_version(),
        "onnxruntime-genai": version("onnxruntime-genai"),
        "grpcio": version("grpcio"),
    }
