"""Progress bars by name, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

Advance = Callable[[str, int, int], None]
"""Name of what is done, how much of it is, and of how much."""


@contextmanager
def named_bars() -> Iterator[Advance]:
    """A bar for each name, from its first report on; a line where there is no terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description:<26}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
                if not console.is_terminal:
                    console.print(f"{name} …")
            bars.update(tasks[name], completed=done)

        yield advance
