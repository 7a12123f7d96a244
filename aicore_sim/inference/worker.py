"""The process that runs a model for the daemon: `python -m aicore_sim.inference.worker PARENT`.

The engine loads and runs on the main thread. A second thread reads the commands, so that
cancelling works while a generation runs, and ends the process when the daemon's end of the pipe
closes. A third one counts tokens.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO, assert_never

from aicore_sim.device.process import die_with_parent
from aicore_sim.inference import frames
from aicore_sim.inference._codes import InferenceErrorCode
from aicore_sim.inference.backend import BackendError, Chunk, TextDelta
from aicore_sim.inference.engine import Engine, TokenCounter
from aicore_sim.inference.model_folder import ModelFolderError
from aicore_sim.inference.warm_states import WarmFigures

logger = logging.getLogger(__name__)


class _Outbox:
    """Writes whole frames, from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, event: frames.Event) -> None:
        data = frames.encode(event)
        with self._lock:
            self._stream.write(data)
            self._stream.flush()


class _Job:
    """One generation, as both threads see it."""

    def __init__(self, command: frames.Generate) -> None:
        self.command = command
        self.tokens = 0
        self.tokens_at_cancel: int | None = None
        self.held = False
        """Whether it waits for its consumer."""
        self._begun = False
        self._room = frames.WINDOW
        self._changed = threading.Condition()

    @property
    def cancelled(self) -> bool:
        return self.tokens_at_cancel is not None

    def begin(self) -> bool:
        """False when it was cancelled while it waited in line; then it has been answered."""
        with self._changed:
            self._begun = not self.cancelled
            return self._begun

    def cancel(self) -> bool:
        """Whether it had begun, and so will answer for itself."""
        with self._changed:
            if self.tokens_at_cancel is None:
                self.tokens_at_cancel = self.tokens
            self._changed.notify_all()
            return self._begun

    def taken(self, count: int) -> None:
        with self._changed:
            self._room += count
            self._changed.notify_all()

    def wait_for_room(self) -> bool:
        """Waits until a chunk may be sent; False when the job was cancelled instead."""
        with self._changed:
            self.held = True
            self._changed.wait_for(lambda: self._room > 0 or self.cancelled)
            self.held = False
            self._room -= 1
            return not self.cancelled


class _Emitter:
    """Sends the chunks of one answer.

    Every chunk takes time of the worker, the daemon and the app, on the cores that the model
    needs. So text is sent at once where the model is slower than `seconds` a token, and gathered
    where it is faster. Used by the engine's thread alone.
    """

    def __init__(self, job: _Job, outbox: _Outbox, seconds: float) -> None:
        self._job = job
        self._outbox = outbox
        self._seconds = seconds
        self._text = ""
        self._sent = float("-inf")

    def emit(self, chunk: Chunk) -> None:
        if isinstance(chunk, TextDelta):
            self._text += chunk.text
            if time.monotonic() - self._sent >= self._seconds:
                self.flush()
        else:
            self.flush()
            self._send(chunk)

    def flush(self) -> None:
        """Send what was gathered."""
        text, self._text = self._text, ""
        if text:
            self._send(TextDelta(text=text))

    def _send(self, chunk: Chunk) -> None:
        if self._job.wait_for_room():
            self._outbox.send(frames.Produced(id=self._job.command.id, chunk=chunk))
        self._sent = time.monotonic()


class _Worker:
    def __init__(self, commands: BinaryIO, outbox: _Outbox) -> None:
        self._commands = commands
        self._outbox = outbox
        self._queue: queue.SimpleQueue[_Job | frames.Forget] = queue.SimpleQueue()
        self._counts: queue.SimpleQueue[frames.Count] = queue.SimpleQueue()
        self._jobs: dict[int, _Job] = {}
        self._jobs_lock = threading.Lock()
        self._warm = WarmFigures()
        self._chunk_seconds = 0.0
        self._current: _Job | None = None
        self._steps = 0
        self._in_prefill = False
        self._show = False

    def run(self) -> None:
        load = frames.read_command(self._commands)
        if not isinstance(load, frames.Load):
            return
        self._chunk_seconds = load.chunk_seconds
        try:
            engine = Engine(
                Path(load.model_dir),
                threads=load.threads,
                token_limit=load.token_limit,
                name=load.name,
                prefix_memory_mb=load.prefix_memory_mb,
                dialect=load.prompts.dialect,
                guidance=load.prompts.guidance,
            )
            counter = engine.token_counter()
        except ModelFolderError as error:
            self._outbox.send(frames.LoadFailed(reason=str(error)))
            return
        threading.Thread(target=self._read_commands, name="commands", daemon=True).start()
        threading.Thread(
            target=self._answer_counts, args=(counter,), name="counts", daemon=True
        ).start()
        self._outbox.send(frames.Loaded(info=engine.info))
        self._show = load.prompts.show
        while True:
            job = self._queue.get()
            if isinstance(job, frames.Forget):
                engine.forget(job.app)
                self._outbox.send(frames.Forgotten(id=job.id))
            elif job.begin():
                self._current = job
                self._generate(engine, job)
                self._current = None
            self._warm = engine.warm

    def _generate(self, engine: Engine, job: _Job) -> None:
        def cancelled(tokens: int) -> bool:
            job.tokens = tokens
            self._step(job_id, prefill=tokens == 0)
            return job.cancelled

        job_id = job.command.id
        emitter = _Emitter(job, self._outbox, self._chunk_seconds)
        answer: frames.Event
        try:
            if self._show:
                shown = engine.prompt_text(job.command.request)
                self._outbox.send(frames.Prompted(id=job_id, text=shown))
            self._step(job_id, prefill=True)  # building a grammar may take long too
            finish = engine.generate(job.command.request, emitter.emit, cancelled)
            answer = frames.Produced(id=job_id, chunk=finish)
            job.tokens = finish.usage.output_tokens
        except BackendError as error:
            answer = _failed(job_id, error)
        except Exception as error:
            logger.exception("generation %d failed", job_id)
            answer = _failed(job_id, BackendError(InferenceErrorCode.UNKNOWN, repr(error)))
        emitter.flush()
        self._step(job_id, prefill=False)
        self._forget(job_id)
        if job.tokens_at_cancel is not None:
            answer = frames.Ended(
                id=job_id,
                output_tokens=job.tokens,
                tokens_after_cancel=job.tokens - job.tokens_at_cancel,
            )
        self._outbox.send(answer)

    def _step(self, job_id: int, *, prefill: bool) -> None:
        self._steps += 1
        if prefill or self._in_prefill:
            self._in_prefill = prefill
            self._outbox.send(frames.Progress(id=job_id, prefill=prefill))

    def _read_commands(self) -> None:
        """Whatever ends this loop ends the process, busy or not."""
        try:
            while (command := frames.read_command(self._commands)) is not None:
                if isinstance(command, frames.Shutdown):
                    break
                self._obey(command)
        except Exception:
            logger.exception("a command could not be read")
            os._exit(1)
        os._exit(0)

    def _obey(self, command: frames.Command) -> None:
        if isinstance(command, frames.Generate):
            job = _Job(command)
            with self._jobs_lock:
                self._jobs[command.id] = job
            self._queue.put(job)
        elif isinstance(command, frames.Count):
            self._counts.put(command)
        elif isinstance(command, frames.Forget):
            self._queue.put(command)
        elif isinstance(command, frames.Cancel):
            job_found = self._job(command.id)
            if job_found is not None and not job_found.cancel():
                self._forget(command.id)
                self._outbox.send(
                    frames.Ended(id=command.id, output_tokens=0, tokens_after_cancel=0)
                )
        elif isinstance(command, frames.Taken):
            job_found = self._job(command.id)
            if job_found is not None:
                job_found.taken(command.count)
        elif isinstance(command, frames.Ping):
            current = self._current
            working = current is not None and not current.held
            self._outbox.send(frames.Pong(working=working, steps=self._steps, warm=self._warm))
        elif isinstance(command, frames.Load | frames.Shutdown):
            raise frames.FrameError(f"The command {command.op!r} has no place here.")
        else:
            assert_never(command)

    def _job(self, job_id: int) -> _Job | None:
        with self._jobs_lock:
            return self._jobs.get(job_id)

    def _forget(self, job_id: int) -> None:
        with self._jobs_lock:
            self._jobs.pop(job_id, None)

    def _answer_counts(self, counter: TokenCounter) -> None:
        """On a thread of its own: a long text must hold up no command and no answer."""
        while True:
            self._count(counter, self._counts.get())

    def _count(self, counter: TokenCounter, command: frames.Count) -> None:
        try:
            tokens = counter.count(command.request)
        except BackendError as error:
            self._outbox.send(_failed(command.id, error))
        except Exception as error:
            logger.exception("count %d failed", command.id)
            unknown = BackendError(InferenceErrorCode.UNKNOWN, repr(error))
            self._outbox.send(_failed(command.id, unknown))
        else:
            self._outbox.send(frames.Counted(id=command.id, tokens=tokens))


def _failed(job_id: int, error: BackendError) -> frames.Failed:
    return frames.Failed(id=job_id, error_code=error.error_code, message=error.message)


def main() -> None:
    """Takes the process's stdin and stdout for frames and leaves harmless ones in their place."""
    die_with_parent(int(sys.argv[1]))
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    commands = os.fdopen(os.dup(0), "rb")
    events = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)  # what native code prints must not get between the frames
    _Worker(commands, _Outbox(events)).run()


if __name__ == "__main__":
    main()
