"""Starts the measured daemon and calls it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from aicore_protos import aicore_pb2, aicore_pb2_grpc, device_pb2
from aicore_sim.cli.bench import echo
from aicore_sim.cli.control import CommandError, Control, connect
from aicore_sim.device.home import DeviceHome

PACKAGE = "com.example.bench"
_START_TIMEOUT = 120.0
_STOP_TIMEOUT = 10.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A call as the client saw it; times in seconds."""

    seconds: float
    first_chunk_seconds: float | None
    chunks: int
    failed: bool


class BenchClient:
    """Raw calls: neither the library's time nor anybody's parsing is measured."""

    def __init__(
        self, channel: grpc.aio.Channel, token: str, control: Control, *, address: str
    ) -> None:
        self.control = control
        self.token = token
        self.address = address
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._stub: Any = aicore_pb2_grpc.AICoreStub(channel)
        self._echo = channel.unary_stream(
            echo.STREAM,
            request_serializer=echo.Request.SerializeToString,
            response_deserializer=echo.Response.FromString,
        )
        self._facts = channel.unary_unary(echo.FACTS)

    async def generate(
        self, prompt: str, *, max_output_tokens: int | None = None, timeout: float = 120.0
    ) -> Answer:
        request = echo.request(prompt, max_output_tokens=max_output_tokens)
        return await _timed(
            self._stub.GenerateContent(request, metadata=self._metadata, timeout=timeout)
        )

    async def echo(self, prompt: str) -> Answer:
        """As many chunks as the prompt has words."""
        request = echo.request(prompt)
        return await _timed(self._echo(request, metadata=self._metadata, timeout=120.0))

    async def check_status(self) -> float:
        """Seconds that a status call takes."""
        started = time.perf_counter()
        await self._stub.CheckStatus(
            aicore_pb2.CheckStatusRequest(), metadata=self._metadata, timeout=30.0
        )
        return time.perf_counter() - started

    async def count_tokens(self, prompt: str) -> int:
        request = aicore_pb2.CountTokensRequest(request=echo.request(prompt))
        response = await self._stub.CountTokens(request, metadata=self._metadata, timeout=60.0)
        return int(response.total_tokens)

    async def warmup(self) -> None:
        await self._stub.Warmup(aicore_pb2.WarmupRequest(), metadata=self._metadata, timeout=120.0)

    async def facts(self) -> dict[str, Any]:
        """Tasks, descriptors and memory of the daemon, and what is in its queue."""
        found: dict[str, Any] = json.loads(
            await self._facts(b"", metadata=self._metadata, timeout=30.0)
        )
        device = await asyncio.to_thread(self.control.get_device)
        return {**found, "running": device.running, "waiting": device.waiting}


@asynccontextmanager
async def measured_daemon(folder: Path, *, profile: str, model: str) -> AsyncIterator[BenchClient]:
    """A daemon in a process of its own while the context is open. Raises CommandError."""
    ready = folder / "ready.json"
    log = folder / "daemon.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "aicore_sim.cli.bench.daemon",
            str(folder / "device"),
            profile,
            model,
            str(ready),
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    try:
        address = await _address(process, ready, log)
        home = DeviceHome(folder / "device")
        with connect(address, home.read_control_token()) as control:
            installed = await asyncio.to_thread(
                control.install_app, device_pb2.InstallPackageRequest(package_name=PACKAGE)
            )
            async with grpc.aio.insecure_channel(address) as channel:
                yield BenchClient(channel, installed.token, control, address=address)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_TIMEOUT)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _address(process: asyncio.subprocess.Process, ready: Path, log: Path) -> str:
    deadline = time.monotonic() + _START_TIMEOUT
    while not ready.exists():
        if process.returncode is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
            raise CommandError(f"the measured daemon did not start:\n{tail}")
        await asyncio.sleep(0.05)
    return str(json.loads(ready.read_text())["address"])


async def _timed(call: Any) -> Answer:
    started = time.perf_counter()
    first: float | None = None
    chunks, failed = 0, False
    try:
        async for _ in call:
            if first is None:
                first = time.perf_counter() - started
            chunks += 1
    except grpc.RpcError:
        failed = True
    return Answer(
        seconds=time.perf_counter() - started,
        first_chunk_seconds=first,
        chunks=chunks,
        failed=failed,
    )
