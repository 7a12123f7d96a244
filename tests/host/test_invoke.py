"""An app's functions inside its own process."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest

from aicore_protos import types_pb2
from aicore_sim.device.errors import AppFunctionError
from aicore_sim.rpc.values import to_object, to_value
from appfunctions_host import (
    AppFunctionException,
    AppFunctionService,
    PlatformAppFunctionService,
    app_function_declaration,
)
from appfunctions_host.invoke import MAX_ABANDONED_THREADS, MAX_THREADS, Invoker
from tests.host.rig import WAIT, soon

CALLS = 4
barrier = threading.Barrier(CALLS)
gate = threading.Event()
entered = threading.Semaphore(0)
request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id")


class Quit(BaseException):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Tools(AppFunctionService):
    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    @app_function_declaration
    def thread_name(self) -> str:
        return threading.current_thread().name

    @app_function_declaration
    def context(self) -> str:
        return request_id.get()

    @app_function_declaration
    def meet(self) -> bool:
        barrier.wait(WAIT)
        return True

    @app_function_declaration
    def wait_at_gate(self) -> bool:
        entered.release()
        return gate.wait(WAIT)

    @app_function_declaration
    async def quick(self) -> str:
        return "quick"

    @app_function_declaration
    async def hang(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    @app_function_declaration
    def raises(self, kind: str) -> str:
        raise {
            "value": ValueError("no such order"),
            "silent": RuntimeError(),
            "stop": StopIteration("over"),
            "exit": SystemExit(3),
            "surrogate": RuntimeError("\ud800"),
            "interrupt": KeyboardInterrupt(),
            "generator": GeneratorExit(),
            "base": Quit("enough"),
            "mute": Mute(),
            "long": RuntimeError("x" * 100_000),
        }[kind]

    @app_function_declaration
    async def raises_async(self, kind: str) -> str:
        return self.raises(kind)

    @app_function_declaration
    async def gives_up(self) -> str:
        raise asyncio.CancelledError

    @app_function_declaration
    def reports(self) -> str:
        raise AppFunctionException(1500, "no order", {"orderId": "7"})

    @app_function_declaration
    def reports_badly(self) -> str:
        raise AppFunctionException(1500, "no order", {"orders": {1, 2}})

    @app_function_declaration
    def reports_oddly(self, what: str) -> str:
        deep: dict[str, object] = {}
        for _ in range(2000):
            deep = {"a": deep}
        raise {
            "code": AppFunctionException(2**40, "no order"),
            "no code": AppFunctionException("3000", "no order"),  # type: ignore[arg-type]
            "depth": AppFunctionException(3000, "no order", deep),
            "extras": AppFunctionException(3000, "no order", 7),  # type: ignore[arg-type]
            "message": AppFunctionException(3000, None),  # type: ignore[arg-type]
        }[what]

    @app_function_declaration
    def lies(self) -> int:
        return "five"  # type: ignore[return-value]


@pytest.fixture
def _closed_gate() -> Iterator[None]:
    gate.clear()
    yield
    gate.set()


@pytest.fixture
def invoker() -> Invoker:
    return Invoker("com.a", [Tools])


async def _invoke(invoker: Invoker, method: str, **arguments: object) -> types_pb2.Value:
    return await soon(invoker.invoke(f"com.a.Tools#{method}", to_object(arguments)))


async def _failure(invoker: Invoker, method: str, **arguments: object) -> AppFunctionError:
    with pytest.raises(AppFunctionError) as refused:
        await _invoke(invoker, method, **arguments)
    return refused.value


@pytest.mark.requirement("jetpack.service.sync-off-loop")
@pytest.mark.usefixtures("no_blocking_calls")
async def test_synchronous_functions_run_off_the_event_loop_with_its_context(
    invoker: Invoker,
) -> None:
    request_id.set("r1")

    assert await _invoke(invoker, "thread_name") == to_value("app-function")
    assert await _invoke(invoker, "context") == to_value("r1")


async def test_synchronous_functions_run_at_the_same_time(invoker: Invoker) -> None:
    found = await asyncio.gather(*(_invoke(invoker, "meet") for _ in range(CALLS)))

    assert found == [to_value(True)] * CALLS


@pytest.mark.requirement("appfunctions.execute.async-function", "jetpack.service.sync-off-loop")
@pytest.mark.usefixtures("_closed_gate")
async def test_functions_beyond_the_threads_wait_and_asynchronous_ones_do_not(
    invoker: Invoker,
) -> None:
    calls = [asyncio.create_task(_invoke(invoker, "wait_at_gate")) for _ in range(MAX_THREADS + 1)]
    for _ in range(MAX_THREADS):
        assert await asyncio.to_thread(entered.acquire, timeout=WAIT)

    assert await _invoke(invoker, "quick") == to_value("quick")
    assert not entered.acquire(blocking=False)

    gate.set()
    assert await asyncio.gather(*calls) == [to_value(True)] * (MAX_THREADS + 1)
    assert entered.acquire(blocking=False)


@pytest.mark.requirement("appfunctions.cancel.sync-function")
@pytest.mark.usefixtures("_closed_gate")
async def test_cancelled_synchronous_calls_make_room_although_their_functions_run_on(
    invoker: Invoker,
) -> None:
    await _cancel_running(invoker, MAX_THREADS)

    assert await _invoke(invoker, "thread_name") == to_value("app-function")


@pytest.mark.requirement("appfunctions.cancel.sync-function")
@pytest.mark.usefixtures("_closed_gate")
async def test_beyond_a_number_of_running_threads_a_new_call_waits_for_one_to_return(
    invoker: Invoker,
) -> None:
    for _ in range(MAX_ABANDONED_THREADS // MAX_THREADS + 1):
        await _cancel_running(invoker, MAX_THREADS)
    late = asyncio.create_task(_invoke(invoker, "thread_name"))
    await _invoke(invoker, "quick")

    assert not late.done()
    gate.set()
    assert await soon(late) == to_value("app-function")


async def _cancel_running(invoker: Invoker, count: int) -> None:
    calls = [asyncio.create_task(_invoke(invoker, "wait_at_gate")) for _ in range(count)]
    for _ in calls:
        assert await asyncio.to_thread(entered.acquire, timeout=WAIT)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls, timeout=WAIT)
    assert all(call.cancelled() for call in calls)


@pytest.mark.requirement(
    "appfunctions.error.app-unknown",
    "appfunctions.error.base-exceptions",
    "jetpack.errors.service-mapping",
)
@pytest.mark.parametrize("method", ["raises", "raises_async"])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("value", "no such order"),
        ("silent", "RuntimeError"),
        ("stop", "coroutine raised StopIteration"),
        ("exit", "3"),
        ("surrogate", "?"),
        ("interrupt", "KeyboardInterrupt"),
        ("generator", "GeneratorExit"),
        ("base", "enough"),
        ("mute", "Mute"),
    ],
)
async def test_whatever_a_function_raises_is_a_3000_with_its_message_and_the_next_call_works(
    invoker: Invoker, method: str, kind: str, message: str
) -> None:
    error = await _failure(invoker, method, kind=kind)

    assert (error.error_code, error.message) == (3000, message)
    assert await _invoke(invoker, "quick") == to_value("quick")


@pytest.mark.requirement("simulator.error-text-cut")
async def test_a_very_long_message_is_cut_with_a_note(invoker: Invoker) -> None:
    error = await _failure(invoker, "raises", kind="long")

    assert error.message.startswith("xxx")
    assert error.message.endswith(" … (100000 bytes in all)")
    assert len(error.message.encode()) <= 2000


@pytest.mark.requirement("appfunctions.error.unsendable-report")
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("code", "the error code 1099511627776 is no 32-bit integer"),
        ("no code", "the error code '3000' is no 32-bit integer"),
        (
            "depth",
            "the extras of its exception cannot be sent: they nest deeper than 24 levels",
        ),
        ("extras", "the extras of its exception cannot be sent"),
    ],
)
async def test_a_report_that_cannot_be_sent_is_a_3000_that_says_why(
    invoker: Invoker, what: str, message: str
) -> None:
    error = await _failure(invoker, "reports_oddly", what=what)

    assert error.error_code == 3000
    assert error.message.startswith(f"com.a.Tools#reports_oddly: {message}")


async def test_a_report_without_a_message_keeps_its_code(invoker: Invoker) -> None:
    error = await _failure(invoker, "reports_oddly", what="message")

    assert (error.error_code, error.message) == (3000, "None")


class Platform(PlatformAppFunctionService):
    @app_function_declaration
    def raises(self, kind: str) -> str:
        raise {"value": ValueError("no such order"), "other": LookupError("gone")}[kind]


@pytest.mark.requirement("appfunctions.error.illegal-argument-of-function")
@pytest.mark.parametrize(("kind", "code"), [("value", 1001), ("other", 3000)])
async def test_a_value_error_of_a_platform_service_is_1001_and_anything_else_3000(
    kind: str, code: int
) -> None:
    invoker = Invoker("com.a", [Platform])
    with pytest.raises(AppFunctionError) as refused:
        await soon(invoker.invoke("com.a.Platform#raises", to_object({"kind": kind})))

    assert refused.value.error_code == code


@pytest.mark.requirement(
    "appfunctions.error.app-exception-passes",
    "jetpack.errors.extra-codes",
    "jetpack.errors.service-mapping",
)
@pytest.mark.parametrize(
    ("method", "code", "message", "extras"),
    [
        ("gives_up", 2001, "com.a.Tools#gives_up was cancelled", None),
        ("reports", 1500, "no order", {"orderId": "7"}),
        (
            "reports_badly",
            3000,
            "com.a.Tools#reports_badly: the extras of its exception cannot be sent: "
            "a value of type 'set' cannot be sent",
            None,
        ),
        (
            "lies",
            3000,
            "com.a.Tools#lies: the result should be the type of Int, but was str",
            None,
        ),
        ("missing", 1003, "App function not found.", None),
    ],
)
async def test_each_way_to_fail_has_androids_code(
    invoker: Invoker, method: str, code: int, message: str, extras: object
) -> None:
    error = await _failure(invoker, method)

    assert (error.error_code, error.message, error.extras) == (code, message, extras)


@pytest.mark.requirement("appfunctions.execute.cancellation")
async def test_cancelling_an_asynchronous_call_cancels_the_function() -> None:
    made: list[Tools] = []

    class Watched(Tools):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    invoker = Invoker("com.a", [Watched])
    call = asyncio.create_task(invoker.invoke("com.a.Watched#hang", types_pb2.ObjectValue()))
    await soon(made[0].started.wait())

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await soon(call)
    assert made[0].cancelled.is_set()


async def test_two_services_with_the_same_function_id_are_refused() -> None:
    with pytest.raises(ValueError, match="com.a.Tools#thread_name is declared twice"):
        Invoker("com.a", [Tools, Tools])
