"""A pull in a process of its own, which a test can hold in a phase, limit and kill.

As a script: pull_process.py ENTRY_JSON SOURCE HOLD_PHASE FILE_LIMIT. It prints each phase as it
starts; in HOLD_PHASE it waits for a line of input.
"""

from __future__ import annotations

import dataclasses
import json
import queue
import resource
import subprocess
import sys
import threading
from pathlib import Path

from aicore_sim.models.catalogue import CatalogueModel
from aicore_sim.models.errors import PullError
from aicore_sim.models.pull import NoProgress, Phase, pull

BOUND = 60.0  # seconds; a conversion starts two interpreters, on a machine that may be busy


class PullProcess:
    def __init__(
        self, model: CatalogueModel, source: Path | None, *, hold: str = "", file_limit: int = 0
    ) -> None:
        entry = json.dumps(dataclasses.asdict(model))
        self.process = subprocess.Popen(
            [sys.executable, __file__, entry, str(source or ""), hold, str(file_limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, start: str) -> str:
        """The next line that begins with `start`; queue.Empty when none comes in time."""
        while True:
            line = self._lines.get(timeout=BOUND)
            if line.startswith(start):
                return line
            assert line, f"ended before {start!r}"

    def let_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        self.process.wait(timeout=BOUND)
        self._reader.join(timeout=5)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("")


class _HoldingProgress(NoProgress):
    def __init__(self, hold: str) -> None:
        self._hold = hold

    def start(self, phase: Phase, total: int | None) -> None:
        print("start", phase, flush=True)
        if phase == self._hold:
            sys.stdin.readline()


def _main() -> None:
    entry, source, hold, file_limit = sys.argv[1:]
    if int(file_limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(file_limit), int(file_limit)))
    try:
        result = pull(
            CatalogueModel(**json.loads(entry)),
            _HoldingProgress(hold),
            source=Path(source) if source else None,
        )
    except PullError as error:
        print("failed", error.failure, flush=True)
    else:
        print("found" if result.already_there else "pulled", result.path, flush=True)


if __name__ == "__main__":
    _main()
