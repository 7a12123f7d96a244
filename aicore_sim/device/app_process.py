"""Starts a command as an app process: the device learns its pid before it runs, and it dies with
us, also when we are killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import sysconfig
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

KILL_AFTER = 5.0
_LAUNCH = Path(__file__).with_name("_launch.py")


@asynccontextmanager
async def app_process(
    command: Sequence[str],
    environment: Callable[[int], Awaitable[Mapping[str, str]]],
    *,
    stdin: int | IO[Any] | None = None,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    cwd: str | None = None,
) -> AsyncIterator[Process]:
    """Start `command` and end it on leaving.

    `environment` is asked for the variables that the process needs, its launch token among them,
    once its pid is known and before the command runs.
    """
    read_end, write_end = os.pipe()
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                str(_LAUNCH),
                str(os.getpid()),
                str(read_end),
                *command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(read_end,),
                cwd=cwd,
            )
        finally:
            os.close(read_end)
        try:
            variables = {**await environment(process.pid), "PATH": search_path()}
            os.write(write_end, json.dumps(variables).encode() + b"\n")
            yield process
        finally:
            await end(process)
    finally:
        os.close(write_end)


async def end(process: Process) -> None:
    """SIGTERM, then SIGKILL after five seconds. Idempotent."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), KILL_AFTER)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def search_path() -> str:
    """So that `python` and our commands mean this environment's, activated or not."""
    return os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))
