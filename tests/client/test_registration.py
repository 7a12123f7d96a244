"""What an app that registers functions sends, runs and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from aicore_client import (
    Activity,
    AppFunctionException,
    AppFunctionManager,
    AppFunctionMetadata,
    DeviceConnection,
    ExecuteAppFunctionRequest,
    ExecuteAppFunctionResponse,
    RegisterAppFunctionRequest,
    SimulatorError,
)
from tests.client.fake_provider import WAIT, FakeProviderHost, declared, running_fakes
from tests.client.fakes import SHOP, FakeHost, simulator_error

ADD, EDIT = "Notes#add", "Editor#edit"
Body = Callable[[ExecuteAppFunctionRequest], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class Shop:
    host: FakeHost
    provider: FakeProviderHost
    connection: DeviceConnection
    manager: AppFunctionManager


@pytest.fixture
async def shop(socket_folder: Path) -> AsyncIterator[Shop]:
    host, provider = FakeHost(), FakeProviderHost()
    host.functions = [declared(ADD), declared(EDIT, scope=AppFunctionMetadata.SCOPE_ACTIVITY)]
    async with running_fakes(socket_folder, host, provider) as connection:
        yield Shop(
            host=host,
            provider=provider,
            connection=connection,
            manager=AppFunctionManager(connection),
        )


async def _one(request: ExecuteAppFunctionRequest) -> object:
    return 1


@pytest.mark.requirement("appfunctions.client.registration")
async def test_a_registered_function_runs_with_what_the_caller_sent_until_it_is_unregistered(
    shop: Shop,
) -> None:
    asked: list[ExecuteAppFunctionRequest] = []

    async def add(request: ExecuteAppFunctionRequest) -> object:
        asked.append(request)
        return ExecuteAppFunctionResponse(return_value={"sum": 3})

    registration = await shop.manager.register_app_function(ADD, add)
    assert registration.is_registered
    shop.provider.call(7, ADD, a=1, b=2)
    answers = [await shop.provider.received()]
    registration.unregister()
    registration.unregister()
    answers.append(await shop.provider.received())
    shop.provider.call(8, ADD)
    answers.append(await shop.provider.received())
    again = await shop.manager.register_app_function(ADD, _one)
    registration.unregister()
    shop.provider.call(9, ADD)
    answers.append(await shop.provider.received())

    assert asked == [ExecuteAppFunctionRequest(SHOP, ADD, {"a": 1, "b": 2})]
    assert answers == [
        (7, {"sum": 3}),
        ("unregister", 1),
        (8, (1002, f"Function with ID: {ADD} is disabled", {})),
        (9, 1),
    ]
    assert (registration.is_registered, again.is_registered) == (False, True)
    assert shop.provider.registrations == [(1, [(ADD, "")]), (2, [(ADD, "")])]
    assert shop.provider.streams == 1


@pytest.mark.requirement("appfunctions.client.registration")
async def test_calls_of_one_app_run_beside_each_other(shop: Shop) -> None:
    both = asyncio.Barrier(2)

    async def meet(request: ExecuteAppFunctionRequest) -> object:
        await both.wait()
        return request.parameters["n"]

    await shop.manager.register_app_function(ADD, meet)
    shop.provider.call(1, ADD, n=10)
    shop.provider.call(2, ADD, n=20)

    assert {await shop.provider.received(), await shop.provider.received()} == {(1, 10), (2, 20)}


def _raises(error: type[BaseException], *values: object) -> Body:
    async def body(request: ExecuteAppFunctionRequest) -> object:
        raise error(*values)

    return body


def _returns(value: object) -> Body:
    async def body(request: ExecuteAppFunctionRequest) -> object:
        return value

    return body


@pytest.mark.requirement("appfunctions.client.registration-errors")
@pytest.mark.parametrize(
    ("body", "code", "text", "extras"),
    [
        (_raises(ValueError, "Function does not exist"), 1001, "Function does not exist", {}),
        (_raises(AppFunctionException, 1501, "enough", {"n": 3}), 1501, "enough", {"n": 3}),
        (_raises(KeyError, "order"), 3000, "'order'", {}),
        (_raises(RuntimeError), 3000, "RuntimeError", {}),
        (_raises(asyncio.CancelledError), 2001, f"{ADD} was cancelled", {}),
        (_returns(object()), 3000, "a value of type object cannot cross processes", {}),
        (_returns(2**63), 3000, f"{2**63} does not fit into a 64-bit integer", {}),
        (_returns(b"x" * (63 * 1024 * 1024)), 3000, "too large", {}),
        (_raises(AppFunctionException, 2**40), 3000, "cannot be sent", {}),
        (_raises(AppFunctionException, 1501, "x", {"o": object()}), 3000, "cannot be sent", {}),
    ],
)
async def test_what_a_function_raises_or_returns_wrongly_has_androids_code(
    shop: Shop, body: Body, code: int, text: str, extras: dict[str, object]
) -> None:
    await shop.manager.register_app_function(ADD, body)
    shop.provider.call(1, ADD)
    number, answer = await shop.provider.received()
    shop.provider.call(2, "Notes#other")

    assert (number, answer[0], answer[2]) == (1, code, extras)
    assert text in answer[1]
    assert await shop.provider.received() == (
        2,
        (1002, "Function with ID: Notes#other is disabled", {}),
    )


@pytest.mark.requirement("appfunctions.client.registered-function-cancelled")
async def test_a_cancelled_function_answers_2001_or_what_it_returns(shop: Shop) -> None:
    entered, told_again = asyncio.Semaphore(0), asyncio.Event()

    async def stubborn(request: ExecuteAppFunctionRequest) -> object:
        entered.release()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if request.parameters["saves"]:
                entered.release()
                await told_again.wait()
                return "saved"
            raise
        raise AssertionError

    await shop.manager.register_app_function(ADD, stubborn)
    for number, saves in ((1, True), (2, False)):
        shop.provider.call(number, ADD, saves=saves)
        await asyncio.wait_for(entered.acquire(), WAIT)
    shop.provider.cancel(1)
    await asyncio.wait_for(entered.acquire(), WAIT)
    shop.provider.cancel(1)  # a caller's repeated cancellation does not disturb the saving
    shop.provider.cancel(2)
    shop.provider.cancel(3)
    second = await shop.provider.received()
    told_again.set()
    first = await shop.provider.received()

    assert (first, second) == ((1, "saved"), (2, (2001, f"{ADD} was cancelled", {})))


@pytest.mark.requirement("appfunctions.client.registration-refused")
@pytest.mark.parametrize(
    ("kind", "exception"), [("ILLEGAL_ARGUMENT", ValueError), ("ILLEGAL_STATE", RuntimeError)]
)
async def test_a_refused_registration_registers_nothing(
    shop: Shop, kind: str, exception: type[Exception]
) -> None:
    shop.provider.refusal = simulator_error(kind, f"App function already registered for ID: {ADD}")
    with pytest.raises(exception, match="already registered"):
        await shop.manager.register_app_functions(
            [RegisterAppFunctionRequest(ADD, _one), RegisterAppFunctionRequest("Notes#b", _one)]
        )
    shop.provider.call(1, ADD)

    assert await shop.provider.received() == (1, (1002, f"Function with ID: {ADD} is disabled", {}))
    assert shop.provider.registrations == [(1, [(ADD, ""), ("Notes#b", "")])]


@pytest.mark.requirement("appfunctions.client.registration-refused")
async def test_an_empty_registration_is_refused_without_asking_the_host(shop: Shop) -> None:
    with pytest.raises(ValueError, match="At least one"):
        await shop.manager.register_app_functions([])
    assert shop.provider.streams == 0


@pytest.mark.requirement("appfunctions.client.registration-ends")
async def test_a_host_that_goes_ends_the_registration_and_its_calls_and_the_next_one_works(
    shop: Shop,
) -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    async def wait(request: ExecuteAppFunctionRequest) -> object:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return None

    registration = await shop.manager.register_app_function(ADD, wait)
    shop.provider.call(1, ADD)
    await asyncio.wait_for(entered.wait(), WAIT)
    shop.provider.end()
    async with asyncio.timeout(WAIT):
        await registration.wait_unregistered()
        await left.wait()
    again = await shop.manager.register_app_function(ADD, _one)
    shop.provider.call(2, ADD)

    assert await shop.provider.received() == (2, 1)
    assert (registration.is_registered, again.is_registered) == (False, True)
    assert shop.provider.streams == 2


@pytest.mark.requirement("appfunctions.client.registration-ends")
async def test_closing_the_connection_ends_registrations_calls_and_the_stream(shop: Shop) -> None:
    entered = asyncio.Event()
    cancelled: list[bool] = []

    async def wait(request: ExecuteAppFunctionRequest) -> object:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return None

    registration = await shop.manager.register_app_function(ADD, wait)
    shop.provider.call(1, ADD)
    await asyncio.wait_for(entered.wait(), WAIT)
    await asyncio.wait_for(shop.connection.close(), WAIT)

    assert (registration.is_registered, cancelled) == (False, [True])
    assert await shop.provider.received() is None
    with pytest.raises(SimulatorError, match="closed"):
        await shop.manager.register_app_function(ADD, _one)


@pytest.mark.requirement("appfunctions.client.registration")
async def test_a_host_without_an_answer_is_a_system_error_and_the_registration_is_taken_back(
    socket_folder: Path,
) -> None:
    host, provider = FakeHost(), FakeProviderHost()
    provider.answers_registrations = False
    async with running_fakes(socket_folder, host, provider, call_timeout=0.2) as connection:
        with pytest.raises(AppFunctionException) as raised:
            await AppFunctionManager(connection).register_app_function(ADD, _one)

        assert raised.value.error_code == AppFunctionException.ERROR_SYSTEM_ERROR
        assert await provider.received() == ("unregister", 1)


@pytest.mark.requirement("appfunctions.client.registration-activity")
async def test_an_activity_names_itself_for_its_own_functions_and_ends_all_that_it_registered(
    shop: Shop,
) -> None:
    with Activity() as activity, Activity() as other:
        assert activity.activity_id != other.activity_id
        both = await shop.manager.register_app_functions(
            [
                RegisterAppFunctionRequest(ADD, _returns("global"), activity),
                RegisterAppFunctionRequest(EDIT, _returns("first"), activity),
            ]
        )
        second = await shop.manager.register_app_function(EDIT, _returns("second"), activity=other)
        shop.provider.call(1, EDIT, activity_id=activity.activity_id)
        shop.provider.call(2, EDIT, activity_id=other.activity_id)
        shop.provider.call(3, ADD)
        answers = {await shop.provider.received() for _ in range(3)}
        activity.close()
        ended = await shop.provider.received()
        open_ = (both.is_registered, second.is_registered)

    assert answers == {(1, "first"), (2, "second"), (3, "global")}
    assert shop.provider.registrations == [
        (1, [(ADD, ""), (EDIT, activity.activity_id)]),
        (2, [(EDIT, other.activity_id)]),
    ]
    assert (ended, open_) == (("unregister", 1), (False, True))
    assert not second.is_registered
    with pytest.raises(RuntimeError, match="is closed"):
        await shop.manager.register_app_function(EDIT, _one, activity=activity)


@pytest.mark.requirement("appfunctions.client.registration")
@pytest.mark.parametrize("answers", [True, False], ids=["answered", "unanswered"])
async def test_a_registration_whose_task_is_cancelled_leaves_nothing_registered(
    shop: Shop, answers: bool
) -> None:
    shop.provider.answers_registrations = answers
    registering = asyncio.create_task(shop.manager.register_app_function(ADD, _one))
    await asyncio.wait_for(shop.provider.asked.wait(), WAIT)
    registering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await registering

    assert await shop.provider.received() == ("unregister", 1)
