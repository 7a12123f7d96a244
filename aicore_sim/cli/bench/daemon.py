"""The daemon that is measured: the real one with the echo service added, in a process of its own.

`python -m aicore_sim.cli.bench.daemon DEVICE_DIR PROFILE MODEL READY_FILE`; it ends when its
standard input does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path

from aicore_sim.cli.bench.echo import handler
from aicore_sim.device.home import DeviceHome
from aicore_sim.rpc.server import stop_event
from aicore_sim.server import AicoreServer, ServeOptions


async def serve(device_dir: Path, profile: str, model: str, ready_file: Path) -> None:
    """Serve until standard input ends or a signal comes."""
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    stopping = stop_event()
    home = DeviceHome(device_dir)
    server = AicoreServer(
        ServeOptions(home=home, profile=profile, model=model),
        more_services=lambda server: server.add_generic_rpc_handlers((handler(),)),
    )
    async with server:
        await server.wait_ready()
        home.write_private(ready_file, json.dumps(server.facts()))
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), stopping.set)
        await stopping.wait()
        loop.remove_reader(sys.stdin.fileno())


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])))
