"""What is too much for a connection fails one call and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc.aio
import pytest

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import types_pb2
from aicore_sim.device.errors import (
    AppFunctionError,
    DeviceError,
    FaultKind,
    GenAiError,
    SimulatorFault,
)
from aicore_sim.rpc.server import MAX_MESSAGE_BYTES
from aicore_sim.rpc.status import cut, to_status
from aicore_sim.rpc.values import to_object, to_value
from appfunctions_host.limits import (
    MAX_DEPTH,
    MAX_METADATA_BYTES,
    MAX_PAYLOAD_BYTES,
    arguments_problem,
    mapping_too_deep,
    metadata_problem,
    result_problem,
)
from appfunctions_host.wire_errors import error_detail
from tests.host.rig import (
    Caller,
    Device,
    name_of,
    provider_process,
    raw_provider,
    soon,
    trusted,
)
from tests.host.shop import BIG, ECHO, FETCH, INTERRUPTS, LONG_ERROR, PACKAGE


def _nested(levels: int, *, objects: bool) -> types_pb2.Value:
    value = to_value(1)
    for _ in range(levels):
        outer = types_pb2.Value()
        if objects:
            outer.object_value.fields.add(name="a").value.CopyFrom(value)
        else:
            outer.list_value.values.add().CopyFrom(value)
        value = outer
    return value


@pytest.mark.requirement("simulator.value-depth")
@pytest.mark.parametrize("objects", [True, False])
def test_values_nest_as_deep_as_the_limit_and_no_deeper(objects: bool) -> None:
    allowed, refused = (_nested(MAX_DEPTH + more, objects=objects) for more in (0, 1))
    field = types_pb2.ObjectValue.Field
    call = pb.HostMessage.Call(
        parameters=types_pb2.ObjectValue(fields=[field(name="a", value=allowed)])
    )

    assert result_problem(allowed) is None
    assert arguments_problem(call.parameters) is None
    assert pb.HostMessage.FromString(pb.HostMessage(call=call).SerializeToString()).call == call
    assert result_problem(refused) == "the result takes more than 24 levels of lists and objects"
    assert (
        arguments_problem(types_pb2.ObjectValue(fields=[field(name="a", value=refused)]))
        == "the arguments take more than 24 levels of lists and objects"
    )


def test_python_values_are_measured_like_encoded_ones_even_when_they_hold_themselves() -> None:
    cyclic: dict[str, object] = {}
    cyclic["self"] = cyclic
    deep: object = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]

    assert not mapping_too_deep({"a": deep})
    assert mapping_too_deep({"a": [deep]})
    assert mapping_too_deep(cyclic)


def test_a_payload_may_be_as_large_as_a_message_less_the_names() -> None:
    fits = types_pb2.Value(bytes_value=bytes(MAX_PAYLOAD_BYTES - 5))
    too_large = types_pb2.Value(bytes_value=bytes(MAX_PAYLOAD_BYTES))

    assert fits.ByteSize() == MAX_PAYLOAD_BYTES
    assert result_problem(fits) is None
    assert result_problem(too_large) == (
        f"the result takes {too_large.ByteSize()} bytes; at most {MAX_PAYLOAD_BYTES} can be sent"
    )


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        (pb.AppFunctionMetadata(name=name_of("T#x")), None),
        (pb.AppFunctionMetadata(), "has no identifier"),
        (
            pb.AppFunctionMetadata(name=name_of("i" * 1025)),
            "has an identifier of 1025 characters; 1024 are allowed",
        ),
        (
            pb.AppFunctionMetadata(name=name_of("T#x"), description="d" * MAX_METADATA_BYTES),
            "has metadata of ",
        ),
        (
            pb.AppFunctionMetadata(name=name_of("T#x"), timeout_seconds=-1),
            "has the timeout -1.0 s; give a number above zero",
        ),
    ],
)
def test_metadata_that_no_search_could_return_is_refused(
    metadata: pb.AppFunctionMetadata, problem: str | None
) -> None:
    found = metadata_problem(metadata)

    assert (found is None) if problem is None else (found or "").startswith(problem)


@pytest.mark.requirement("simulator.error-text-cut")
@pytest.mark.parametrize("character", ["x", "\u00e4", "\u20ac", "\U0001f600", "\n", "%"])
@pytest.mark.parametrize(
    "make",
    [
        lambda text: AppFunctionError(3000, text, extras={"a": "b" * 900}),
        lambda text: GenAiError(4, text, retry_delay=3.5),
        lambda text: SimulatorFault(FaultKind.INVALID_REQUEST, text),
    ],
)
def test_any_error_fits_into_the_trailers_that_clients_take(make: object, character: str) -> None:
    error = make(character * 100_000)  # type: ignore[operator]
    assert isinstance(error, DeviceError)

    _, status = to_status(error)

    # The message is percent-encoded and sent beside the status, which is sent in Base64.
    encoded = sum(1 if 32 <= byte < 126 and byte != 37 else 3 for byte in status.message.encode())
    assert encoded + len(status.SerializeToString()) * 4 / 3 < 7500
    assert "bytes in all)" in status.message


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("short", 5, "short"),
        ("\ud800", 5, "?"),
        ("x" * 101, 100, "x" * 77 + " \u2026 (101 bytes in all)"),
        ("\u20ac" * 101, 100, "\u20ac" * 25 + " \u2026 (303 bytes in all)"),
    ],
)
def test_a_text_is_cut_between_characters_and_says_so(text: str, limit: int, shown: str) -> None:
    assert cut(text, limit) == shown
    assert len(shown.encode()) <= limit


@pytest.fixture
async def shop(device: Device) -> AsyncIterator[Caller]:
    caller = device.install(PACKAGE)
    async with provider_process(device, "OrderTools", "TroubleTools"):
        yield caller
        # Whatever the test did, the same process still answers.
        assert await caller.code(FETCH, orderId="1") == 0


@pytest.mark.requirement("simulator.value-depth")
async def test_arguments_nested_too_deep_are_1001_and_the_provider_goes_on(shop: Caller) -> None:
    field = types_pb2.ObjectValue.Field(name="data", value=_nested(31, objects=True))
    request = pb.ExecuteRequest(
        name=name_of(ECHO), parameters=types_pb2.ObjectValue(fields=[field])
    )

    detail = await shop.failure("Execute", request)

    assert detail.app_function.error_code == 1001
    assert detail.app_function.error_message == (
        f"{ECHO}: the arguments take more than 24 levels of lists and objects"
    )


@pytest.mark.requirement("simulator.value-size")
async def test_arguments_and_results_over_the_limit_fail_their_call_and_the_provider_goes_on(
    device: Device, shop: Caller
) -> None:
    options = [
        ("grpc.max_send_message_length", 2 * MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", 2 * MAX_MESSAGE_BYTES),
    ]
    async with grpc.aio.insecure_channel(device.address, options=options) as channel:
        caller = Caller(stub=type(shop.stub)(channel), metadata=shop.metadata)
        sent = await caller.failure(
            "Execute",
            pb.ExecuteRequest(
                name=name_of(ECHO), parameters=to_object({"data": bytes(MAX_PAYLOAD_BYTES)})
            ),
        )
        returned = await caller.failure(
            "Execute",
            pb.ExecuteRequest(
                name=name_of(BIG), parameters=to_object({"size": MAX_MESSAGE_BYTES + 1})
            ),
        )

    assert (sent.app_function.error_code, returned.app_function.error_code) == (1001, 3000)
    assert returned.app_function.error_message.startswith(f"{BIG}: the result takes ")


@pytest.mark.requirement("appfunctions.error.base-exceptions")
async def test_a_function_that_raises_keyboard_interrupt_does_not_end_its_process(
    shop: Caller,
) -> None:
    assert await shop.code(INTERRUPTS) == 3000


@pytest.mark.requirement("simulator.error-text-cut")
@pytest.mark.parametrize(("text", "count"), [("x", 3000), ("\u20ac", 3000), ("y", 1_000_000)])
async def test_a_long_error_text_arrives_cut_and_typed(shop: Caller, text: str, count: int) -> None:
    detail = await shop.failure(
        "Execute",
        pb.ExecuteRequest(
            name=name_of(LONG_ERROR),
            parameters=to_object({"text": text, "count": count, "extra": 500}),
        ),
    )

    assert detail.app_function.error_code == 3501
    assert detail.app_function.error_message.startswith(text * 100)
    assert f"({len((text * count).encode())} bytes in all)" in detail.app_function.error_message
    assert detail.app_function.extras == to_object({"hint": "h" * 500})


async def test_extras_that_are_too_large_are_left_out_and_the_message_says_so(
    shop: Caller,
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await shop.execute(LONG_ERROR, text="no", count=1, extra=100_000)

    detail = error_detail(refused.value)
    assert detail is not None
    assert not detail.app_function.HasField("extras")
    assert detail.app_function.error_message.startswith("no (extras of 100")


@pytest.mark.requirement("appfunctions.value.nan-refused")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (types_pb2.Value(), "the result holds a value without a kind"),
        (
            types_pb2.Value(list_value=types_pb2.ListValue(values=[types_pb2.Value()])),
            "the result holds a value without a kind",
        ),
        (
            types_pb2.Value(double_value=float("nan")),
            "the result holds nan, which is no finite number",
        ),
        (_nested(25, objects=False), "the result takes more than 24 levels of lists and objects"),
    ],
)
async def test_a_result_that_a_foreign_provider_should_not_send_is_3000(
    device: Device, value: types_pb2.Value, problem: str
) -> None:
    caller = device.install(PACKAGE)
    async with raw_provider(device, trusted("T#f")) as provider:
        call = asyncio.create_task(
            caller.failure("Execute", pb.ExecuteRequest(name=name_of("T#f")))
        )
        number = (await provider.next_call()).call.call_id
        result = pb.ProviderMessage.CallResult(call_id=number, return_value=value)
        await soon(provider.stream.write(pb.ProviderMessage(result=result)))
        detail = await soon(call)

    assert detail.app_function.error_code == 3000
    assert detail.app_function.error_message == f"T#f: {problem}"
