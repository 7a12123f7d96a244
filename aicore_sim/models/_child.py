"""Runs one step of a pull in a child process and follows what it reports."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_POLL = 0.1
_TAIL = 40


@dataclass(frozen=True, kw_only=True)
class ChildResult:
    returncode: int
    """Negative: the signal that ended it."""
    timed_out: bool
    peak_memory: int
    """In bytes; 0 when the child did not come to report it."""
    failure: dict[str, str] | None
    """`kind` and `message` of a failure that the child understood."""
    output: str
    """The last lines that were no reports."""

    def reason(self) -> str:
        """Why it failed, in words."""
        if self.failure is not None:
            return self.failure["message"]
        if self.timed_out:
            return "it took too long and was stopped"
        if self.returncode < 0:
            hint = " (out of memory?)" if self.returncode == -signal.SIGKILL else ""
            return f"it was ended by {signal.strsignal(-self.returncode)!r}{hint}"
        last = self.output.strip().splitlines()[-1:] or [f"exit code {self.returncode}"]
        return last[0]


def run_child(
    arguments: list[str],
    *,
    timeout: float,
    on_step: Callable[[int, int], None] = lambda done, total: None,
    on_poll: Callable[[], None] = lambda: None,
    environment: dict[str, str] | None = None,
) -> ChildResult:
    """Runs `_child_main` and returns when it has ended, or was stopped after `timeout` seconds.

    Whatever leaves this function, an interrupt included, the child is gone.
    """
    # -P: a module in the user's working folder must not shadow one that the child imports.
    command = [sys.executable, "-P", "-m", "aicore_sim.models._child_main", *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    lines: queue.Queue[bytes | None] = queue.Queue()
    readers = [
        threading.Thread(target=_forward, args=(stream, lines), daemon=True)
        for stream in (process.stdout, process.stderr)
    ]
    tail: deque[str] = deque(maxlen=_TAIL)
    peak, failure, timed_out = 0, None, False
    deadline = time.monotonic() + timeout
    open_streams = len(readers)
    try:
        for reader in readers:
            reader.start()
        while open_streams:
            if time.monotonic() > deadline and not timed_out:
                timed_out = True
                _kill(process)
            try:
                line = lines.get(timeout=_POLL)
            except queue.Empty:
                on_poll()
                continue
            if line is None:
                open_streams -= 1
                continue
            report = _report(line)
            if report is None:
                tail.append(line.decode(errors="replace").rstrip())
            elif "step" in report:
                on_step(*report["step"])
            else:
                peak = report.get("peak", peak)
                failure = report.get("failed", failure)
        process.wait()
    finally:
        _kill(process)
        for reader in readers:
            reader.join(timeout=5)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    return ChildResult(
        returncode=process.returncode,
        timed_out=timed_out,
        peak_memory=peak,
        failure=failure,
        output="\n".join(tail),
    )


def largest_file(folder: Path, pattern: str) -> int:
    """Bytes of the largest matching file below `folder`, which another process may be changing."""
    largest = 0
    for path in folder.rglob(pattern):
        with contextlib.suppress(OSError):
            largest = max(largest, path.stat().st_size)
    return largest


def _forward(stream: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _report(line: bytes) -> dict[str, Any] | None:
    if not line.startswith(b'{"'):
        return None
    try:
        report = json.loads(line)
    except ValueError:
        return None
    return report if isinstance(report, dict) else None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
