"""The AICore daemon: one device directory, one model, three gRPC services."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from aicore_protos import aicore_pb2_grpc, device_pb2_grpc
from aicore_sim import __version__
from aicore_sim.device.clock import ClockMode
from aicore_sim.device.database import open_database
from aicore_sim.device.home import DeviceHome, DeviceInUse
from aicore_sim.device.process import die_with_parent, exit_on_eof
from aicore_sim.device.profile import (
    DEFAULT_PROFILE,
    DeviceProfile,
    PlatformName,
    PrefixCacheProfile,
    ProfileError,
    load_profile,
)
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference.backend import Backend
from aicore_sim.inference.model_folder import PromptOptions
from aicore_sim.inference.recorder import Recorder
from aicore_sim.inference.recording import load_recording
from aicore_sim.inference.replay import replay_backend
from aicore_sim.inference.script import OTHERWISE, Otherwise, Script
from aicore_sim.inference.script_file import load_script
from aicore_sim.inference.scripted import ScriptedBackend
from aicore_sim.policy.download import ByteSource
from aicore_sim.rpc.server import AddressError, RunningServer, start_server, stop_event
from aicore_sim.service import aicore, clock, control
from aicore_sim.service.device import Device, device_clock, make_model
from aicore_sim.service.generation import PaceName
from aicore_sim.service.model import DeviceModel, UnavailableBackend

logger = logging.getLogger(__name__)

LOCK_WAIT = 3.0
STREAM_GRACE = 1.0
START_FAILED = 1
_SCRIPTED = "scripted"
_REPLAY = "replay"
_WITHOUT_SCRIPT: dict[str, Otherwise] = {name: name for name in OTHERWISE if name != "error"}
"""Models that are a script of nothing but what answers the rest."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What `aicore-sim serve` was told."""

    model: str
    """`scripted:FILE`, `scripted` (an empty script), `echo`, `auto`, `replay:FILE`, a model
    folder, or a catalogue name."""
    home: DeviceHome
    profile: str = DEFAULT_PROFILE
    """Name of a shipped device profile, or the path of a TOML file."""
    platform: PlatformName | None = None
    """Platform generation in place of the profile's."""
    address: str | None = None
    """`unix:/path` or `127.0.0.1:PORT`; None is a socket in the device directory."""
    seed: int = 0
    clock: Literal["real", "virtual"] = "real"
    """`virtual` stands still until it is advanced."""
    pace: PaceName = "host"
    """`phone`: answers and loads take the device time that they take on the profile's phone."""
    quota: str | None = None
    """A quota model of the profile, or "off", in place of the profile's."""
    prefix_memory: int | None = None
    """MiB for the model's state of earlier prompts, in place of the profile's; 0 keeps none."""
    prompts: PromptOptions = field(default_factory=PromptOptions)
    """The dialect in place of the model folder's, and whether prompts are logged."""
    record: Path | None = None
    """Write what the model is asked and what it says there."""
    ready_file: Path | None = None
    """Written when the daemon answers, removed when it stops."""
    exit_with_parent_fd: int | None = None
    """Read end of a pipe; the daemon stops when the other end closes."""
    parent_pid: int | None = None
    """The daemon is killed when this process, its parent, dies."""
    log_level: int = logging.INFO


class AicoreServer:
    """The daemon as an object, for `run_daemon` and for tests in one process."""

    def __init__(
        self,
        options: ServeOptions,
        *,
        device_clock: DeviceClock | None = None,
        backend: Backend | None = None,
        more_services: Callable[[grpc.aio.Server], None] | None = None,
    ) -> None:
        """`device_clock` and `backend` take the place of those that the options name.

        `more_services` adds services to the same server before it starts.
        """
        self.options = options
        self._more_services = more_services
        self._given_clock = device_clock
        self._given_backend = backend
        self._stack = contextlib.AsyncExitStack()
        self._running: RunningServer | None = None
        self._model: DeviceModel | None = None
        self._profile: DeviceProfile | None = None
        self._device: Device | None = None

    @property
    def address(self) -> str:
        """Where clients connect. Raises RuntimeError before `start`."""
        if self._running is None:
            raise RuntimeError("the server has not been started")
        return self._running.address

    @property
    def device(self) -> Device:
        """The device behind the services. Raises RuntimeError before `start`."""
        if self._device is None:
            raise RuntimeError("the server has not been started")
        return self._device

    async def start(self) -> None:
        """Serve. The model loads beside the first calls; `wait_ready` waits for it.

        Raises DeviceInUse, ProfileError, ScriptError, RecordingError, AddressError, and
        ValueError for a database of a newer simulator.
        """
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def wait_ready(self) -> None:
        """Return when the model has loaded, well or not, and the server answers a call."""
        if self._model is None:
            raise RuntimeError("the server has not been started")
        await self._model.wait_loaded()
        async with grpc.aio.insecure_channel(self.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            await health.Check(health_pb2.HealthCheckRequest(), timeout=10.0)

    def facts(self) -> dict[str, object]:
        """What the ready file tells; never a token."""
        assert self._model is not None
        assert self._profile is not None
        return {
            "version": __version__,
            "pid": os.getpid(),
            "address": self.address,
            "model": self._model.name,
            "profile": self._profile.name,
            "seed": self.options.seed,
        }

    async def stop(self) -> None:
        """Refuse new calls, end the streams, stop the model, free the directory. Idempotent."""
        await self._stack.aclose()

    async def __aenter__(self) -> AicoreServer:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def _start(self) -> None:
        options, home = self.options, self.options.home
        profile = _profile(options)
        self._profile = profile
        home.prepare()
        self._stack.enter_context(home.lock("aicore", wait=LOCK_WAIT))
        connection = open_database(home.database_path, create=True)
        self._stack.callback(connection.close)
        mode = ClockMode.VIRTUAL if options.clock == "virtual" else ClockMode.REAL
        time = self._given_clock or device_clock(connection, mode)
        backend = self._given_backend or _backend(
            options.model, profile, time, options.prompts, options.seed
        )
        home.write_private(home.profile_path, profile.model_dump_json())
        self._model = make_model(
            backend, profile, name=options.model, clock=time, pace=options.pace
        )
        recorder = None if options.record is None else Recorder(options.record, clock=time)
        if recorder is not None:
            self._stack.push_async_callback(recorder.close, backend)
        device = Device(
            profile,
            home=home,
            connection=connection,
            clock=time,
            model=self._model,
            source=_download_source(self._model, profile, options),
            seed=options.seed,
            pace=options.pace,
            recorder=recorder,
        )
        self._device = device
        self._stack.push_async_callback(device.stop)
        device.start()
        self._running = await start_server(
            address=options.address or f"unix:{home.socket_path('aicore')}",
            resolve=device.resolve,
            services=[
                aicore.SERVICE.full_name,
                control.SERVICE.full_name,
                clock.SERVICE.full_name,
            ],
            register=self._register,
        )
        self._stack.push_async_callback(self._running.stop, STREAM_GRACE)
        self._stack.push_async_callback(device.shut_down)

    def _register(self, server: grpc.aio.Server) -> None:
        device = self.device
        aicore_pb2_grpc.add_AICoreServicer_to_server(device.aicore_servicer, server)
        device_pb2_grpc.add_DeviceControlServicer_to_server(device.control_servicer, server)
        device_pb2_grpc.add_DeviceClockServicer_to_server(device.clock_servicer, server)
        if self._more_services is not None:
            self._more_services(server)


async def run_daemon(options: ServeOptions) -> int:
    """Serve until SIGTERM, SIGINT or the end of the parent; returns the exit code.

    0 after an orderly stop, START_FAILED when the daemon could not start; the log on standard
    error says why. A model that cannot be used does not end the daemon. For the main task of the
    main thread.
    """
    _log_to_stderr(options.log_level)
    if options.parent_pid is not None:
        die_with_parent(options.parent_pid)
    stopping = stop_event()
    if options.exit_with_parent_fd is not None:
        exit_on_eof(options.exit_with_parent_fd)
    if options.ready_file is not None:
        options.ready_file.unlink(missing_ok=True)
    server = AicoreServer(options)
    try:
        await server.start()
    except (DeviceInUse, ProfileError, AddressError, ValueError, OSError) as error:
        logger.error("AICore cannot start: %s", error)  # noqa: TRY400 - the message is complete
        return START_FAILED
    try:
        await _until_first(server.wait_ready(), stopping)
        if not stopping.is_set():
            _announce(server, options)
            await stopping.wait()
        logger.info("AICore stops")
    finally:
        if options.ready_file is not None:
            options.ready_file.unlink(missing_ok=True)
        await server.stop()
    return 0


def _profile(options: ServeOptions) -> DeviceProfile:
    """Raises ProfileError, also for a quota model that the profile lacks."""
    profile = load_profile(options.profile, platform=options.platform)
    if options.prefix_memory is not None:
        kept = PrefixCacheProfile(memory_mb=options.prefix_memory)
        profile = profile.model_copy(update={"prefix_cache": kept})
    if options.quota is None:
        return profile
    try:
        profile.quota.require(options.quota)
    except ValueError as error:
        raise ProfileError(f"--quota: {error}") from None
    quota = profile.quota.model_copy(update={"active": options.quota})
    return profile.model_copy(update={"quota": quota})


def _backend(
    model: str,
    profile: DeviceProfile,
    device_clock: DeviceClock,
    prompts: PromptOptions,
    seed: int,
) -> Backend:
    """A model that is not there is a state of the device, not a failed start."""
    kind, _, script = model.partition(":")
    if kind == _SCRIPTED or model in _WITHOUT_SCRIPT:
        if script:
            made = load_script(Path(script))
        else:
            made = Script(otherwise=_WITHOUT_SCRIPT.get(model, "error"))
        limit = max(
            (feature.token_limit for feature in profile.served_features()),
            default=profile.token_limit,
        )
        if made.otherwise == "auto":
            logger.info("what the script does not say is automatic, from seed=%d", seed)
        return ScriptedBackend(made, clock=device_clock, token_limit=limit, seed=seed)
    if kind == _REPLAY:
        return replay_backend(load_recording(Path(script)), clock=device_clock)
    # ONNX Runtime is loaded only for the model that needs it.
    from aicore_sim.inference.onnx_backend import OnnxBackend
    from aicore_sim.models.catalogue import find_model
    from aicore_sim.models.errors import ModelNotFound
    from aicore_sim.models.named import named_model

    try:
        folder = find_model(model)
    except ModelNotFound as error:
        return UnavailableBackend(str(error))
    name: str | None = None  # a folder's own
    with contextlib.suppress(ModelNotFound):
        name = named_model(model).name
    return OnnxBackend(
        folder,
        token_limit=profile.token_limit,
        name=name,
        prefix_memory_mb=profile.prefix_cache.memory_mb,
        chunk_seconds=profile.stream.chunk_seconds,
        prompts=prompts,
    )


def _download_source(
    model: DeviceModel, profile: DeviceProfile, options: ServeOptions
) -> ByteSource | None:
    """A model with a name is really downloaded; None simulates the download of any other."""
    from aicore_sim.models.errors import ModelNotFound
    from aicore_sim.models.named import named_model

    try:
        wanted = named_model(model.name)
    except ModelNotFound:
        return None
    from aicore_sim.service.model_download import real_download

    async def arrived() -> None:
        if isinstance(model.backend, UnavailableBackend):
            made = await asyncio.to_thread(
                _backend, model.name, profile, model.clock, options.prompts, options.seed
            )
            await model.replace(made)
            await model.wait_loaded()

    if not isinstance(model.backend, UnavailableBackend):
        return None
    return real_download(
        wanted,
        present=lambda: not isinstance(model.backend, UnavailableBackend),
        arrived=arrived,
    )


async def _until_first(work: Coroutine[None, None, None], stopping: asyncio.Event) -> None:
    """Run `work` to its end, or cancel it when `stopping` is set before."""
    tasks = {asyncio.create_task(work), asyncio.create_task(stopping.wait())}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _announce(server: AicoreServer, options: ServeOptions) -> None:
    facts = server.facts()
    logger.info("AICore serves model=%s address=%s", facts["model"], facts["address"])
    if options.ready_file is not None:
        options.home.write_private(options.ready_file, json.dumps(facts))


def _log_to_stderr(level: int) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=level,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        force=True,
    )
