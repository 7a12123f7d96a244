"""Explicit prefix caches of an app.

https://developers.google.com/ml-kit/genai/prompt/android/prefix-caching
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aicore_client._boundary import Service, unary
from aicore_client._wire import selection_to_wire
from aicore_client.connection import DeviceConnection
from aicore_client.prompt import ModelConfig, PromptPrefix
from aicore_protos import aicore_pb2


@dataclass(frozen=True, kw_only=True)
class CreateCachedContextRequest:
    """Raises ValueError for a name or a prefix that is empty or blank."""

    name: str
    prompt_prefix: PromptPrefix

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError(f"name must not be blank, but is {self.name!r}")
        if not self.prompt_prefix.text_string.strip():
            raise ValueError("prompt_prefix must not be blank")


@dataclass(frozen=True, kw_only=True)
class CachedContext:
    name: str
    prompt_prefix: PromptPrefix


class Caches:
    """`GenerativeModel.caches`: those of the app. A name is unique in the app, over all models.

    Every call raises GenAiException: 601 when AICore cannot be reached, otherwise what AICore
    says; a request with a cache that was made for another model fails with -103.
    """

    def __init__(self, model: ModelConfig, connection: Callable[[], DeviceConnection]) -> None:
        self._model = model
        self._open = connection

    async def create(self, request: CreateCachedContextRequest) -> CachedContext:
        """Makes the model read the prefix, which costs quota as every inference does. A cache of
        the same name is replaced."""
        message = aicore_pb2.CreateCachedContextRequest(
            model=selection_to_wire(self._model),
            cached_context=aicore_pb2.CachedContext(
                name=request.name, prompt_prefix=request.prompt_prefix.text_string
            ),
        )
        connection = self._open()
        made = await self._call("CreateCachedContext", message, connection.long_call_timeout)
        return _from_wire(made)

    async def get(self, name: str) -> CachedContext:
        """Raises GenAiException -103 when there is none."""
        return _from_wire(
            await self._call("GetCachedContext", aicore_pb2.GetCachedContextRequest(name=name))
        )

    async def list(self) -> tuple[CachedContext, ...]:
        """By name."""
        found = await self._call("ListCachedContexts", aicore_pb2.ListCachedContextsRequest())
        return tuple(_from_wire(one) for one in found.cached_contexts)

    async def delete(self, name: str) -> bool:
        """Whether there was one."""
        request = aicore_pb2.DeleteCachedContextRequest(name=name)
        return bool((await self._call("DeleteCachedContext", request)).deleted)

    async def _call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        connection = self._open()
        call = getattr(connection.aicore(), method)(
            request, metadata=connection.metadata, timeout=timeout or connection.call_timeout
        )
        return await unary(call, Service.AICORE)


def _from_wire(message: aicore_pb2.CachedContext) -> CachedContext:
    return CachedContext(
        name=message.name, prompt_prefix=PromptPrefix(text_string=message.prompt_prefix)
    )
