"""Functions that an app registers through Jetpack's manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from aicore_client import AppFunctionMetadata, jetpack
from aicore_client.jetpack import AppFunctionData, Error, ExecuteAppFunctionRequest, Success
from aicore_client.jetpack.verification import self_binder_token
from aicore_protos import appfunctions_pb2 as pb
from tests.client.fake_provider import WAIT, FakeProviderHost, declared, running_fakes
from tests.client.fakes import SHOP, FakeHost

KEY = Success.PROPERTY_RETURN_VALUE
ADD, OWN, SURFACE, ODD = "Notes#add", "Notes#own", "Notes#surface", "Notes#odd"
OWN_UID, OTHER_UID = 10001, 10002
Body = Callable[[ExecuteAppFunctionRequest], Awaitable[jetpack.ExecuteAppFunctionResponse]]


class Rig:
    def __init__(
        self, host: FakeHost, provider: FakeProviderHost, manager: jetpack.AppFunctionManager
    ) -> None:
        self.host = host
        self.provider = provider
        self.manager = manager


@pytest.fixture
def sdk_int_full() -> int:
    return 3_700_002


@pytest.fixture
async def rig(socket_folder: Path, sdk_int_full: int) -> AsyncIterator[Rig]:
    host, provider = FakeHost(), FakeProviderHost()
    host.sdk_int_full, host.uid = sdk_int_full, OWN_UID
    levels = {
        ADD: AppFunctionMetadata.ACCESS_LEVEL_ANDROID_TRUSTED,
        OWN: AppFunctionMetadata.ACCESS_LEVEL_SELF,
        SURFACE: AppFunctionMetadata.ACCESS_LEVEL_SYSTEM,
        ODD: 150,
    }
    host.functions = [declared(identifier, level=level) for identifier, level in levels.items()]
    async with running_fakes(socket_folder, host, provider) as connection:
        manager = await jetpack.AppFunctionManager.get_instance(connection)
        assert manager is not None
        yield Rig(host, provider, manager)


async def _double(request: ExecuteAppFunctionRequest) -> jetpack.ExecuteAppFunctionResponse:
    return Success(AppFunctionData({KEY: 2 * request.function_parameters.get_int("n")}))


@pytest.mark.requirement("jetpack.registration")
async def test_arguments_are_read_by_the_metadata_of_the_function(rig: Rig) -> None:
    await rig.manager.register_app_function(ADD, _double)
    rig.provider.call(1, ADD, n=21)
    answers = [await rig.provider.received()]
    rig.provider.call(2, ADD)
    answers.append(await rig.provider.received())
    rig.host.functions.clear()
    rig.provider.call(3, ADD, n=1)
    answers.append(await rig.provider.received())

    assert answers == [
        (1, 42),
        (2, (3000, "The required value of n is missing", {})),
        (
            3,
            (
                1003,
                f"App function not found with identifier: {ADD} under package: com.example.shop",
                {},
            ),
        ),
    ]


def _returns(response: object) -> Body:
    async def body(request: ExecuteAppFunctionRequest) -> jetpack.ExecuteAppFunctionResponse:
        return response  # type: ignore[return-value]

    return body


def _raises(error: type[Exception], *values: object) -> Body:
    async def body(request: ExecuteAppFunctionRequest) -> jetpack.ExecuteAppFunctionResponse:
        raise error(*values)

    return body


@pytest.mark.requirement("jetpack.registration", "jetpack.errors.service-mapping")
@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (_returns(Success(AppFunctionData.EMPTY)), None),
        (
            _returns(Error(jetpack.AppFunctionLimitExceededException("x", {"n": 1}))),
            (1501, {"n": 1}),
        ),
        (_raises(jetpack.AppFunctionElementNotFoundException, "x"), (1500, {})),
        (_raises(jetpack.AppFunctionUnknownException, 4711, "x"), (4711, {})),
        # Not 1001 as without Jetpack.
        (_raises(ValueError, "x"), (3000, {})),
        (_returns("a bare value"), (3000, {})),
    ],
)
async def test_a_function_answers_with_jetpacks_responses_and_exceptions(
    rig: Rig, body: Body, answer: tuple[int, dict[str, object]] | None
) -> None:
    await rig.manager.register_app_function(ADD, body)
    rig.provider.call(1, ADD, n=1)
    number, found = await rig.provider.received()

    assert number == 1
    assert (found and (found[0], found[2])) == answer


def _intent(uid: int, *, system: bool = False) -> pb.CallerVerification:
    return pb.CallerVerification(
        pending_intent=pb.CallerVerification.PendingIntent(
            creator_uid=uid, creator_holds_execute_system=system
        )
    )


OTHER, SYSTEM = _intent(OTHER_UID), _intent(OTHER_UID, system=True)
SAME_APP = _intent(OWN_UID)
SAME_PROCESS = pb.CallerVerification(binder_token=self_binder_token(SHOP, OWN_UID))
UID = "Execution denied: Caller UID does not match host application UID."


@pytest.mark.requirement("jetpack.registration.verifies-caller")
@pytest.mark.parametrize("sdk_int_full", [3_700_000])
@pytest.mark.parametrize(
    ("identifier", "verification", "refusal"),
    [
        (ADD, None, None),
        (OWN, SAME_PROCESS, None),
        (OWN, SAME_APP, None),
        (OWN, None, "Execution denied: Missing caller verification token."),
        (OWN, OTHER, UID),
        (OWN, SYSTEM, UID),
        (SURFACE, SYSTEM, None),
        (SURFACE, None, "Execution denied: Missing system caller verification token."),
        (SURFACE, SAME_PROCESS, "Execution denied: Missing system caller verification token."),
        (SURFACE, SAME_APP, "Execution denied: Caller lacks EXECUTE_APP_FUNCTIONS_SYSTEM."),
        (ODD, SYSTEM, "Execution denied: Unknown access level: 150"),
    ],
)
async def test_below_17_2_the_caller_is_verified_before_the_body(
    rig: Rig, identifier: str, verification: pb.CallerVerification | None, refusal: str | None
) -> None:
    entered: list[str] = []

    async def body(request: ExecuteAppFunctionRequest) -> jetpack.ExecuteAppFunctionResponse:
        entered.append(request.function_identifier)
        return Success(AppFunctionData.EMPTY)

    await rig.manager.register_app_function(identifier, body)
    rig.provider.call(1, identifier, verification=verification, n=1)
    answer = await rig.provider.received()

    assert answer == (1, None if refusal is None else (1000, refusal, {}))
    assert entered == ([] if refusal else [identifier])


@pytest.mark.requirement("jetpack.registration.verifies-caller")
async def test_from_17_2_on_the_platform_alone_decides(rig: Rig) -> None:
    await rig.manager.register_app_function(OWN, _double)
    rig.provider.call(1, OWN, n=1)

    assert await rig.provider.received() == (1, 2)


@pytest.mark.requirement("jetpack.registration.handle")
async def test_a_handled_function_is_registered_until_its_task_is_cancelled(rig: Rig) -> None:
    handling = asyncio.create_task(rig.manager.handle_app_function(ADD, _double))
    await asyncio.wait_for(rig.provider.asked.wait(), WAIT)
    rig.provider.call(1, ADD, n=3)
    answer = await rig.provider.received()
    handling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(handling, WAIT)

    assert answer == (1, 6)
    assert await rig.provider.received() == ("unregister", 1)


@pytest.mark.requirement("jetpack.registration.handle")
async def test_handling_ends_with_the_host(rig: Rig) -> None:
    handling = asyncio.create_task(
        rig.manager.handle_app_functions([jetpack.HandleAppFunctionRequest(ADD, _double)])
    )
    await asyncio.wait_for(rig.provider.asked.wait(), WAIT)
    rig.provider.end()

    await asyncio.wait_for(handling, WAIT)
