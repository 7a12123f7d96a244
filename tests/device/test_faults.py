"""Counted faults: which call they hit, what is refused, and what an app then sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from aicore_protos import device_pb2
from aicore_sim.device.clock import ClockMode
from aicore_sim.device.errors import GenAiError
from aicore_sim.device.fault_rules import ACTIONS, FaultAction, FaultMatch, Malformed
from aicore_sim.device.faults import (
    RULE_LIMIT,
    FaultError,
    FaultPlan,
    FaultRule,
    Fired,
    before_call,
    faulty_stream,
)
from aicore_sim.device.virtual_clock import DeviceClock
from aicore_sim.inference.backend import (
    Chunk,
    Finish,
    FunctionCall,
    MalformedCall,
    TextDelta,
    ThoughtDelta,
    Usage,
)
from aicore_sim.policy.failures import aicore_failure

APP = "com.example.app"
RPCS = ("CheckStatus", "GenerateContent", "Execute")
LIMIT = 5.0


def plan_of(*rules: dict[str, Any], clock: DeviceClock | None = None) -> FaultPlan:
    plan = FaultPlan(rpcs=RPCS, clock=clock or DeviceClock(ClockMode.VIRTUAL, now=1000))
    for rule in rules:
        plan.add(rule)
    return plan


def codes(plan: FaultPlan, calls: int, rpc: str = "GenerateContent", app: str = APP) -> list[int]:
    """The error code that each call gets, 0 when it passes."""
    found = []
    for _ in range(calls):
        fired = plan.decide(rpc, package_name=app)
        found.append(next((one.action.error_code or 0 for one in fired), 0))
    return found


@pytest.mark.requirement("simulator.faults")
def test_a_rule_lets_some_calls_pass_then_fires_so_often_and_is_counted() -> None:
    plan = plan_of({"action": {"error_code": 9}, "times": 2, "after": 3})
    assert codes(plan, 7) == [0, 0, 0, 9, 9, 0, 0]
    [listed] = plan.list()
    assert (listed.rule.id, listed.hits, listed.rule.times) == ("fault-1", 2, 2)


def test_rules_without_limit_fire_until_they_are_cleared() -> None:
    plan = plan_of({"action": {"error_code": -9999}})
    assert codes(plan, 3) == [-9999] * 3
    plan.clear()
    assert (codes(plan, 1), plan.list()) == ([0], ())


def test_rules_follow_each_other_and_a_call_gets_one_of_them() -> None:
    plan = plan_of(
        {"action": {"error_code": 9}, "times": 2},
        {"action": {"error_code": 8}, "times": 1, "after": 1},
    )
    assert codes(plan, 5) == [9, 9, 0, 8, 0]
    assert [listed.hits for listed in plan.list()] == [2, 1]


def test_delays_add_up_in_front_of_another_action() -> None:
    plan = plan_of(
        {"action": {"delay": 1}},
        {"action": {"delay": 0.5}, "times": 1},
        {"action": {"malformed": "EMPTY_OUTPUT"}, "times": 1},
    )
    kinds = [
        [one.action.kind for one in plan.decide("CheckStatus", package_name=APP)] for _ in range(2)
    ]
    assert kinds == [["delay", "delay", "malformed"], ["delay"]]


@pytest.mark.parametrize("named", ["com.example.Shop#buy", "buy"])
def test_only_calls_that_match_in_every_part_are_hit_or_counted(named: str) -> None:
    match = {"rpc": "Execute", "package_name": APP, "function_identifier": named}
    plan = FaultPlan(rpcs=RPCS, clock=DeviceClock(ClockMode.VIRTUAL, now=1000), for_host=True)
    plan.add({"match": match, "action": {"error_code": 1000}, "after": 1})

    def call(rpc: str = "Execute", app: str = APP, function: str = "com.example.Shop#buy") -> int:
        return len(plan.decide(rpc, package_name=app, function_identifier=function))

    others = [call(rpc="Search"), call(app="com.other"), call(function="Shop#buys")]
    assert others == [0, 0, 0]
    assert [call(), call(), call()] == [0, 1, 1]
    assert plan.list()[0].hits == 2


@pytest.mark.requirement("simulator.faults")
def test_a_rule_with_a_chance_hits_the_calls_of_its_seed_and_shows_it() -> None:
    drawn = plan_of({"action": {"error_code": 9}, "probability": 0.5}).list()[0].rule
    assert drawn.seed > 0
    rule = {"action": {"error_code": 9}, "probability": 0.5, "seed": drawn.seed, "times": 60}
    first, again = plan_of(rule), plan_of(rule)
    found = codes(first, 200)
    assert found == codes(again, 200)
    assert found.count(9) == 60 == first.list()[0].hits
    assert found != codes(plan_of({**rule, "seed": drawn.seed + 1}), 200)
    always = plan_of({"action": {"error_code": 9}, "probability": 1, "seed": 3})
    assert codes(always, 5) == [9] * 5


def test_rules_for_the_host_are_decided_by_the_host_alone() -> None:
    rules: list[dict[str, Any]] = [
        {"match": {"rpc": "Execute"}, "action": {"error_code": 2000}},
        {"match": {"function_identifier": "buy"}, "action": {"error_code": 3000}},
        {"action": {"error_code": 9}},
    ]
    aicore = plan_of(*rules)
    assert codes(aicore, 1, rpc="Execute") == [9]
    host = FaultPlan(rpcs=RPCS, clock=DeviceClock(ClockMode.VIRTUAL, now=1000), for_host=True)
    for rule in rules:
        host.add(rule)
    assert codes(host, 1, rpc="Execute") == [2000]
    assert codes(host, 1, rpc="GenerateContent") == [0]


async def test_a_rule_ends_at_its_device_time() -> None:
    clock = DeviceClock(ClockMode.VIRTUAL, now=1000)
    plan = plan_of({"action": {"error_code": 9}, "until": 1060}, clock=clock)
    await clock.advance(59.999)
    assert codes(plan, 1) == [9]
    await clock.advance(0.001)
    assert (codes(plan, 1), plan.list()[0].hits) == ([0], 1)


@given(
    times=st.integers(0, 5),
    after=st.integers(0, 5),
    calls=st.integers(0, 20),
)
@pytest.mark.requirement("simulator.faults")
def test_a_fault_hits_exactly_the_calls_that_its_counts_name(
    times: int, after: int, calls: int
) -> None:
    plan = plan_of({"action": {"error_code": 9}, "times": times, "after": after})
    hit = [number for number, code in enumerate(codes(plan, calls)) if code]
    last = after + times if times else calls
    assert hit == list(range(after, min(last, calls)))
    assert plan.list()[0].hits == len(hit)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({}, "action: Field required"),
        ({"action": {}}, "action: a rule has one action of error_code, delay"),
        ({"action": {"error_code": 9, "delay": 1}}, "action: a rule has one action of"),
        ({"action": {"error_code": None}}, "action: a rule has one action of"),
        ({"action": {"explode": 1}}, "action.explode: unknown key; the actions are error_code"),
        ({"action": {"error_code": 9}, "time": 3}, "time: unknown key"),
        ({"action": {"error_code": 9}, "match": {"rcp": "x"}}, "match.rcp: unknown key"),
        (
            {"action": {"error_code": 9}, "match": {"rpc": "Generate"}},
            "match.rpc: 'Generate' is none of the calls CheckStatus, Execute, GenerateContent",
        ),
        ({"action": {"error_code": 9}, "times": -1}, "times: .*greater than or equal to 0"),
        ({"action": {"error_code": 9}, "after": -1}, "after: .*greater than or equal to 0"),
        ({"action": {"error_code": 9}, "times": 1.5}, "times: "),
        ({"action": {"error_code": 9}, "times": True}, "times: "),
        ({"action": {"error_code": "BUSY"}}, "action.error_code: "),
        ({"action": {"error_code": 2**31}}, "action.error_code: "),
        ({"action": {"error_code": 9}, "hits": 3}, "hits: "),
        ({"action": {"delay": -1}}, "action.delay: -1 must be a number of seconds from 0 up"),
        ({"action": {"delay": "-1.5s"}}, "action.delay: '-1.5s' must be"),
        ({"action": {"delay": "soon"}}, "action.delay: 'soon' is no number of seconds"),
        ({"action": {"delay": float("nan")}}, "action.delay: nan must be"),
        ({"action": {"drop_after_tokens": -2}}, "action.drop_after_tokens: "),
        ({"action": {"fail_after_tokens": {"tokens": 1}}}, "fail_after_tokens.error_code: "),
        ({"action": {"malformed": "BROKEN"}}, "action.malformed: 'BROKEN' is none of BROKEN_CALL"),
        ({"action": {"malformed": 0}}, "action.malformed: 0 is none of"),
        ({"action": {"kill_worker": {"now": 1}}}, "action.kill_worker.now: unknown key"),
        ({"action": {"error_code": 9}, "until": "tomorrow"}, "until: 'tomorrow' is no time"),
        ({"action": {"error_code": 9}, "until": "2026-01-01T00:00:00"}, "until: .* with a zone"),
        ({"action": {"error_code": 9}, "until": -1}, "until: -1 is no time between"),
        ({"action": {"error_code": 9}, "until": float("inf")}, "until: inf is no time between"),
        ({"action": {"error_code": 9}, "until": []}, "until: .* is no time"),
    ],
)
def test_a_bad_rule_is_refused_with_its_key_and_nothing_changes(
    rule: dict[str, Any], problem: str
) -> None:
    plan = plan_of({"id": "first", "action": {"error_code": 9}})
    before = plan.list()
    with pytest.raises(FaultError, match=problem):
        plan.add(rule)
    assert plan.list() == before


def test_ids_are_unique_and_rules_bounded() -> None:
    plan = plan_of({"id": "fault-1", "action": {"error_code": 9}})
    made = plan.add(FaultRule(action=FaultAction(error_code=8), match=FaultMatch(rpc="Execute")))
    assert made.rule.id == "fault-2"
    with pytest.raises(FaultError, match="id: 'fault-1' is the id of another fault"):
        plan.add({"id": "fault-1", "action": {"error_code": 9}})
    with pytest.raises(FaultError, match="'Nope' is none of the calls"):
        plan.add(FaultRule(action=FaultAction(error_code=8), match=FaultMatch(rpc="Nope")))
    for _ in range(RULE_LIMIT - 2):
        plan.add({"action": {"error_code": 9}})
    with pytest.raises(FaultError, match="1000 faults are set"):
        plan.add({"action": {"error_code": 9}})


MESSAGE = device_pb2.FaultAction
WIRE_ACTIONS = [
    MESSAGE(error_code=-101),
    MESSAGE(delay=Duration(seconds=1, nanos=500_000_000)),
    MESSAGE(drop_after_tokens=0),
    MESSAGE(fail_after_tokens=MESSAGE.FailAfterTokens(tokens=3, error_code=30)),
    MESSAGE(malformed=MESSAGE.TRUNCATED_CALL),
    MESSAGE(kill_worker=MESSAGE.KillWorker()),
]


@pytest.mark.parametrize("action", WIRE_ACTIONS, ids=ACTIONS)
def test_a_fault_message_makes_a_rule_and_a_rule_the_message(
    action: device_pb2.FaultAction,
) -> None:
    sent = device_pb2.Fault(
        id="mine",
        match=device_pb2.FaultMatch(rpc="GenerateContent", package_name=APP),
        action=action,
        times=2,
        after=1,
        probability=1,
        seed=7,
        until=Timestamp(seconds=1_767_225_600, nanos=123_456_789),
    )
    plan = plan_of()
    table = MessageToDict(sent, preserving_proto_field_name=True)
    answered = ParseDict(plan.add(table).to_wire(), device_pb2.Fault())
    assert answered == sent
    hits = [len(plan.decide("GenerateContent", package_name=APP)) for _ in range(3)]
    assert hits == [0, 1, 1]
    sent.hits = 2
    assert ParseDict(plan.list()[0].to_wire(), device_pb2.Fault()) == sent


def test_the_numbers_and_names_are_those_of_the_protos() -> None:
    descriptor = MESSAGE.DESCRIPTOR
    assert [field.name for field in descriptor.oneofs_by_name["action"].fields] == list(ACTIONS)
    assert set(FaultAction.model_fields) == set(ACTIONS)
    assert {one.name: one.value for one in Malformed} == {
        name: number for name, number in MESSAGE.Malformed.items() if number
    }


# What they do to a call.


class Port:
    """What the service lends: one token a word, a call is worth five."""

    def __init__(self) -> None:
        self.kills = 0

    def tokens(self, chunk: Chunk) -> int:
        match chunk:
            case TextDelta(text=text) | ThoughtDelta(text=text):
                return len(text.split())
            case FunctionCall():
                return 5
            case _:
                return 0

    def malformed(self, text: str, reason: str) -> Chunk:
        return MalformedCall(text=text, reason=reason)

    def empty(self, finish: Chunk) -> Chunk:
        assert isinstance(finish, Finish)
        usage = finish.usage.model_copy(update={"output_tokens": 0})
        return finish.model_copy(update={"usage": usage})

    def cut_off(self, finish: Chunk) -> Chunk:
        assert isinstance(finish, Finish)
        return finish.model_copy(update={"reason": "max_tokens"})

    def failure(self, error_code: int, detail: str) -> Exception:
        return aicore_failure(error_code, detail)

    def kill_worker(self) -> None:
        self.kills += 1


class Answer:
    """A model's answer, which knows how far it was read and whether it was closed."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks
        self.read = 0
        self.closed = False

    async def stream(self) -> AsyncGenerator[Chunk, None]:
        try:
            for chunk in self._chunks:
                self.read += 1
                yield chunk
        finally:
            self.closed = True


ONE, TWO = TextDelta(text="one"), TextDelta(text=" two three")
CALL = FunctionCall(name="fetch", args={"orderId": "ORD-1", "note": "ü"})
DONE = Finish(reason="stop", usage=Usage(input_tokens=7, output_tokens=8))
CHUNKS: tuple[Chunk, ...] = (ThoughtDelta(text="hm"), ONE, TWO, CALL, CALL, DONE)


def fired_of(**action: Any) -> tuple[Fired, ...]:
    return (Fired(fault_id="f", action=FaultAction(**action)),)


async def play(
    fired: tuple[Fired, ...], chunks: Sequence[Chunk] = CHUNKS
) -> tuple[list[Chunk], GenAiError | None, Answer, Port]:
    answer, port, seen = Answer(chunks), Port(), []
    failure = None
    try:
        async with asyncio.timeout(LIMIT):
            async for chunk in faulty_stream(fired, answer.stream(), port):
                seen.append(chunk)  # noqa: PERF401 - what came before an error counts
    except GenAiError as error:
        failure = error
    return seen, failure, answer, port


async def test_without_a_fault_the_answer_is_the_models() -> None:
    seen, failure, answer, _ = await play(())
    assert (seen, failure, answer.closed) == (list(CHUNKS), None, True)
    seen, failure, _, _ = await play(fired_of(delay=5.0))
    assert (seen, failure) == (list(CHUNKS), None)


@pytest.mark.parametrize(("tokens", "chunks"), [(1, 1), (2, 2), (3, 2), (4, 3), (9, 4), (100, 5)])
@pytest.mark.parametrize("fails", [False, True])
async def test_a_stream_ends_after_so_many_tokens_with_or_without_an_error(
    tokens: int, chunks: int, fails: bool
) -> None:
    fired = (
        fired_of(fail_after_tokens={"tokens": tokens, "error_code": 15})
        if fails
        else fired_of(drop_after_tokens=tokens)
    )
    seen, failure, answer, _ = await play(fired)
    assert (seen, answer.closed) == (list(CHUNKS[:chunks]), True)
    assert (failure.error_code if failure else None) == (15 if fails else None)
    if failure:
        assert failure.message == (
            "AICore failed with error type 2-INFERENCE_ERROR and error code "
            "15-RESPONSE_GENERATION_ERROR: Injected by fault 'f'."
        )


async def test_a_model_is_not_asked_for_more_than_is_wanted() -> None:
    _, _, answer, _ = await play(fired_of(drop_after_tokens=2))
    assert (answer.read, answer.closed) == (2, True)


async def test_a_stream_without_room_asks_the_model_for_nothing() -> None:
    seen, failure, answer, _ = await play(fired_of(drop_after_tokens=0))
    assert (seen, failure, answer.read) == ([], None, 0)


async def test_a_broken_call_does_not_parse_and_the_rest_stays() -> None:
    seen, failure, _, _ = await play(fired_of(malformed="BROKEN_CALL"))
    broken = MalformedCall(
        text='{"name" "fetch", "args": {"orderId": "ORD-1", "note": "ü"}}',
        reason="Expected ':' after a key",
    )
    assert (seen, failure) == ([*CHUNKS[:3], broken, broken, DONE], None)


async def test_a_truncated_call_ends_the_answer_at_its_limit() -> None:
    seen, failure, answer, _ = await play(fired_of(malformed="TRUNCATED_CALL"))
    whole = '{"name": "fetch", "args": {"orderId": "ORD-1", "note": "ü"}}'
    cut = MalformedCall(text=whole[: len(whole) // 2], reason="The call is cut off")
    limit = DONE.model_copy(update={"reason": "max_tokens"})
    assert (seen, failure, answer.closed) == ([*CHUNKS[:3], cut, limit], None, True)


@pytest.mark.parametrize("kind", ["BROKEN_CALL", "TRUNCATED_CALL"])
async def test_an_answer_without_a_call_has_none_to_spoil(kind: str) -> None:
    seen, failure, _, _ = await play(fired_of(malformed=kind), (ONE, DONE))
    assert (seen, failure) == ([ONE, DONE], None)


async def test_an_empty_answer_has_only_its_end() -> None:
    seen, failure, answer, _ = await play(fired_of(malformed="EMPTY_OUTPUT"))
    usage = Usage(input_tokens=7, output_tokens=0)
    assert (seen, failure) == ([Finish(reason="stop", usage=usage)], None)
    assert answer.read == len(CHUNKS)


async def test_the_worker_is_killed_once_when_the_answer_has_begun() -> None:
    seen, _, _, port = await play(fired_of(kill_worker={}))
    assert (seen, port.kills) == (list(CHUNKS), 1)


@pytest.mark.parametrize("action", WIRE_ACTIONS, ids=ACTIONS)
async def test_leaving_early_closes_the_model(action: device_pb2.FaultAction) -> None:
    table = MessageToDict(action, preserving_proto_field_name=True)
    answer = Answer([*CHUNKS[:4], DONE])
    stream = faulty_stream(fired_of(**table), answer.stream(), Port())
    async for _ in stream:
        break
    await stream.aclose()
    assert answer.closed or answer.read == 0


async def test_delays_pass_on_the_device_clock_before_the_error() -> None:
    clock = DeviceClock(ClockMode.VIRTUAL, now=1000)
    fired = (
        *fired_of(delay=2.0),
        *fired_of(delay="1.5s"),
        *fired_of(error_code=9),
    )
    call = asyncio.create_task(before_call(fired, clock=clock, failure=aicore_failure))
    await asyncio.sleep(0)
    await clock.advance(3.4)
    assert not call.done()
    await clock.advance(0.1)
    with pytest.raises(GenAiError, match="9-BUSY: Injected by fault 'f'") as busy:
        await asyncio.wait_for(call, LIMIT)
    assert (busy.value.error_code, busy.value.retry_delay) == (9, 0.0)
    await before_call(fired_of(drop_after_tokens=1), clock=clock, failure=aicore_failure)
