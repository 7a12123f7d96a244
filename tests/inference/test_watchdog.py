"""A worker that hangs is found out and replaced; one that is only slow is left in peace."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from aicore_sim.inference import frames
from aicore_sim.inference.backend import BackendError, GenerateRequest, TextDelta
from aicore_sim.inference.onnx_backend import OnnxBackend
from aicore_sim.inference.watchdog import Watchdog, WorkerLimits
from tests.inference.requests import ask
from tests.inference.synthetic import HELLO
from tests.inference.test_onnx_backend import ENDLESS, answer, gone, running

CONNECTION_LOST, NOT_AVAILABLE = 29, 8
LIMITS = WorkerLimits(silence=8.0, step=60.0)
SHORT = WorkerLimits(silence=1.0, step=1.5)
PREFILL = frames.Progress(id=1, prefill=True)
DECODE = frames.Progress(id=1, prefill=False)


def pong(*, steps: int, working: bool = True) -> frames.Pong:
    return frames.Pong(working=working, steps=steps)


def verdict_after(watchdog: Watchdog, seconds: float) -> str | None:
    """Ticks in seconds until that time has passed or the worker is convicted."""
    for _ in range(int(seconds)):
        if verdict := watchdog.tick(1.0):
            return verdict
    return None


def test_a_worker_that_sends_nothing_hangs() -> None:
    watchdog = Watchdog(LIMITS)
    assert verdict_after(watchdog, 7) is None
    watchdog.heard(pong(steps=0, working=False))
    assert verdict_after(watchdog, 7) is None
    assert watchdog.tick(1.0) == "gave no sign of life for 8 s"


def test_during_a_prefill_step_a_worker_may_be_silent_for_longer() -> None:
    watchdog = Watchdog(LIMITS)
    for _ in range(3):
        watchdog.heard(PREFILL)
        assert verdict_after(watchdog, 59) is None
    assert watchdog.tick(1.0) == "gave no sign of life for 60 s"


@pytest.mark.parametrize(
    "end_of_prefill", [DECODE, frames.Produced(id=1, chunk=TextDelta(text="x"))]
)
def test_after_the_prefill_a_worker_has_to_answer_again(end_of_prefill: frames.Event) -> None:
    watchdog = Watchdog(LIMITS)
    watchdog.heard(PREFILL)
    assert watchdog.in_prefill
    watchdog.heard(end_of_prefill)
    assert not watchdog.in_prefill
    assert verdict_after(watchdog, 8) is not None


@pytest.mark.parametrize(
    ("pongs", "hangs"),
    [
        ([pong(steps=5) for _ in range(61)], True),
        ([pong(steps=step) for step in range(99)], False),
        ([pong(steps=5, working=False) for _ in range(99)], False),
    ],
    ids=["computes without a step", "computes", "waits"],
)
def test_an_engine_that_stands_still_hangs_though_the_worker_answers(
    pongs: Iterable[frames.Pong], hangs: bool
) -> None:
    watchdog = Watchdog(LIMITS)
    verdicts = set()
    for event in pongs:
        watchdog.heard(event)
        verdicts.add(watchdog.tick(1.0))

    assert verdicts == ({None, "made no progress for 60 s"} if hangs else {None})


def test_time_in_which_the_daemon_itself_stood_still_does_not_count() -> None:
    watchdog = Watchdog(LIMITS)

    assert watchdog.tick(3600.0) is None


async def test_a_stopped_worker_fails_its_stream_and_is_replaced(synthetic_dir: Path) -> None:
    async with running(synthetic_dir, limits=SHORT) as backend:
        stream = backend.generate(ENDLESS)
        await anext(stream)
        pid = stop_worker(backend)

        async with asyncio.timeout(5):
            with pytest.raises(BackendError, match="no sign of life") as caught:
                async for _ in stream:
                    pass

        assert caught.value.error_code == CONNECTION_LOST
        await gone(pid, None)
        assert (await answer(backend, ask("Hi!")))[0] == HELLO
        assert backend.worker_pid not in (None, pid)


async def test_calls_that_a_stopped_worker_never_began_are_answered_by_its_successor(
    synthetic_dir: Path,
) -> None:
    async with running(synthetic_dir, limits=SHORT) as backend:
        expected = await backend.count_tokens(ask("Hi!"))
        stop_worker(backend)

        async with asyncio.timeout(5):
            counted, (text, _) = await asyncio.gather(
                backend.count_tokens(ask("Hi!")), answer(backend, ask("Hi!"))
            )

        assert (counted, text) == (expected, HELLO)


async def test_a_stopped_worker_is_found_out_though_nobody_asks(synthetic_dir: Path) -> None:
    async with running(synthetic_dir, limits=SHORT) as backend:
        await gone(stop_worker(backend), None)

        assert backend.worker_pid is None
        assert backend.unavailable_reason is None


@pytest.mark.parametrize("ask_of", [answer, OnnxBackend.count_tokens], ids=["answer", "count"])
async def test_a_prompt_that_the_worker_hangs_in_is_given_up(
    synthetic_dir: Path,
    tmp_path: Path,
    ask_of: Callable[[OnnxBackend, GenerateRequest], Awaitable[object]],
) -> None:
    folder = Path(shutil.copytree(synthetic_dir, tmp_path / "model"))
    template = folder / "chat_template.jinja"
    loops = "{% for i in range(3000) %}" * 4 + "{% endfor %}" * 4
    template.write_text(
        f"{{% if messages[0]['content'] == 'HANG' %}}{loops}{{% endif %}}{template.read_text()}"
    )
    async with running(folder, limits=SHORT) as backend:
        async with asyncio.timeout(5):
            with pytest.raises(BackendError) as caught:
                await ask_of(backend, ask("HANG"))

        assert caught.value.error_code == CONNECTION_LOST
        assert (await answer(backend, ask("Hi!")))[0] == HELLO


async def test_a_load_that_hangs_is_given_up(synthetic_dir: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(synthetic_dir, tmp_path / "model"))
    (folder / "tokenizer.json").unlink()
    os.mkfifo(folder / "tokenizer.json")  # opening it waits for a writer

    async with running(folder, limits=WorkerLimits(load=0.5)) as backend:
        assert backend.unavailable_reason == f"{str(folder)!r} did not load in 0.5 s."
        assert backend.worker_pid is None
        with pytest.raises(BackendError) as caught:
            await backend.count_tokens(ask("Hi!"))
        assert caught.value.error_code == NOT_AVAILABLE


async def test_a_call_behind_one_that_cannot_be_cancelled_is_answered(
    synthetic_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aicore_sim.inference.onnx_backend._CANCEL_SECONDS", 0.1)
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ENDLESS)
        await anext(stream)
        waiting = asyncio.create_task(answer(backend, ask("Hi!")))
        await backend.count_tokens(ask("Hi!"))  # by now the worker has the second request
        stop_worker(backend)
        await stream.aclose()

        async with asyncio.timeout(5):
            assert (await waiting)[0] == HELLO


async def test_an_app_that_breaks_off_often_does_not_use_up_the_model(
    synthetic_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aicore_sim.inference.onnx_backend._CANCEL_SECONDS", 0.05)
    monkeypatch.setattr("aicore_sim.inference.onnx_backend._MAX_DEATHS", 1)
    async with running(synthetic_dir) as backend:
        for _ in range(3):
            stream = backend.generate(ENDLESS)
            await anext(stream)
            stop_worker(backend)
            await stream.aclose()

        assert (await answer(backend, ask("Hi!")))[0] == HELLO


async def test_cancelling_a_call_that_waits_in_line_leaves_the_one_before_it_alone(
    synthetic_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aicore_sim.inference.onnx_backend._CANCEL_SECONDS", 5.0)
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ENDLESS)
        await anext(stream)
        waiting = asyncio.create_task(answer(backend, ask("Hi!")))
        await backend.count_tokens(ask("Hi!"))
        waiting.cancel()
        async with asyncio.timeout(2):
            with pytest.raises(asyncio.CancelledError):
                await waiting

        assert isinstance(await anext(stream), TextDelta)
        await stream.aclose()


def stop_worker(backend: OnnxBackend) -> int:
    """Suspends the worker, as a deadlock in native code would; returns its process id."""
    pid = backend.worker_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid
