"""The AICore service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any

from aicore_protos import aicore_pb2, aicore_pb2_grpc
from aicore_sim import __version__
from aicore_sim.device.clock import Clock
from aicore_sim.device.errors import AppFunctionError, DeviceError, GenAiError, SimulatorFault
from aicore_sim.inference.backend import Finish, ModelInfo
from aicore_sim.rpc.identity import caller
from aicore_sim.service.conversions import to_generate_request, to_response, to_selection
from aicore_sim.service.generation import Generations
from aicore_sim.service.unimplemented import refuse_the_rest

logger = logging.getLogger(__name__)

SERVICE = aicore_pb2.DESCRIPTOR.services_by_name["AICore"]


@dataclass(kw_only=True)
class _CallFigures:
    input_tokens: int = 0
    output_tokens: int = 0


@refuse_the_rest(SERVICE)
class AICoreServicer(aicore_pb2_grpc.AICoreServicer):
    """CheckStatus, GetModelInfo, CountTokens and GenerateContent."""

    def __init__(self, generations: Generations, *, clock: Clock) -> None:
        self._generations = generations
        self._clock = clock

    async def CheckStatus(
        self, request: aicore_pb2.CheckStatusRequest, context: Any
    ) -> aicore_pb2.CheckStatusResponse:
        with self._logged("CheckStatus"):
            self._generations.feature_id(to_selection(request.model))
            usable = self._generations.model.unavailable_reason is None
            status = aicore_pb2.AVAILABLE if usable else aicore_pb2.UNAVAILABLE
            return aicore_pb2.CheckStatusResponse(status=status)

    async def GetModelInfo(
        self, request: aicore_pb2.GetModelInfoRequest, context: Any
    ) -> aicore_pb2.GetModelInfoResponse:
        with self._logged("GetModelInfo"):
            feature_id = self._generations.feature_id(to_selection(request.model))
            info = await self._generations.model_info()
            return aicore_pb2.GetModelInfoResponse(
                base_model_name=self._generations.profile.base_model_name,
                simulated_by=info.name,
                token_limit=self._generations.token_limits(info).total,
                features=_features(info),
                feature_id=feature_id,
                dialect=info.dialect,
                version=__version__,
            )

    async def CountTokens(
        self, request: aicore_pb2.CountTokensRequest, context: Any
    ) -> aicore_pb2.CountTokensResponse:
        with self._logged("CountTokens") as figures:
            self._generations.feature_id(to_selection(request.request.model))
            counted = await self._generations.count_tokens(to_generate_request(request.request))
            figures.input_tokens = counted
            return aicore_pb2.CountTokensResponse(total_tokens=counted)

    async def GenerateContent(
        self, request: aicore_pb2.GenerateContentRequest, context: Any
    ) -> AsyncIterator[aicore_pb2.GenerateContentResponse]:
        with self._logged("GenerateContent") as figures:
            self._generations.feature_id(to_selection(request.model))
            answer = self._generations.generate(to_generate_request(request))
            async with aclosing(answer) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, Finish):
                        figures.input_tokens = chunk.usage.input_tokens
                        figures.output_tokens = chunk.usage.output_tokens
                    yield to_response(chunk)

    @contextmanager
    def _logged(self, rpc: str) -> Iterator[_CallFigures]:
        """One line per call: who, what and how long, never what was said."""
        package_name = caller().package_name
        started = self._clock.monotonic()
        figures = _CallFigures()
        outcome = "failed"
        try:
            yield figures
            outcome = "ok"
        except DeviceError as error:
            outcome = _code(error)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            outcome = "cancelled"
            raise
        finally:
            logger.info(
                "rpc=%s caller=%s outcome=%s input_tokens=%d output_tokens=%d seconds=%.3f",
                rpc,
                package_name,
                outcome,
                figures.input_tokens,
                figures.output_tokens,
                self._clock.monotonic() - started,
            )


def _features(info: ModelInfo) -> list[aicore_pb2.Feature]:
    features = [aicore_pb2.SYSTEM_PROMPT, aicore_pb2.FUNCTION_CALLING]
    if info.constrained:
        features.append(aicore_pb2.STRUCTURED_OUTPUT)
    return features


def _code(error: DeviceError) -> str:
    match error:
        case GenAiError() | AppFunctionError():
            return str(error.error_code)
        case SimulatorFault():
            return error.kind.name
        case _:
            return type(error).__name__
