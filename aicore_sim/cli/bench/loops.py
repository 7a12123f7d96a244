"""Engines without daemon, each in a process of its own, that generate when they are told to."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aicore_sim.cli.control import CommandError

BARE_LOOP = "aicore_sim.inference.bare_loop"
LLAMA_CPP_LOOP = "aicore_sim.cli.bench.llama_cpp_loop"

_LINE_LIMIT = 2**20
_SECONDS = 1800.0


@dataclass(frozen=True, kw_only=True)
class Times:
    """Of one greedy generation."""

    first_seconds: float
    """From the prompt to the first token."""
    rest_seconds: float
    output: int
    """Tokens made."""

    @property
    def per_token(self) -> float:
        """Seconds of a token after the first."""
        return self.rest_seconds / max(1, self.output - 1)


class Loop:
    """A process that reads a JSON object a line and answers each with one. Made by `loop`."""

    def __init__(self, process: Process, module: str) -> None:
        self._process = process
        self._module = module

    async def ready(self) -> None:
        """Raises CommandError when it ends instead."""
        await self._line()

    async def generate(self, tokens: Sequence[int], output: int) -> Times:
        """Raises CommandError."""
        assert self._process.stdin is not None, "started with a pipe"
        asked = {"tokens": list(tokens), "output": output}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        facts = await self._line()
        return Times(
            first_seconds=float(facts["first_seconds"]),
            rest_seconds=float(facts["rest_seconds"]),
            output=int(facts["output"]),
        )

    async def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "started with a pipe"
        line = await asyncio.wait_for(self._process.stdout.readline(), _SECONDS)
        if not line:
            raise CommandError(f"{self._module} ended early")
        found: dict[str, Any] = json.loads(line)
        return found


@asynccontextmanager
async def loop(module: str, *arguments: str) -> AsyncIterator[Loop]:
    """A loop that is ready, and killed when the block ends. Raises CommandError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=_LINE_LIMIT,
        start_new_session=True,
    )
    try:
        made = Loop(process, module)
        await made.ready()
        yield made
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
