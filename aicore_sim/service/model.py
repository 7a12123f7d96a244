"""The model of the device: while it loads, while it works, and when it cannot be used."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from enum import IntEnum

from aicore_sim.device.errors import GenAiCode
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference.backend import Backend, Chunk, GenerateRequest, ModelInfo
from aicore_sim.policy.failures import aicore_failure

logger = logging.getLogger(__name__)

START_TIMEOUT = 310.0
STOP_TIMEOUT = 3.0


class ModelState(IntEnum):
    """Members and numbers of `ModelState` in device.proto."""

    UNLOADED = 1
    LOADING = 2
    LOADED = 3
    BROKEN = 4


class UnavailableBackend:
    """Stands in for a model that was not found."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def start(self) -> None:
        """Nothing to load."""

    async def stop(self) -> None:
        """Nothing to release."""

    @property
    def unavailable_reason(self) -> str | None:
        return self._reason

    @property
    def info(self) -> ModelInfo:
        raise RuntimeError(self._reason)

    async def count_tokens(self, request: GenerateRequest) -> int:
        raise RuntimeError(self._reason)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        raise RuntimeError(self._reason)
        yield


class DeviceModel:
    """A backend and its life.

    Loading happens beside the calls, so that status calls answer, and belongs to the device: it
    goes on when the call that caused it is cancelled, and serves everybody who waits for it.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        name: str,
        clock: DeviceClock,
        cold_seconds: float = 0.0,
        idle_unload_seconds: float = 0.0,
    ) -> None:
        """`cold_seconds` of device time pass with every load but the one at the start, which only
        finds out whether the model can be used. After `idle_unload_seconds` of device time without
        a call the model is unloaded; 0 never does."""
        self.name = name
        self.backend = backend
        self.clock = clock
        self._cold_seconds = cold_seconds
        self._idle_seconds = idle_unload_seconds
        self._state = ModelState.UNLOADED
        self._failure: str | None = None
        self._info: ModelInfo | None = None
        self._task: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._first_load = asyncio.Event()
        self._ended = asyncio.Event()
        self._users = 0
        self._used_at = clock.monotonic()
        self._unused = asyncio.Event()
        self._unused.set()
        self._stopping = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def state(self) -> ModelState:
        """BROKEN also when a model that had been loaded is lost for good."""
        if self._state is ModelState.LOADED and self.backend.unavailable_reason is not None:
            return ModelState.BROKEN
        return self._state

    @property
    def unload_at(self) -> float | None:
        """Device time at which the idle model will be unloaded, seconds since the epoch."""
        if not self._idle_seconds or self._users or self.state is not ModelState.LOADED:
            return None
        left = self._used_at + self._idle_seconds - self.clock.monotonic()
        return self.clock.now() + max(0.0, left)

    @property
    def unavailable_reason(self) -> str | None:
        """Why the model cannot be used; None while it loads, since its files are there."""
        if self._state is ModelState.BROKEN:
            return self._failure
        if self._state is ModelState.LOADED:
            return self.backend.unavailable_reason
        return None

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of `state`."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin to load."""
        self._begin(cold_seconds=0.0, warm=not self._cold_seconds)

    async def wait_loaded(self) -> None:
        """Return when the load of the start has ended, well or not."""
        await self._first_load.wait()

    def require_available(self) -> None:
        """Raises GenAiError 8. The reason goes to the log: an app on a phone never sees it."""
        reason = self.unavailable_reason
        if reason is not None:
            logger.warning("model=%s is unavailable: %s", self.name, reason)
            raise aicore_failure(
                GenAiCode.NOT_AVAILABLE,
                "The model is not available; the log of AICore says why.",
            )

    async def info(self) -> ModelInfo:
        """What the model said of itself when it was loaded last. Raises GenAiError 8."""
        if self._info is None:
            await self._until_first_load()
        self.require_available()
        return self._info or self.backend.info

    async def ready(self) -> Backend:
        """The backend, loaded. Raises GenAiError 8."""
        await self._until_first_load()
        while self._state in (ModelState.UNLOADED, ModelState.LOADING):
            if self._stopping:
                raise aicore_failure(GenAiCode.NOT_AVAILABLE, "AICore stops.")
            if self._state is ModelState.UNLOADED:
                self._begin(cold_seconds=self._cold_seconds, warm=True)
            # The load sleeps on the clock, and we only wait for it.
            with self.clock.idle():
                await self._ended.wait()
        self.require_available()
        return self.backend

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """The model is not unloaded inside the block."""
        self._users += 1
        self._unused.clear()
        try:
            yield
        finally:
            self._users -= 1
            self._used_at = self.clock.monotonic()
            if not self._users:
                self._unused.set()

    def crashed(self) -> None:
        """The process that ran the model died: the next call pays for loading it again."""
        if self._state is ModelState.LOADED and self._cold_seconds:
            self._end_watch()
            self._change(ModelState.UNLOADED)

    async def replace(self, backend: Backend) -> None:
        """Put another backend in the place of this one, and load it."""
        await self._end_tasks()
        await self.backend.stop()
        self.backend, self._info, self._failure = backend, None, None
        self._first_load = asyncio.Event()
        self._change(ModelState.UNLOADED)
        self.start()

    def shut_down(self) -> None:
        """Refuse those who wait for the model, and whoever asks for it from now on, with 8."""
        self._stopping = True
        self._first_load.set()
        self._ended.set()

    async def stop(self) -> None:
        """Stop loading or the model, within STOP_TIMEOUT seconds. Idempotent."""
        self.shut_down()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._end_tasks()
                await self.backend.stop()
        except TimeoutError:
            logger.warning("model=%s did not stop within %s s", self.name, STOP_TIMEOUT)

    async def _until_first_load(self) -> None:
        if not self._first_load.is_set():
            with self.clock.idle():
                await self._first_load.wait()

    def _begin(self, *, cold_seconds: float, warm: bool) -> None:
        self._ended = asyncio.Event()
        self._change(ModelState.LOADING)
        self._task = asyncio.create_task(self._load(cold_seconds, warm), name="load-model")

    async def _load(self, cold_seconds: float, warm: bool) -> None:
        """`warm`: the weights stay in the memory of the simulated phone."""
        try:
            await self._start_backend()
            if self._failure is None:
                await self.clock.sleep(cold_seconds, label="load-model")
        finally:
            if self._state is ModelState.LOADING:
                self._loaded(warm)
            self._first_load.set()
            self._ended.set()

    async def _start_backend(self) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await self.backend.start()
            self._failure = self.backend.unavailable_reason
        except TimeoutError:
            self._failure = f"loading took more than {START_TIMEOUT:.0f} s"
        except Exception as error:
            logger.exception("model=%s failed to load", self.name)
            self._failure = f"loading failed with {type(error).__name__}: {error}"

    def _loaded(self, warm: bool) -> None:
        if self._failure is not None:
            logger.warning("model=%s is unavailable: %s", self.name, self._failure)
            self._change(ModelState.BROKEN)
        elif self.backend.unavailable_reason is not None:
            self._change(ModelState.UNLOADED)  # loading was cancelled
        else:
            logger.info("model=%s is ready", self.name)
            self._info = self.backend.info
            self._used_at = self.clock.monotonic()
            self._change(ModelState.LOADED if warm else ModelState.UNLOADED)
            if warm and self._idle_seconds:
                self._watch = asyncio.create_task(self._unload_when_idle(), name="idle-unload")

    async def _unload_when_idle(self) -> None:
        while True:
            with self.clock.idle():
                await self._unused.wait()
            left = self._used_at + self._idle_seconds - self.clock.monotonic()
            if left > 0:
                await self.clock.sleep(left)
            elif not self._users:
                break
        logger.info("model=%s was idle for %s s and is unloaded", self.name, self._idle_seconds)
        # A call that comes while the backend stops waits for it, as for any load.
        self._ended = asyncio.Event()
        self._change(ModelState.LOADING)
        try:
            await self.backend.stop()
        finally:
            self._change(ModelState.UNLOADED)
            self._ended.set()

    def _change(self, state: ModelState) -> None:
        if state is not self._state:
            self._state = state
            for listener in self._listeners:
                listener()

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    async def _end_tasks(self) -> None:
        tasks = [task for task in (self._task, self._watch) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
