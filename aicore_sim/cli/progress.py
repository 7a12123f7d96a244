"""Progress bars for pulls, on standard error."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from aicore_sim.models.pull import Phase

_LABELS: dict[Phase, str] = {
    "wait": "waiting for another pull",
    "download": "download the model",
    "extract": "check and extract",
    "convert": "convert to ONNX",
    "verify": "try the model",
}


class Bars:
    """One bar a phase; where there is no terminal, one line a phase."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:<26}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._total: int | None = None

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def start(self, phase: Phase, total: int | None) -> None:
        self._total = total
        self._task = self._bars.add_task(_LABELS[phase], total=total)
        if not self._console.is_terminal:
            self._console.print(f"{_LABELS[phase]} …")

    def advance(self, amount: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, amount)

    def done(self) -> None:
        if self._task is not None:
            total = self._total or 1
            self._bars.update(self._task, total=total, completed=total)
            self._task = None
