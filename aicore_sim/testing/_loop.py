"""An event loop in a thread of its own, for what has to go on while a test runs or blocks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_JOIN_SECONDS = 5.0


class LoopThread:
    """Runs coroutines for any other thread. The thread never keeps the process alive."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float) -> T:
        """The result of `work`. Raises what it raises, and TimeoutError after `timeout` seconds."""
        waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waiting.result(timeout)
        except BaseException:
            waiting.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start `work` and return; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel what runs and end the thread. Idempotent."""
        if self._loop.is_closed():
            return
        try:
            self.run(_cancel_others(), _JOIN_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_JOIN_SECONDS)
            if not self._thread.is_alive():
                self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_JOIN_SECONDS / 2)
    await asyncio.get_running_loop().shutdown_asyncgens()
