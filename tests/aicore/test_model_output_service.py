"""What a model writes, well or badly, as apps and the journal get it from a whole daemon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aicore_protos import aicore_pb2, device_pb2, errors_pb2
from aicore_sim.inference.onnx_backend import OnnxBackend
from tests.aicore.calls import App, prompt
from tests.aicore.conftest import Daemon, StartDaemon
from tests.aicore.device_calls import OK, journal, outcome
from tests.aicore.test_daemon_process import daemon as daemon_process
from tests.aicore.test_daemon_process import shell
from tests.inference.models import build_model
from tests.inference.synthetic import DEFAULT_CHAINS, END, HELLO, build_synthetic_model
from tests.inference.test_unconstrained import TEMPLATE

CHAINS = {
    **DEFAULT_CHAINS,
    "1": ["<tool_call>\n{'name': 'fetch', 'arguments': {}}\n</tool_call>", END],
    "2": [END],
    "3": ["<think>\nThe user is", " rude.\n</think>\n\n", "Good day.", END],
}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_synthetic_model(tmp_path_factory.mktemp("models") / "synthetic")


@pytest.fixture(scope="module")
def free_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "free"
    build_model(folder, template=TEMPLATE, chains=CHAINS)
    (folder / "aicore_sim.json").write_text('{"guidance": false}')
    return folder


def fetching(text: str) -> aicore_pb2.GenerateContentRequest:
    parameters = {"type": "FUNCTION_TYPE_OBJECT"}
    return prompt(text, tools=[{"name": "fetch", "parameters": parameters}])


async def consumed(daemon: Daemon) -> int:
    state = await daemon.shell.call("GetScript", device_pb2.GetScriptRequest())
    return int(state.consumed)


@pytest.mark.requirement("aicore.generate.malformed-call")
async def test_output_that_cannot_be_read_reaches_the_app_and_the_journal(
    start_daemon: StartDaemon, free_dir: Path
) -> None:
    backend = OnnxBackend(free_dir, threads=1)
    async with start_daemon(backend=backend, quota="off") as daemon:
        broken, end = await daemon.app.generate(fetching("Hi1"))
        (empty,) = await daemon.app.generate(fetching("Hi2"))
        await daemon.app.generate(prompt("Hi!"))
        figures = [dict(entry.figures) for entry in await journal(daemon, rpc="GenerateContent")]

    assert broken.malformed_function_call.text == "{'name': 'fetch', 'arguments': {}}"
    assert broken.malformed_function_call.reason.startswith("The call is not JSON")
    assert end.finish.reason == aicore_pb2.STOP
    assert (empty.finish.reason, empty.finish.usage.output_tokens) == (aicore_pb2.STOP, 0)
    assert [entry.get("malformed_calls", 0) for entry in figures] == [1, 0, 0]
    assert [entry["output_tokens"] > 0 for entry in figures] == [True, False, True]


@pytest.mark.requirement("aicore.dialect.thoughts")
async def test_a_thought_arrives_as_one_and_never_in_the_text(
    start_daemon: StartDaemon, free_dir: Path
) -> None:
    backend = OnnxBackend(free_dir, threads=1)
    async with start_daemon(backend=backend) as daemon:
        chunks = await daemon.app.generate(prompt("Hi3"))

    assert "".join(chunk.thought for chunk in chunks) == "The user is rude."
    assert "".join(chunk.text for chunk in chunks) == "Good day."


@pytest.mark.requirement("aicore.prefix.reused")
async def test_the_journal_shows_how_much_of_a_prompt_was_cached(
    start_daemon: StartDaemon, model_dir: Path
) -> None:
    rules = "These are the rules of the shop. " * 11
    backend = OnnxBackend(model_dir, threads=1)
    async with start_daemon(backend=backend, quota="off") as daemon:
        for text in ("one!", "two!"):
            await daemon.app.generate(prompt(text, system_instruction=rules))
        figures = [dict(entry.figures) for entry in await journal(daemon, rpc="GenerateContent")]

    assert figures[0]["cached_tokens"] == 0
    assert 300 <= figures[1]["cached_tokens"] < figures[1]["input_tokens"]


@pytest.mark.requirement("simulator.unimplemented-named")
async def test_a_request_for_thoughts_is_refused_by_its_field_before_any_inference(
    start_daemon: StartDaemon,
) -> None:
    request = prompt("hi", enable_thinking=True)
    async with start_daemon(script="- text: never") as daemon:
        fault = await daemon.app.fault("GenerateContent", request, stream=True)
        counted = await daemon.app.fault(
            "CountTokens", aicore_pb2.CountTokensRequest(request=request)
        )
        assert await consumed(daemon) == 0

    assert fault.kind == counted.kind == errors_pb2.SimulatorError.UNIMPLEMENTED
    assert "GenerateContentRequest.enable_thinking" in fault.message


@pytest.mark.requirement("aicore.tokens.from-tokenizer")
async def test_the_size_of_chunks_is_a_setting_and_says_nothing_of_the_number_of_tokens(
    short_dir: Path, model_dir: Path
) -> None:
    found = []
    for seconds in (0, 60):
        profile = short_dir / f"chunks-{seconds}.toml"
        profile.write_text(f'extends = "pixel-10"\n[stream]\nchunk_seconds = {seconds}\n')
        async with (
            daemon_process(
                short_dir / f"d{seconds}", model=str(model_dir), profile=str(profile)
            ) as started,
            shell(started) as app,
        ):
            found.append(await app.generate(prompt("Hi!")))
            counting = aicore_pb2.CountTokensRequest(request=prompt("Hi!"))
            counted = (await app.call("CountTokens", counting)).total_tokens

    assert [len(chunks) for chunks in found] == [6 + 1, 2 + 1]
    for *texts, end in found:
        assert "".join(chunk.text for chunk in texts) == HELLO
        assert (end.finish.usage.input_tokens, end.finish.usage.output_tokens) == (counted, 6)


@pytest.mark.requirement("aicore.worker.own-process")
async def test_the_model_never_runs_in_the_daemons_process(
    short_dir: Path, model_dir: Path
) -> None:
    async with daemon_process(short_dir / "d", model=str(model_dir)) as started:
        async with shell(started) as app:
            assert await outcome(app, prompt("Hi!")) == OK
        pid = started.process.pid
        workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        loaded = {one: "onnxruntime" in Path(f"/proc/{one}/maps").read_text() for one in workers}

        assert "onnxruntime" not in Path(f"/proc/{pid}/maps").read_text()
        assert list(loaded.values()) == [True]


@pytest.mark.requirement("simulator.script.no-weights")
async def test_a_scripted_model_needs_neither_weights_nor_network(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = short_dir / "script.yaml"
    script.write_text("- text: hello\n")
    monkeypatch.setenv("HOME", str(short_dir))
    monkeypatch.setenv("XDG_CACHE_HOME", str(short_dir / "cache"))
    async with daemon_process(short_dir / "d", model=f"scripted:{script}") as started:
        async with shell(started) as app:
            assert await _text(app) == "hello"
            pid = started.process.pid
            open_sockets = _sockets(pid)
            local = [line.split()[6] for line in _lines(f"/proc/{pid}/net/unix")]
        assert "onnxruntime" not in Path(f"/proc/{pid}/maps").read_text()

    assert open_sockets
    assert set(open_sockets) <= set(local)
    assert not (short_dir / "cache").exists()


def _lines(file: str) -> list[str]:
    """Without the first, which names the columns."""
    return Path(file).read_text().splitlines()[1:]


async def _text(app: App) -> str:
    return "".join(chunk.text for chunk in await app.generate())


def _sockets(pid: int) -> list[str]:
    """The inodes of a process's open sockets."""
    folder = f"/proc/{pid}/fd"
    targets = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
    return [target[8:-1] for target in targets if target.startswith("socket:[")]
