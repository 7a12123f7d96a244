"""Lines of standard input for a program that waits for other things, too."""

from __future__ import annotations

import asyncio
import os
import threading


class Lines:
    """An asynchronous iterator over the lines of a file descriptor, stripped of white space.

    Reads in a thread of its own, which no file, pipe or terminal can hold up the program with.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._closed = False
        threading.Thread(target=self._read, name="lines", daemon=True).start()

    def close(self) -> None:
        """Ends the iteration, whatever is still to be read."""
        self._closed = True
        self._lines.put_nowait(None)

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        line = None if self._closed else await self._lines.get()
        if line is None or self._closed:
            self._closed = True
            raise StopAsyncIteration
        return line

    def _read(self) -> None:
        # os.read and not sys.stdin: a thread inside a buffered read aborts the interpreter's exit.
        rest = b""
        while data := os.read(self._descriptor, 4096):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                self._put(line)
        if rest:
            self._put(rest)
        self._hand_over(None)

    def _put(self, line: bytes) -> None:
        self._hand_over(line.decode(errors="replace").strip())

    def _hand_over(self, line: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:  # the loop has ended before the input
            return
