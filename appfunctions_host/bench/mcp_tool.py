"""A tool of the MCP Python SDK over standard input and output, for comparison.

`python -m appfunctions_host.bench.mcp_tool` is the server. https://github.com/modelcontextprotocol/python-sdk
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import mcp
from mcp.client.stdio import stdio_client

try:  # from version 2 on
    from mcp.server.mcpserver import MCPServer
except ModuleNotFoundError:
    from mcp.server.fastmcp import FastMCP as MCPServer


async def tool_call_seconds(calls: int, text: str) -> list[float]:
    """How long each call of a tool takes that gives back what it gets."""
    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "appfunctions_host.bench.mcp_tool"]
    )
    taken: list[float] = []
    async with stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
        await session.initialize()
        for number in range(calls + 20):
            started = time.perf_counter()
            await session.call_tool("echo", {"text": text})
            if number >= 20:
                taken.append(time.perf_counter() - started)
    return taken


def main() -> None:
    logging.disable()  # a line of log a call would be measured, too
    server: Any = MCPServer("bench")
    server.add_tool(_echo, name="echo")
    server.run("stdio")


async def _echo(text: str) -> str:
    return text


if __name__ == "__main__":
    main()
