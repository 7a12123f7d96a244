"""Generations of the device: what is decided before one, around it and after it, without gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Literal

from aicore_sim.device.errors import DeviceError, GenAiCode
from aicore_sim.device.faults import FaultPlan, Fired, faulty_stream
from aicore_sim.device.profile import DeviceProfile, Preference, ReleaseStage, ServedFeature
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference.backend import (
    Backend,
    BackendError,
    Chunk,
    Finish,
    GenerateRequest,
    KeepsPrefixes,
    ModelInfo,
)
from aicore_sim.inference.recorder import Recorder
from aicore_sim.policy.admission import AdmissionQueue
from aicore_sim.policy.availability import Availability
from aicore_sim.policy.availability_store import FeatureStatus
from aicore_sim.policy.failures import (
    DEVICE_BATTERY_QUOTA_EXCEEDED,
    IPC_ERROR,
    ErrorType,
    aicore_failure,
)
from aicore_sim.policy.foreground import Foreground, left_the_top
from aicore_sim.policy.interruption import Interruptible
from aicore_sim.policy.limits import TokenLimits
from aicore_sim.policy.quota import Quota
from aicore_sim.service.answer import Account, Stalled, without_stalls
from aicore_sim.service.candidates import CandidateChunk, several_answers
from aicore_sim.service.fault_port import ChunkPort, WorkerKilled, fault_rule
from aicore_sim.service.model import DeviceModel
from aicore_sim.service.structured import structured
from aicore_sim.service.trace import CallTrace, Phase

PaceName = Literal["host", "phone"]
Selection = tuple[ReleaseStage, Preference]
Said = Chunk | CandidateChunk
"""What an app gets of an answer."""

STALL_SECONDS = 120.0
"""Real seconds after which a model that says nothing is taken for stuck."""
_SEED_BITS = 31
_QUOTA_RULES = {
    int(GenAiCode.BUSY): "quota",
    int(GenAiCode.PER_APP_BATTERY_USE_QUOTA_EXCEEDED): "quota.app-battery",
    DEVICE_BATTERY_QUOTA_EXCEEDED: "quota.device-battery",
}


class Generations:
    """What an app may ask of the model. Every method raises GenAiError as AICore would."""

    def __init__(
        self,
        profile: DeviceProfile,
        model: DeviceModel,
        *,
        clock: DeviceClock,
        availability: Availability,
        quota: Quota,
        foreground: Foreground,
        faults: FaultPlan,
        seed: int,
        pace: PaceName = "host",
        stall_seconds: float | None = STALL_SECONDS,
        recorder: Recorder | None = None,
    ) -> None:
        """`stall_seconds`: None for a model whose silence is meant, as a scripted one's.
        `recorder` writes down what the model is asked and what it says."""
        self.profile = profile
        self.model = model
        self.clock = clock
        self.availability = availability
        self.quota = quota
        self.foreground = foreground
        self.faults = faults
        self.pace: PaceName = pace
        waiting = 0 if profile.queue.fail_fast else profile.queue.waiting
        self.queue = AdmissionQueue(slots=profile.queue.slots, waiting=waiting)
        self._random = random.Random(seed)
        self._stall_seconds = stall_seconds
        self._recorder = recorder
        self._stopping = False
        self._running: dict[int, tuple[CallTrace, Callable[[DeviceError, str], None]]] = {}
        self._none_left = asyncio.Event()
        self._none_left.set()

    @property
    def calls(self) -> tuple[CallTrace, ...]:
        """Every generation, oldest first."""
        return tuple(trace for trace, _ in self._running.values())

    def require_running(self, trace: CallTrace) -> None:
        """Raises GenAiError 8 while AICore stops."""
        if self._stopping:
            trace.rule = "stopping"
            raise aicore_failure(GenAiCode.NOT_AVAILABLE, "AICore stops.")

    def check_status(self, selection: Selection) -> FeatureStatus:
        """`checkStatus`. Raises as `Availability.check_status`."""
        status = self.availability.check_status(*selection)
        if status is FeatureStatus.AVAILABLE and self.model.unavailable_reason is not None:
            return FeatureStatus.UNAVAILABLE
        return status

    def token_limits(self, feature: ServedFeature, info: ModelInfo) -> TokenLimits:
        """The feature's limits, or the model's own where that has less room."""
        return TokenLimits(
            input=self.profile.input_token_limit,
            total=min(feature.token_limit, info.token_limit),
        )

    async def warm_up(self, trace: CallTrace) -> None:
        """Load the model. Raises GenAiError 8."""
        with self.model.in_use():
            trace.enter(Phase.LOADING_MODEL)
            await self.model.ready()

    async def count_tokens(self, trace: CallTrace, request: GenerateRequest) -> int:
        """Raises GenAiError 8, or what the model reports."""
        with self.model.in_use():
            trace.enter(Phase.LOADING_MODEL)
            backend = await self.model.ready()
            trace.enter(None)
            return await self._counted(trace, backend, request)

    @property
    def keeps_prefixes(self) -> bool:
        """Whether reading a prefix once saves reading it again."""
        return isinstance(self.model.backend, KeepsPrefixes)

    async def forget_prefixes(self, app: str) -> None:
        """Let the model forget what it has read for an app."""
        if isinstance(self.model.backend, KeepsPrefixes):
            await self.model.backend.forget_prefixes(app)

    def admit(self, trace: CallTrace, selection: Selection) -> ServedFeature:
        """What can be decided about a generation when it arrives. Costs nothing.

        Raises GenAiError: 601, -101, 606, 8 (availability), 30 (foreground), 27, 28, 9 (quota), 8.
        """
        trace.rule = "availability"
        feature = self.availability.require_available(*selection)
        trace.rule = "foreground"
        self.foreground.require_top(trace.uid)
        trace.rule = "quota"
        with _named_quota(trace):
            self.quota.check(trace.uid)
        trace.rule = "model"
        self.model.require_available()
        return feature

    @contextlib.contextmanager
    def answer(
        self,
        trace: CallTrace,
        feature: ServedFeature,
        request: GenerateRequest,
        fired: Sequence[Fired] = (),
    ) -> Iterator[Interruptible[Said]]:
        """One answer, in line with the others, once `admit` let it pass. Cancelling its delivery
        stops the model and frees the slot. The last chunk comes when all is freed and charged.

        Delivering raises GenAiError: 9 at once, 12 before inference, 30 when the app leaves the
        top, and what the model reports.
        """
        answer = Interruptible(
            self._in_line(trace, feature, request, fired),
            name=f"stream-of-{trace.uid}",
            # Whoever makes the answer holds the time where it has to; the one who waits does not.
            waiting=self.clock.idle,
        )

        def interrupt(error: DeviceError, rule: str) -> None:
            trace.decide(rule)
            answer.interrupt(error)

        with (
            self._registered(trace, interrupt),
            self.foreground.when_left(trace.uid, lambda: interrupt(left_the_top(), "foreground")),
        ):
            yield answer

    def end_all(self, error: DeviceError, rule: str, *, uid: int | None = None) -> None:
        """End the generations of one app, or of all apps, with `error`."""
        for trace, interrupt in list(self._running.values()):
            if uid in (None, trace.uid):
                interrupt(error, rule)

    async def shut_down(self, timeout: float) -> bool:
        """Refuse new calls with 8 and end the running ones with 6, as when the service goes away.

        Whether there was any. Returns when they have ended, after `timeout` seconds at the latest.
        """
        self._stopping = True
        had_some = bool(self._running)
        gone = aicore_failure(IPC_ERROR, "AICore stops.", error_type=ErrorType.CONNECTION_ERROR)
        self.end_all(gone, "stopping")
        self.model.shut_down()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._none_left.wait()
        return had_some

    @contextlib.contextmanager
    def _registered(
        self, trace: CallTrace, interrupt: Callable[[DeviceError, str], None]
    ) -> Iterator[None]:
        if self._recorder is not None and any(
            other.package_name == trace.package_name for other in self.calls
        ):
            self._recorder.asks_at_once(trace.package_name)
        self._running[id(trace)] = (trace, interrupt)
        self._none_left.clear()
        try:
            yield
        finally:
            del self._running[id(trace)]
            if not self._running:
                self._none_left.set()

    async def _in_line(
        self,
        trace: CallTrace,
        feature: ServedFeature,
        request: GenerateRequest,
        fired: Sequence[Fired],
    ) -> AsyncGenerator[Said, None]:
        last: Said | None = None
        trace.rule = "queue"
        trace.enter(Phase.QUEUED)
        async with contextlib.AsyncExitStack() as held:
            # Others hold the slot and move on with time; we only wait.
            with self.clock.idle():
                await held.enter_async_context(self.queue.slot())
            held.enter_context(self.model.in_use())
            trace.rule = "model"
            trace.enter(Phase.LOADING_MODEL)
            backend = await self.model.ready()
            trace.enter(Phase.PREFILL)
            input_tokens = await self._count_within_limits(trace, feature, backend, request)
            trace.rule = "quota"
            with _named_quota(trace):
                run = held.enter_context(self.quota.inference(trace.uid))
            trace.rule = "model"
            # What is computed counts as done at the time at which it was asked for: the clock waits
            # for this task to end, so that the app has its answer before the time goes on.
            self.clock.hold_task(f"a generation of {trace.package_name}")
            if fired:
                trace.decide(fault_rule(fired))
            account = Account(
                feature.speed,
                run,
                trace,
                clock=self.clock,
                input_tokens=input_tokens,
                paced=self.pace == "phone",
            )
            asked = self._seeded(request).model_copy(update={"app": trace.package_name})
            stream = self._answers(backend, asked, fired)
            held.enter_context(account.open())
            try:
                async with aclosing(stream) as chunks:
                    async for chunk in chunks:
                        said = chunk.chunk if isinstance(chunk, CandidateChunk) else chunk
                        await account.keep(said)
                        if isinstance(said, Finish):
                            # Of several candidates each ends with one.
                            if last is not None:
                                yield last
                            last = chunk
                        else:
                            yield chunk
            except BackendError as error:
                raise aicore_failure(error.error_code, error.message) from error
            except Stalled as error:
                raise aicore_failure(GenAiCode.INTERNAL_ERROR, str(error)) from None
        # Only now, so that the app's next call finds the slot free and this one charged.
        if last is not None:
            yield last

    async def _count_within_limits(
        self,
        trace: CallTrace,
        feature: ServedFeature,
        backend: Backend,
        request: GenerateRequest,
    ) -> int:
        input_tokens = await self._counted(trace, backend, request)
        trace.rule = "limits"
        limits = self.token_limits(feature, backend.info)
        limits.check(input_tokens, request.sampling.max_output_tokens)
        return input_tokens

    async def _counted(self, trace: CallTrace, backend: Backend, request: GenerateRequest) -> int:
        asked = request.model_copy(update={"app": trace.package_name})
        try:
            counted = await backend.count_tokens(asked)
        except BackendError as error:
            raise aicore_failure(error.error_code, error.message) from error
        if self._recorder is not None:
            self._recorder.counted(asked, counted)
        trace.figures["input_tokens"] = counted
        return counted

    def _answers(
        self, backend: Backend, request: GenerateRequest, fired: Sequence[Fired]
    ) -> AsyncGenerator[Said, None]:
        """One answer as it comes, or all that were asked for when they are whole."""

        def answer(number: int) -> AsyncGenerator[Chunk, None]:
            sampling = request.sampling
            asked = request
            if number:
                # Another seed and the same again, so that a run repeats.
                seed = ((sampling.seed or 0) + number) % 2**_SEED_BITS
                sampling = sampling.model_copy(update={"seed": seed})
                asked = request.model_copy(update={"sampling": sampling})
            chunks = self._stream(backend, asked, fired if number == 0 else ())
            if request.response_schema is None:
                return chunks
            return structured(chunks, request.response_schema)

        count = request.sampling.candidate_count
        return answer(0) if count == 1 else several_answers(answer, count)

    def _stream(
        self, backend: Backend, request: GenerateRequest, fired: Sequence[Fired]
    ) -> AsyncGenerator[Chunk, None]:
        """What the model says, with the faults of the call in it."""
        spoken = (
            backend.generate(request)
            if self._recorder is None
            else self._recorder.answered(backend, request)
        )
        if not fired and self._stall_seconds is None:
            return spoken
        worker = WorkerKilled(self.model, backend)
        chunks = worker.watched(spoken)
        if self._stall_seconds is not None:
            chunks = without_stalls(chunks, self._stall_seconds, worker.kill)
        if not fired:
            return chunks
        return faulty_stream(fired, chunks, ChunkPort(worker))

    def _seeded(self, request: GenerateRequest) -> GenerateRequest:
        """A request without a seed gets one drawn from the device's, so that runs repeat."""
        if request.sampling.seed is not None:
            return request
        sampling = request.sampling.model_copy(
            update={"seed": self._random.getrandbits(_SEED_BITS), "seed_drawn": True}
        )
        return request.model_copy(update={"sampling": sampling})


@contextlib.contextmanager
def _named_quota(trace: CallTrace) -> Iterator[None]:
    """Tell the rules of the quota apart in the journal, which apps cannot."""
    try:
        yield
    except DeviceError as error:
        code = getattr(error, "error_code", 0)
        trace.rule = _QUOTA_RULES.get(code, "quota")
        raise
