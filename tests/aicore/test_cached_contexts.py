"""Prefix caches with a name, implicit ones, and what they save, through client and daemon."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest

from aicore_client import (
    CachedContext,
    Caches,
    Content,
    CreateCachedContextRequest,
    DeviceConnection,
    GenAiException,
    GenerateContentRequest,
    Generation,
    GenerativeModel,
    PromptPrefix,
)
from aicore_client import TextPart as TextContent
from aicore_protos import aicore_pb2, device_pb2, errors_pb2
from aicore_sim.device.home import DeviceHome
from aicore_sim.inference.backend import TextPart
from aicore_sim.inference.onnx_backend import OnnxBackend
from aicore_sim.server import AicoreServer, ServeOptions
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import App, prompt
from tests.aicore.conftest import Daemon, StartDaemon
from tests.inference.synthetic import HELLO, build_synthetic_model

CACHE_PROCESSING_ERROR, TOO_SMALL = -103, -100
RULES = "These are the rules of the shop. " * 11
SCRIPT = "- text: ok\n"


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_synthetic_model(tmp_path_factory.mktemp("models") / "synthetic")


def context(name: str, text: str = RULES) -> CachedContext:
    return CachedContext(name=name, prompt_prefix=PromptPrefix(text))


def creation(name: str, text: str = RULES) -> CreateCachedContextRequest:
    return CreateCachedContextRequest(name=name, prompt_prefix=PromptPrefix(text))


@contextlib.asynccontextmanager
async def client_of(daemon: Daemon, token: str | None = None) -> AsyncIterator[GenerativeModel]:
    address = daemon.server.address
    async with DeviceConnection(address, "unix:/nowhere", token or daemon.app_token) as connection:
        yield Generation.get_client(connection=connection)


@contextlib.asynccontextmanager
async def caches_of(daemon: Daemon, token: str | None = None) -> AsyncIterator[Caches]:
    async with client_of(daemon, token) as client:
        yield client.caches


async def other_app(daemon: Daemon) -> str:
    request = device_pb2.InstallPackageRequest(package_name="com.example.other")
    return str((await daemon.shell.call("InstallPackage", request)).token)


async def usage(app: App, text: str, **fields: str) -> tuple[str, aicore_pb2.Usage]:
    chunks = await app.generate(prompt(text, **fields))
    return "".join(chunk.text for chunk in chunks), chunks[-1].finish.usage


@pytest.mark.requirement("prompt.cache.explicit")
async def test_caches_are_created_read_listed_replaced_and_deleted_by_name(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script=SCRIPT) as daemon, caches_of(daemon) as caches:
        assert await caches.create(creation("rules")) == context("rules")
        await caches.create(creation("about", "We sell tea."))
        assert await caches.get("rules") == context("rules")
        await caches.create(creation("rules", "New rules."))
        assert await caches.list() == (
            context("about", "We sell tea."),
            context("rules", "New rules."),
        )
        assert await caches.delete("rules") is True
        assert await caches.delete("rules") is False
        with pytest.raises(GenAiException) as missing:
            await caches.get("rules")

    assert missing.value.error_code == CACHE_PROCESSING_ERROR


@pytest.mark.requirement("prompt.cache.explicit")
async def test_an_app_sees_its_own_caches_only_and_a_new_app_of_its_name_none(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script=SCRIPT) as daemon, caches_of(daemon) as mine:
        await mine.create(creation("rules"))
        async with caches_of(daemon, await other_app(daemon)) as theirs:
            assert await theirs.list() == ()
            assert await theirs.delete("rules") is False
        name = device_pb2.UninstallPackageRequest(package_name="com.example.app")
        await daemon.shell.call("UninstallPackage", name)
        again = device_pb2.InstallPackageRequest(package_name="com.example.app")
        token = (await daemon.shell.call("InstallPackage", again)).token
        async with caches_of(daemon, token) as new:
            assert await new.list() == ()


@pytest.mark.requirement("prompt.cache.explicit")
async def test_caches_outlast_a_restart_and_are_invalid_after_a_change_of_the_model(
    start_daemon: StartDaemon, model_dir: Path
) -> None:
    async with start_daemon(script=SCRIPT) as daemon, caches_of(daemon) as caches:
        await caches.create(creation("rules"))
    async with start_daemon(script=SCRIPT) as daemon:
        assert (await usage(daemon.app, "Hi!", cached_context_name="rules"))[0] == "ok"
    backend = OnnxBackend(model_dir, threads=1, name="newer")
    async with start_daemon(backend=backend) as daemon, caches_of(daemon) as caches:
        assert await caches.list() == (context("rules"),)
        fault = await daemon.app.fault(
            "GenerateContent", prompt("Hi!", cached_context_name="rules"), stream=True
        )
        assert fault.error_code == CACHE_PROCESSING_ERROR
        await caches.create(creation("rules"))
        assert (await usage(daemon.app, "Hi!", cached_context_name="rules"))[0] == HELLO


@pytest.mark.requirement("prompt.cache.explicit", "aicore.prefix.reused")
async def test_a_named_prefix_is_read_when_it_is_created_and_not_again(
    start_daemon: StartDaemon, model_dir: Path
) -> None:
    backend = OnnxBackend(model_dir, threads=1)
    async with start_daemon(backend=backend) as daemon, caches_of(daemon) as caches:
        await caches.create(creation("rules"))
        text, first = await usage(daemon.app, "Hi!", cached_context_name="rules")
        counting = prompt("Hi!", cached_context_name="rules")
        counted = await daemon.app.call(
            "CountTokens", aicore_pb2.CountTokensRequest(request=counting)
        )
        written_out = await usage(daemon.app, RULES + "Hi!")

    assert text == HELLO
    assert counted.total_tokens == first.input_tokens == written_out[1].input_tokens
    assert first.cached_input_tokens == first.input_tokens - len("Hi!")


@pytest.mark.requirement("prompt.cache.implicit", "aicore.prefix.reused")
async def test_a_given_prefix_is_warm_for_the_app_until_it_clears_its_implicit_caches(
    start_daemon: StartDaemon, model_dir: Path
) -> None:
    backend = OnnxBackend(model_dir, threads=1)
    async with start_daemon(backend=backend) as daemon, client_of(daemon) as client:
        other = daemon.caller(await other_app(daemon))
        usages = [
            (await usage(app, text, prompt_prefix=RULES))[1]
            for app, text in ((daemon.app, "Hi!"), (daemon.app, "Ho!"), (other, "Ho!"))
        ]
        await client.clear_implicit_caches()
        _, cleared = await usage(daemon.app, "Hi!", prompt_prefix=RULES)
        _, theirs = await usage(other, "Hi!", prompt_prefix=RULES)

    warm = usages[0].input_tokens - len("i!")
    assert [one.cached_input_tokens for one in usages] == [0, warm, 0]
    assert (cleared.cached_input_tokens, theirs.cached_input_tokens) == (0, warm)


@pytest.mark.requirement("prompt.cache.implicit")
async def test_the_prefix_stands_directly_before_the_first_text(
    start_daemon: StartDaemon,
) -> None:
    backend = HandDrivenBackend()
    backend.finish()
    model = aicore_pb2.Content(role=aicore_pb2.MODEL, parts=[aicore_pb2.Part(text="Yes?")])
    started = prompt("Go", prompt_prefix="Be brief. ")
    started.contents.insert(0, model)
    async with start_daemon(backend=backend) as daemon:
        await daemon.app.generate(prompt("Hello", prompt_prefix="Be brief. "))
        backend.finish()
        await daemon.app.generate(started)

    assert backend.requests[0].contents[0].parts == (TextPart(text="Be brief. Hello"),)
    assert [one.parts[0] for one in backend.requests[1].contents] == [
        TextPart(text=text) for text in ("Be brief. ", "Yes?", "Go")
    ]


@pytest.mark.parametrize(
    ("name", "text", "code"), [("rules", " \n", TOO_SMALL), ("", "text", None)]
)
async def test_a_cache_without_name_or_text_is_refused(
    start_daemon: StartDaemon, name: str, text: str, code: int | None
) -> None:
    wanted = aicore_pb2.CachedContext(name=name, prompt_prefix=text)
    async with start_daemon(script=SCRIPT) as daemon:
        fault = await daemon.app.fault(
            "CreateCachedContext", aicore_pb2.CreateCachedContextRequest(cached_context=wanted)
        )
    if code is None:
        assert fault.kind == errors_pb2.SimulatorError.INVALID_REQUEST
    else:
        assert fault.error_code == code
    with pytest.raises(ValueError, match="must not be blank"):
        creation(name, text)


@pytest.mark.requirement("prompt.cache.explicit")
async def test_a_request_names_a_cache_or_gives_a_prefix_never_both_nor_an_unknown_name(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script=SCRIPT) as daemon:
        both = await daemon.app.fault(
            "GenerateContent",
            prompt("Hi", cached_context_name="rules", prompt_prefix="x"),
            stream=True,
        )
        unknown = await daemon.app.fault(
            "GenerateContent", prompt("Hi", cached_context_name="rules"), stream=True
        )

    assert both.kind == errors_pb2.SimulatorError.INVALID_REQUEST
    assert unknown.error_code == CACHE_PROCESSING_ERROR


@pytest.mark.requirement("aicore.prefix.memory-bounded")
@pytest.mark.parametrize(("mebibytes", "kept"), [(0, False), (None, True)])
async def test_the_memory_for_warm_prefixes_is_an_option_of_the_daemon(
    short_dir: Path, model_dir: Path, mebibytes: int | None, kept: bool
) -> None:
    home = DeviceHome(short_dir / "device")
    options = ServeOptions(model=str(model_dir), home=home, quota="off", prefix_memory=mebibytes)
    async with (
        AicoreServer(options) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        shell = App(channel, home.read_control_token())
        request = device_pb2.InstallPackageRequest(package_name="com.example.app")
        app = App(channel, (await shell.call("InstallPackage", request)).token)
        usages = [(await usage(app, RULES + "Hi!"))[1] for _ in range(2)]

    assert usages[0].cached_input_tokens == 0
    assert (usages[1].cached_input_tokens > 0) is kept


@pytest.mark.requirement("prompt.cache.explicit", "prompt.cache.implicit")
async def test_a_request_of_the_client_names_a_cache_or_brings_a_prefix(
    start_daemon: StartDaemon, model_dir: Path
) -> None:
    backend = OnnxBackend(model_dir, threads=1)
    async with start_daemon(backend=backend) as daemon, client_of(daemon) as client:
        await client.caches.create(creation("rules"))
        content = [Content([TextContent("Hi!")])]
        named = GenerateContentRequest(contents=content, cached_context_name="rules")
        brought = GenerateContentRequest(contents=content, prompt_prefix=PromptPrefix(RULES))
        usages = [(await client.generate_content(one)).usage for one in (named, brought)]
        with pytest.raises(ValueError, match="not both"):
            GenerateContentRequest(
                contents=content, cached_context_name="rules", prompt_prefix=PromptPrefix(RULES)
            )

    assert all(one is not None and one.cached_input_tokens > 100 for one in usages)
