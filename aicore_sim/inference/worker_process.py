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

_LOG_LINES = 40
_LOG_LINE_LIMIT = 64 * 1024
_SHUTDOWN_SECONDS = 2.0
_TERMINATE_SECONDS = 1.0

logger = logging.getLogger(__name__)


class LoadError(Exception):
    """The worker runs but cannot load the model."""


class WorkerProcess:
    """A child process in its own process group. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._replies: dict[int, asyncio.Queue[frames.Event | None]] = {}
        self._loaded: asyncio.Future[ModelInfo] = asyncio.get_running_loop().create_future()
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._gone = False
        self._stopping = False
        self._watch = asyncio.create_task(self._watch_process(), name="inference-worker")

    @classmethod
    async def start(cls) -> WorkerProcess:
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
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether calls can still be answered."""
        return not self._gone

    async def load(self, command: frames.Load) -> ModelInfo:
        """Raises LoadError (the model is at fault) or BackendError (the process died)."""
        self.send(command)
        return await asyncio.shield(self._loaded)

    def send(self, command: frames.Command) -> None:
        """Raises BackendError when the worker is gone or the command is too large."""
        if self._gone or self._process.stdin is None:
            raise self.death()
        try:
            self._process.stdin.write(frames.encode(command))
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

    def death(self) -> BackendError:
        """The error for every call that was under way when the worker died."""
        return BackendError(
            InferenceErrorCode.CONNECTION_LOST,
            f"AICore lost the call: the inference worker died ({self._how_it_ended()}).",
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

    def kill(self) -> None:
        """Ends the process at once; calls under way fail as if it had died."""
        self._gone = True
        self._signal(signal.SIGKILL)

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
            self._signal(signal.SIGKILL)  # it may have closed its pipes without ending
            await self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._tell_everyone()

    async def _read_events(self) -> None:
        stream = self._process.stdout
        assert stream is not None, "started with a pipe"
        with suppress(asyncio.IncompleteReadError):
            while True:
                length = frames.body_length(await stream.readexactly(frames.HEADER))
                self._dispatch(frames.parse_event(await stream.readexactly(length)))
        self._gone = True

    def _dispatch(self, event: frames.Event) -> None:
        if isinstance(event, frames.Loaded):
            self._settle(lambda future: future.set_result(event.info))
        elif isinstance(event, frames.LoadFailed):
            reason = event.reason
            self._settle(lambda future: future.set_exception(LoadError(reason)))
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
        for channel in self._replies.values():
            while channel.full():
                channel.get_nowait()
            channel.put_nowait(None)

    def _how_it_ended(self) -> str:
        code = self._process.returncode
        if code is None:
            return "its pipe closed"
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
