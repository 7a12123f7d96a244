"""Generations of the device: admission, limits and the model, without gRPC."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

from aicore_sim.device.profile import DeviceProfile
from aicore_sim.inference.backend import (
    Backend,
    BackendError,
    Chunk,
    GenerateRequest,
    ModelInfo,
)
from aicore_sim.policy.admission import AdmissionQueue
from aicore_sim.policy.failures import aicore_failure
from aicore_sim.policy.features import Preference, ReleaseStage, require_feature
from aicore_sim.policy.limits import TokenLimits
from aicore_sim.service.model import DeviceModel

_SEED_BITS = 31


class Generations:
    """What an app may ask of the model. Every method raises GenAiError as AICore would."""

    def __init__(self, profile: DeviceProfile, model: DeviceModel, *, seed: int) -> None:
        self.profile = profile
        self.model = model
        self.queue = AdmissionQueue(slots=profile.queue.slots, waiting=profile.queue.waiting)
        self._random = random.Random(seed)

    def feature_id(self, selection: tuple[ReleaseStage, Preference]) -> int:
        """Raises GenAiError 606 for a selection that the device does not serve."""
        return require_feature(self.profile, *selection)

    def token_limits(self, info: ModelInfo) -> TokenLimits:
        """The profile's limits, or the model's own where that has less room."""
        return TokenLimits(
            input=self.profile.input_token_limit,
            total=min(self.profile.token_limit, info.token_limit),
        )

    async def model_info(self) -> ModelInfo:
        """Raises GenAiError 8."""
        return (await self.model.ready()).info

    async def count_tokens(self, request: GenerateRequest) -> int:
        """Raises GenAiError 8, or what the model reports."""
        backend = await self.model.ready()
        try:
            return await backend.count_tokens(request)
        except BackendError as error:
            raise aicore_failure(error.error_code, error.message) from error

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """One answer, in line with the others. Closing it stops the model and frees the slot.

        Raises GenAiError: 8 and 9 at once, 12 before inference, and what the model reports.
        """
        self.model.require_available()
        async with self.queue.slot():
            backend = await self.model.ready()
            try:
                await self._check_limits(backend, request)
                async with aclosing(_stream(backend, self._seeded(request))) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except BackendError as error:
                raise aicore_failure(error.error_code, error.message) from error

    async def _check_limits(self, backend: Backend, request: GenerateRequest) -> None:
        input_tokens = await backend.count_tokens(request)
        limits = self.token_limits(backend.info)
        limits.check(input_tokens, request.sampling.max_output_tokens)

    def _seeded(self, request: GenerateRequest) -> GenerateRequest:
        """A request without a seed gets one drawn from the device's, so that runs repeat."""
        if request.sampling.seed is not None:
            return request
        sampling = request.sampling.model_copy(
            update={"seed": self._random.getrandbits(_SEED_BITS)}
        )
        return request.model_copy(update={"sampling": sampling})


async def _stream(backend: Backend, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
    stream = backend.generate(request)
    try:
        async for chunk in stream:
            yield chunk
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
