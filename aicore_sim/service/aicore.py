"""The AICore service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar, assert_never

import grpc
import grpc.aio

from aicore_protos import aicore_pb2, aicore_pb2_grpc
from aicore_sim import __version__
from aicore_sim.device.errors import DeviceError, GenAiError
from aicore_sim.device.faults import Fired
from aicore_sim.device.journal import Journal
from aicore_sim.device.profile import ServedFeature
from aicore_sim.device.virtual_clock_apps import RemoteApps
from aicore_sim.inference.backend import GenerateRequest, ModelInfo
from aicore_sim.policy.download import (
    DownloadCompleted,
    DownloadFailed,
    DownloadProgress,
    DownloadStarted,
    DownloadStatus,
    download_failure,
)
from aicore_sim.rpc.identity import caller
from aicore_sim.rpc.status import to_gen_ai
from aicore_sim.service.advice import TemperatureAdvice
from aicore_sim.service.cached_contexts import (
    CachedContext,
    CachedContexts,
    checked_context,
    prefill_request,
    with_prefix,
)
from aicore_sim.service.clock import token_of
from aicore_sim.service.conversions import (
    longest_tool_result,
    to_generate_request,
    to_response,
    to_selection,
)
from aicore_sim.service.fault_port import pass_faults
from aicore_sim.service.generation import Generations, Said
from aicore_sim.service.trace import CANCELLED, INTERNAL, CallTrace
from aicore_sim.service.unimplemented import refuse_the_rest

SERVICE = aicore_pb2.DESCRIPTOR.services_by_name["AICore"]
_T = TypeVar("_T")


@refuse_the_rest(SERVICE)
class AICoreServicer(aicore_pb2_grpc.AICoreServicer):
    """What an app may ask of AICore."""

    def __init__(
        self,
        generations: Generations,
        *,
        caches: CachedContexts,
        journal: Journal,
        apps: RemoteApps,
    ) -> None:
        """`apps` are told of every call, since an app that is served does not move on."""
        self._generations = generations
        self._caches = caches
        self._clock = generations.clock
        self._journal = journal
        self._apps = apps
        self._advice = TemperatureAdvice()

    async def CheckStatus(
        self, request: aicore_pb2.CheckStatusRequest, context: Any
    ) -> aicore_pb2.CheckStatusResponse:
        with self._call("CheckStatus", context) as trace:
            selection = to_selection(request.model)
            await self._faults(trace)
            trace.rule = "availability"
            status = self._generations.check_status(selection)
            return aicore_pb2.CheckStatusResponse(status=status.name)

    async def Download(
        self, request: aicore_pb2.DownloadRequest, context: Any
    ) -> AsyncIterator[aicore_pb2.DownloadResponse]:
        with self._call("Download", context) as trace:
            selection = to_selection(request.model)
            items = self._download(trace, selection)
            async with aclosing(self._not_holding_time(items)) as statuses:
                async for item in statuses:
                    if isinstance(item, DownloadFailed):
                        trace.failed(item.error)
                    yield _to_message(item)

    async def GetModelInfo(
        self, request: aicore_pb2.GetModelInfoRequest, context: Any
    ) -> aicore_pb2.GetModelInfoResponse:
        with self._call("GetModelInfo", context) as trace:
            selection = to_selection(request.model)
            await self._faults(trace)
            trace.rule = "availability"
            feature = self._generations.availability.require_served(*selection)
            trace.rule = "model"
            info = await self._generations.model.info()
            return aicore_pb2.GetModelInfoResponse(
                base_model_name=feature.base_model_name,
                simulated_by=info.name,
                token_limit=self._generations.token_limits(feature, info).total,
                features=_features(info),
                feature_id=feature.feature_id,
                dialect=info.dialect,
                version=__version__,
            )

    async def Warmup(
        self, request: aicore_pb2.WarmupRequest, context: Any
    ) -> aicore_pb2.WarmupResponse:
        with self._call("Warmup", context) as trace:
            selection = to_selection(request.model)
            await self._faults(trace)
            trace.rule = "availability"
            self._generations.availability.require_available(*selection)
            trace.rule = "model"
            await self._generations.warm_up(trace)
            return aicore_pb2.WarmupResponse()

    async def CountTokens(
        self, request: aicore_pb2.CountTokensRequest, context: Any
    ) -> aicore_pb2.CountTokensResponse:
        with self._call("CountTokens", context) as trace:
            selection = to_selection(request.request.model)
            asked = to_generate_request(request.request)
            await self._faults(trace)
            trace.rule = "availability"
            feature = self._generations.availability.require_available(*selection)
            asked = await self._with_cache(trace, feature, request.request, asked)
            trace.rule = "model"
            counted = await self._generations.count_tokens(trace, asked)
            return aicore_pb2.CountTokensResponse(total_tokens=counted)

    async def GenerateContent(
        self, request: aicore_pb2.GenerateContentRequest, context: Any
    ) -> None:
        async def send(chunk: Said) -> None:
            try:
                await context.write(to_response(chunk))
            except grpc.aio.BaseError:
                # The call has ended, and its task has not been told yet.
                raise asyncio.CancelledError from None

        with self._call("GenerateContent", context) as trace:
            selection = to_selection(request.model)
            asked = to_generate_request(request)
            self._advice.note(trace.package_name, asked.sampling.temperature)
            if longest := longest_tool_result(asked):
                trace.figures["tool_result_chars"] = longest
            fired = await self._faults(trace)
            feature = self._generations.admit(trace, selection)
            asked = await self._with_cache(trace, feature, request, asked)
            with self._generations.answer(trace, feature, asked, fired) as answer:
                await answer.deliver(send)

    async def CreateCachedContext(
        self, request: aicore_pb2.CreateCachedContextRequest, context: Any
    ) -> aicore_pb2.CachedContext:
        """Reads the prefix once: an inference like any other, with one token of output."""
        with self._call("CreateCachedContext", context) as trace:
            selection = to_selection(request.model)
            wanted = request.cached_context
            made = checked_context(wanted.name, wanted.prompt_prefix)
            fired = await self._faults(trace)
            feature = self._generations.admit(trace, selection)
            asked = prefill_request(made.prompt_prefix)
            if self._generations.keeps_prefixes:  # a script has no answer for this
                with self._generations.answer(trace, feature, asked, fired) as answer:
                    await answer.deliver(_unheard)
            self._caches.put(trace.uid, made, model=await self._identity(feature))
            return _to_context(made)

    async def GetCachedContext(
        self, request: aicore_pb2.GetCachedContextRequest, context: Any
    ) -> aicore_pb2.CachedContext:
        with self._call("GetCachedContext", context) as trace:
            await self._faults(trace)
            trace.rule = "cache"
            return _to_context(self._caches.get(trace.uid, request.name))

    async def ListCachedContexts(
        self, request: aicore_pb2.ListCachedContextsRequest, context: Any
    ) -> aicore_pb2.ListCachedContextsResponse:
        with self._call("ListCachedContexts", context) as trace:
            await self._faults(trace)
            found = [_to_context(one) for one in self._caches.list(trace.uid)]
            return aicore_pb2.ListCachedContextsResponse(cached_contexts=found)

    async def DeleteCachedContext(
        self, request: aicore_pb2.DeleteCachedContextRequest, context: Any
    ) -> aicore_pb2.DeleteCachedContextResponse:
        with self._call("DeleteCachedContext", context) as trace:
            await self._faults(trace)
            deleted = self._caches.delete(trace.uid, request.name)
            return aicore_pb2.DeleteCachedContextResponse(deleted=deleted)

    async def ClearImplicitCaches(
        self, request: aicore_pb2.ClearImplicitCachesRequest, context: Any
    ) -> aicore_pb2.ClearImplicitCachesResponse:
        with self._call("ClearImplicitCaches", context) as trace:
            await self._faults(trace)
            await self._generations.forget_prefixes(trace.package_name)
            return aicore_pb2.ClearImplicitCachesResponse()

    async def _with_cache(
        self,
        trace: CallTrace,
        feature: ServedFeature,
        request: aicore_pb2.GenerateContentRequest,
        asked: GenerateRequest,
    ) -> GenerateRequest:
        """The request with its prefix, named or given. Raises GenAiError -103."""
        prefix = request.prompt_prefix
        if request.cached_context_name:
            trace.rule = "cache"
            model = await self._identity(feature)
            name = request.cached_context_name
            prefix = self._caches.require(trace.uid, name, model=model).prompt_prefix
        return with_prefix(asked, prefix) if prefix else asked

    async def _identity(self, feature: ServedFeature) -> str:
        """Changes with the model that a cache was made for."""
        info = await self._generations.model.info()
        return f"{feature.base_model_name} {info.name}"

    async def _download(
        self, trace: CallTrace, selection: tuple[Any, Any]
    ) -> AsyncGenerator[DownloadStatus, None]:
        """A fault fails the download, as an item like every failure of one."""
        try:
            await pass_faults(
                self._generations.faults, trace, clock=self._clock, failure=download_failure
            )
        except GenAiError as error:
            yield DownloadFailed(error=error)
            return
        trace.rule = "availability"
        async with aclosing(self._generations.availability.download(*selection)) as items:
            async for item in items:
                yield item

    async def _faults(self, trace: CallTrace) -> tuple[Fired, ...]:
        return await pass_faults(self._generations.faults, trace, clock=self._clock)

    async def _not_holding_time(self, items: AsyncGenerator[_T, None]) -> AsyncGenerator[_T, None]:
        """The items; while the next one is awaited, the device's time may go on."""
        async with aclosing(items):
            while True:
                with self._clock.idle():
                    try:
                        item = await anext(items)
                    except StopAsyncIteration:
                        return
                yield item

    @contextmanager
    def _call(self, rpc: str, context: Any) -> Iterator[CallTrace]:
        """Around a whole call: how it ended goes into the journal and the log."""
        identity = caller()
        trace = CallTrace(
            rpc=rpc, package_name=identity.package_name, uid=identity.uid, clock=self._clock
        )
        with self._apps.serving(token_of(context)):
            try:
                self._generations.require_running(trace)
                yield trace
            except DeviceError as error:
                trace.failed(error)
                raise
            except (asyncio.CancelledError, GeneratorExit):
                trace.decide(CANCELLED)
                raise
            except Exception:
                trace.decide(INTERNAL)
                raise
            finally:
                trace.close(self._journal)


def _features(info: ModelInfo) -> list[aicore_pb2.Feature]:
    features = [
        aicore_pb2.SYSTEM_PROMPT,
        aicore_pb2.PREFIX_CACHING,
        aicore_pb2.FUNCTION_CALLING,
    ]
    if info.constrained:
        features.append(aicore_pb2.STRUCTURED_OUTPUT)
    return features


def _to_context(context: CachedContext) -> aicore_pb2.CachedContext:
    return aicore_pb2.CachedContext(name=context.name, prompt_prefix=context.prompt_prefix)


async def _unheard(chunk: Said) -> None:
    """For an answer that nobody wants."""


def _to_message(item: DownloadStatus) -> aicore_pb2.DownloadResponse:
    made = aicore_pb2.DownloadResponse
    match item:
        case DownloadStarted():
            return made(started=made.Started(bytes_to_download=item.bytes_to_download))
        case DownloadProgress():
            return made(progress=made.Progress(total_bytes_downloaded=item.total_bytes_downloaded))
        case DownloadCompleted():
            return made(completed=made.Completed())
        case DownloadFailed():
            return made(failed=made.Failed(error=to_gen_ai(item.error)))
        case _:
            assert_never(item)
