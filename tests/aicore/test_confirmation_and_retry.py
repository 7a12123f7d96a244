"""What the client offers ready made for asking the user and for trying again, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from aicore_client import (
    AgentTool,
    Declined,
    DeviceClock,
    DeviceConnection,
    GenAiException,
    HitlConfirmationTool,
    RetryPolicy,
)
from tests.aicore.calls import TIMEOUT, eventually
from tests.aicore.conftest import Daemon, StartDaemon
from tests.aicore.device_calls import APP, advance

Code = GenAiException.ErrorCode


class Cancel(AgentTool):
    """Stands for an AppFunction."""

    def __init__(self) -> None:
        self._delegate = None
        self._name = "cancel_order"
        self._description = "Cancels an order."
        self.calls: list[dict[str, Any]] = []

    async def execute(self, args: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(args)
        return {"result": "cancelled"}


@pytest.fixture
async def daemon(start_daemon: StartDaemon) -> AsyncIterator[Daemon]:
    async with start_daemon(clock="virtual") as running:
        yield running


@pytest.fixture
async def connection(daemon: Daemon) -> AsyncIterator[DeviceConnection]:
    async with DeviceConnection(
        daemon.server.address, "unix:/nowhere", daemon.app_token
    ) as connection:
        yield connection


async def asleep(daemon: Daemon) -> None:
    clock = daemon.server.device.generations.clock
    await eventually(lambda: any(one.label == APP for one in clock.sleepers))


@pytest.mark.requirement("agent.tool.confirmation-ready-made")
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (True, {"result": "cancelled"}),
        (
            False,
            {"status": "CANCELLED_BY_USER", "message": "Action was declined by the user."},
        ),
        (
            Declined("It has shipped."),
            {
                "status": "CANCELLED_BY_USER",
                "message": "Action was declined by the user.",
                "reason": "It has shipped.",
            },
        ),
    ],
)
async def test_the_function_runs_only_when_the_user_says_so(
    answer: bool | Declined, told: dict[str, Any]
) -> None:
    cancel = Cancel()
    shown: list[tuple[str, Mapping[str, Any]]] = []

    async def ask(name: str, args: Mapping[str, Any]) -> bool | Declined:
        shown.append((name, dict(args)))
        args["items"].append("changed while it was shown")
        return answer

    tool = HitlConfirmationTool(cancel, ask, name="cancel")

    assert await tool.execute({"items": ["A-1"]}) == told
    assert shown == [("cancel", {"items": ["A-1", "changed while it was shown"]})]
    assert cancel.calls == ([{"items": ["A-1"]}] if answer is True else [])


@pytest.mark.requirement("agent.tool.confirmation-timed-out")
async def test_no_answer_in_device_time_is_a_status_of_its_own(
    daemon: Daemon, connection: DeviceConnection
) -> None:
    cancel = Cancel()
    ended: list[str] = []

    async def never(name: str, args: Mapping[str, Any]) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
        return True

    tool = HitlConfirmationTool(cancel, never, timeout=timedelta(minutes=2), connection=connection)

    async def turn() -> dict[str, Any]:
        told = await tool.execute({})
        await DeviceClock(connection).now()  # as the agent's next call of the model does
        return told

    running = asyncio.create_task(turn())
    await asleep(daemon)
    await advance(daemon, 119)
    assert not running.done()
    await advance(daemon, 1)

    told = await asyncio.wait_for(running, TIMEOUT)
    assert told["status"] == "CONFIRMATION_TIMED_OUT"
    assert ended == ["cancel_order"]
    assert cancel.calls == []


async def test_an_answer_before_the_time_is_up_counts(connection: DeviceConnection) -> None:
    async def yes(name: str, args: Mapping[str, Any]) -> bool:
        return True

    async def broken(name: str, args: Mapping[str, Any]) -> bool:
        raise TimeoutError("the dialog could not be opened")

    minute = timedelta(minutes=1)
    cancel = Cancel()
    tool = HitlConfirmationTool(cancel, yes, timeout=minute, connection=connection)
    assert await tool.execute({}) == {"result": "cancelled"}
    tool = HitlConfirmationTool(cancel, broken, timeout=minute, connection=connection)
    with pytest.raises(TimeoutError, match="the dialog"):
        await tool.execute({})  # a failure like any other, which the runner tells the model
    with pytest.raises(ValueError, match="timeout must be positive"):
        HitlConfirmationTool(cancel, yes, timeout=timedelta())


async def test_a_cancelled_call_cancels_the_question() -> None:
    ended = asyncio.Event()
    begun = asyncio.Event()

    async def never(name: str, args: Mapping[str, Any]) -> bool:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return True

    running = asyncio.create_task(HitlConfirmationTool(Cancel(), never).execute({}))
    await asyncio.wait_for(begun.wait(), TIMEOUT)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


def failure(code: int, seconds: float = 0) -> GenAiException:
    return GenAiException("no", code, timedelta(seconds=seconds))


@pytest.mark.requirement("simulator.client.retry-policy")
def test_waits_grow_up_to_a_bound_and_are_never_shorter_than_asked_for() -> None:
    policy = RetryPolicy(
        attempts=6, initial_delay=timedelta(seconds=1), max_delay=timedelta(seconds=5)
    )
    busy = failure(Code.BUSY)

    waits = [policy.delay_after(attempt, busy) for attempt in range(1, 7)]

    assert waits == [*(timedelta(seconds=n) for n in (1, 2, 4, 5, 5)), None]
    assert policy.delay_after(1, failure(Code.BUSY, 30)) == timedelta(seconds=30)
    assert policy.delay_after(10**9, busy) is None
    assert RetryPolicy(attempts=10**6).delay_after(5000, busy) == timedelta(minutes=1)


@pytest.mark.requirement("simulator.client.retry-policy")
def test_what_no_wait_clears_is_not_tried_again() -> None:
    policy = RetryPolicy()
    hopeless = (Code.PER_APP_BATTERY_USE_QUOTA_EXCEEDED, Code.BACKGROUND_USE_BLOCKED)
    for code in (*hopeless, Code.NOT_AVAILABLE, Code.REQUEST_TOO_LARGE, 601, 12345):
        assert policy.delay_after(1, failure(code)) is None
    assert RetryPolicy(codes=frozenset({8})).delay_after(1, failure(8)) is not None
    for code in hopeless:
        with pytest.raises(ValueError, match=str(int(code))):
            RetryPolicy(codes=frozenset({code}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"initial_delay": timedelta(seconds=-1)},
        {"max_delay": timedelta(milliseconds=1)},
        {"multiplier": 0.5},
        {"jitter": 1.5},
    ],
)
def test_a_wrong_policy_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RetryPolicy(**wrong)


def test_jitter_is_a_share_of_the_wait_from_a_seed() -> None:
    made = [
        RetryPolicy(jitter=0.5, random=random.Random(seed)).delay_after(1, failure(Code.BUSY))
        for seed in (1, 1, 2)
    ]
    assert made[0] == made[1] != made[2]
    for wait in made:
        assert wait is not None
        assert timedelta(seconds=1) <= wait <= timedelta(seconds=1.5)


@pytest.mark.requirement("simulator.client.retry-policy")
async def test_a_policy_waits_on_the_devices_clock_and_gives_the_last_error(
    daemon: Daemon, connection: DeviceConnection
) -> None:
    clock = DeviceClock(connection)
    began = await clock.now()
    at: list[float] = []

    async def work() -> str:
        at.append((await clock.now() - began).total_seconds())
        if len(at) < 3:
            raise failure(Code.BUSY, 10 if len(at) == 1 else 0)
        if len(at) == 3:
            return "done"
        raise failure(Code.PER_APP_BATTERY_USE_QUOTA_EXCEEDED)

    running = asyncio.create_task(RetryPolicy().run(work, connection=connection))
    await asleep(daemon)
    await advance(daemon, 10)
    await asleep(daemon)
    await advance(daemon, 2)
    assert await asyncio.wait_for(running, TIMEOUT) == "done"
    assert at == [0, 10, 12]
    with pytest.raises(GenAiException) as refused:
        await RetryPolicy().run(work, connection=connection)
    assert refused.value.error_code == Code.PER_APP_BATTERY_USE_QUOTA_EXCEEDED


async def test_waiting_for_the_next_attempt_can_be_cancelled(
    daemon: Daemon, connection: DeviceConnection
) -> None:
    async def work() -> None:
        raise failure(Code.BUSY)

    running = asyncio.create_task(RetryPolicy().run(work, connection=connection))
    await asleep(daemon)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, TIMEOUT)
