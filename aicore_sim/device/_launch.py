"""Becomes an app process: waits for its environment, then executes the command in its place.

Run by path with the bare standard library. The process id stays the same through `exec`, so the
device can bind a launch token to the very process that gets it.
"""

import ctypes
import json
import os
import signal
import sys


def main() -> None:
    parent, pipe, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, kept through exec
    if os.getppid() != parent:
        os._exit(1)
    received = b""
    while not received.endswith(b"\n"):
        chunk = os.read(pipe, 65536)
        if not chunk:
            os._exit(1)
        received += chunk
    if sys.platform != "linux" and os.fork() == 0:
        _watch(pipe)
    os.environ.update(json.loads(received))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"aicore-sim: cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _watch(pipe: int) -> None:
    """Kill the command when the launcher is gone; the launcher never writes again."""
    command = os.getppid()
    os.read(pipe, 1)
    if os.getppid() == command:
        os.kill(command, signal.SIGKILL)
    os._exit(0)


main()
