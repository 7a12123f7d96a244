"""CancellationSignal, and executions that are cancelled with one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aicore_client import (
    AppFunctionException,
    AppFunctionManager,
    CancellationSignal,
    ExecuteAppFunctionRequest,
    ExecuteAppFunctionResponse,
    OperationCanceledException,
)
from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import errors_pb2
from tests.client.fake_provider import WAIT, FakeProviderHost, running_fakes
from tests.client.fakes import SHOP, FakeHost, abort, app_function_error, simulator_error

REQUEST = ExecuteAppFunctionRequest(SHOP, "Notes#add")
SILENT = simulator_error("OPERATION_CANCELED", "canceled")


class WaitingHost(FakeHost):
    """Executions wait for a cancellation of their id, and then end as `end` says.

    The first `lost` cancellations find nothing, as if they had overtaken the execution.
    """

    def __init__(self) -> None:
        super().__init__()
        self.end: errors_pb2.ErrorDetail | None = SILENT
        self.lost = 0
        self.entered = asyncio.Event()
        self.left = asyncio.Event()
        self.waiting: dict[str, asyncio.Event] = {}
        self.cancellations: list[str] = []

    async def Execute(self, request: pb.ExecuteRequest, context: Any) -> pb.ExecuteResponse:
        self.executed.append((request.cancellation_id, {}))
        canceled = self.waiting[request.cancellation_id] = asyncio.Event()
        self.entered.set()
        try:
            await canceled.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise
        if self.end is not None:
            await abort(context, self.end)
        return pb.ExecuteResponse()

    async def CancelExecution(
        self, request: pb.CancelExecutionRequest, context: Any
    ) -> pb.CancelExecutionResponse:
        self.cancellations.append(request.cancellation_id)
        if len(self.cancellations) > self.lost:
            self.waiting[request.cancellation_id].set()
        return pb.CancelExecutionResponse()


@dataclass(frozen=True, kw_only=True)
class Running:
    host: WaitingHost
    manager: AppFunctionManager

    async def started(
        self, signal: CancellationSignal | None
    ) -> asyncio.Task[ExecuteAppFunctionResponse]:
        task = asyncio.create_task(self.manager.execute_app_function(REQUEST, signal))
        await asyncio.wait_for(self.host.entered.wait(), WAIT)
        return task


@pytest.fixture
async def running(socket_folder: Path) -> AsyncIterator[Running]:
    host = WaitingHost()
    async with running_fakes(socket_folder, host, FakeProviderHost()) as connection:
        yield Running(host=host, manager=AppFunctionManager(connection))


@pytest.mark.requirement("appfunctions.client.cancellation-signal")
async def test_a_cancelled_function_of_a_service_answers_nobody_and_the_waiting_ends(
    running: Running,
) -> None:
    signal = CancellationSignal()
    task = await running.started(signal)
    thread = threading.Thread(target=signal.cancel)
    thread.start()
    with pytest.raises(OperationCanceledException):
        await asyncio.wait_for(task, WAIT)
    thread.join(WAIT)

    ((cancellation_id, _),) = running.host.executed
    assert cancellation_id
    assert running.host.cancellations == [cancellation_id]


@pytest.mark.requirement("appfunctions.client.cancellation-signal")
async def test_a_registered_function_still_answers_its_cancellation(running: Running) -> None:
    signal = CancellationSignal()
    running.host.end = app_function_error(2001, "as you wish")
    task = await running.started(signal)
    signal.cancel()
    with pytest.raises(AppFunctionException) as raised:
        await asyncio.wait_for(task, WAIT)
    running.host.end = None
    running.host.entered.clear()
    second = CancellationSignal()
    task = await running.started(second)
    second.cancel()

    assert raised.value.error_code == AppFunctionException.ERROR_CANCELLED
    assert await asyncio.wait_for(task, WAIT) == ExecuteAppFunctionResponse(return_value=None)


@pytest.mark.requirement("appfunctions.client.cancellation-signal")
async def test_a_cancellation_that_overtakes_its_execution_is_sent_again(running: Running) -> None:
    signal = CancellationSignal()
    running.host.lost = 1
    task = await running.started(signal)
    signal.cancel()
    with pytest.raises(OperationCanceledException):
        await asyncio.wait_for(task, WAIT)

    assert len(running.host.cancellations) == 2
    assert len(set(running.host.cancellations)) == 1


@pytest.mark.requirement("appfunctions.client.cancellation-signal")
async def test_a_signal_that_was_cancelled_before_sends_nothing(running: Running) -> None:
    signal = CancellationSignal()
    signal.cancel()
    with pytest.raises(OperationCanceledException):
        await running.manager.execute_app_function(REQUEST, signal)

    assert running.host.executed == []


@pytest.mark.requirement("appfunctions.execute.cancellation")
@pytest.mark.parametrize("signal", [None, CancellationSignal()], ids=["without", "with"])
async def test_cancelling_the_task_leaves_the_call_with_and_without_a_signal(
    running: Running, signal: CancellationSignal | None
) -> None:
    before = asyncio.all_tasks()
    task = await running.started(signal)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(running.host.left.wait(), WAIT)

    assert running.host.cancellations == []
    assert [one for one in asyncio.all_tasks() - before if "_cancel_when" in repr(one)] == []


def test_a_signal_tells_its_listeners_once_and_late_ones_at_once() -> None:
    signal = CancellationSignal()
    told: list[str] = []
    signal.throw_if_canceled()
    with signal.listening(lambda: told.append("early")):
        with signal.listening(lambda: told.append("gone")):
            pass
        signal.cancel()
        signal.cancel()
    with signal.listening(lambda: told.append("late")):
        pass

    assert told == ["early", "late"]
    assert signal.is_canceled
    with pytest.raises(OperationCanceledException):
        signal.throw_if_canceled()
