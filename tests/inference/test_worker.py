"""The worker over many calls: warm prefixes, cancellation, limits, counting, crashes, memory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aicore_sim.inference.backend import (
    BackendError,
    Finish,
    FunctionCall,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    Sampling,
    TextDelta,
    TextPart,
)
from aicore_sim.inference.engine import Engine
from aicore_sim.inference.onnx_backend import OnnxBackend
from aicore_sim.inference.warm_states import WarmFigures
from tests.aicore.calls import eventually
from tests.inference.requests import ask, ask_with_tools, merged, said, user
from tests.inference.synthetic import HELLO, RECALL, build_recalling_model

CONNECTION_LOST, TOO_LARGE = 29, 12
PREFIX = "These are the rules of the shop. " * 11
LIMIT = 512
TWELVE = Sampling(temperature=0.0, max_output_tokens=12)


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


async def answer(backend: OnnxBackend, request: GenerateRequest) -> list[Any]:
    return merged([chunk async for chunk in backend.generate(request)])


async def finish_of(backend: OnnxBackend, request: GenerateRequest) -> Finish:
    last = (await answer(backend, request))[-1]
    assert isinstance(last, Finish)
    return last


async def counted(backend: OnnxBackend, request: GenerateRequest, *, times: int) -> list[int]:
    return [await backend.count_tokens(request) for _ in range(times)]


async def outcome_of(backend: OnnxBackend, request: GenerateRequest) -> Finish | int:
    """The end of the answer, or the code of the error."""
    try:
        return await finish_of(backend, request)
    except BackendError as error:
        return error.error_code


def of_app(app: str, text: str) -> GenerateRequest:
    return ask(PREFIX + text).model_copy(update={"app": app})


@pytest.mark.requirement("aicore.prefix.reused")
async def test_a_warm_prefix_is_reported_until_its_app_has_it_forgotten(
    synthetic_dir: Path,
) -> None:
    async with running(synthetic_dir) as backend:
        cached = [
            (await finish_of(backend, of_app(app, text))).usage.cached_input_tokens
            for app, text in (("com.a", "one!"), ("com.a", "two!"), ("com.b", "two!"))
        ]
        await backend.forget_prefixes("com.a")
        after = [
            (await finish_of(backend, of_app(app, "two!"))).usage.cached_input_tokens
            for app in ("com.a", "com.b")
        ]
        whole = await backend.count_tokens(of_app("com.a", "two!"))

    assert cached == [0, whole - len("two!"), 0]
    assert after == [0, whole - 1]
    await backend.forget_prefixes("com.a")
    assert backend.warm == WarmFigures()


@pytest.mark.requirement("aicore.prefix.memory-bounded")
async def test_the_backend_tells_what_is_warm_and_keeps_nothing_when_told_so(
    synthetic_dir: Path,
) -> None:
    async with running(synthetic_dir, prefix_memory_mb=0) as backend:
        usages = [(await finish_of(backend, of_app("com.a", "one!"))).usage for _ in range(2)]

    assert [usage.cached_input_tokens for usage in usages] == [0, 0]


@pytest.mark.requirement("aicore.generate.after-cancel", "aicore.generate.cancel-within-two-tokens")
def test_after_a_hundred_cancelled_answers_the_first_token_takes_as_many_steps_as_before(
    recalling_dir: Path,
) -> None:
    engine = Engine(recalling_dir, threads=1)
    request = ask(PREFIX + RECALL, Sampling(max_output_tokens=8))
    looks: list[int] = []

    def counting(tokens: int) -> bool:
        looks.append(tokens)
        return False

    def whole() -> tuple[list[Any], int]:
        looks.clear()
        chunks: list[Any] = []
        engine.generate(request, chunks.append, counting)
        return merged(chunks), looks.count(0)

    whole()
    before = whole()
    for number in range(100):
        cut = ask(f"{PREFIX}{number}{RECALL}", Sampling(max_output_tokens=50))
        finish = engine.generate(cut, lambda _: None, lambda tokens, at=number % 4: tokens >= at)  # type: ignore[misc]
        assert finish.usage.output_tokens <= number % 4 + 2
    engine.generate(request, lambda _: None, counting)

    assert whole() == before
    assert engine.warm.states == 1


@pytest.mark.requirement("aicore.generate.after-cancel", "aicore.generate.cancel-within-two-tokens")
async def test_a_hundred_answers_broken_off_in_a_row_leave_the_worker_as_it_was(
    synthetic_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "aicore_sim.inference.onnx_backend")
    async with running(synthetic_dir) as backend:
        pid = backend.worker_pid
        for _ in range(100):
            stream = backend.generate(ask(PREFIX + "Hi~", Sampling(max_output_tokens=2000)))
            for _ in range(3):
                await anext(stream)
            await stream.aclose()
        text, finish = await answer(backend, ask(PREFIX + "Hi!"))

        assert backend.worker_pid == pid
    assert text == HELLO
    assert finish.usage.input_tokens - finish.usage.cached_input_tokens <= 2
    after = [record.args[1] for record in caplog.records if isinstance(record.args, tuple)]
    assert len(after) == 100
    assert all(isinstance(tokens, int) and tokens <= 2 for tokens in after)


@pytest.mark.requirement("aicore.tokens.limit-exact")
async def test_every_length_around_the_limit_works_or_is_too_large(tmp_path: Path) -> None:
    folder = build_recalling_model(tmp_path, context_length=LIMIT)
    works: list[int] = []
    async with running(folder) as backend:
        pid = backend.worker_pid
        overhead = await backend.count_tokens(ask(RECALL, Sampling())) - 1
        for length in range(LIMIT - 64, LIMIT + 9):
            request = ask("x" * (length - overhead - 1) + RECALL, Sampling())
            assert await backend.count_tokens(request) == length
            outcome = await outcome_of(backend, request)
            if isinstance(outcome, Finish):
                assert outcome.usage.input_tokens == length
                assert outcome.usage.input_tokens + outcome.usage.output_tokens == LIMIT
                works.append(length)
            else:
                assert outcome == TOO_LARGE
        assert backend.worker_pid == pid

    assert works == list(range(LIMIT - 64, LIMIT))


@pytest.mark.requirement("aicore.tokens.limit-exact")
async def test_a_demanded_call_at_every_length_around_the_limit_crashes_nothing(
    tmp_path: Path,
) -> None:
    folder = build_recalling_model(tmp_path, context_length=LIMIT)
    async with running(folder) as backend:
        pid = backend.worker_pid
        empty = ask_with_tools("", mode="required", sampling=Sampling())
        overhead = await backend.count_tokens(empty)
        for length in range(LIMIT - 64, LIMIT + 9, 3):
            request = ask_with_tools(
                "x" * (length - overhead), mode="required", sampling=Sampling()
            )
            assert await backend.count_tokens(request) == length
            outcome = await outcome_of(backend, request)
            if isinstance(outcome, Finish):
                assert length < LIMIT
                assert outcome.usage.input_tokens + outcome.usage.output_tokens <= LIMIT
            else:
                assert length >= LIMIT
                assert outcome == TOO_LARGE
        assert backend.worker_pid == pid


@pytest.mark.requirement("aicore.tokens.count-beside-stream")
async def test_a_stream_goes_on_while_two_hundred_thousand_bytes_are_counted(
    synthetic_dir: Path,
) -> None:
    long = ask("Order 4711 is late. " * 10_000)
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ask("Hi~", Sampling()))
        await anext(stream)
        counting = asyncio.create_task(counted(backend, long, times=5))
        meanwhile = 0
        async with asyncio.timeout(20):
            while not counting.done():
                assert isinstance(await anext(stream), TextDelta)
                meanwhile += 1
        await stream.aclose()

    assert min(await counting) > 100_000
    # More than could have been under way already: the model went on, and so did its consumer.
    assert meanwhile > 128


@pytest.mark.requirement("aicore.error.worker-dead")
async def test_a_segmentation_fault_is_a_lost_call_and_leaves_its_trace_in_the_log(
    synthetic_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(synthetic_dir) as backend:
        stream = backend.generate(ask("Hi~", Sampling()))
        await anext(stream)
        first = backend.worker_pid
        assert first is not None
        os.kill(first, signal.SIGSEGV)
        async with asyncio.timeout(5):
            with pytest.raises(BackendError, match="SIGSEGV") as caught:
                async for _ in stream:
                    pass

        assert caught.value.error_code == CONNECTION_LOST
        assert (await answer(backend, ask("Hi!")))[0] == HELLO
        assert backend.worker_pid != first
    assert any("Segmentation fault" in record.getMessage() for record in caplog.records)


@pytest.mark.requirement("aicore.stall")
async def test_twenty_tool_rounds_over_new_sessions_all_answer(synthetic_dir: Path) -> None:
    async with running(synthetic_dir) as backend:
        for number in range(20):
            asked = ask_with_tools(f"Session {number}!", mode="required")
            call, _ = await answer(backend, asked)
            assert isinstance(call, FunctionCall)
            contents = (
                *asked.contents,
                said("model", FunctionCallPart(name=call.name, args=call.args)),
                said("user", FunctionResponsePart(name=call.name, response={"n": number})),
                said("model", TextPart(text="Done.")),
                user("And!"),
            )
            told = ask_with_tools("!", mode="auto").model_copy(update={"contents": contents})
            assert (await answer(backend, told))[0] == HELLO


@pytest.mark.requirement("aicore.worker.memory-flat")
async def test_three_hundred_generations_leave_the_workers_memory_as_it_was(
    recalling_dir: Path,
) -> None:
    async with running(recalling_dir, prefix_memory_mb=1) as backend:

        async def generations(count: int) -> None:
            for number in range(count):
                app = f"com.app{number % 20}"
                if number % 10:
                    request = ask(f"{number} {PREFIX}{RECALL}", TWELVE)
                else:
                    request = ask_with_tools(f"{number} {PREFIX}!", mode="required")
                await answer(backend, request.model_copy(update={"app": app}))

        await generations(60)
        before = _resident_kib(backend.worker_pid)
        # The worker tells what it keeps once a second.
        await eventually(lambda: backend.warm.evicted > 0)
        evicted = backend.warm.evicted
        await generations(300)
        after = _resident_kib(backend.worker_pid)
        await eventually(lambda: backend.warm.evicted > evicted)
        warm = backend.warm

    assert 0 < warm.bytes <= 2**20
    assert after <= before * 1.05


def _resident_kib(pid: int | None) -> int:
    assert pid is not None
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("the process has no memory")
