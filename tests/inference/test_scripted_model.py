"""Scripts made in Python: files, rules, functions, and what is left to echo and auto."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.inference.backend import (
    BackendError,
    Content,
    FunctionCall,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    Schema,
    TextDelta,
    TextPart,
    ToolChoice,
    ToolDeclaration,
)
from aicore_sim.inference.json_schema import read_schema
from aicore_sim.inference.schema_values import made_value
from aicore_sim.inference.script import ScriptError, Step
from aicore_sim.inference.script_file import load_script
from aicore_sim.inference.scripted import ScriptedBackend
from aicore_sim.inference.scripted_model import (
    ScriptedModel,
    call,
    compute,
    expecting,
    fail,
    malformed,
    say,
    when,
)
from aicore_sim.inference.validation import why_not

FETCH = ToolDeclaration(
    name="fetch",
    parameters=Schema(
        type="object", properties={"orderId": Schema(type="string")}, required=("orderId",)
    ),
)
CANCEL = ToolDeclaration(name="cancel", parameters=Schema(type="object"))


def asked(text: str = "Where is ORD-1?", **fields: Any) -> GenerateRequest:
    content = Content(role="user", parts=(TextPart(text=text),))
    return GenerateRequest(contents=(content,), **fields)


async def said(backend: ScriptedBackend, request: GenerateRequest | None = None) -> str:
    chunks = [chunk async for chunk in backend.generate(request or asked())]
    return "".join(
        f"{chunk.name}()" if isinstance(chunk, FunctionCall) else chunk.text
        for chunk in chunks
        if isinstance(chunk, TextDelta | FunctionCall)
    )


def whole() -> ScriptedModel:
    return ScriptedModel(
        fail("BUSY", repeat=2),
        say("Let me look.", calls=[call("fetch", {"orderId": "ORD-1"})], thought="An order."),
        say(
            chunks=["It is", " there."], delay=1.5, chunk_delay=0.1, expect=expecting(tool="fetch")
        ),
        fail(-9999, "Odd.", after="a b", after_chunks=1, delay=2),
        malformed("{'a': 1}", "single quotes"),
        say("cut", finish_reason="max_tokens", chunk_size=2),
        rules=[
            when(caller="com.example.notes", last_message_matches=r"^hi\b").say("Hello.", times=2),
            when(tool="cancel").call("cancel", {"why": ["a", None, 2.5]}),
            when(last_message_contains="later").fail("BACKGROUND_USE_BLOCKED"),
        ],
        otherwise="echo",
    )


@pytest.mark.requirement("simulator.script.builder")
def test_a_script_made_in_python_is_written_to_a_file_and_read_as_the_same(tmp_path: Path) -> None:
    model = whole()
    path = tmp_path / "answers.yaml"
    assert model.save(path) == f"scripted:{path}"
    assert "code: BUSY" in path.read_text()
    assert load_script(path) == model.script
    again = ScriptedModel.load(path)
    assert again.to_yaml() == model.to_yaml()
    assert ScriptedModel.from_yaml(model.to_yaml()).script == model.script


@example(text="a\x85b", size=None, delay=0.0)
@example(text="\u2028\u2029 \ufeff\r\n", size=1, delay=0.5)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    size=st.none() | st.integers(1, 5),
    delay=st.floats(0, 100),
)
def test_any_text_survives_the_file(text: str, size: int | None, delay: float) -> None:
    model = ScriptedModel(say(text, chunk_size=size, delay=delay))
    assert ScriptedModel.from_yaml(model.to_yaml()).script == model.script


@pytest.mark.requirement("simulator.script.builder")
async def test_steps_are_played_in_order_and_what_is_left_is_named() -> None:
    model = ScriptedModel(fail("BUSY", repeat=2), say("Done."))
    with pytest.raises(AssertionError, match="no device in this process"):
        model.assert_complete()
    backend = model.backend()
    assert backend.steps == 3
    with pytest.raises(BackendError) as busy:
        await said(backend)
    assert busy.value.error_code == 9
    left = "the script has 2 left over: step 1: error 9; step 2: text 'Done.'"
    with pytest.raises(AssertionError, match=re.escape(left)):
        model.assert_complete()
    with pytest.raises(BackendError):
        await said(backend)
    assert await said(backend) == "Done."
    model.assert_complete()
    assert [len(request.contents) for request in model.requests] == [1, 1, 1]


@pytest.mark.requirement("simulator.script.rules")
async def test_a_rule_answers_what_fits_it_before_the_steps_do() -> None:
    model = ScriptedModel(
        say("the step"),
        rules=[
            when(caller="com.example.notes", last_message_contains="hi").say("notes", times=1),
            when(tool="fetch").call("fetch"),
            when(last_message_matches=r"ORD-\d{3}").fail("BUSY"),
        ],
    )
    backend = model.backend()
    assert await said(backend, asked("hi", app="com.example.notes")) == "notes"
    assert await said(backend, asked("what?", tools=(FETCH,))) == "fetch()"
    with pytest.raises(BackendError):
        await said(backend, asked("ORD-123"))
    assert backend.remaining() == ("step 1: text 'the step'",)
    assert await said(backend, asked("hi", app="com.example.shop")) == "the step"
    with pytest.raises(SimulatorFault, match="generation 2 has no step"):
        await said(backend, asked("hi", app="com.example.notes"))
    model.assert_complete()


async def test_a_rule_with_times_that_is_not_used_up_is_left_over() -> None:
    model = ScriptedModel(rules=[when(tool="fetch").say("ok", times=2), when(tool="x").say("any")])
    await said(model.backend(), asked(tools=(FETCH,)))
    with pytest.raises(AssertionError, match="rule 1: text 'ok'$"):
        model.assert_complete()


@pytest.mark.requirement("simulator.script.functions")
async def test_python_functions_answer_in_the_process_of_the_device() -> None:
    async def count(request: GenerateRequest) -> Step:
        return say(f"{len(request.tools)} tools")

    def shout(request: GenerateRequest) -> str:
        [part] = request.contents[-1].parts
        assert isinstance(part, TextPart)
        return part.text.upper()

    model = ScriptedModel(
        compute(shout, repeat=2), rules=[when(tool="fetch").compute(count, times=1)]
    )
    backend = model.backend()
    assert await said(backend, asked("one")) == "ONE"
    assert await said(backend, asked(tools=(FETCH, CANCEL))) == "2 tools"
    assert backend.remaining() == ("step 1: function shout",)
    assert await said(backend, asked("two")) == "TWO"
    model.assert_complete()
    with pytest.raises(ScriptError, match="step 1 is the Python function 'shout', which a script"):
        model.to_yaml()


async def test_a_function_that_fails_is_named_and_its_own_errors_pass() -> None:
    def broken(request: GenerateRequest) -> str:
        raise KeyError("orders")

    def busy(request: GenerateRequest) -> str:
        raise BackendError(9, "Busy.")

    def wrong(request: GenerateRequest) -> Any:
        return 7

    backend = ScriptedModel(compute(broken), compute(busy), compute(wrong)).backend()
    with pytest.raises(SimulatorFault, match="function 'broken' .* raised KeyError: 'orders'"):
        await said(backend)
    with pytest.raises(BackendError):
        await said(backend)
    with pytest.raises(SimulatorFault, match="'wrong' of the script returned int; return a text"):
        await said(backend)


@pytest.mark.requirement("simulator.script.drift")
async def test_drift_shows_what_differs_and_the_step_that_fits() -> None:
    model = ScriptedModel(
        say("a", expect=expecting(last_message_contains="order", caller="com.example.shop")),
        say("b", expect=expecting(last_message_contains="cancel", tool="cancel")),
        say("c", expect=expecting(last_message_contains="thanks")),
    )
    with pytest.raises(SimulatorFault) as drift:
        await said(model.backend(), asked("Many thanks!", app="com.example.notes"))
    assert drift.value.kind is FaultKind.SCRIPT_DRIFT
    assert drift.value.message.splitlines() == [
        "step 1 does not expect this: asked was 1 contents and 0 tools, the last content being "
        "'Many thanks!'",
        "- last_message_contains: order",
        "+ last_message: Many thanks!",
        "- caller: com.example.shop",
        "+ caller: com.example.notes",
        "nearest: step 3, not used: text 'c'; it expects this request, so nothing asked for step "
        "1 to 2",
    ]


@pytest.mark.requirement("simulator.script.drift")
async def test_drift_shows_the_nearest_step_where_none_fits() -> None:
    model = ScriptedModel(
        say("a", expect=expecting(last_message_contains="xyz")),
        say("b", expect=expecting(last_message_contains="Where is ORD-2?")),
    )
    backend = model.backend()
    with pytest.raises(SimulatorFault) as drift:
        await said(backend, asked("Where is ORD-1?"))
    assert drift.value.message.splitlines()[-3:] == [
        "nearest: step 2, not used: text 'b'",
        "- last_message_contains: Where is ORD-2?",
        "+ last_message: Where is ORD-1?",
    ]
    assert backend.consumed == 0


async def test_a_request_that_comes_twice_is_told_from_one_that_is_new() -> None:
    model = ScriptedModel(say("a", expect=expecting(last_message_contains="ORD-1")))
    backend = model.backend()
    await said(backend)
    with pytest.raises(SimulatorFault, match="nearest: step 1, used: .*asks the same again"):
        await said(backend)


async def test_echo_says_what_it_is_told() -> None:
    assert await said(ScriptedModel(otherwise="echo").backend(), asked("Grüß dich")) == "Grüß dich"


@pytest.mark.requirement("simulator.script.auto")
async def test_auto_calls_each_function_once_and_then_answers() -> None:
    backend = ScriptedModel(otherwise="auto").backend(seed=4)
    request = asked(tools=(FETCH, CANCEL))
    chunks = [chunk async for chunk in backend.generate(request)]
    calls = [chunk for chunk in chunks if isinstance(chunk, FunctionCall)]
    assert [one.name for one in calls] == ["fetch", "cancel"]
    assert why_not(FETCH.parameters, calls[0].args) is None
    results = tuple(FunctionResponsePart(name=one.name, response={"result": "ok"}) for one in calls)
    made = tuple(FunctionCallPart(name=one.name, args=one.args) for one in calls)
    later = request.model_copy(
        update={
            "contents": (
                *request.contents,
                Content(role="model", parts=made),
                Content(role="user", parts=results),
            )
        }
    )
    assert await said(backend, later) == "Automatic answer (seed 4): called fetch, cancel."
    question = Content(role="user", parts=(TextPart(text="And now?"),))
    asked_again = later.model_copy(update={"contents": (*later.contents, question)})
    assert await said(backend, asked_again) == "fetch()cancel()"


async def test_auto_follows_the_tool_choice_and_a_response_schema() -> None:
    backend = ScriptedModel(otherwise="auto").backend()
    tools = (FETCH, CANCEL)
    assert await said(backend, asked(tools=tools, tool_choice=ToolChoice(mode="none"))) == (
        "Automatic answer (seed 0): called no function."
    )
    named = ToolChoice(mode="named", name="cancel")
    assert await said(backend, asked(tools=tools, tool_choice=named)) == "cancel()"
    schema = Schema(type="object", properties={"n": Schema(type="integer")}, required=("n",))
    assert re.fullmatch(r'\{"n": \d+\}', await said(backend, asked(response_schema=schema)))


SCHEMAS: list[dict[str, Any]] = [
    {"type": "string", "minLength": 30, "maxLength": 31},
    {"type": "string", "maxLength": 2},
    {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
    {"type": "string", "pattern": "a|b+c?"},
    {"type": "integer", "minimum": -3, "maximum": -3},
    {"type": "number", "minimum": 0.001, "maximum": 0.002},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 3},
    {"type": "array", "items": {"type": "string"}, "maxItems": 0},
    {"type": ["string", "null"], "enum": ["a", "b"]},
    {"type": "integer", "enum": [1, 2]},
    {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {}}]},
    *({"type": "string", "format": one} for one in ("date", "date-time", "uuid", "email", "uri")),
    {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "object", "properties": {}}},
        "required": ["a"],
    },
]


@pytest.mark.requirement("simulator.script.auto")
@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_made_values_fit_their_schema_and_repeat(schema: dict[str, Any], seed: int) -> None:
    read = read_schema(schema, "s")
    value = made_value(read, seed=seed, name="order")
    assert why_not(read, value) is None
    assert made_value(read, seed=seed, name="order") == value


def test_a_schema_that_nothing_fits_is_named() -> None:
    schema = Schema(type="string", pattern="^a$", min_length=5)
    with pytest.raises(SimulatorFault, match="no value for the schema of 'id': .*script that call"):
        made_value(schema, seed=1, name="id")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fail("BUZY"), "error.code: 'BUZY' names no error code"),
        (lambda: say(), "the step says nothing"),
        (lambda: say("a", repeat=0), "repeat: "),
        (lambda: say("a", delay=-1), "delay: "),
        (lambda: when(), r"when\(\) needs one of tool"),
        (lambda: when(last_message_matches="("), "is no regular expression"),
        (lambda: when(tool="x").answer(say("a", repeat=2)), "'repeat' belongs to steps"),
        (lambda: ScriptedModel(say("a"), say("\ud800")), "step 2, key 'text': text with a lone"),
        (
            lambda: ScriptedModel(say(calls=[call("f", {"x": float("nan")})])),
            r"step 1, key 'function_calls.0.args.x': nan cannot be sent",
        ),
    ],
)
def test_what_is_no_step_is_refused_when_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        make()


@pytest.mark.requirement("simulator.script.strict")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [{text: a}]", "rule 1, key 'when': Field required"),
        ("rules: [{when: {}, text: a}]", "rule 1: 'when' needs one of tool"),
        ("rules: [{when: {app: x}, text: a}]", "rule 1, key 'when.app': unknown key"),
        ("rules: [{when: {tool: x}, text: a, expect: {tool: x}}]", "'expect' belongs to steps"),
        ("- {text: a, when: {tool: x}}", "step 1, key 'when': unknown key"),
        ("otherwise: random", "key 'otherwise': 'random' is none of error, echo, auto"),
        ("steps: 3", "expected a list of steps, not int 3"),
        ("- {text: a, repeat: 0}", "step 1, key 'repeat'"),
    ],
)
def test_a_table_that_breaks_the_format_is_refused_by_rule_and_key(text: str, message: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(message)):
        ScriptedModel.from_yaml(text, source="shop.yaml")
