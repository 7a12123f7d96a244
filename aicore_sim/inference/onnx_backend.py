"""The backend that runs an ONNX Runtime GenAI model folder in a child process.

The library holds the interpreter's lock during a prefill and can crash natively, so neither may
happen in the daemon.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from aicore_sim.inference import frames
from aicore_sim.inference._codes import InferenceErrorCode
from aicore_sim.inference.backend import BackendError, Chunk, Finish, GenerateRequest, ModelInfo
from aicore_sim.inference.cores import usable_cores
from aicore_sim.inference.model_folder import PromptOptions
from aicore_sim.inference.warm_states import DEFAULT_PREFIX_MEMORY_MB, WarmFigures
from aicore_sim.inference.watchdog import WorkerLimits
from aicore_sim.inference.worker_process import LoadError, WorkerProcess

_CANCEL_SECONDS = 2.0
_TAKEN_EVERY = frames.WINDOW // 4
_MAX_DEATHS = 5
_BACKOFF_SECONDS = (0.0, 0.5, 1.0, 2.0)
_REAP_SECONDS = 1.0

logger = logging.getLogger(__name__)


class _LostInLine(BackendError):
    """The worker was killed for another call's sake before it began this one."""


class OnnxBackend:
    """A :class:`~aicore_sim.inference.backend.Backend` for one model folder.

    `token_limit` lowers the model's own limit of input and output tokens together; `threads` is
    the number of cores to use (default: those this process may use); `prefix_memory_mb`, in MiB,
    bounds the memory of warm prefixes, and 0 keeps none; `prompts` chooses another dialect and
    shows prompts. Text that follows a chunk within `chunk_seconds` comes with the text after it;
    0 gives a chunk for each token. A worker that hangs longer than `limits` allow is killed: the
    call it hangs in fails with CONNECTION_LOST, calls that it had not begun are given to a new one.
    """

    def __init__(
        self,
        model_dir: Path,
        *,
        token_limit: int | None = None,
        threads: int | None = None,
        name: str | None = None,
        limits: WorkerLimits | None = None,
        prefix_memory_mb: int = DEFAULT_PREFIX_MEMORY_MB,
        chunk_seconds: float = 0.0,
        prompts: PromptOptions | None = None,
    ) -> None:
        self._load = frames.Load(
            model_dir=os.fspath(model_dir),
            threads=threads or usable_cores(),
            token_limit=token_limit,
            name=name,
            prefix_memory_mb=prefix_memory_mb,
            chunk_seconds=chunk_seconds,
            prompts=prompts or PromptOptions(),
        )
        self._limits = limits or WorkerLimits()
        self._worker: WorkerProcess | None = None
        self._excused: WorkerProcess | None = None
        self._starting = asyncio.Lock()
        self._info: ModelInfo | None = None
        self._unavailable: str | None = "The model is not loaded yet."
        self._deaths = 0
        self._stopped = False
        self._ids = itertools.count(1)

    @property
    def unavailable_reason(self) -> str | None:
        return self._unavailable

    @property
    def info(self) -> ModelInfo:
        if self._unavailable is not None or self._info is None:
            raise RuntimeError(f"The model cannot be used: {self._unavailable}")
        return self._info

    @property
    def worker_pid(self) -> int | None:
        """The process that runs the model, while there is one."""
        return self._worker.pid if self._worker and self._worker.alive else None

    @property
    def warm(self) -> WarmFigures:
        """What the worker keeps warm, as it said in its last answer to a ping."""
        return self._worker.warm if self._worker and self._worker.alive else WarmFigures()

    async def forget_prefixes(self, app: str | None = None) -> None:
        """Give up the warm prefixes of one app, or all, after the answer under way.

        Without a worker there are none. Raises BackendError for an answer that is none.
        """
        worker, call_id = self._worker, next(self._ids)
        if worker is None or not worker.alive:
            return
        channel = worker.open_channel(call_id)
        try:
            worker.send(frames.Forget(id=call_id, app=app))
            event = await channel.get()
            if event is not None and not isinstance(event, frames.Forgotten):
                raise self._error(worker, call_id, event)
        finally:
            worker.close_channel(call_id)

    async def start(self) -> None:
        """Loads the model; afterwards `unavailable_reason` says why that failed, if it did."""
        self._stopped, self._deaths = False, 0
        async with self._starting:
            if not self._is_running():
                await self._start_worker()

    async def stop(self) -> None:
        self._stopped = True
        if self._worker is not None:
            await self._worker.stop()  # this also ends a load that is under way
        async with self._starting:
            worker, self._worker = self._worker, None
            if worker is not None:
                await worker.stop()
            self._unavailable = "The backend is stopped."

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Works while a generation runs. Raises BackendError."""
        try:
            return await self._count(request)
        except _LostInLine:
            return await self._count(request)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """Streams one answer; a second one waits in the worker until the first has ended."""
        for may_repeat in (True, False):
            try:
                async with aclosing(self._answer(request)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except _LostInLine:
                if not may_repeat:
                    raise

    async def _count(self, request: GenerateRequest) -> int:
        worker, call_id = await self._ready_worker(), next(self._ids)
        channel = worker.open_channel(call_id)
        try:
            worker.send(frames.Count(id=call_id, request=request))
            event = await channel.get()
            if isinstance(event, frames.Counted):
                return event.tokens
            raise self._error(worker, call_id, event)
        finally:
            worker.close_channel(call_id)

    async def _answer(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        worker, call_id = await self._ready_worker(), next(self._ids)
        channel = worker.open_channel(call_id)
        running = False
        try:
            worker.send(frames.Generate(id=call_id, request=request))
            running, taken = True, 0
            while True:
                event = await channel.get()
                if not isinstance(event, frames.Produced):
                    running = False
                    raise self._error(worker, call_id, event)
                running = not isinstance(event.chunk, Finish)
                if not running:
                    self._deaths = 0
                    yield event.chunk
                    return
                yield event.chunk
                taken += 1
                if taken % _TAKEN_EVERY == 0 and worker.alive:
                    worker.send(frames.Taken(id=call_id, count=_TAKEN_EVERY))
        finally:
            try:
                if running and worker.alive:
                    await self._cancel(worker, call_id, channel)
            finally:
                worker.close_channel(call_id)

    async def _cancel(
        self,
        worker: WorkerProcess,
        call_id: int,
        channel: asyncio.Queue[frames.Event | None],
    ) -> None:
        """Returns when the worker has stopped decoding; kills one that does not.

        One that is in the middle of a prefill step cannot stop sooner: it is left to end the step.
        """
        worker.send(frames.Cancel(id=call_id))
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                while True:
                    event = await channel.get()
                    if not isinstance(event, frames.Produced) or isinstance(event.chunk, Finish):
                        break
        except TimeoutError:
            if not worker.in_prefill:
                # Not a death to count: an app that often breaks off must not use up the model.
                self._excused = worker
                worker.kill("did not stop a cancelled answer")
            return
        if isinstance(event, frames.Ended):
            self._deaths = 0
            logger.debug(
                "answer cancelled after %d tokens, %d of them after the request to stop",
                event.output_tokens,
                event.tokens_after_cancel,
            )

    async def _ready_worker(self) -> WorkerProcess:
        async with self._starting:
            if self._unavailable is None and not self._is_running():
                await self._restart()
            if self._worker is None or self._stopped or self._unavailable is not None:
                raise BackendError(
                    InferenceErrorCode.NOT_AVAILABLE,
                    f"The model cannot be used: {self._unavailable}",
                )
            return self._worker

    def _is_running(self) -> bool:
        return self._worker is not None and self._worker.alive

    async def _restart(self) -> None:
        if self._worker is None or self._worker is not self._excused:
            self._deaths += 1
        self._excused = None
        if self._deaths > _MAX_DEATHS:
            self._unavailable = (
                f"The inference worker died {_MAX_DEATHS} times without finishing an answer."
            )
            return
        if self._deaths:
            await asyncio.sleep(_BACKOFF_SECONDS[min(self._deaths, len(_BACKOFF_SECONDS)) - 1])
        if not self._stopped:
            await self._start_worker()

    async def _start_worker(self) -> None:
        if self._worker is not None:
            await self._worker.ended(_REAP_SECONDS)  # two models at once may not fit into memory
        self._worker = None
        try:
            worker = await WorkerProcess.start(self._limits)
        except OSError as error:
            self._give_up(f"The inference worker did not start: {error}")
            return
        self._worker = worker
        try:
            self._info = await worker.load(self._load)
            self._unavailable = None
        except LoadError as error:
            self._give_up(str(error))
        except BackendError as error:
            self._give_up(f"{error.message} It was loading {self._load.model_dir!r}.")
        except asyncio.CancelledError:
            worker.kill("was abandoned while it loaded the model")
            raise
        if self._unavailable is not None:
            await worker.stop()

    def _give_up(self, reason: str) -> None:
        self._unavailable = reason
        if not self._stopped:
            logger.error("the model cannot be used: %s", reason)

    def _error(
        self, worker: WorkerProcess, call_id: int, event: frames.Event | None
    ) -> BackendError:
        if isinstance(event, frames.Failed):
            return BackendError(event.error_code, event.message)
        if event is None:
            death = worker.death()
            if worker.was_lost_in_line(call_id):
                return _LostInLine(death.error_code, death.message)
            return death
        return BackendError(InferenceErrorCode.UNKNOWN, f"The worker answered {event.event!r}.")
