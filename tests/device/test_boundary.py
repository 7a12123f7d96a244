"""The gRPC boundary of both daemons: who may call, and how errors travel."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from aicore_protos import aicore_pb2, aicore_pb2_grpc, errors_pb2
from aicore_sim.device.errors import (
    AppFunctionCode,
    AppFunctionError,
    DeviceError,
    FaultKind,
    GenAiCode,
    GenAiError,
    SimulatorFault,
)
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.packages import SHELL, Identity
from aicore_sim.rpc.identity import caller, require_shell
from aicore_sim.rpc.server import AddressError, start_server
from aicore_sim.rpc.values import from_object
from tests.aicore.calls import TIMEOUT, App, detail_of, only_member, prompt, rich_status

SERVICE = aicore_pb2.DESCRIPTOR.services_by_name["AICore"].full_name
APP = Identity(
    package_name="com.example.app",
    uid=10000,
    permissions=frozenset(),
    signing_digest="",
    allowlist_targets=frozenset(),
)
TOKENS = {"app": APP, "shell": SHELL}


class RaisingServicer(aicore_pb2_grpc.AICoreServicer):
    """Fails with `error`, and says who called otherwise."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    async def CheckStatus(self, request: object, context: object) -> Any:
        if self.error is not None:
            raise self.error
        return aicore_pb2.CheckStatusResponse()

    async def GenerateContent(self, request: object, context: object) -> AsyncIterator[Any]:
        yield aicore_pb2.GenerateContentResponse(text=caller().package_name)
        if self.error is not None:
            raise self.error

    async def Warmup(self, request: object, context: object) -> Any:
        require_shell("Warmup")
        return aicore_pb2.WarmupResponse()


@asynccontextmanager
async def serving(
    address: str, servicer: RaisingServicer | None = None
) -> AsyncIterator[grpc.aio.Channel]:
    made = servicer or RaisingServicer()
    server = await start_server(
        address=address,
        resolve=TOKENS.get,
        services=[SERVICE],
        register=lambda target: aicore_pb2_grpc.add_AICoreServicer_to_server(made, target),
    )
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield channel
    finally:
        await server.stop(0)


@pytest.fixture
def address(short_home: DeviceHome) -> str:
    return f"unix:{short_home.path / 'a.sock'}"


ERRORS: list[tuple[DeviceError, Any]] = [
    *(
        (
            GenAiError(code, f"text {code}", error_type=2),
            errors_pb2.GenAiError(error_code=code, message=f"text {code}", error_type=2),
        )
        for code in (*GenAiCode, 28, 4711, -9999, 2**31 - 1, -(2**31))
    ),
    (
        GenAiError(27, "quota", retry_delay=90.25),
        errors_pb2.GenAiError(
            error_code=27, message="quota", retry_delay=Duration(seconds=90, nanos=250_000_000)
        ),
    ),
    *(
        (
            AppFunctionError(code, f"text {code}"),
            errors_pb2.AppFunctionError(error_code=code, error_message=f"text {code}"),
        )
        for code in (*AppFunctionCode, 0, 999, 4000)
    ),
    *(
        (
            SimulatorFault(kind, f"text {kind}"),
            errors_pb2.SimulatorError(kind=kind.value, message=f"text {kind}"),  # type: ignore[arg-type]
        )
        for kind in FaultKind
    ),
]


@pytest.mark.parametrize("name", ["CheckStatus", "GenerateContent"])
async def test_every_error_arrives_whole_from_unary_and_streaming_calls(
    address: str, name: str
) -> None:
    servicer = RaisingServicer()
    request = prompt("hi") if name == "GenerateContent" else aicore_pb2.CheckStatusRequest()
    async with serving(address, servicer) as channel:
        app = App(channel, "app")
        for error, expected in ERRORS:
            servicer.error = error
            fault = await app.fault(name, request, stream=name == "GenerateContent")
            assert fault == expected
    assert {kind.value for kind in FaultKind} == {
        number for number in errors_pb2.SimulatorError.Kind.values() if number
    }


async def test_a_stream_delivers_what_came_before_the_error(address: str) -> None:
    servicer = RaisingServicer()
    servicer.error = GenAiError(15, "stopped")
    async with serving(address, servicer) as channel:
        stream = App(channel, "app").start("GenerateContent", prompt("hi"))
        assert (await stream.read()).text == "com.example.app"
        with pytest.raises(grpc.aio.AioRpcError):
            await stream.read()


@pytest.mark.requirement("common.error.retry-delay")
async def test_quota_errors_carry_retry_info_and_others_do_not(address: str) -> None:
    servicer = RaisingServicer()
    details = []
    async with serving(address, servicer) as channel:
        for delay in (2.5, 0.0):
            servicer.error = GenAiError(9, "busy", retry_delay=delay)
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await App(channel, "app").call("CheckStatus", aicore_pb2.CheckStatusRequest())
            assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert failed.value.details() == "busy"
            details.append(rich_status(failed.value).details)
    retry = error_details_pb2.RetryInfo()
    assert details[0][1].Unpack(retry)
    assert retry.retry_delay == Duration(seconds=2, nanos=500_000_000)
    assert [len(found) for found in details] == [2, 1]


async def test_extras_of_a_function_travel(address: str) -> None:
    servicer = RaisingServicer()
    extras = {"id": 2**60, "raw": b"\x00\xff", "list": [1.5, None]}
    servicer.error = AppFunctionError(3000, "failed", extras=extras)
    async with serving(address, servicer) as channel:
        fault = await App(channel, "app").fault("CheckStatus", aicore_pb2.CheckStatusRequest())
    assert from_object(fault.extras) == extras


@pytest.mark.parametrize("name", ["CheckStatus", "GenerateContent"])
async def test_a_bug_is_an_internal_fault_whose_text_stays_in_the_log(
    address: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    servicer = RaisingServicer()
    servicer.error = KeyError("prompt-secret")
    request = prompt("hi") if name == "GenerateContent" else aicore_pb2.CheckStatusRequest()
    async with serving(address, servicer) as channel:
        fault = await App(channel, "app").fault(name, request, stream=name == "GenerateContent")
    assert fault.kind == errors_pb2.SimulatorError.INTERNAL
    assert "secret" not in fault.message
    assert f"/{SERVICE}/{name} failed" in caplog.text


@pytest.mark.requirement("simulator.identity.token-not-claim", "simulator.identity.unauthenticated")
@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", ""),),
        (("authorization", "Bearer "),),
        (("authorization", "app"),),
        (("authorization", "Basic app"),),
        (("authorization", "Bearer unknown"),),
        (("x-token", "Bearer app"),),
    ],
)
@pytest.mark.parametrize("name", ["CheckStatus", "GenerateContent"])
async def test_a_call_without_a_known_token_is_unauthenticated(
    address: str, name: str, metadata: tuple[tuple[str, str], ...]
) -> None:
    async with serving(address) as channel:
        app = App(channel, None)
        app.metadata = metadata
        call = app.start(
            name, prompt("hi") if name == "GenerateContent" else aicore_pb2.CheckStatusRequest()
        )
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await (call.read() if name == "GenerateContent" else call)
    assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED
    kind = only_member(detail_of(failed.value)).kind
    assert kind == errors_pb2.SimulatorError.UNAUTHENTICATED


async def test_the_scheme_is_not_case_sensitive(address: str) -> None:
    async with serving(address) as channel:
        app = App(channel, None)
        app.metadata = (("authorization", "bearer app"),)
        assert [chunk.text for chunk in await app.generate()] == ["com.example.app"]


@pytest.mark.requirement("simulator.identity.token-not-claim")
async def test_calls_at_the_same_time_keep_their_own_callers(address: str) -> None:
    async with serving(address) as channel:
        apps = [App(channel, token) for token in ("app", "shell") * 20]
        answers = await asyncio.gather(*(app.generate() for app in apps))
    assert [answer[0].text for answer in answers] == ["com.example.app", "com.android.shell"] * 20


@pytest.mark.requirement("simulator.identity.shell")
async def test_only_the_shell_passes_where_the_control_token_is_required(address: str) -> None:
    async with serving(address) as channel:
        await App(channel, "shell").call("Warmup", aicore_pb2.WarmupRequest())
        fault = await App(channel, "app").fault("Warmup", aicore_pb2.WarmupRequest())
    assert fault.kind == errors_pb2.SimulatorError.FORBIDDEN
    assert "com.example.app" in fault.message


async def test_health_and_reflection_need_no_token(address: str) -> None:
    async with serving(address) as channel:
        checks = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            request = health_pb2.HealthCheckRequest(service=service)
            answer = await checks.Check(request, timeout=TIMEOUT)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        listing = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection.ServerReflectionInfo(iter([listing]), timeout=TIMEOUT)
        found = (await call.read()).list_services_response.service
        assert SERVICE in {service.name for service in found}


@pytest.mark.requirement("simulator.command.port-in-use")
@pytest.mark.parametrize("kind", ["unix", "port"])
async def test_a_second_server_on_an_address_is_refused(address: str, kind: str) -> None:
    first = await _start(address if kind == "unix" else "127.0.0.1:0")
    try:
        with pytest.raises(AddressError, match="cannot serve on"):
            await _start(first.address)
        async with grpc.aio.insecure_channel(first.address) as channel:
            assert await App(channel, "app").generate()
    finally:
        await first.stop(0)


async def test_a_socket_that_nobody_serves_is_replaced_and_private(
    address: str, short_home: DeviceHome
) -> None:
    path = short_home.path / "a.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(address):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


@pytest.mark.parametrize(
    "wrong",
    ["unix:relative.sock", "0.0.0.0:80", "127.0.0.1", "127.0.0.1:99999", "example.com:80", ""],
)
async def test_an_address_beyond_this_machine_is_refused(wrong: str) -> None:
    with pytest.raises(AddressError, match="127.0.0.1:0|absolute path"):
        await _start(wrong)


async def _start(address: str) -> Any:
    return await start_server(
        address=address,
        resolve=TOKENS.get,
        services=[SERVICE],
        register=lambda server: aicore_pb2_grpc.add_AICoreServicer_to_server(
            RaisingServicer(), server
        ),
    )


@pytest.mark.parametrize("letter", ["x", "ü", "漢"])
@pytest.mark.parametrize("length", [2_000, 20_000])
async def test_a_long_text_is_cut_and_the_error_keeps_its_type(
    address: str, letter: str, length: int
) -> None:
    servicer = RaisingServicer()
    servicer.error = AppFunctionError(AppFunctionCode.APP_UNKNOWN_ERROR, letter * length)
    async with serving(address, servicer) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await App(channel, "app").call("CheckStatus", aicore_pb2.CheckStatusRequest())
    detail = detail_of(raised.value).app_function
    assert detail.error_code == AppFunctionCode.APP_UNKNOWN_ERROR
    assert detail.error_message.startswith(letter * 500)
    assert len(detail.error_message.encode()) <= 2_000


@pytest.mark.parametrize(
    "error", [GenAiError(2**40, "beyond 32 bits"), GenAiError(9, "a lone surrogate \ud800")]
)
async def test_an_error_that_cannot_be_sent_still_has_a_type(
    address: str, error: GenAiError
) -> None:
    servicer = RaisingServicer()
    servicer.error = error
    async with serving(address, servicer) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await App(channel, "app").call("CheckStatus", aicore_pb2.CheckStatusRequest())
    assert detail_of(raised.value).WhichOneof("error") in ("simulator", "gen_ai")


async def test_a_file_that_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(AddressError, match="no socket"):
        async with serving(f"unix:{notes}"):
            pass
    assert notes.read_text() == "mine"
