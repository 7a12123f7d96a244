"""Facts about operating-system processes, without a dependency."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def start_time(pid: int) -> str | None:
    """When process `pid` started, as an opaque text, or None when there is no such process.

    A pid alone does not name a process for long: the system gives numbers out again.
    """
    if pid <= 0:
        return None
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else fields[19]
    found = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        timeout=5,
    )
    return found.stdout.strip() or None


def is_alive(pid: int, started: str | None = None) -> bool:
    """Whether `pid` runs (and, when `started` is given, is still the same process)."""
    found = start_time(pid)
    return found is not None and (started is None or found == started)


def die_with_parent(parent_pid: int) -> None:
    """Let the kernel kill this process when its parent dies, where it can (Linux).

    Elsewhere, and for a parent that was gone before the call, `exit_on_eof` is what works.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def exit_on_eof(fd: int, *, grace: float = 6.0) -> None:
    """Stop this process when the other end of the pipe `fd` closes: SIGTERM, then the hard way.

    The parent holds the other end and never writes, so it closes only when the parent is gone.
    `grace` is how many seconds an orderly stop may take.
    """

    def watch() -> None:
        while os.read(fd, 1024):
            pass
        threading.Timer(grace, os._exit, args=(1,)).start()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
