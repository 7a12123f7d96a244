"""The model of the device: while it loads, while it works, and when it cannot be used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from aicore_sim.device.errors import GenAiCode
from aicore_sim.inference.backend import Backend, Chunk, GenerateRequest, ModelInfo
from aicore_sim.policy.failures import aicore_failure

logger = logging.getLogger(__name__)

START_TIMEOUT = 310.0
STOP_TIMEOUT = 3.0


class UnavailableBackend:
    """Stands in for a model that was not found."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def start(self) -> None:
        """Nothing to load."""

    async def stop(self) -> None:
        """Nothing to release."""

    @property
    def unavailable_reason(self) -> str | None:
        return self._reason

    @property
    def info(self) -> ModelInfo:
        raise RuntimeError(self._reason)

    async def count_tokens(self, request: GenerateRequest) -> int:
        raise RuntimeError(self._reason)

    async def generate(self, request: GenerateRequest) -> AsyncIterator[Chunk]:
        raise RuntimeError(self._reason)
        yield


class DeviceModel:
    """A backend and its life. Loading happens beside the calls, so that status calls answer."""

    def __init__(self, backend: Backend, *, name: str) -> None:
        self.name = name
        self.backend = backend
        self._failure: str | None = None
        self._loading: asyncio.Task[None] | None = None
        self._loaded = asyncio.Event()

    def start(self) -> None:
        """Begin to load."""
        self._loading = asyncio.create_task(self._load(), name="load-model")

    async def wait_loaded(self) -> None:
        """Return when loading has ended, well or not."""
        await self._loaded.wait()

    @property
    def unavailable_reason(self) -> str | None:
        """Why the model cannot be used; None while it loads, since its files are there."""
        if not self._loaded.is_set():
            return None
        return self._failure or self.backend.unavailable_reason

    def require_available(self) -> None:
        """Raises GenAiError 8. The reason goes to the log: an app on a phone never sees it."""
        reason = self.unavailable_reason
        if reason is not None:
            logger.warning("model=%s is unavailable: %s", self.name, reason)
            raise aicore_failure(
                GenAiCode.NOT_AVAILABLE,
                "The model is not available; the log of AICore says why.",
            )

    async def ready(self) -> Backend:
        """The backend, once it has loaded. Raises GenAiError 8."""
        await self._loaded.wait()
        self.require_available()
        return self.backend

    async def stop(self) -> None:
        """Stop loading or the model, within STOP_TIMEOUT seconds. Idempotent."""
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                if self._loading is not None and not self._loading.done():
                    self._loading.cancel()
                    await asyncio.wait({self._loading})
                await self.backend.stop()
        except TimeoutError:
            logger.warning("model=%s did not stop within %s s", self.name, STOP_TIMEOUT)

    async def _load(self) -> None:
        try:
            await asyncio.wait_for(self.backend.start(), START_TIMEOUT)
        except TimeoutError:
            self._failure = f"loading took more than {START_TIMEOUT:.0f} s"
        except Exception as error:
            logger.exception("model=%s failed to load", self.name)
            self._failure = f"loading failed with {type(error).__name__}: {error}"
        finally:
            self._loaded.set()
        reason = self.unavailable_reason
        if reason is None:
            logger.info("model=%s is ready", self.name)
        else:
            logger.warning("model=%s is unavailable: %s", self.name, reason)
