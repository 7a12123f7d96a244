"""The backend and its worker process, through the public interface of a backend."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aicore_sim.device.process import is_alive, start_time
from aicore_sim.inference import frames
from aicore_sim.inference.backend import (
    Backend,
    BackendError,
    Finish,
    FunctionCall,
    GenerateRequest,
    ModelInfo,
    Sampling,
    TextDelta,
)
from aicore_sim.inference.onnx_backend import OnnxBackend
from tests.inference.requests import ask, ask_with_tools, merged
from tests.inference.synthetic import CONTEXT_LENGTH, FAMILY, HELLO

CONNECTION_LOST, NOT_AVAILABLE, TOO_LARGE, TOO_SMALL, SCHEMA_REFUSED = 29, 8, 12, -100, -104
ENDLESS = ask("Hi~", Sampling())


@contextlib.asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[OnnxBackend]:
    backend = OnnxBackend(folder, threads=1, **options)
    async with asyncio.timeout(20):
        await backend.start()
        try:
            yield backend
        finally:
            async with asyncio.timeout(5):
                await backend.stop()


async def answer(backend: Backend, request: GenerateRequest) -> list[Any]:
    return merged([chunk async for chunk in backend.generate(request)])


async def gone(pid: int, started: str | None) -> None:
    """Waits until a process has ended."""
    async with asyncio.timeout(5):
        while is_alive(pid, started):  # noqa: ASYNC110 - a process that is not ours raises no event
            await asyncio.sleep(0.01)


async def killed_answer(backend: OnnxBackend) -> None:
    """Kills the worker at the first chunk of an answer and reads on."""
    async for _ in backend.generate(ENDLESS):
        if backend.worker_pid is not None:
            os.kill(backend.worker_pid, signal.SIGKILL)


async def test_a_request_is_answered_with_text_and_usage(synthetic_dir: Path) -> None:
    async with running(synthetic_dir, name="tiny") as backend:
        assert backend.unavailable_reason is None
        assert backend.info == ModelInfo(
            name="tiny", token_limit=CONTEXT_LENGTH, dialect="hermes", constrained=True
        )
        text, finish = await answer(backend, ask("Hi!"))
        counted = await backend.count_tokens(ask("Hi!"))

    assert text == HELLO
    assert isinstance(finish, Finish)
    assert (finish.reason, finish.usage.output_tokens) == ("stop", 6)
    assert finish.usage.input_tokens == counted


async def test_calls_and_multi_byte_text_pass_the_process_border(synthetic_dir: Path) -> None:
    async with running(synthetic_dir) as backend:
        text, _ = await answer(backend, ask("Hi^"))
        call, _ = await answer(backend, ask_with_tools("Hi!", mode="required"))

    assert text == FAMILY
    assert call == FunctionCall(name="fetch_order_details", args={"orderId": ""})


@pytest.mark.requirement("aicore.generate.cancel-within-two-tokens")
async def test_closing_a_stream_stops_the_model_within_two_tokens(
    synthetic_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "aicore_sim.inference.onnx_backend")
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ENDLESS)
        taken = [await anext(stream) for _ in range(100)]
        await stream.aclose()
        following, _ = await answer(backend, ask("Hi!"))

    ended = [record for record in caplog.records if "cancelled after" in record.message]
    assert len(taken) == 100
    assert following == HELLO
    assert len(ended) == 1
    assert isinstance(ended[0].args, tuple)
    decoded, after_cancel = ended[0].args
    assert isinstance(after_cancel, int)
    assert after_cancel <= 2
    assert isinstance(decoded, int)
    assert decoded <= 100 + frames.WINDOW + 2


async def test_cancelling_the_task_that_reads_stops_the_model(synthetic_dir: Path) -> None:
    async with running(synthetic_dir) as backend:
        started = asyncio.Event()

        async def read() -> None:
            async for _ in backend.generate(ENDLESS):
                started.set()

        task = asyncio.create_task(read())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (await answer(backend, ask("Hi!")))[0] == HELLO


async def test_a_stream_that_nobody_reads_holds_the_model_back(
    synthetic_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "aicore_sim.inference.onnx_backend")
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ENDLESS)
        await anext(stream)
        for _ in range(20):  # round trips give a model that does not wait the time to run ahead
            await backend.count_tokens(ask("x" * 500))
        await stream.aclose()

    (ended,) = [record for record in caplog.records if "cancelled after" in record.message]
    assert isinstance(ended.args, tuple)
    decoded = ended.args[0]
    assert isinstance(decoded, int)
    assert decoded <= frames.WINDOW + 2


async def test_tokens_are_counted_while_an_answer_streams(synthetic_dir: Path) -> None:
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ENDLESS)
        await anext(stream)
        counts = await asyncio.gather(*(backend.count_tokens(ask("Hi!")) for _ in range(5)))
        assert isinstance(await anext(stream), TextDelta)
        await stream.aclose()

    assert len(set(counts)) == 1


async def test_a_second_answer_waits_for_the_first_and_both_are_whole(synthetic_dir: Path) -> None:
    long = ask("Hi~", Sampling(max_output_tokens=500))
    async with running(synthetic_dir) as backend:
        (first_text, first_end), (second_text, _) = await asyncio.gather(
            answer(backend, long), answer(backend, ask("Hi!"))
        )

    assert len(first_text.split()) == 500
    assert first_end.reason == "max_tokens"
    assert second_text == HELLO


async def test_a_waiting_answer_can_be_cancelled(synthetic_dir: Path) -> None:
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ENDLESS)
        await anext(stream)
        waiting = asyncio.create_task(answer(backend, ask("Hi!")))
        await backend.count_tokens(ask("Hi!"))  # by now the worker has the second request
        waiting.cancel()
        await stream.aclose()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        assert (await answer(backend, ask("Hi!")))[0] == HELLO


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ask("x" * CONTEXT_LENGTH), TOO_LARGE),
        (ask("x" * frames.MAX_FRAME), TOO_LARGE),
        (ask_with_tools("Hi", mode="named", name="unknown"), SCHEMA_REFUSED),
        (ask("half a pair: \ud83d"), TOO_SMALL),
    ],
)
async def test_a_refused_request_carries_its_code_and_harms_no_other(
    synthetic_dir: Path, request_: GenerateRequest, code: int
) -> None:
    async with running(synthetic_dir) as backend:
        with pytest.raises(BackendError) as caught:
            await answer(backend, request_)
        assert caught.value.error_code == code
        assert (await answer(backend, ask("Hi!")))[0] == HELLO


@pytest.mark.requirement("aicore.error.worker-dead")
async def test_a_killed_worker_fails_every_call_under_way_and_the_next_call_works(
    synthetic_dir: Path,
) -> None:
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ENDLESS)
        await anext(stream)
        waiting = asyncio.create_task(answer(backend, ask("Hi!")))
        await backend.count_tokens(ask("Hi!"))
        assert backend.worker_pid is not None
        os.kill(backend.worker_pid, signal.SIGKILL)

        async with asyncio.timeout(2):
            with pytest.raises(BackendError, match="SIGKILL") as streamed:
                async for _ in stream:
                    pass
            with pytest.raises(BackendError) as waited:
                await waiting

        assert streamed.value.error_code == waited.value.error_code == CONNECTION_LOST
        assert (await answer(backend, ask("Hi!")))[0] == HELLO
        assert backend.unavailable_reason is None


async def test_a_worker_that_dies_again_and_again_is_given_up(
    synthetic_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aicore_sim.inference.onnx_backend._BACKOFF_SECONDS", (0.0,))
    monkeypatch.setattr("aicore_sim.inference.onnx_backend._MAX_DEATHS", 2)
    async with running(synthetic_dir) as backend:
        codes = []
        for _ in range(4):
            with pytest.raises(BackendError) as caught:
                await killed_answer(backend)
            codes.append(caught.value.error_code)

        assert codes == [CONNECTION_LOST, CONNECTION_LOST, CONNECTION_LOST, NOT_AVAILABLE]
        assert backend.unavailable_reason is not None
        await backend.start()
        assert (await answer(backend, ask("Hi!")))[0] == HELLO


async def test_a_worker_that_does_not_stop_an_answer_is_killed(
    synthetic_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aicore_sim.inference.onnx_backend._CANCEL_SECONDS", 0.1)
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ENDLESS)
        await anext(stream)
        pid = backend.worker_pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await stream.aclose()

        await gone(pid, None)
        assert (await answer(backend, ask("Hi!")))[0] == HELLO


async def test_a_folder_that_cannot_be_loaded_is_a_state(
    synthetic_dir: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(synthetic_dir, tmp_path / "model"))
    content = json.loads((folder / "genai_config.json").read_text())
    content["search"]["colour"] = "blue"
    (folder / "genai_config.json").write_text(json.dumps(content))

    async with running(folder) as backend:
        assert backend.unavailable_reason is not None
        assert "genai_config.json" in backend.unavailable_reason
        assert "colour" in backend.unavailable_reason
        assert backend.worker_pid is None
        with pytest.raises(RuntimeError, match="colour"):
            _ = backend.info
        for call in (answer(backend, ask("Hi!")), backend.count_tokens(ask("Hi!"))):
            with pytest.raises(BackendError) as caught:
                await call
            assert caught.value.error_code == NOT_AVAILABLE


async def test_stopping_ends_streams_and_the_worker_and_may_be_repeated(
    synthetic_dir: Path,
) -> None:
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ENDLESS)
        await anext(stream)
        pid = backend.worker_pid
        assert pid is not None
        started = start_time(pid)

        await backend.stop()
        await backend.stop()

        await gone(pid, started)
        with pytest.raises(BackendError):
            async for _ in stream:
                pass
        with pytest.raises(BackendError) as caught:
            await answer(backend, ask("Hi!"))
        assert caught.value.error_code == NOT_AVAILABLE


async def test_a_worker_that_ignores_everything_is_killed_by_a_stop(
    synthetic_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aicore_sim.inference.worker_process._SHUTDOWN_SECONDS", 0.1)
    monkeypatch.setattr("aicore_sim.inference.worker_process._TERMINATE_SECONDS", 0.1)
    async with running(synthetic_dir) as backend:
        pid = backend.worker_pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)

        await backend.stop()

        await gone(pid, None)


OWNER = """
import asyncio, sys
from pathlib import Path
from aicore_sim.inference.onnx_backend import OnnxBackend
from tests.inference.requests import ask
from aicore_sim.inference.backend import Sampling

async def main():
    backend = OnnxBackend(Path(sys.argv[1]), threads=1)
    await backend.start()
    if sys.argv[2] == "busy":
        stream = backend.generate(ask("Hi~", Sampling()))
        await anext(stream)
    print(backend.worker_pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("state", ["idle", "busy"])
async def test_a_worker_does_not_outlive_a_killed_owner(synthetic_dir: Path, state: str) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(synthetic_dir), state, stdout=subprocess.PIPE
    )
    try:
        assert owner.stdout is not None
        async with asyncio.timeout(20):
            pid = int(await owner.stdout.readline())
        started = start_time(pid)
        assert started is not None
    finally:
        owner.kill()
        await owner.wait()

    await gone(pid, started)
