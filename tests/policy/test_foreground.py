"""Who is on top, and what happens to the streams of those who are not any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from aicore_sim.device.errors import GenAiError
from aicore_sim.policy.foreground import Foreground, Importance, left_the_top
from aicore_sim.policy.interruption import UNWIND_SECONDS, Interruptible

APP, OTHER_APP = 10_001, 10_002
LOWER = [importance for importance in Importance if importance is not Importance.TOP]


class Tokens:
    """A stream of numbers; after `ready` of them it waits until it is closed or cancelled."""

    def __init__(self, ready: int, *, stubborn: bool = False) -> None:
        self.ready = ready
        self.made = 0
        self.waiting = asyncio.Event()
        self.closed = asyncio.Event()
        self.release = asyncio.Event()
        self._stubborn = stubborn

    async def stream(self) -> AsyncGenerator[int, None]:
        try:
            async with asyncio.timeout(60):
                while self.made < self.ready:
                    self.made += 1
                    yield self.made
                self.waiting.set()
                await asyncio.Event().wait()
        finally:
            if self._stubborn:
                await self.release.wait()
            self.closed.set()


async def collect(foreground: Foreground, tokens: Tokens, into: list[int]) -> None:
    """A stream of one app, put together as the daemon does it."""

    async def send(item: int) -> None:
        into.append(item)

    foreground.require_top(APP)
    running = Interruptible(tokens.stream(), name=f"stream-of-{APP}")
    with foreground.when_left(APP, lambda: running.interrupt(left_the_top())):
        await running.deliver(send)


def blocked(foreground: Foreground, uid: int) -> bool:
    try:
        foreground.require_top(uid)
    except GenAiError as error:
        return (error.error_code, error.error_type, error.retry_delay) == (30, 2, 0)
    return False


def test_every_app_is_on_top_until_it_is_told_otherwise() -> None:
    foreground = Foreground()
    assert not blocked(foreground, APP)
    foreground.set(OTHER_APP, Importance.TOP)
    assert not blocked(foreground, APP)
    assert foreground.told() == {OTHER_APP: Importance.TOP}


@pytest.mark.requirement("aicore.foreground.only-top-counts")
@pytest.mark.parametrize("importance", LOWER)
def test_only_the_top_app_may_infer(importance: Importance) -> None:
    foreground = Foreground()
    foreground.set(APP, importance)
    with pytest.raises(GenAiError) as refused:
        foreground.require_top(APP)
    assert refused.value.message.startswith(
        "AICore failed with error type 2-INFERENCE_ERROR and error code 30-BACKGROUND_USE_BLOCKED: "
    )
    assert importance.name in refused.value.message
    assert not blocked(foreground, OTHER_APP)
    foreground.set(APP, Importance.TOP)
    assert not blocked(foreground, APP)


def test_with_exclusive_the_app_put_on_top_last_is_the_only_one() -> None:
    foreground = Foreground(exclusive=True)
    foreground.set(APP, Importance.TOP)
    foreground.set(OTHER_APP, Importance.TOP)
    assert foreground.importance(APP) is Importance.BACKGROUND
    assert [blocked(foreground, uid) for uid in (APP, OTHER_APP, 10_003)] == [True, False, True]
    foreground.set(OTHER_APP, Importance.VISIBLE)
    assert blocked(foreground, APP)
    assert foreground.importance(OTHER_APP) is Importance.VISIBLE


def test_with_exclusive_the_first_app_to_infer_is_taken_as_the_open_one() -> None:
    foreground = Foreground(exclusive=True)
    foreground.set(10_003, Importance.OVERLAY)
    assert blocked(foreground, 10_003)
    assert not blocked(foreground, APP)
    assert blocked(foreground, OTHER_APP)


@pytest.mark.requirement("aicore.foreground.background-blocked")
async def test_leaving_the_top_ends_the_running_stream_and_frees_what_it_holds() -> None:
    foreground, tokens, got = Foreground(), Tokens(3), list[int]()
    call = asyncio.create_task(collect(foreground, tokens, got))
    await asyncio.wait_for(tokens.waiting.wait(), 5)
    foreground.set(OTHER_APP, Importance.BACKGROUND)
    foreground.set(APP, Importance.TOP)
    assert not call.done()
    foreground.set(APP, Importance.BACKGROUND)
    with pytest.raises(GenAiError) as ended:
        await asyncio.wait_for(call, 1)
    assert ended.value.error_code == 30
    assert got == [1, 2, 3]
    assert tokens.closed.is_set()
    foreground.set(APP, Importance.TOP)
    assert not blocked(foreground, APP)


async def test_another_app_coming_to_the_top_ends_the_stream_when_exclusive() -> None:
    foreground, tokens, got = Foreground(exclusive=True), Tokens(1), list[int]()
    call = asyncio.create_task(collect(foreground, tokens, got))
    await asyncio.wait_for(tokens.waiting.wait(), 5)
    foreground.set(OTHER_APP, Importance.TOP)
    with pytest.raises(GenAiError):
        await asyncio.wait_for(call, 1)


async def test_an_uninstalled_apps_stream_ends() -> None:
    foreground, tokens, got = Foreground(), Tokens(1), list[int]()
    call = asyncio.create_task(collect(foreground, tokens, got))
    await asyncio.wait_for(tokens.waiting.wait(), 5)
    foreground.forget(APP)
    with pytest.raises(GenAiError):
        await asyncio.wait_for(call, 1)


async def test_a_stream_that_does_not_unwind_keeps_the_app_waiting_no_longer_than_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    foreground, tokens, got = Foreground(), Tokens(1, stubborn=True), list[int]()
    call = asyncio.create_task(collect(foreground, tokens, got))
    await asyncio.wait_for(tokens.waiting.wait(), 5)
    foreground.set(APP, Importance.BACKGROUND)
    with pytest.raises(GenAiError):
        await asyncio.wait_for(call, UNWIND_SECONDS + 0.5)
    assert "did not end" in caplog.text
    tokens.release.set()
    await asyncio.wait_for(tokens.closed.wait(), 5)


async def test_a_caller_that_leaves_closes_the_stream() -> None:
    foreground, tokens, got = Foreground(), Tokens(2), list[int]()
    call = asyncio.create_task(collect(foreground, tokens, got))
    await asyncio.wait_for(tokens.waiting.wait(), 5)
    call.cancel()
    await asyncio.wait({call}, timeout=5)
    assert call.cancelled()
    assert tokens.closed.is_set()


async def test_an_app_in_the_background_never_starts_the_stream() -> None:
    foreground, tokens = Foreground(), Tokens(1)
    foreground.set(APP, Importance.FOREGROUND_SERVICE)
    with pytest.raises(GenAiError):
        await collect(foreground, tokens, [])
    assert tokens.made == 0


def test_exclusiveness_can_be_switched_while_apps_are_running() -> None:
    left: list[int] = []
    foreground = Foreground()
    for uid in (10_001, 10_002, 10_003):
        foreground.set(uid, Importance.TOP)
    foreground.set(10_001, Importance.TOP)
    with (
        foreground.when_left(10_001, lambda: left.append(10_001)),
        foreground.when_left(10_002, lambda: left.append(10_002)),
    ):
        foreground.set_exclusive(True)
        foreground.set_exclusive(True)
    assert left == [10_002]
    assert [foreground.is_top(uid) for uid in (10_001, 10_002, 10_003, 10_099)] == [True] + [
        False
    ] * 3
    foreground.set(10_002, Importance.TOP)
    assert [foreground.is_top(uid) for uid in (10_001, 10_002)] == [False, True]
    foreground.set_exclusive(False)
    assert [foreground.is_top(uid) for uid in (10_001, 10_002, 10_099)] == [False, True, True]
    foreground.clear()
    assert foreground.is_top(10_001)
    assert foreground.told() == {}


def test_before_any_app_was_opened_the_first_that_asks_is_on_top() -> None:
    foreground = Foreground()
    foreground.set_exclusive(True)
    assert foreground.exclusive
    foreground.require_top(10_002)
    assert [foreground.is_top(uid) for uid in (10_001, 10_002)] == [False, True]
