"""A gRPC server on a Unix socket or on loopback, with health and reflection."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from aicore_sim.device.packages import Identity
from aicore_sim.rpc.interceptor import BoundaryInterceptor

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\]):(\d{1,5})")


class AddressError(ValueError):
    """An address that the daemons do not serve on, or that is taken."""


class RunningServer:
    """A started server and the address that clients use."""

    def __init__(
        self,
        server: grpc.aio.Server,
        checks: health.aio.HealthServicer,
        address: str,
        socket_path: Path | None,
    ) -> None:
        self._server = server
        self._health = checks
        self._socket_path = socket_path
        self._inode = _inode(socket_path) if socket_path is not None else None
        self.address = address

    async def stop(self, grace: float = 2.0) -> None:
        """Refuse new calls, give running ones `grace` seconds, then cancel them. Idempotent."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)
        if self._socket_path is not None and _inode(self._socket_path) == self._inode:
            self._socket_path.unlink(missing_ok=True)


async def start_server(
    *,
    address: str,
    resolve: Callable[[str], Identity | None],
    services: Sequence[str],
    register: Callable[[grpc.aio.Server], None],
) -> RunningServer:
    """Serve `services` (full names), which `register` adds to the server.

    `address` is `unix:/absolute/path` or a loopback address `127.0.0.1:PORT`; port 0 lets the
    system choose. Raises AddressError for any other address, and for one that is in use.
    """
    socket_path = _check(address)
    server = grpc.aio.server(
        interceptors=[BoundaryInterceptor(resolve)],
        options=[
            # Two servers would otherwise share one port without a word.
            ("grpc.so_reuseport", 0),
            # However often a client asks whether we are still there: a stream may be silent for
            # minutes, and the default would end its connection after a few such pings.
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ],
    )
    register(server)
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    names = (*services, health.SERVICE_NAME)
    reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
    try:
        port = server.add_insecure_port(address)
        if socket_path is not None:
            socket_path.chmod(0o600)
        await server.start()
    except (RuntimeError, OSError) as error:
        await server.stop(None)
        raise AddressError(
            f"cannot serve on {address!r}: it is in use or not allowed ({error}); "
            "choose another --address, for example 127.0.0.1:0"
        ) from None
    for name in ("", *names):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    bound = address if socket_path else f"{address.rpartition(':')[0]}:{port}"
    return RunningServer(server, checks, bound, socket_path)


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except OSError:
        return None


def stop_event() -> asyncio.Event:
    """An event that SIGTERM, SIGINT and SIGHUP set. For the main task of a daemon."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, event.set)
    return event


def _check(address: str) -> Path | None:
    if address.startswith("unix:"):
        path = Path(address.removeprefix("unix:").removeprefix("//"))
        if not path.is_absolute():
            raise AddressError(f"{address!r} needs an absolute path, for example unix:/tmp/a.sock")
        _clear_dead_socket(path, address)
        return path
    found = _LOOPBACK.fullmatch(address)
    if found is None or int(found[2]) > 65535:
        raise AddressError(
            f"{address!r} is not served: use unix:/absolute/path or a loopback address "
            "such as 127.0.0.1:0"
        )
    return None


def _clear_dead_socket(path: Path, address: str) -> None:
    """Remove a socket that a killed process left. Raises AddressError for anything else there."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise AddressError(f"cannot serve on {address!r}: {error.strerror}") from None
    if not stat.S_ISSOCK(mode):
        raise AddressError(f"cannot serve on {address!r}: there is a file that is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError as error:
            raise AddressError(f"cannot serve on {address!r}: {error}") from None
    raise AddressError(f"cannot serve on {address!r}: another server answers there")
