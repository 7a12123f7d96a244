"""States that hold for a block and are put back after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")


def kept(
    read: Callable[[], K], change: Callable[[], object], put_back: Callable[[K], object]
) -> Scope[None]:
    """For a block, what `change` makes of a state; `put_back` gets what `read` gave before."""
    before: list[K] = []

    def enter() -> None:
        before.append(read())
        change()

    def leave(_: None) -> None:
        put_back(before[0])

    return Scope(enter, leave)


class Scope(Generic[T]):
    """Enter it with `with`, in a coroutine also with `async with`; each once.

    Nothing happens before it is entered. Leaving restores what was there, also when the body
    raised.
    """

    def __init__(self, enter: Callable[[], T], leave: Callable[[T], None]) -> None:
        self._enter = enter
        self._leave = leave
        self._entered = False
        self._value: T

    def __enter__(self) -> T:
        if self._entered:
            raise RuntimeError("this state was entered already; make another one")
        self._entered = True
        self._value = self._enter()
        return self._value

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave(self._value)

    async def __aenter__(self) -> T:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, exc_type, exc, traceback)
