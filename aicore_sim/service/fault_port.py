"""How faults reach a call of AICore: before it, and in the middle of an answer."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

from aicore_sim.device.errors import DeviceError, GenAiCode
from aicore_sim.device.faults import FaultPlan, Fired, before_call
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference.backend import (
    Backend,
    BackendError,
    Chunk,
    Finish,
    MalformedCall,
    Usage,
)
from aicore_sim.inference.scripted import chunk_tokens
from aicore_sim.policy.failures import aicore_failure
from aicore_sim.service.model import DeviceModel
from aicore_sim.service.trace import CallTrace

logger = logging.getLogger(__name__)


async def pass_faults(
    plan: FaultPlan,
    trace: CallTrace,
    *,
    clock: DeviceClock,
    failure: Callable[[int, str], DeviceError] = aicore_failure,
) -> tuple[Fired, ...]:
    """Let the faults of a call act that come before it; returns those that act on its stream.

    Raises what `failure` makes of an injected code.
    """
    fired = plan.decide(trace.rpc, package_name=trace.package_name)
    if not fired:
        return ()
    trace.rule = fault_rule(fired)
    logger.info(
        "rpc=%s caller=%s meets faults %s",
        trace.rpc,
        trace.package_name,
        ", ".join(one.fault_id for one in fired),
    )
    await before_call(fired, clock=clock, failure=failure)
    return tuple(one for one in fired if one.action.delay is None)


def fault_rule(fired: Sequence[Fired]) -> str:
    """How the journal names the fault that decided: the last that fired."""
    return f"fault:{fired[-1].fault_id}"


class WorkerKilled:
    """Ends the process that runs the model, or what stands for it in a model without one."""

    def __init__(self, model: DeviceModel, backend: Backend) -> None:
        self._model = model
        self._pid: int | None = getattr(backend, "worker_pid", None)
        self._killed = False

    def kill(self) -> None:
        self._killed = True
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
        self._model.crashed()

    async def watched(self, chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
        """The chunks, until the process dies: a model without one dies as one with a process.

        Raises BackendError, as a backend does that lost its process.
        """
        try:
            async for chunk in chunks:
                if self._killed and self._pid is None:
                    raise BackendError(
                        GenAiCode.INTERNAL_ERROR,
                        "AICore lost the call: the inference worker died (signal SIGKILL).",
                    )
                yield chunk
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()


class ChunkPort:
    """The chunks of an answer as `aicore_sim.device.faults` wants them."""

    def __init__(self, worker: WorkerKilled) -> None:
        self._worker = worker

    def tokens(self, chunk: Chunk) -> int:
        return chunk_tokens(chunk)

    def malformed(self, text: str, reason: str) -> Chunk:
        return MalformedCall(text=text, reason=reason)

    def empty(self, finish: Chunk) -> Chunk:
        assert isinstance(finish, Finish)
        usage = finish.usage
        return Finish(
            reason=finish.reason,
            usage=Usage(
                input_tokens=usage.input_tokens,
                output_tokens=0,
                cached_input_tokens=usage.cached_input_tokens,
            ),
        )

    def cut_off(self, finish: Chunk) -> Chunk:
        assert isinstance(finish, Finish)
        return Finish(reason="max_tokens", usage=finish.usage)

    def failure(self, error_code: int, detail: str) -> Exception:
        return aicore_failure(error_code, detail)

    def kill_worker(self) -> None:
        self._worker.kill()
