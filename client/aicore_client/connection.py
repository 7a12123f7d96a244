"""Where the simulated device is, and the gRPC channels to it."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, Self

import grpc

from aicore_client._registrations import Registrations
from aicore_client.errors import DeviceNotConfiguredError, SimulatorError
from aicore_protos import aicore_pb2_grpc, appfunctions_pb2_grpc, device_pb2_grpc

AICORE_SIM_ADDRESS: Final = "AICORE_SIM_ADDRESS"
APPFUNCTIONS_ADDRESS: Final = "APPFUNCTIONS_ADDRESS"
AICORE_SIM_TOKEN: Final = "AICORE_SIM_TOKEN"

_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    # A daemon that was restarted is found again at once, and one that accepts without answering
    # is given up after a second: gRPC's defaults are up to two minutes and twenty seconds.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 100),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class DeviceConnection:
    """One app's connection to one simulated device.

    Addresses are gRPC targets (`unix:/path/aicore.sock`, `127.0.0.1:4711`), `token` is a
    launch token of the app, as `aicore-sim exec --as PACKAGE` puts into the environment and
    `aicore-sim env --as PACKAGE` prints. Nothing is opened before the first call; each event loop
    gets channels of its own, so that several `asyncio.run` may follow one another.

    `call_timeout` bounds quick calls, `long_call_timeout` generations and executions, in seconds.
    """

    def __init__(
        self,
        aicore_address: str,
        appfunctions_address: str,
        token: str,
        *,
        call_timeout: float = 10.0,
        long_call_timeout: float = 600.0,
    ) -> None:
        self.aicore_address = aicore_address
        self.appfunctions_address = appfunctions_address
        self.call_timeout = call_timeout
        self.long_call_timeout = long_call_timeout
        self._metadata = (
            ("authorization", f"Bearer {token}"),
            ("aicore-sim-version", version("aicore-sim")),
        )
        self._loops: dict[asyncio.AbstractEventLoop, _LoopChannels] = {}
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def from_environment(cls) -> Self:
        """Reads AICORE_SIM_ADDRESS, APPFUNCTIONS_ADDRESS and AICORE_SIM_TOKEN.

        Raises DeviceNotConfiguredError naming the variables that are missing.
        """
        aicore, appfunctions, token = read_environment()
        return cls(aicore, appfunctions, token)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What identifies the app in every call."""
        return self._metadata

    @property
    def is_closed(self) -> bool:
        return self._closed

    def aicore(self) -> Any:
        """The AICore stub of the running event loop."""
        return self._channels().aicore

    def clock(self) -> Any:
        """The DeviceClock stub of the running event loop."""
        return self._channels().clock

    def app_functions(self) -> Any:
        """The AppFunctionManager stub of the running event loop."""
        return self._channels().app_functions

    def registrations(self) -> Registrations:
        """What the app has registered in the running event loop."""
        return self._channels().registrations

    async def close(self) -> None:
        """Closes every channel. Idempotent; running calls are cancelled, registrations end."""
        with self._lock:
            self._closed = True
            loops, self._loops = self._loops, {}
        mine = loops.pop(asyncio.get_running_loop(), None)
        if mine is not None:
            await mine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return (
            f"DeviceConnection(aicore_address={self.aicore_address!r}, "
            f"appfunctions_address={self.appfunctions_address!r})"
        )

    def _channels(self) -> _LoopChannels:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._closed:
                raise SimulatorError("This DeviceConnection is closed; make a new one.")
            channels = self._loops.get(loop)
            if channels is None:
                for ended in [known for known in self._loops if known.is_closed()]:
                    del self._loops[ended]
                channels = _LoopChannels(self)
                self._loops[loop] = channels
            return channels


class _LoopChannels:
    """A grpc.aio channel belongs to the event loop in which it was made."""

    def __init__(self, connection: DeviceConnection) -> None:
        self._aicore_channel = grpc.aio.insecure_channel(
            connection.aicore_address, _CHANNEL_OPTIONS
        )
        self._appfunctions_channel = grpc.aio.insecure_channel(
            connection.appfunctions_address, _CHANNEL_OPTIONS
        )
        self.aicore: Any = aicore_pb2_grpc.AICoreStub(self._aicore_channel)
        self.clock: Any = device_pb2_grpc.DeviceClockStub(self._aicore_channel)
        self.app_functions: Any = appfunctions_pb2_grpc.AppFunctionManagerStub(
            self._appfunctions_channel
        )
        provider: Any = appfunctions_pb2_grpc.AppFunctionProviderStub(self._appfunctions_channel)
        self.registrations = Registrations(
            partial(provider.Connect, metadata=connection.metadata), connection.call_timeout
        )

    async def close(self) -> None:
        await self.registrations.close()
        await self._aicore_channel.close()
        await self._appfunctions_channel.close()


def read_environment() -> tuple[str, str, str]:
    names = (AICORE_SIM_ADDRESS, APPFUNCTIONS_ADDRESS, AICORE_SIM_TOKEN)
    aicore, appfunctions, token = (os.environ.get(name, "") for name in names)
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise DeviceNotConfiguredError(
            f"No simulated device: {', '.join(missing)} not set. Start one with `aicore-sim up`, "
            "then run the program with `aicore-sim exec --as PACKAGE -- python your_app.py`, "
            "which sets them."
        )
    return aicore, appfunctions, token


_default: tuple[tuple[str, str, str], DeviceConnection] | None = None


def default_connection() -> DeviceConnection:
    """The connection that the environment names, shared by everything that is given none.

    Raises DeviceNotConfiguredError.
    """
    global _default
    named = read_environment()
    if _default is None or _default[0] != named or _default[1].is_closed:
        _default = (named, DeviceConnection(*named))
    return _default[1]
