"""Writes what is asked of the model, and what it says, into a file."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from aicore_sim.device.clock import Clock
from aicore_sim.device.errors import SimulatorFault
from aicore_sim.inference.backend import (
    Backend,
    BackendError,
    Chunk,
    GenerateRequest,
    KeepsPrefixes,
    ModelInfo,
)
from aicore_sim.inference.recording import (
    Answer,
    Count,
    Failure,
    Header,
    RecordingError,
    Spoken,
    answer_line,
    count_line,
    end_line,
    header_line,
    normalised,
    prompt_key,
)

logger = logging.getLogger(__name__)

_DIGITS = 3
"""Of seconds: what is less is noise of the host."""


@dataclass(kw_only=True)
class _Entry:
    answer: Answer
    spoken: list[Spoken] = field(default_factory=list)
    done: bool = False
    dropped: bool = False


class Recorder:
    """A recording that is being written. Belongs to one event loop.

    The file holds prompts and answers, so only its owner may read it (mode 0600).
    """

    def __init__(self, path: Path, *, clock: Clock) -> None:
        """Creates or empties the file. Raises RecordingError when that is not possible."""
        self._clock = clock
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.fchmod(descriptor, 0o600)
        except OSError as error:
            raise RecordingError(f"--record {str(path)!r}: {error.strerror}") from None
        self._file = os.fdopen(descriptor, "wb")
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recorder")
        self._failed = False
        self._closed = False
        self._hash = hashlib.sha256()
        self._header: Header | None = None
        self._entries: deque[_Entry] = deque()
        self._counted: dict[str, Count] = {}
        self._answered: set[str] = set()
        self._concurrent: set[str] = set()
        self._written = 0

    def asks_at_once(self, app: str) -> None:
        """An app asks while another of its requests is under way: their order is chance."""
        self._concurrent.add(app)

    def counted(self, request: GenerateRequest, tokens: int) -> None:
        """The model counted the tokens of a request."""
        count = Count(request=normalised(request), input_tokens=tokens)
        self._counted[prompt_key(request)] = count

    async def answered(
        self, backend: Backend, request: GenerateRequest
    ) -> AsyncGenerator[Chunk, None]:
        """The backend's answer, written down as it passes. What the simulator itself refuses, as
        a script without a step does, is no answer and is left out."""
        self._begin(backend)
        key = prompt_key(request)
        self._answered.add(key)
        counted = self._counted.get(key)
        entry = _Entry(
            answer=Answer(
                app=request.app,
                request=normalised(request),
                input_tokens=None if counted is None else counted.input_tokens,
            )
        )
        self._entries.append(entry)
        since = self._clock.monotonic()
        try:
            async with aclosing(backend.generate(request)) as chunks:
                async for chunk in chunks:
                    after = round(self._clock.monotonic() - since, _DIGITS)
                    entry.spoken.append(Spoken(chunk=chunk, after=after))
                    yield chunk
                    since = self._clock.monotonic()
        except BackendError as error:
            failure = Failure(code=error.error_code, message=error.message)
            after = round(self._clock.monotonic() - since, _DIGITS)
            entry.answer = entry.answer.model_copy(
                update={"failure": failure, "failed_after": after}
            )
            raise
        except SimulatorFault:
            entry.dropped = True
            raise
        except (GeneratorExit, asyncio.CancelledError):
            entry.answer = entry.answer.model_copy(update={"interrupted": True})
            raise
        finally:
            entry.done = True
            self._flush()

    async def close(self, backend: Backend) -> None:
        """Finish the file. Answers that have not ended count as stopped. Idempotent."""
        if self._closed:
            return
        self._begin(backend)
        for entry in self._entries:
            if not entry.done:
                entry.done = True
                entry.answer = entry.answer.model_copy(update={"interrupted": True})
        self._flush()
        left = [count for key, count in self._counted.items() if key not in self._answered]
        for line in sorted(count_line(count) for count in left):
            self._write(line)
        end = end_line(
            answers=self._written,
            concurrent=self._concurrent,
            before=self._hash.hexdigest(),
        )
        self._write(end)
        self._closed = True
        self._writer.submit(self._file.close)
        await asyncio.to_thread(self._writer.shutdown)

    def _begin(self, backend: Backend) -> None:
        if self._header is not None:
            return
        info = None if backend.unavailable_reason is not None else _info(backend)
        self._header = Header(model=info, keeps_prefixes=isinstance(backend, KeepsPrefixes))
        self._write(header_line(self._header))

    def _flush(self) -> None:
        """Answers are written in the order in which they were asked for."""
        while self._entries and self._entries[0].done:
            entry = self._entries.popleft()
            if not entry.dropped and not self._closed:
                self._write(
                    answer_line(entry.answer.model_copy(update={"answer": tuple(entry.spoken)}))
                )
                self._written += 1

    def _write(self, line: str) -> None:
        data = line.encode()
        self._hash.update(data)
        # A slow disk must not hold up the calls of the device.
        self._writer.submit(self._write_now, data).add_done_callback(self._note)

    def _write_now(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()

    def _note(self, written: Future[None]) -> None:
        error = written.exception()
        if error is not None and not self._failed:
            self._failed = True
            logger.error("the recorded run is not whole, and no replay will take it: %s", error)


def _info(backend: Backend) -> ModelInfo | None:
    """A model folder is named by its last part: where it lies is this machine's business."""
    try:
        info = backend.info
    except RuntimeError:
        return None
    return info.model_copy(update={"name": PurePath(info.name).name})
