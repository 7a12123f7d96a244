"""The line in front of the model: exact, first come, first served."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aicore_sim.device.errors import GenAiError
from aicore_sim.policy.admission import AdmissionQueue


class Crowd:
    """Callers that hold their slot until they are told to leave."""

    def __init__(self, queue: AdmissionQueue) -> None:
        self.queue = queue
        self.started: list[int] = []
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._leave: dict[int, asyncio.Event] = {}

    def join(self, number: int) -> asyncio.Task[None]:
        self._leave[number] = asyncio.Event()
        self._tasks[number] = asyncio.create_task(self._hold(number))
        return self._tasks[number]

    async def leave(self, number: int) -> None:
        self._leave[number].set()
        await asyncio.wait_for(self._tasks[number], 5)

    def cancel(self, number: int) -> asyncio.Task[None]:
        self._tasks[number].cancel()
        return self._tasks[number]

    async def _hold(self, number: int) -> None:
        async with self.queue.slot():
            self.started.append(number)
            await self._leave[number].wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.requirement(
    "aicore.error.codes-text",
    "aicore.queue.contention-has-no-delay",
    "aicore.queue.full-is-busy",
)
async def test_one_runs_one_waits_and_the_others_are_busy_at_once() -> None:
    crowd = Crowd(AdmissionQueue(slots=1, waiting=1))
    tasks = [crowd.join(number) for number in range(6)]
    await settle()
    assert [task.done() for task in tasks] == [False, False, True, True, True, True]
    errors = [task.exception() for task in tasks[2:]]
    assert all(isinstance(error, GenAiError) for error in errors)
    assert {(e.error_code, e.retry_delay, e.error_type) for e in errors} == {(9, 0.0, 2)}  # type: ignore[union-attr]
    assert str(errors[0]) == (
        "AICore failed with error type 2-INFERENCE_ERROR and error code 9-BUSY: "
        "1 running and 1 waiting fill the queue; try again later."
    )
    assert (crowd.queue.running, crowd.queue.waiting, crowd.started) == (1, 1, [0])
    await crowd.leave(0)
    await crowd.leave(1)
    assert (crowd.queue.running, crowd.queue.waiting, crowd.started) == (0, 0, [0, 1])


@pytest.mark.requirement("aicore.queue.fair")
async def test_a_caller_that_leaves_the_line_never_runs_and_frees_its_place() -> None:
    crowd = Crowd(AdmissionQueue(slots=1, waiting=2))
    for number in range(3):
        crowd.join(number)
    await settle()
    left = crowd.cancel(1)
    crowd.join(3)  # before the loop has run the cancelled task
    await asyncio.wait({left}, timeout=5)
    assert left.cancelled()
    assert crowd.queue.waiting == 2
    for number in (0, 2, 3):
        await crowd.leave(number)
    assert crowd.started == [0, 2, 3]
    assert (crowd.queue.running, crowd.queue.waiting) == (0, 0)


@pytest.mark.requirement("aicore.queue.fair")
async def test_a_slot_given_to_a_caller_that_is_cancelled_goes_to_the_next() -> None:
    crowd = Crowd(AdmissionQueue(slots=1, waiting=2))
    async with crowd.queue.slot():
        for number in (1, 2):
            crowd.join(number)
        await settle()
    cancelled = crowd.cancel(1)  # it has been given the slot, and has not run since
    await settle()
    assert cancelled.cancelled()
    assert (crowd.queue.running, crowd.queue.waiting, crowd.started) == (1, 0, [2])
    await crowd.leave(2)
    assert (crowd.queue.running, crowd.queue.waiting) == (0, 0)


async def test_a_slot_is_never_given_to_a_caller_that_is_leaving() -> None:
    crowd = Crowd(AdmissionQueue(slots=1, waiting=2))
    async with crowd.queue.slot():
        for number in (1, 2):
            crowd.join(number)
        await settle()
        crowd.cancel(1)  # and the slot is freed before the loop runs it
    await settle()
    assert (crowd.queue.running, crowd.queue.waiting, crowd.started) == (1, 0, [2])
    await crowd.leave(2)


async def test_idle_is_when_the_last_has_left() -> None:
    crowd = Crowd(AdmissionQueue(slots=2, waiting=1))
    await asyncio.wait_for(crowd.queue.wait_idle(), 5)
    for number in range(3):
        crowd.join(number)
    await settle()
    idle = asyncio.create_task(crowd.queue.wait_idle())
    for number in range(3):
        assert not idle.done()
        await crowd.leave(number)
    await asyncio.wait_for(idle, 5)


async def test_a_generation_that_fails_frees_its_slot() -> None:
    queue = AdmissionQueue(slots=1, waiting=0)
    with pytest.raises(RuntimeError, match="broken"):
        async with queue.slot():
            raise RuntimeError("broken")
    assert queue.running == 0
    async with queue.slot():
        assert queue.running == 1


@pytest.mark.parametrize(("slots", "waiting"), [(0, 1), (1, -1)])
def test_a_queue_that_cannot_work_is_refused(slots: int, waiting: int) -> None:
    with pytest.raises(ValueError, match="cannot work"):
        AdmissionQueue(slots=slots, waiting=waiting)


@pytest.mark.requirement("aicore.queue.fair", "aicore.queue.full-is-busy")
@settings(max_examples=60, deadline=None)
@given(
    slots=st.integers(1, 3),
    places=st.integers(0, 3),
    steps=st.lists(st.tuples(st.sampled_from(["join", "leave", "cancel"]), st.integers(0, 9))),
)
def test_the_line_behaves_like_its_model(
    slots: int, places: int, steps: list[tuple[str, int]]
) -> None:
    async def run() -> None:
        crowd = Crowd(AdmissionQueue(slots=slots, waiting=places))
        running: list[int] = []
        line: list[int] = []
        expected: list[int] = []
        for number, (action, choice) in enumerate(steps):
            if action == "join":
                task = crowd.join(number)
                await settle()
                if len(running) < slots:
                    running.append(number)
                    expected.append(number)
                elif len(line) < places:
                    line.append(number)
                else:
                    assert isinstance(task.exception(), GenAiError)
            elif action == "leave" and running:
                await crowd.leave(running.pop(choice % len(running)))
                if line:
                    running.append(line.pop(0))
                    expected.append(running[-1])
            elif action == "cancel" and line:
                crowd.cancel(line.pop(choice % len(line)))
            await settle()
            assert crowd.started == expected
            assert (crowd.queue.running, crowd.queue.waiting) == (len(running), len(line))
        for number in [*line, *running]:
            crowd.cancel(number)
        await settle()
        assert (crowd.queue.running, crowd.queue.waiting) == (0, 0)

    asyncio.run(run())
