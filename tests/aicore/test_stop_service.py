"""The end of the daemon, versions that do not fit, and connections that are silent for long."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import grpc.aio
import pytest

from aicore_protos import aicore_pb2, device_pb2, errors_pb2
from aicore_sim import __version__
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import TIMEOUT, App, detail_of, prompt
from tests.aicore.conftest import StartDaemon
from tests.aicore.device_calls import OK, advance, ended, outcome, rest_of, status, until
from tests.aicore.test_daemon_process import daemon, shell

IPC_ERROR, NOT_AVAILABLE = 6, 8
STATUS = aicore_pb2.CheckStatusRequest()


@pytest.mark.requirement("aicore.stop")
async def test_sigterm_ends_streams_with_a_typed_error_and_leaves_nothing(
    short_dir: Path,
) -> None:
    script = short_dir / "script.yaml"
    script.write_text("- {text: a b c, chunk_delay: 3600}")
    home = short_dir / "d"
    async with daemon(home, model=f"scripted:{script}") as started, shell(started) as app:
        stream = app.start("GenerateContent", prompt("hi"))
        assert (await stream.read()).text == "a"
        queued = app.start("GenerateContent", prompt("queued"))
        await until_waiting(app)
        stopping = asyncio.ensure_future(started.stop(signal.SIGTERM))
        async with asyncio.timeout(2.0):
            error = await ended(stream)
        assert (error.error_code, error.error_type) == (IPC_ERROR, 4)
        assert (await ended(queued)).error_code == IPC_ERROR
        code, log = await asyncio.wait_for(stopping, TIMEOUT)
    assert code == 0
    assert "Traceback" not in log
    assert not (home / "aicore.sock").exists()


async def until_waiting(app: App) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not (await app.device()).waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.mark.requirement("aicore.stop")
async def test_while_it_stops_new_calls_are_8(start_daemon: StartDaemon) -> None:
    backend = HandDrivenBackend()
    async with start_daemon(backend=backend) as daemon:
        stream = daemon.app.start("GenerateContent", prompt("hi"))
        await until(daemon, lambda device: device.running == 1)
        stopping = asyncio.ensure_future(daemon.server.stop())
        assert (await ended(stream)).error_code == IPC_ERROR
        for name, request, streams in (
            ("GenerateContent", prompt("hi"), True),
            ("CheckStatus", STATUS, False),
            ("Warmup", aicore_pb2.WarmupRequest(), False),
        ):
            fault = await daemon.app.fault(name, request, stream=streams)
            assert (fault.error_code, fault.error_type) == (NOT_AVAILABLE, 3)
        await asyncio.wait_for(stopping, TIMEOUT)


async def test_whoever_waits_for_the_model_is_answered_when_the_device_stops(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend(loaded=False)
    async with start_daemon(backend=backend) as daemon:
        warming = asyncio.ensure_future(daemon.app.fault("Warmup", aicore_pb2.WarmupRequest()))
        download = daemon.app.start("Download", aicore_pb2.DownloadRequest())
        assert [item.WhichOneof("status") for item in await rest_of(download)] == ["completed"]
        await until(daemon, lambda device: device.model_state == device_pb2.LOADING)
        await asyncio.wait_for(daemon.server.stop(), TIMEOUT)
        assert (await asyncio.wait_for(warming, TIMEOUT)).error_code == NOT_AVAILABLE


async def test_a_download_that_runs_when_the_device_stops_fails_as_an_item(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(clock="virtual") as daemon:
        request = device_pb2.SetAvailabilityRequest(status=aicore_pb2.DOWNLOADABLE)
        await daemon.shell.call("SetAvailability", request)
        download = daemon.app.start("Download", aicore_pb2.DownloadRequest())
        assert (await download.read()).WhichOneof("status") == "started"
        await asyncio.wait_for(daemon.server.stop(), TIMEOUT)
        (last,) = await rest_of(download)
    assert last.failed.error.error_code == 7


async def with_version(app: App, channel: grpc.aio.Channel, version: str) -> App:
    made = App(channel, None)
    made.metadata = (*app.metadata, ("aicore-sim-version", version))
    return made


@pytest.mark.requirement("simulator.version-handshake")
@pytest.mark.parametrize("version", ["99.0.0", "", "nonsense", f"9{__version__}"])
async def test_a_client_of_another_version_is_told_so(
    start_daemon: StartDaemon, version: str
) -> None:
    async with start_daemon(script="- text: never") as daemon:
        client = await with_version(daemon.app, daemon.channel, version)
        for name, request, stream in (
            ("CheckStatus", STATUS, False),
            ("GenerateContent", prompt("hi"), True),
        ):
            fault = await client.fault(name, request, stream=stream)
            assert fault == errors_pb2.SimulatorError(
                kind=errors_pb2.SimulatorError.INVALID_REQUEST,
                message=f"this client is of aicore-sim {version!r} and the device runs "
                f"{__version__!r}; install the same version in both places, and restart the "
                "device",
            )


async def test_a_client_of_another_patch_or_without_a_version_is_served(
    start_daemon: StartDaemon,
) -> None:
    patch = ".".join([*__version__.split(".")[:2], "999"])
    async with start_daemon() as daemon:
        for client in (
            daemon.app,
            await with_version(daemon.app, daemon.channel, __version__),
            await with_version(daemon.app, daemon.channel, patch),
        ):
            assert await status(client) == aicore_pb2.AVAILABLE


@pytest.mark.requirement("simulator.silent-stream")
async def test_a_stream_may_be_silent_for_ten_minutes(start_daemon: StartDaemon) -> None:
    script = "- {text: one two, chunk_delay: 600}"
    async with start_daemon(script=script, clock="virtual") as daemon:
        stream = daemon.app.start("GenerateContent", prompt("hi"))
        assert (await stream.read()).text == "one"
        await advance(daemon, 600)
        assert (await asyncio.wait_for(stream.read(), TIMEOUT)).text == " two"
        assert (await ended(stream)).error_code == OK


PING, GOAWAY, ACK = 6, 7, 1


def frame(kind: int, payload: bytes = b"") -> bytes:
    """An HTTP/2 frame of stream 0."""
    return len(payload).to_bytes(3, "big") + bytes([kind, 0]) + bytes(4) + payload


@pytest.mark.requirement("simulator.silent-stream")
async def test_a_client_that_pings_often_keeps_its_connection(start_daemon: StartDaemon) -> None:
    """gRPC's default is to hang up after two pings too many."""
    pings = 20
    settings = frame(4)
    async with start_daemon() as daemon:
        path = daemon.server.address.removeprefix("unix:")
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
        answered = 0
        async with asyncio.timeout(TIMEOUT):
            for number in range(pings):
                writer.write(frame(PING, number.to_bytes(8, "big")))
            while answered < pings:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
                assert head[3] != GOAWAY, payload
                answered += head[3] == PING and head[4] == ACK
        writer.close()
        await writer.wait_closed()


async def test_a_transport_that_is_gone_has_no_typed_detail(start_daemon: StartDaemon) -> None:
    async with start_daemon(script="- text: ok") as daemon:
        assert await outcome(daemon.app) == OK
        await daemon.server.stop()
        with pytest.raises(grpc.aio.AioRpcError) as gone:
            await daemon.app.call("CheckStatus", STATUS)
    assert gone.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(AssertionError):
        detail_of(gone.value)
