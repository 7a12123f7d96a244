from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import grpc
import pytest

import aicore_client
from aicore_client import (
    Agent,
    AgentRunner,
    AppFunctionAgentTools,
    AppFunctionException,
    AppFunctionManager,
    Content,
    DeviceConnection,
    ExecuteAppFunctionRequest,
    GenAiException,
    Generation,
    MessageTooLargeError,
    SimulatorError,
    UnauthenticatedError,
)
from tests.client.conftest import Device, start_aicore
from tests.client.fakes import (
    TOKEN,
    BareStatus,
    FakeAICore,
    Hold,
    app_function_error,
    finish,
    gen_ai_error,
    simulator_error,
    text,
)

RESOURCE_EXHAUSTED = BareStatus(grpc.StatusCode.RESOURCE_EXHAUSTED, "message larger than max")
PROMPT = Content.builder().text("x").build()


async def run_agent(connection: DeviceConnection, *, app_functions: bool = False) -> None:
    agent = Agent(is_app_functions_enabled=app_functions)
    async for _ in AgentRunner(agent, connection=connection).run_single_turn_async(PROMPT):
        pass


async def execute(connection: DeviceConnection) -> object:
    request = ExecuteAppFunctionRequest(target_package_name="p", function_identifier="A#f")
    return await AppFunctionManager(connection).execute_app_function(request)


@pytest.mark.requirement("common.error.codes", "common.error.max-turns-number")
def test_the_error_codes_are_those_of_the_phone() -> None:
    assert {code.name: code.value for code in GenAiException.ErrorCode} == {
        "UNKNOWN": 0,
        "REQUEST_PROCESSING_ERROR": 4,
        "CANCELLED": 7,
        "NOT_AVAILABLE": 8,
        "BUSY": 9,
        "RESPONSE_PROCESSING_ERROR": 11,
        "REQUEST_TOO_LARGE": 12,
        "RESPONSE_GENERATION_ERROR": 15,
        "NOT_SUPPORTED": 16,
        "PER_APP_BATTERY_USE_QUOTA_EXCEEDED": 27,
        "BACKGROUND_USE_BLOCKED": 30,
        "NOT_ENOUGH_DISK_SPACE": 501,
        "NEEDS_SYSTEM_UPDATE": 604,
        "REQUEST_TOO_SMALL": -100,
        "AICORE_INCOMPATIBLE": -101,
        "INVALID_INPUT_IMAGE": -102,
        "CACHE_PROCESSING_ERROR": -103,
        "STRUCTURED_OUTPUT_REQUEST_ERROR": -104,
        "STRUCTURED_OUTPUT_RESPONSE_ERROR": -105,
        "STRUCTURED_OUTPUT_MAX_TOKENS_ERROR": -106,
        "AUDIO_BUFFER_OVERFLOW": -107,
        "MAX_TURNS_EXCEEDED": -112,
    }


@pytest.mark.requirement(
    "common.error.app-unknown-codes",
    "common.error.device-quota-is-busy",
    "common.error.message",
    "common.error.retry-delay",
)
@pytest.mark.parametrize(("sent", "shown"), [(9, 9), (28, 9), (30, 30), (606, 606), (-9999, -9999)])
async def test_a_code_survives_in_unary_calls_and_streams(
    device: Device, sent: int, shown: int
) -> None:
    model = Generation.get_client(connection=device.connection)
    device.aicore.unary_failure = gen_ai_error(sent, "the reason", retry_seconds=90)
    device.aicore.script([text("a"), gen_ai_error(sent, "the reason", retry_seconds=90)])

    with pytest.raises(GenAiException) as unary:
        await model.check_status()
    with pytest.raises(GenAiException) as streamed:
        await model.generate_content("x")

    for error in (unary.value, streamed.value):
        assert (error.error_code, error.message) == (shown, "the reason")
        assert error.retry_delay == timedelta(seconds=90)
        assert str(error) == f"[ErrorCode {shown}] the reason"


@pytest.mark.requirement("common.error.retry-delay")
async def test_without_a_quota_the_retry_delay_is_zero(device: Device) -> None:
    device.aicore.script([gen_ai_error(12)])

    with pytest.raises(GenAiException) as raised:
        await Generation.get_client(connection=device.connection).generate_content("x")

    assert raised.value.retry_delay == timedelta(0)


@pytest.mark.requirement("appfunctions.error.categories")
@pytest.mark.parametrize(
    ("code", "category"),
    [(1000, 1), (1502, 1), (2000, 2), (2002, 2), (3000, 3), (3501, 3), (4000, 0), (7, 0)],
)
async def test_an_app_function_error_keeps_its_code_message_and_extras(
    device: Device, code: int, category: int
) -> None:
    extras = {"orderId": "ORD-1", "n": 2**40}
    device.host.failure = app_function_error(code, "because", extras)

    with pytest.raises(AppFunctionException) as raised:
        await execute(device.connection)

    error = raised.value
    assert (error.error_code, error.error_category, error.error_message, error.extras) == (
        code,
        category,
        "because",
        extras,
    )


@pytest.mark.requirement("common.error.simulator-root")
@pytest.mark.parametrize(
    ("kind", "raised_type"),
    [
        ("UNAUTHENTICATED", "UnauthenticatedError"),
        ("FORBIDDEN", "ForbiddenError"),
        ("INVALID_REQUEST", "InvalidRequestError"),
        ("UNIMPLEMENTED", "UnimplementedError"),
        ("NOT_FOUND", "NotFoundError"),
        ("ALREADY_EXISTS", "AlreadyExistsError"),
        ("INTERNAL", "InternalError"),
        ("MESSAGE_TOO_LARGE", "MessageTooLargeError"),
        ("SCRIPT_DRIFT", "ScriptDriftError"),
        ("REPLAY_DRIFT", "ReplayDriftError"),
        ("NO_SUCH_METHOD", "NoSuchMethodError"),
        ("KIND_UNSPECIFIED", "SimulatorError"),
    ],
)
async def test_a_fault_of_the_simulator_has_its_own_root(
    device: Device, kind: str, raised_type: str
) -> None:
    device.aicore.unary_failure = simulator_error(kind, "change this")

    with pytest.raises(SimulatorError, match="change this") as raised:
        await Generation.get_client(connection=device.connection).get_token_limit()

    assert type(raised.value) is getattr(aicore_client, raised_type)
    assert not isinstance(raised.value, GenAiException | AppFunctionException)


@pytest.mark.parametrize(
    ("kind", "expected"), [("ILLEGAL_ARGUMENT", ValueError), ("ILLEGAL_STATE", RuntimeError)]
)
async def test_what_kotlin_throws_for_wrong_use_is_pythons_own_error(
    device: Device, kind: str, expected: type[Exception]
) -> None:
    device.host.failure = simulator_error(kind, "Function x does not exist")

    with pytest.raises(expected, match="Function x does not exist"):
        await AppFunctionManager(device.connection).is_app_function_enabled("x", "p")


@pytest.mark.requirement("simulator.identity.unauthenticated")
async def test_a_wrong_token_is_unauthenticated_and_the_message_says_what_to_do(
    device: Device,
) -> None:
    wrong = DeviceConnection(device.aicore_address, device.host_address, "stale")

    for attempt in (run_agent(wrong), execute(wrong)):
        with pytest.raises(UnauthenticatedError, match="aicore-sim exec"):
            await attempt
    await wrong.close()


@pytest.mark.requirement("common.error.no-grpc-error-large-message")
async def test_a_message_too_large_for_grpc_is_never_busy(device: Device) -> None:
    device.aicore.script([RESOURCE_EXHAUSTED], [RESOURCE_EXHAUSTED])
    model = Generation.get_client(connection=device.connection)

    with pytest.raises(SimulatorError, match="message larger than max"):
        await model.generate_content("x")
    with pytest.raises(SimulatorError, match="message larger than max"):
        await run_agent(device.connection)


async def test_a_call_that_the_server_does_not_know_is_a_question_of_versions(
    device: Device,
) -> None:
    device.host.failure = BareStatus(grpc.StatusCode.UNIMPLEMENTED)

    with pytest.raises(SimulatorError, match="different versions"):
        await execute(device.connection)


Attempt = Callable[[DeviceConnection], Awaitable[object]]


async def check_status(connection: DeviceConnection) -> object:
    return await Generation.get_client(connection=connection).check_status()


async def generate(connection: DeviceConnection) -> object:
    return await Generation.get_client(connection=connection).generate_content("x")


async def run_agent_with_tools(connection: DeviceConnection) -> None:
    await run_agent(connection, app_functions=True)


async def search(connection: DeviceConnection) -> object:
    return await AppFunctionManager(connection).search_app_functions()


async def discover(connection: DeviceConnection) -> object:
    return await AppFunctionAgentTools.discover(connection=connection)


@pytest.mark.requirement(
    "agent.loop.unreachable-daemon",
    "aicore.error.daemon-dead",
    "appfunctions.error.host-unreachable",
    "common.error.no-grpc-error",
)
@pytest.mark.parametrize(
    ("attempt", "expected", "code"),
    [
        (check_status, GenAiException, 601),
        (generate, GenAiException, 601),
        (run_agent, GenAiException, GenAiException.ErrorCode.NOT_AVAILABLE),
        (run_agent_with_tools, GenAiException, GenAiException.ErrorCode.NOT_AVAILABLE),
        (search, AppFunctionException, AppFunctionException.ERROR_SYSTEM_ERROR),
        (execute, AppFunctionException, AppFunctionException.ERROR_SYSTEM_ERROR),
        (discover, AppFunctionException, AppFunctionException.ERROR_SYSTEM_ERROR),
    ],
)
async def test_without_a_daemon_every_call_fails_typed_within_two_seconds(
    attempt: Attempt,
    expected: type[GenAiException] | type[AppFunctionException],
    code: int,
    socket_folder: object,
) -> None:
    target = f"unix:{socket_folder}/nobody.sock"
    started = time.monotonic()

    async with DeviceConnection(target, target, TOKEN) as connection:
        with pytest.raises(expected, match="aicore-sim up") as raised:
            await asyncio.wait_for(attempt(connection), 5)

    assert time.monotonic() - started < 2
    assert isinstance(raised.value, GenAiException | AppFunctionException)
    assert raised.value.error_code == code


@pytest.mark.requirement("aicore.error.daemon-dead")
async def test_a_listener_that_never_answers_is_given_up_within_two_seconds(
    socket_folder: object,
) -> None:
    path = f"{socket_folder}/mute.sock"
    connected: list[asyncio.StreamWriter] = []
    server = await asyncio.start_unix_server(lambda _, writer: connected.append(writer), path)

    async with DeviceConnection(f"unix:{path}", f"unix:{path}", TOKEN) as connection:
        started = time.monotonic()
        with pytest.raises(GenAiException) as raised:
            await asyncio.wait_for(check_status(connection), 5)
        elapsed = time.monotonic() - started

    server.close()
    for writer in connected:
        writer.close()
    assert raised.value.error_code == 601
    assert elapsed < 2


@pytest.mark.requirement(
    "agent.loop.unreachable-daemon", "aicore.error.daemon-dead", "common.error.no-grpc-error"
)
async def test_a_daemon_that_dies_between_two_calls_is_601_or_not_available(
    device: Device,
) -> None:
    model = Generation.get_client(connection=device.connection)
    device.aicore.script([text("a"), finish()])
    await model.check_status()
    await run_agent(device.connection)
    await device.aicore_server.stop(0)

    codes = []
    for attempt in (model.check_status(), model.generate_content("x"), generate(device.connection)):
        with pytest.raises(GenAiException) as raised:
            await asyncio.wait_for(attempt, 5)
        codes.append(raised.value.error_code)
    with pytest.raises(GenAiException) as of_agent:
        await asyncio.wait_for(run_agent(device.connection), 5)

    assert codes == [601, 601, 601]
    assert of_agent.value.error_code == GenAiException.ErrorCode.NOT_AVAILABLE


@pytest.mark.requirement("agent.loop.unreachable-daemon", "common.error.no-grpc-error")
async def test_a_daemon_that_dies_in_mid_stream_is_not_available_and_found_again_when_back(
    device: Device,
) -> None:
    hold = Hold()
    device.aicore.script([text("a"), hold])
    running = asyncio.create_task(run_agent(device.connection))
    await asyncio.wait_for(hold.reached.wait(), 5)

    await device.aicore_server.stop(0)
    started = time.monotonic()
    with pytest.raises(GenAiException) as raised:
        await asyncio.wait_for(running, 5)
    assert raised.value.error_code == GenAiException.ErrorCode.NOT_AVAILABLE
    with pytest.raises(GenAiException):
        await run_agent(device.connection)
    assert time.monotonic() - started < 2

    back = FakeAICore()
    back.answer = lambda request: [text("b"), finish()]
    server = await start_aicore(device.aicore_address, back)
    async with asyncio.timeout(5):
        while await outcome(run_agent(device.connection)) != "well":
            pass
    await server.stop(0)


async def outcome(attempt: Awaitable[None]) -> str:
    try:
        await attempt
    except GenAiException as error:
        return str(error.error_code)
    return "well"


@pytest.mark.requirement(
    "appfunctions.error.codes",
)
def test_the_error_codes_of_app_functions_are_those_of_android() -> None:
    codes = {
        name: value for name, value in vars(AppFunctionException).items() if name.startswith("ERR")
    }
    assert codes == {
        "ERROR_DENIED": 1000,
        "ERROR_INVALID_ARGUMENT": 1001,
        "ERROR_DISABLED": 1002,
        "ERROR_FUNCTION_NOT_FOUND": 1003,
        "ERROR_SYSTEM_ERROR": 2000,
        "ERROR_CANCELLED": 2001,
        "ERROR_ENTERPRISE_POLICY_DISALLOWED": 2002,
        "ERROR_APP_UNKNOWN_ERROR": 3000,
        "ERROR_CATEGORY_UNKNOWN": 0,
        "ERROR_CATEGORY_REQUEST_ERROR": 1,
        "ERROR_CATEGORY_SYSTEM": 2,
        "ERROR_CATEGORY_APP": 3,
    }


async def test_an_answer_larger_than_the_client_takes_is_a_fault_of_the_simulator(
    device: Device,
) -> None:
    device.host.add("A#f", lambda args: "a" * (65 * 1024 * 1024))

    with pytest.raises(MessageTooLargeError):
        await execute(device.connection)
