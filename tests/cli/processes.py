"""Real `aicore-sim` processes for tests, each wait bounded."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

BOOT_TIMEOUT = 60.0
WAIT = 5.0
COMMAND = (sys.executable, "-m", "aicore_sim")
HOST_COMMAND = (sys.executable, "-m", "appfunctions_host")

SCRIPT = "- text: Hello from the script.\n"


def script(path: Path, text: str = SCRIPT) -> str:
    """A `--model` value for a script with this text."""
    path.write_text(text)
    return f"scripted:{path}"


def run(
    *arguments: str,
    command: tuple[str, ...] = COMMAND,
    env: Mapping[str, str] | None = None,
    timeout: float = BOOT_TIMEOUT,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end with its output captured by pipes."""
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
    )


class Up:
    """`aicore-sim up` in the foreground; `facts` is what its READY line said."""

    def __init__(
        self, device_dir: Path, *arguments: str, env: Mapping[str, str] | None = None
    ) -> None:
        self.device_dir = device_dir
        self.process = subprocess.Popen(
            [*COMMAND, "up", "--device-dir", str(device_dir), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._out: list[str] = []
        self._err: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_out, daemon=True),
            threading.Thread(target=self._read_err, daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        self.facts: dict[str, Any] = {}

    def ready(self) -> dict[str, Any]:
        """Wait for the READY line. Fails with the output when the process ends before it."""
        while True:
            line = self._lines.get(timeout=BOOT_TIMEOUT)
            if line is None:
                raise AssertionError(f"up ended: {self.output}\n{self.errors}")
            if line.startswith("READY "):
                self.facts = json.loads(line.removeprefix("READY "))
                return self.facts

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(timeout=2 * WAIT)
        for reader in self._readers:
            reader.join(timeout=WAIT)
        return code

    @property
    def output(self) -> str:
        return "".join(self._out)

    @property
    def errors(self) -> str:
        return "".join(self._err)

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._out.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        self._err.extend(self.process.stderr)

    def __enter__(self) -> Up:
        self.ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill what still runs, and see that nothing of the device is left."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        wait_until(lambda: not processes_of(self.device_dir), f"processes of {self.device_dir}")


def processes() -> Iterator[tuple[int, int, str]]:
    """Pid, parent's pid and command line of every process that runs."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,stat=,args="],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT,
    )
    for line in listed.stdout.splitlines():
        pid, parent, state, arguments = (*line.split(None, 3), "")[:4]
        if not state.startswith("Z"):
            yield int(pid), int(parent), arguments


def processes_of(device_dir: Path) -> dict[int, str]:
    """Processes that name the device directory, and all their descendants, except us."""
    everything = list(processes())
    found = {
        pid: arguments
        for pid, _, arguments in everything
        if str(device_dir) in arguments and pid != os.getpid()
    }
    grown = True
    while grown:
        grown = False
        for pid, parent, arguments in everything:
            if parent in found and pid not in found:
                found[pid] = arguments
                grown = True
    return found


def children_of(pid: int) -> list[int]:
    return [child for child, parent, _ in processes() if parent == pid]


def is_running(pid: int) -> bool:
    return any(found == pid for found, _, _ in processes())


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 2 * WAIT) -> None:
    """Look again and again, for `timeout` seconds at most."""
    pause = threading.Event()
    for _ in range(int(timeout / 0.05)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError(f"still waiting for {what} after {timeout} s")


@contextmanager
def killed_at_end(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
