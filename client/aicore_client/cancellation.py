"""Cancelling an operation from anywhere, as Android does it.

https://developer.android.com/reference/android/os/CancellationSignal
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aicore_client.errors import OperationCanceledException


class CancellationSignal:
    """Give it to a call, and `cancel` it from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_canceled = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_canceled(self) -> bool:
        return self._is_canceled

    def cancel(self) -> None:
        """Idempotent; returns before the operation has ended."""
        with self._lock:
            if self._is_canceled:
                return
            self._is_canceled = True
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def throw_if_canceled(self) -> None:
        """Raises OperationCanceledException."""
        if self._is_canceled:
            raise OperationCanceledException

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Ours, for Android's setOnCancelListener: calls `listener` on cancellation, at once when
        that has been, in the thread that cancels."""
        with self._lock:
            canceled = self._is_canceled
            if not canceled:
                self._listeners.append(listener)
        if canceled:
            listener()
        try:
            yield
        finally:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)
