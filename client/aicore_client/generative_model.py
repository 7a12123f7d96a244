"""The model itself, without an agent around it.

https://developers.google.com/android/reference/com/google/mlkit/genai/prompt/GenerativeModel
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar, final

from aicore_client._boundary import Service, stream, unary
from aicore_client._wire import request_to_wire, response_from_wire, selection_to_wire
from aicore_client.caching import Caches
from aicore_client.connection import DeviceConnection, default_connection
from aicore_client.content import Content, TextPart
from aicore_client.download_status import DownloadStatus, status_from_wire
from aicore_client.errors import GenAiException
from aicore_client.prompt import (
    Candidate,
    CountTokensResponse,
    Feature,
    FeatureStatus,
    FinishReason,
    GenerateContentRequest,
    GenerateContentResponse,
    GenerationConfig,
)
from aicore_client.structured import (
    GenerateTypedContentRequest,
    GenerateTypedContentResponse,
    typed_candidate,
)
from aicore_protos import aicore_pb2

T = TypeVar("T")


class GenerativeModel:
    """A client of one model of the device; get it from :meth:`Generation.get_client`.

    Every call raises GenAiException: 601 when AICore cannot be reached, otherwise what AICore
    says. Nothing is opened before the first call.
    """

    def __init__(
        self,
        config: GenerationConfig | None = None,
        *,
        connection: DeviceConnection | None = None,
    ) -> None:
        self._config = (config or GenerationConfig()).model_config
        self._given_connection = connection
        self._closed = False

    async def check_status(self) -> int:
        """A :class:`FeatureStatus`, or the bare number where this version knows no name."""
        request = aicore_pb2.CheckStatusRequest(model=selection_to_wire(self._config))
        status = int((await self._call("CheckStatus", request)).status)
        return FeatureStatus(status) if status in tuple(FeatureStatus) else status

    async def download(self) -> AsyncGenerator[DownloadStatus]:
        """Downloads the feature, or joins a running download; a cold flow.

        A download that fails ends with `DownloadFailed`. It goes on when the app leaves the loop.
        """
        connection = self._connection
        call = connection.aicore().Download(
            aicore_pb2.DownloadRequest(model=selection_to_wire(self._config)),
            metadata=connection.metadata,
            timeout=connection.long_call_timeout,
        )
        async with aclosing(stream(call, Service.AICORE)) as items:
            async for item in items:
                status = status_from_wire(item)
                if status is not None:
                    yield status

    async def warmup(self) -> None:
        """Loads the model, so that the first generation does not pay for it. Costs no quota."""
        request = aicore_pb2.WarmupRequest(model=selection_to_wire(self._config))
        await self._call("Warmup", request, timeout=self._connection.long_call_timeout)

    async def get_base_model_name(self) -> str:
        """For example `nano-v3`."""
        return str((await self._model_info()).base_model_name)

    async def get_token_limit(self) -> int:
        """Input and output together, in tokens."""
        return int((await self._model_info()).token_limit)

    async def is_feature_available(self, feature: Feature) -> bool:
        """Ours: one question for what ML Kit asks with a method for each feature."""
        return int(feature) in (await self._model_info()).features

    async def is_system_prompt_available(self) -> bool:
        return await self.is_feature_available(Feature.SYSTEM_PROMPT)

    async def is_thinking_mode_available(self) -> bool:
        return await self.is_feature_available(Feature.THINKING_MODE)

    async def is_structured_output_feature_available(self) -> bool:
        return await self.is_feature_available(Feature.STRUCTURED_OUTPUT)

    async def is_caching_feature_available(self) -> bool:
        return await self.is_feature_available(Feature.PREFIX_CACHING)

    async def count_tokens(
        self, request: str | GenerateContentRequest | GenerateTypedContentRequest[Any]
    ) -> CountTokensResponse:
        """Tokens of the input alone."""
        message = aicore_pb2.CountTokensRequest(
            request=request_to_wire(_as_request(request), self._config)
        )
        response = await self._call("CountTokens", message)
        return CountTokensResponse(total_tokens=response.total_tokens)

    async def generate_content(
        self, request: str | GenerateContentRequest
    ) -> GenerateContentResponse:
        """One whole answer, or as many as the request's `candidate_count` at the most."""
        parts: list[GenerateContentResponse] = []
        candidates: dict[int, list[Candidate]] = {}
        async with aclosing(self._chunks(_as_request(request))) as chunks:
            async for number, part in chunks:
                parts.append(part)
                candidates.setdefault(number, []).extend(part.candidates)
        thoughts = "".join(item.text for part in parts for item in part.thought_process)
        return GenerateContentResponse(
            candidates=tuple(_joined(candidates[number]) for number in sorted(candidates)),
            thought_process=(Candidate(text=thoughts),) if thoughts else (),
            usage=next((part.usage for part in reversed(parts) if part.usage), None),
        )

    async def generate_typed_content(
        self, request: GenerateTypedContentRequest[T]
    ) -> GenerateTypedContentResponse[T]:
        """ML Kit's `generateContent` of a typed request: answers as objects of a class.

        Raises GenAiException: -104 for a class that is not marked, or a schema that the model
        cannot be held to, -105 for an answer that is no such object, -106 for one that was cut off.
        """
        answer = await self.generate_content(request.plain())
        return GenerateTypedContentResponse(
            candidates=tuple(
                typed_candidate(candidate, request.output_class) for candidate in answer.candidates
            ),
            usage=answer.usage,
        )

    async def generate_content_stream(
        self, request: str | GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse]:
        """Chunks of an answer, each with what is new; the last has a finish reason.

        Closing the generator, or leaving the loop over it, stops the model. Raises ValueError for
        a request of more than one candidate.
        """
        wanted = _as_request(request)
        if (wanted.candidate_count or 1) > 1:
            raise ValueError(
                f"candidate_count {wanted.candidate_count} is not for streams; use generate_content"
            )
        async with aclosing(self._chunks(wanted)) as chunks:
            async for _, chunk in chunks:
                yield chunk

    async def _chunks(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[tuple[int, GenerateContentResponse]]:
        """With the number of the candidate that each belongs to."""
        message = request_to_wire(request, self._config)
        connection = self._connection
        call = connection.aicore().GenerateContent(
            message, metadata=connection.metadata, timeout=connection.long_call_timeout
        )
        finished = False
        async with aclosing(stream(call, Service.AICORE)) as chunks:
            async for chunk in chunks:
                finished = finished or chunk.HasField("finish")
                yield chunk.candidate, response_from_wire(chunk)
        if not finished:
            raise GenAiException(
                "AICore ended the stream without a finish reason; the text so far is incomplete.",
                GenAiException.ErrorCode.UNKNOWN,
            )

    @property
    def caches(self) -> Caches:
        """Prefixes that the app has given a name."""
        return Caches(self._config, lambda: self._connection)

    async def clear_implicit_caches(self) -> None:
        """Nothing that the app asked before stays warm."""
        await self._call("ClearImplicitCaches", aicore_pb2.ClearImplicitCachesRequest())

    def close(self) -> None:
        """Releases the client. Idempotent; the connection stays open for others."""
        self._closed = True

    @property
    def _connection(self) -> DeviceConnection:
        if self._closed:
            raise RuntimeError("this GenerativeModel is closed")
        return self._given_connection or default_connection()

    async def _model_info(self) -> Any:
        request = aicore_pb2.GetModelInfoRequest(model=selection_to_wire(self._config))
        return await self._call("GetModelInfo", request)

    async def _call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        connection = self._connection
        call = getattr(connection.aicore(), method)(
            request, metadata=connection.metadata, timeout=timeout or connection.call_timeout
        )
        return await unary(call, Service.AICORE)


@final
class Generation:
    """https://developers.google.com/android/reference/com/google/mlkit/genai/prompt/Generation"""

    @staticmethod
    def get_client(
        generation_config: GenerationConfig | None = None,
        *,
        connection: DeviceConnection | None = None,
    ) -> GenerativeModel:
        return GenerativeModel(generation_config, connection=connection)


def _as_request(
    request: str | GenerateContentRequest | GenerateTypedContentRequest[Any],
) -> GenerateContentRequest:
    if isinstance(request, GenerateTypedContentRequest):
        return request.plain()
    if isinstance(request, GenerateContentRequest):
        return request
    return GenerateContentRequest(contents=[Content([TextPart(request)])])


def _joined(candidates: list[Candidate]) -> Candidate:
    reasons: list[FinishReason] = [
        item.finish_reason for item in candidates if item.finish_reason is not None
    ]
    return Candidate(
        text="".join(item.text for item in candidates),
        finish_reason=reasons[-1] if reasons else None,
        function_calls=tuple(call for item in candidates for call in item.function_calls),
        malformed_function_calls=tuple(
            call for item in candidates for call in item.malformed_function_calls
        ),
    )
