"""A cancelled call: the function hears of it, the caller nothing, and nothing stays behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aicore_protos import appfunctions_pb2 as pb
from appfunctions_host.remote import RemoteProvider
from tests.host.rig import (
    WAIT,
    Caller,
    Device,
    RawProvider,
    name_of,
    next_line,
    provider_process,
    raw_provider,
    running_device,
    soon,
    trusted,
)
from tests.host.shop import FETCH, HANG, HANG_SYNCHRONOUSLY, PACKAGE

F, LAST = "T#f", "T#last"


def _execute(caller: Caller, identifier: str) -> Any:
    return caller.stub.Execute(
        pb.ExecuteRequest(name=name_of(identifier)), metadata=caller.metadata, timeout=30
    )


def _bound(device: Device, identifier: str = F) -> int:
    return _provider(device, identifier).bound_calls


def _provider(device: Device, identifier: str) -> RemoteProvider:
    provider = device.host.registry.provider_of((PACKAGE, identifier))
    assert isinstance(provider, RemoteProvider)
    return provider


@pytest.fixture
async def shop(device: Device) -> AsyncIterator[tuple[Caller, RawProvider]]:
    caller = device.install(PACKAGE)
    async with raw_provider(device, trusted(F), trusted(LAST)) as provider:
        yield caller, provider


async def _processed(device: Device, provider: RawProvider) -> None:
    """Wait until the host has read all that the provider sent before."""
    unregister = pb.ProviderMessage.Unregister(function_identifiers=[LAST])
    await soon(provider.stream.write(pb.ProviderMessage(unregister=unregister)))
    await device.host.registry.wait_free(PACKAGE, [LAST], WAIT)


@pytest.mark.requirement("appfunctions.cancel.service-answers-nobody")
async def test_a_cancelled_call_stays_bound_until_the_function_ends_and_its_answer_is_dropped(
    device: Device, shop: tuple[Caller, RawProvider]
) -> None:
    caller, provider = shop
    call = _execute(caller, F)
    number = (await provider.next_call()).call.call_id
    call.cancel()
    cancel = await provider.next_call()
    before = _bound(device)
    await provider.answer(number, "too late")
    await provider.answer(number, "twice")
    await _processed(device, provider)

    assert cancel.cancel.call_id == number
    assert call.cancelled()
    assert (before, _bound(device)) == (1, 0)
    last = device.host.journal.read()[-1]
    assert (last.operation, last.rule) == ("result", "CALLER_CANCELLED")


@pytest.mark.requirement("appfunctions.cancel.timeout-unbinds")
async def test_a_function_that_never_answers_its_cancellation_is_unbound_after_the_timeout(
    tmp_path: Path,
) -> None:
    unbound = asyncio.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "did not end within 0.02 s" in record.getMessage():
                unbound.set()

    logger = logging.getLogger("appfunctions_host.remote")
    logger.setLevel(logging.INFO)
    handler = Handler()
    logger.addHandler(handler)
    try:
        async with running_device(tmp_path, cancellation_timeout=0.02) as device:
            caller = device.install(PACKAGE)
            async with raw_provider(device, trusted(F)) as provider:
                call = _execute(caller, F)
                await provider.next_call()
                call.cancel()
                await provider.next_call()
                await soon(unbound.wait())

                assert _bound(device) == 0
                # The connection stays: the next call works.
                again = asyncio.create_task(caller.execute(F))
                await provider.answer((await provider.next_call()).call.call_id, "again")
                assert (await soon(again)).return_value.string_value == "again"
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


@pytest.mark.requirement("appfunctions.cancel.nothing-left")
async def test_fifty_cancelled_calls_leave_none_alive_on_either_side(device: Device) -> None:
    caller = device.install(PACKAGE)
    async with provider_process(device, "OrderTools", "TroubleTools") as process:
        calls = [_execute(caller, HANG) for _ in range(50)]
        entered = [await next_line(process) for _ in calls]
        for call in calls:
            call.cancel()
        cancelled = [await next_line(process) for _ in calls]
        # A call that ends after the cancellations were answered, on the same ordered stream.
        assert await caller.code(FETCH, orderId="1") == 0
        provider = _provider(device, HANG)

        assert (entered, cancelled) == (["ENTERED"] * 50, ["CANCELLED"] * 50)
        assert provider.bound_calls == 0


@pytest.mark.requirement("appfunctions.cancel.sync-function")
async def test_a_synchronous_function_is_let_go_at_once_though_its_thread_runs_on(
    device: Device,
) -> None:
    caller = device.install(PACKAGE)
    async with provider_process(device, "OrderTools", "TroubleTools") as process:
        call = _execute(caller, HANG_SYNCHRONOUSLY)
        assert await next_line(process) == "ENTERED"
        call.cancel()

        assert await caller.code(FETCH, orderId="1") == 0


@pytest.mark.requirement("appfunctions.cancel.service-answers-nobody")
async def test_an_answer_that_crosses_its_cancellation_is_given_at_most_once(
    device: Device, shop: tuple[Caller, RawProvider]
) -> None:
    caller, provider = shop
    call = asyncio.ensure_future(caller.execute(F))
    number = (await provider.next_call()).call.call_id
    await provider.answer(number, "first")
    await provider.answer(number, "second")

    assert (await soon(call)).return_value.string_value == "first"
    assert _bound(device) == 0


async def test_a_provider_that_dies_with_cancelled_calls_leaves_no_timer(device: Device) -> None:
    caller = device.install(PACKAGE)
    async with raw_provider(device, trusted(F)) as provider:
        call = _execute(caller, F)
        await provider.next_call()
        call.cancel()
        await provider.next_call()
        bound = _provider(device, F)
    await device.host.registry.wait_free(PACKAGE, [F], WAIT)

    assert bound.bound_calls == 0
