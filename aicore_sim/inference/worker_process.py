"""One inference worker as the daemon sees it: started, spoken to, and ended for sure."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from aicore_sim.inference import frames
from aicore_sim.inference._codes import InferenceErrorCode
from aicore_sim.inference.backend import BackendError, ModelInfo
from aicore_sim.inference.warm_states import WarmFigures
from aicore_sim.inference.watchdog import Watchdog, WorkerLimits

_LOG_LINES = 40
_LOG_LINE_LIMIT = 64 * 1024
_SHUTDOWN_SECONDS = 2.0
_TERMINATE_SECONDS = 1.0

logger = logging.getLogger(__name__)


class LoadError(Exception):
    """The worker runs but cannot load the model."""


class WorkerProcess:
    """A child process in its own process group. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, limits: WorkerLimits) -> None:
        self._process = process
        self._limits = limits
        self._watchdog = Watchdog(limits)
        self._replies: dict[int, asyncio.Queue[frames.Event | None]] = {}
        self._loaded: asyncio.Future[ModelInfo] = asyncio.get_running_loop().create_future()
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._begun: set[int] = set()
        self.warm = WarmFigures()
        """What it kept warm when it answered last."""
        self._gone = False
        self._killed_because: str | None = None
        self._stopping = False
        self._pulse: asyncio.Task[None] | None = None
        self._watch = asyncio.create_task(self._watch_process(), name="inference-worker")

    @classmethod
    async def start(cls, limits: WorkerLimits) -> WorkerProcess:
        """Spawns the process. Raises OSError when that fails."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "aicore_sim.inference.worker",
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LOG_LINE_LIMIT,
            start_new_session=True,
        )
        return cls(process, limits)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether calls can still be answered."""
        return not self._gone

    @property
    def in_prefill(self) -> bool:
        """Whether it may be in a step that no command can end early."""
        return self._watchdog.in_prefill

    async def load(self, command: frames.Load) -> ModelInfo:
        """From here on, a worker that hangs is killed.

        Raises LoadError (the model is at fault, or takes too long) or BackendError (the process
        died).
        """
        self.send(command)
        try:
            async with asyncio.timeout(self._limits.load):
                info = await asyncio.shield(self._loaded)
        except TimeoutError:
            raise LoadError(
                f"{command.model_dir!r} did not load in {self._limits.load:g} s."
            ) from None
        self._pulse = asyncio.create_task(self._watch_pulse(), name="inference-worker-pulse")
        return info

    def send(self, command: frames.Command) -> None:
        """Raises BackendError when the worker is gone or the command cannot be sent."""
        if self._gone or self._process.stdin is None:
            raise self.death()
        try:
            self._process.stdin.write(frames.encode(command))
        except frames.NotSendableError as error:
            raise BackendError(InferenceErrorCode.REQUEST_TOO_SMALL, str(error)) from error
        except frames.FrameError as error:
            raise BackendError(InferenceErrorCode.REQUEST_TOO_LARGE, str(error)) from error

    def open_channel(self, call_id: int) -> asyncio.Queue[frames.Event | None]:
        """Where the events of one call arrive; None means that the worker died."""
        # Events of one call are bounded by the window of chunks that the worker keeps to.
        channel: asyncio.Queue[frames.Event | None] = asyncio.Queue(frames.WINDOW + 8)
        self._replies[call_id] = channel
        return channel

    def close_channel(self, call_id: int) -> None:
        self._replies.pop(call_id, None)
        self._begun.discard(call_id)

    def was_lost_in_line(self, call_id: int) -> bool:
        """Whether the worker was killed for another call's sake, before it began this one."""
        return self._killed_because is not None and call_id not in self._begun

    def death(self) -> BackendError:
        """The error for every call that was under way when the worker died."""
        how = f"died ({self._how_it_ended()})"
        if self._killed_because is not None:
            how = f"{self._killed_because} and was killed"
        return BackendError(
            InferenceErrorCode.CONNECTION_LOST, f"AICore lost the call: the inference worker {how}."
        )

    def log_tail(self) -> str:
        """The last lines that the worker wrote to its standard error."""
        return "\n".join(self._log)

    async def stop(self) -> None:
        """Asks, then terminates, then kills. Bounded by about three seconds; idempotent."""
        self._stopping = True
        with suppress(BackendError):
            self.send(frames.Shutdown())
        for seconds, number in (
            (_SHUTDOWN_SECONDS, signal.SIGTERM),
            (_TERMINATE_SECONDS, signal.SIGKILL),
        ):
            done, _ = await asyncio.wait({self._watch}, timeout=seconds)
            if done:
                return
            self._signal(number)
        await asyncio.wait({self._watch}, timeout=1.0)

    def kill(self, because: str) -> None:
        """Ends the process at once, and with it the calls under way.

        `because` follows "the inference worker" in their error.
        """
        self._gone = True
        if self._killed_because is None:
            self._killed_because = because
        logger.warning("inference worker %d %s; it is killed", self.pid, because)
        self._signal(signal.SIGKILL)
        self._end_calls()  # a process inside the kernel may take its time to die

    async def ended(self, seconds: float) -> None:
        """Returns when the process is gone, or after that time."""
        await asyncio.wait({self._watch}, timeout=seconds)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    async def _watch_process(self) -> None:
        """Owns the pipes; returns when the process is gone and every caller knows."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read_events())
                group.create_task(self._read_log())
        except* (frames.FrameError, OSError) as errors:
            logger.warning("inference worker %d sent no frame: %s", self.pid, errors.exceptions)
        finally:
            if self._pulse is not None:
                self._pulse.cancel()
            self._signal(signal.SIGKILL)  # it may have closed its pipes without ending
            await self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._tell_everyone()

    async def _watch_pulse(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while not self._gone:
            if not self._watchdog.awaits_pong:
                self._watchdog.awaits_pong = True
                self.send(frames.Ping())
            await asyncio.sleep(self._watchdog.interval)
            now = loop.time()
            hangs = self._watchdog.tick(now - last)
            last = now
            if hangs is not None and not self._gone:
                self.kill(hangs)

    async def _read_events(self) -> None:
        stream = self._process.stdout
        assert stream is not None, "started with a pipe"
        with suppress(asyncio.IncompleteReadError):
            while True:
                length = frames.body_length(await stream.readexactly(frames.HEADER))
                self._dispatch(frames.parse_event(await stream.readexactly(length)))
        self._gone = True

    def _dispatch(self, event: frames.Event) -> None:
        self._watchdog.heard(event)
        if isinstance(event, frames.Loaded):
            self._settle(lambda future: future.set_result(event.info))
        elif isinstance(event, frames.LoadFailed):
            reason = event.reason
            self._settle(lambda future: future.set_exception(LoadError(reason)))
        elif isinstance(event, frames.Pong):
            self.warm = event.warm
        elif isinstance(event, frames.Progress):
            if event.id in self._replies:
                self._begun.add(event.id)
        elif isinstance(event, frames.Prompted):
            logger.info("prompt of generation %d:\n%s", event.id, event.text)
        elif channel := self._replies.get(event.id):
            try:
                channel.put_nowait(event)
            except asyncio.QueueFull:
                raise frames.FrameError(f"more than {frames.WINDOW} chunks under way") from None

    async def _read_log(self) -> None:
        stream = self._process.stderr
        assert stream is not None, "started with a pipe"
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # a line over the limit is dropped
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            self._log.append(text)
            logger.debug("worker %d: %s", self.pid, text)

    def _settle(self, settle: Callable[[asyncio.Future[ModelInfo]], None]) -> None:
        if not self._loaded.done():
            settle(self._loaded)

    def _tell_everyone(self) -> None:
        self._gone = True
        if not self._stopping:
            logger.warning(
                "inference worker %d died (%s)\n%s",
                self.pid,
                self._how_it_ended(),
                self.log_tail(),
            )
        error = self.death()
        self._settle(lambda future: future.set_exception(error))
        if not self._loaded.cancelled():
            self._loaded.exception()  # nobody may be waiting for it
        self._end_calls()

    def _end_calls(self) -> None:
        for channel in self._replies.values():
            while channel.full():
                channel.get_nowait()
            channel.put_nowait(None)

    def _how_it_ended(self) -> str:
        code = self._process.returncode
        if code is None:
            return "its pipe closed"
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
