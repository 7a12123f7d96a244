"""An app process that registers a function and waits: `python -m tests.client.notes_app ID`."""

from __future__ import annotations

import asyncio
import sys

from aicore_client import AppFunctionManager, ExecuteAppFunctionRequest


async def add(request: ExecuteAppFunctionRequest) -> object:
    return "from another process"


async def main(identifier: str) -> None:
    registration = await AppFunctionManager().register_app_function(identifier, add)
    print("REGISTERED", flush=True)
    await registration.wait_unregistered()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
