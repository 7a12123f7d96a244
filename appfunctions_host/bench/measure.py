"""What the host adds to a bare call, and what many functions cost."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_pb2_grpc
from aicore_sim.device.database import open_database
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.packages import PackageStore
from aicore_sim.measure.figures import Figure, median, percentile
from aicore_sim.rpc.values import to_object
from appfunctions_host.bench.app import CALLER, LOCAL, REMOTE
from appfunctions_host.bench.daemon import ECHO, FACTS

LOCAL_RATIO = 1.7
REMOTE_RATIO = 2.8
SEARCH_RATIO = 2.0

_START_SECONDS = 30.0
_CALL_SECONDS = 30.0
_WARM_UP = 50
_TEXT = "The quick brown fox"
_PACKAGE_FUNCTIONS = 100

Advance = Callable[[str, int, int], None]
"""Name of what is measured, how much is done, and of how much."""


class BenchError(RuntimeError):
    """The measurement could not be made; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured."""

    pairs: int = 1000
    """Execute and echo, call by call."""
    callers: int = 32
    calls_each: int = 40
    functions: int = 10_000
    searches: int = 40


@dataclass(kw_only=True)
class Report:
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str = "", target: float | None = None) -> None:
        self.figures.append(Figure(name=name, value=value, unit=unit, target=target))


@dataclass(frozen=True, kw_only=True)
class _Device:
    stub: Any
    echo: Any
    facts: Any
    provider: Any
    metadata: tuple[tuple[str, str], ...]
    """Of the caller that is measured: an agent on the allowlist."""
    packages: PackageStore


async def measure(folder: Path, plan: Plan, advance: Advance) -> Report:
    """Measure everything on a device of its own in `folder`. Raises BenchError."""
    report = Report()
    async with _measured_device(folder) as device:
        await _against_echo(device, LOCAL, "in the host", LOCAL_RATIO, plan, report, advance)
        await _against_echo(device, REMOTE, "in a provider", REMOTE_RATIO, plan, report, advance)
        await _parallel(device, plan, report, advance)
        await _many_functions(device, plan, report, advance)
    await _mcp(plan, report, advance)
    return report


async def _against_echo(
    device: _Device,
    package_name: str,
    where: str,
    target: float,
    plan: Plan,
    report: Report,
    advance: Advance,
) -> None:
    request = _request(package_name)
    taken: dict[str, list[float]] = {"execute": [], "echo": []}
    calls = {
        "execute": lambda: _execute(device, request),
        "echo": lambda: device.echo(request, metadata=device.metadata, timeout=_CALL_SECONDS),
    }
    total = plan.pairs + _WARM_UP
    for number in range(total):
        # Whichever goes first alternates, so that neither gains by its place.
        order = ("execute", "echo") if number % 2 else ("echo", "execute")
        for name in order:
            seconds = await _timed(calls[name])
            if number >= _WARM_UP:
                taken[name].append(seconds * 1000)
        advance(f"execute {where}", number + 1, total)
    execute, echo = median(taken["execute"]), median(taken["echo"])
    report.add(f"execute {where} p50", execute, "ms")
    report.add(f"execute {where} p99", percentile(taken["execute"], 99), "ms")
    report.add(f"echo beside it ({where}) p50", echo, "ms")
    report.add(f"echo beside it ({where}) p99", percentile(taken["echo"], 99), "ms")
    report.add(f"execute {where} ÷ echo", execute / echo, "", target)


async def _parallel(device: _Device, plan: Plan, report: Report, advance: Advance) -> None:
    taken: list[float] = []
    total = plan.callers * plan.calls_each
    request = _request(REMOTE)

    async def caller() -> None:
        for _ in range(plan.calls_each):
            taken.append(await _timed(lambda: _execute(device, request)) * 1000)
            advance(f"{plan.callers} callers", len(taken), total)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(plan.callers)))
    seconds = time.perf_counter() - started
    report.add(f"{plan.callers} callers in parallel", total / seconds, "calls/s")
    report.add(f"{plan.callers} callers, execute p50", median(taken), "ms")
    report.add(f"{plan.callers} callers, execute p99", percentile(taken, 99), "ms")


async def _many_functions(device: _Device, plan: Plan, report: Report, advance: Advance) -> None:
    first = "com.example.bench.p0"
    streams = [await _declare(device, first, _PACKAGE_FUNCTIONS)]
    few = await _search_ms(device, first, plan)
    before = await _memory(device)
    packages = max(1, plan.functions // _PACKAGE_FUNCTIONS - 1)
    for number in range(1, packages + 1):
        name = f"com.example.bench.p{number}"
        streams.append(await _declare(device, name, _PACKAGE_FUNCTIONS))
        advance(f"{plan.functions} functions", number, packages)
    after = await _memory(device)
    many = await _search_ms(device, first, plan)
    for stream in streams:
        stream.cancel()
    added = packages * _PACKAGE_FUNCTIONS
    report.add(f"search of one package among {_PACKAGE_FUNCTIONS}", few, "ms")
    report.add(f"the same among {added + _PACKAGE_FUNCTIONS}", many, "ms")
    report.add("many ÷ few", many / few, "", SEARCH_RATIO)
    if before is not None and after is not None:
        report.add("memory per function", (after - before) / added / 1000, "kB")


async def _search_ms(device: _Device, package_name: str, plan: Plan) -> float:
    request = pb.SearchRequest(package_names=[package_name], page_size=_PACKAGE_FUNCTIONS)

    def search() -> Awaitable[Any]:
        call: Awaitable[Any] = device.stub.Search(
            request, metadata=device.metadata, timeout=_CALL_SECONDS
        )
        return call

    return median([await _timed(search) for _ in range(plan.searches)]) * 1000


async def _declare(device: _Device, package_name: str, count: int) -> Any:
    """The open stream of an app with so many functions."""
    _, token = device.packages.install(package_name)
    stream = device.provider.Connect(metadata=(("authorization", f"Bearer {token}"),))
    functions = [
        pb.AppFunctionMetadata(
            name=pb.AppFunctionName(
                package_name=package_name, function_identifier=f"{package_name}.Tools#f{number}"
            ),
            parameters=[
                pb.ParameterMetadata(
                    name=name,
                    is_required=True,
                    data_type=pb.DataTypeMetadata(type=pb.TYPE_STRING),
                    description="What the function needs to know.",
                )
                for name in ("first", "second", "third")
            ],
            response=pb.ResponseMetadata(value_type=pb.DataTypeMetadata(type=pb.TYPE_STRING)),
            description="Does what a function of an app does, in a sentence or two.",
            access_level=300,
            is_enabled_by_default=True,
        )
        for number in range(count)
    ]
    register = pb.ProviderMessage.Register(functions=functions, package_name=package_name)
    await stream.write(pb.ProviderMessage(register=register))
    await asyncio.wait_for(stream.read(), _CALL_SECONDS)
    return stream


async def _memory(device: _Device) -> int | None:
    answer = await device.facts(b"", metadata=device.metadata, timeout=_CALL_SECONDS)
    found: int | None = json.loads(answer)["memory_bytes"]
    return found


async def _mcp(plan: Plan, report: Report, advance: Advance) -> None:
    """The same call as a tool of the MCP Python SDK over standard input and output."""
    if importlib.util.find_spec("mcp") is None:
        report.notes.append(
            "the MCP Python SDK is not installed; `pip install mcp` adds its figure"
        )
        return
    from appfunctions_host.bench.mcp_tool import tool_call_seconds

    taken = await tool_call_seconds(plan.pairs, _TEXT)
    advance("MCP tool calls", len(taken), len(taken))
    report.add("MCP SDK, tool call over stdio p50", median(taken) * 1000, "ms")
    report.add("MCP SDK, tool call over stdio p99", percentile(taken, 99) * 1000, "ms")


async def _timed(call: Callable[[], Awaitable[Any]]) -> float:
    started = time.perf_counter()
    await call()
    return time.perf_counter() - started


def _execute(device: _Device, request: pb.ExecuteRequest) -> Awaitable[Any]:
    call: Awaitable[Any] = device.stub.Execute(
        request, metadata=device.metadata, timeout=_CALL_SECONDS
    )
    return call


def _request(package_name: str) -> pb.ExecuteRequest:
    return pb.ExecuteRequest(
        name=pb.AppFunctionName(
            package_name=package_name, function_identifier=f"{package_name}.EchoTools#echo"
        ),
        parameters=to_object({"text": _TEXT}),
    )


@contextlib.asynccontextmanager
async def _measured_device(folder: Path) -> AsyncIterator[_Device]:
    home = DeviceHome(folder / "device")
    home.prepare()
    with contextlib.closing(open_database(home.database_path, create=True)) as database:
        packages = PackageStore(database, control_token=home.read_control_token())
        packages.install(LOCAL)
        _, remote = packages.install(REMOTE)
        _, caller = packages.install(
            CALLER, ["EXECUTE_APP_FUNCTIONS"], allowlist_targets=[LOCAL, REMOTE, "*"]
        )
        daemon = ["appfunctions_host.bench.daemon", str(home.path)]
        async with _process(daemon, {}) as address:
            provider = [
                "appfunctions_host.provider",
                f"{REMOTE}=appfunctions_host.bench.app:EchoTools",
            ]
            variables = {"APPFUNCTIONS_ADDRESS": address, "AICORE_SIM_TOKEN": remote}
            async with (
                _process(provider, variables),
                grpc.aio.insecure_channel(address) as channel,
            ):
                yield _Device(
                    stub=appfunctions_pb2_grpc.AppFunctionManagerStub(channel),
                    echo=channel.unary_unary(
                        ECHO,
                        request_serializer=pb.ExecuteRequest.SerializeToString,
                        response_deserializer=pb.ExecuteResponse.FromString,
                    ),
                    facts=channel.unary_unary(FACTS),
                    provider=appfunctions_pb2_grpc.AppFunctionProviderStub(channel),
                    metadata=(("authorization", f"Bearer {caller}"),),
                    packages=packages,
                )


@contextlib.asynccontextmanager
async def _process(module: list[str], variables: dict[str, str]) -> AsyncIterator[str]:
    """A module as a process that has printed READY and the rest of its line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *module, stdin=PIPE, stdout=PIPE, env={**os.environ, **variables}
    )
    try:
        yield await _ready(process, module[0])
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.communicate(), 5)
        except TimeoutError:
            process.kill()
            await process.communicate()


async def _ready(process: Process, name: str) -> str:
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
    except TimeoutError:
        line = b""
    word, _, rest = line.decode().strip().partition(" ")
    if word != "READY":
        raise BenchError(f"{name} did not start within {_START_SECONDS:g} s")
    return rest
