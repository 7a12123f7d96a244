"""A model that a test drives by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from aicore_sim.inference.backend import (
    Chunk,
    Finish,
    GenerateRequest,
    ModelInfo,
    TextDelta,
    Usage,
)


class HandDrivenBackend:
    """Each answer is as many `token ` chunks as `release` lets through, without end until
    `finish`. Loading ends when `may_load` is set, with `failure` if there is one.

    It keeps every stream, so that only closing one ends it and never the garbage collector.
    """

    def __init__(
        self,
        *,
        reason: str | None = None,
        loaded: bool = True,
        failure: Exception | None = None,
    ) -> None:
        self.reason = reason
        self.failure = failure
        self.streams: list[AsyncGenerator[Chunk, None]] = []
        self.requests: list[GenerateRequest] = []
        self.open = 0
        self.closed = asyncio.Event()
        """Set when the last open answer has ended."""
        self.stopped = False
        self.input_tokens = 3
        self.may_load = asyncio.Event()
        self._permits = asyncio.Semaphore(0)
        self._finish = asyncio.Event()
        if loaded:
            self.may_load.set()

    def release(self, count: int = 1) -> None:
        for _ in range(count):
            self._permits.release()

    def finish(self) -> None:
        self._finish.set()
        self.release()

    async def start(self) -> None:
        await self.may_load.wait()
        if self.failure is not None:
            raise self.failure

    async def stop(self) -> None:
        self.stopped = True

    @property
    def unavailable_reason(self) -> str | None:
        return self.reason

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(name="by-hand", token_limit=1000, dialect="none", constrained=True)

    async def count_tokens(self, request: GenerateRequest) -> int:
        return self.input_tokens

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        stream = self._answer(request)
        self.streams.append(stream)
        return stream

    async def _answer(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        self.open += 1
        self.closed.clear()
        written = 0
        try:
            while True:
                await self._permits.acquire()
                if self._finish.is_set():
                    break
                written += 1
                yield TextDelta(text="token ")
            usage = Usage(input_tokens=self.input_tokens, output_tokens=written)
            yield Finish(reason="stop", usage=usage)
        finally:
            self.open -= 1
            if not self.open:
                self.closed.set()
