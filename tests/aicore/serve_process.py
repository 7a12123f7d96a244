"""Runs the daemon as a process of its own: `python -m tests.aicore.serve_process HOME JSON`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from aicore_sim.device.home import DeviceHome
from aicore_sim.server import ServeOptions, run_daemon


def main() -> int:
    given = json.loads(sys.argv[2])
    if "ready_file" in given:
        given["ready_file"] = Path(given["ready_file"])
    options = ServeOptions(home=DeviceHome(Path(sys.argv[1])), **given)
    return asyncio.run(run_daemon(options))


if __name__ == "__main__":
    sys.exit(main())
