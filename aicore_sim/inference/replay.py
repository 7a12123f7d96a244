"""A model whose answers come from a recorded run."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections import defaultdict
from collections.abc import AsyncGenerator

from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference.backend import BackendError, Chunk, GenerateRequest, ModelInfo
from aicore_sim.inference.recording import Answer, Recording, normalised, prompt_key, to_plain
from aicore_sim.inference.request_text import last_text
from aicore_sim.inference.script import shortened

STOP_SECONDS = 5.0
"""Real seconds in which an answer that was stopped in the recorded run has to be stopped again."""
_DIFF_CHARACTERS = 1400
"""An error has to fit into the trailers of a call."""


class ReplayBackend:
    """Answers as recorded; always available.

    Each app gets its answers in the recorded order. Of an app that had several requests under way
    at once, each conversation does: requests with the same system instruction and first content.
    """

    def __init__(self, recording: Recording, *, clock: DeviceClock) -> None:
        self._recording = recording
        self._clock = clock
        self._taken: set[int] = set()
        self._by_app: defaultdict[str, list[int]] = defaultdict(list)
        self._tokens: dict[str, int] = {}
        for number, answer in enumerate(recording.answers):
            self._by_app[answer.app].append(number)
            if answer.input_tokens is not None:
                self._tokens[prompt_key(answer.request)] = answer.input_tokens
        for count in recording.counts:
            self._tokens[prompt_key(count.request)] = count.input_tokens

    async def start(self) -> None:
        """Nothing to load."""

    async def stop(self) -> None:
        """Nothing to release."""

    @property
    def unavailable_reason(self) -> str | None:
        if self._recording.header.model is None:
            return "the model of the recorded run was never loaded"
        return None

    @property
    def info(self) -> ModelInfo:
        """What the recorded model said of itself."""
        if self._recording.header.model is None:
            raise RuntimeError(self.unavailable_reason)
        return self._recording.header.model

    @property
    def steps(self) -> int:
        """Recorded answers, taken ones included."""
        return len(self._recording.answers)

    @property
    def consumed(self) -> int:
        """Recorded answers that were given."""
        return len(self._taken)

    def remaining(self) -> tuple[str, ...]:
        """The recorded answers that were not given, each with its number and what was asked."""
        return tuple(
            f"answer {number + 1} of {answer.app}: {shortened(last_text(answer.request))!r}"
            for number, answer in enumerate(self._recording.answers)
            if number not in self._taken
        )

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Raises SimulatorFault (REPLAY_DRIFT) for a request that was not counted in the run."""
        found = self._tokens.get(prompt_key(request))
        if found is None:
            raise self._drift(request)
        return found

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """The recorded answer, in the recorded device time.

        Raises BackendError as recorded, and SimulatorFault (REPLAY_DRIFT) for the first request
        that differs, and for an answer that was stopped then and is not stopped now.
        """
        number = self._next(request)
        self._taken.add(number)
        answer = self._recording.answers[number]
        for spoken in answer.answer:
            if spoken.after:
                await self._clock.sleep(spoken.after)
            yield spoken.chunk
        if answer.failure is not None:
            if answer.failed_after:
                await self._clock.sleep(answer.failed_after)
            raise BackendError(answer.failure.code, answer.failure.message)
        if answer.interrupted:
            with self._clock.idle():
                await asyncio.sleep(STOP_SECONDS)
            raise SimulatorFault(
                FaultKind.REPLAY_DRIFT,
                f"answer {number + 1} was stopped after {len(answer.answer)} chunks in the "
                "recorded run, and nothing stops it now; record the run again",
            )

    def _next(self, request: GenerateRequest) -> int:
        asked = normalised(request)
        for number in self._due(request.app):
            if self._recording.answers[number].request == asked:
                return number
        raise self._drift(request)

    def _due(self, app: str) -> list[int]:
        """The recorded answers of which one is next."""
        left = [number for number in self._by_app[app] if number not in self._taken]
        if app not in self._recording.concurrent:
            return left[:1]
        first: dict[str, int] = {}
        for number in left:
            first.setdefault(_conversation(self._recording.answers[number]), number)
        return list(first.values())

    def _drift(self, request: GenerateRequest) -> SimulatorFault:
        app = request.app
        given = sum(number in self._taken for number in self._by_app[app])
        head = f"request {given + 1} of {app}"
        due = self._due(app)
        if not due:
            recorded = len(self._by_app[app])
            return SimulatorFault(
                FaultKind.REPLAY_DRIFT,
                f"{head} is not in the recorded run, which has {recorded} of this app; asked was "
                f"{shortened(last_text(request))!r}. Record the run again, or find out why the app "
                "asks again",
            )
        asked = _lines(normalised(request))
        number, diff = min(
            ((one, _diff(_lines(self._recording.answers[one].request), asked)) for one in due),
            key=lambda pair: len(pair[1]),
        )
        if not diff:
            diff = "(the request is the same; its tokens were not counted in the recorded run)"
        return SimulatorFault(
            FaultKind.REPLAY_DRIFT,
            f"{head} differs from the recorded one (answer {number + 1} of the run); "
            f"record the run again if that is meant. Recorded (-), asked (+):\n{diff}",
        )


class PrefixReplayBackend(ReplayBackend):
    """Answers as recorded of a model that kept prompts warm, so that it is asked to as it was."""

    async def forget_prefixes(self, app: str | None = None) -> None:
        """Nothing is warm."""


def replay_backend(recording: Recording, *, clock: DeviceClock) -> ReplayBackend:
    """The backend that answers as recorded."""
    kind = PrefixReplayBackend if recording.header.keeps_prefixes else ReplayBackend
    return kind(recording, clock=clock)


def _conversation(answer: Answer) -> str:
    request = answer.request
    return f"{request.system_instruction}\0{request.contents[:1]!r}"


def _lines(request: GenerateRequest) -> list[str]:
    return json.dumps(to_plain(request), indent=1, ensure_ascii=False).splitlines()


def _diff(recorded: list[str], asked: list[str]) -> str:
    """What differs, with a line around it; cut where it is long."""
    lines = [
        line
        for line in difflib.unified_diff(recorded, asked, lineterm="", n=1)
        if not line.startswith(("---", "+++", "@@"))
    ]
    text = "\n".join(line if len(line) <= 200 else line[:197] + "..." for line in lines)
    return text if len(text) <= _DIFF_CHARACTERS else text[: _DIFF_CHARACTERS - 3] + "..."
