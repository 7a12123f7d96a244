"""The scripted model: its format, its order, and how it says that app and script disagree."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.inference.backend import (
    BackendError,
    Chunk,
    Content,
    Finish,
    FunctionCall,
    FunctionResponsePart,
    GenerateRequest,
    MalformedCall,
    Sampling,
    Schema,
    TextDelta,
    TextPart,
    ThoughtDelta,
    ToolDeclaration,
    Usage,
)
from aicore_sim.inference.script import ScriptError, Step
from aicore_sim.inference.script_file import load_script, parse_script
from aicore_sim.inference.scripted import ScriptedBackend
from aicore_sim.rpc.values import to_object


class NapClock:
    """A clock on which sleeping takes no time and is written down."""

    def __init__(self) -> None:
        self.naps: list[float] = []

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        if seconds:
            self.naps.append(seconds)


def asked(text: str = "Where is ORD-1?", *, room: int | None = None) -> GenerateRequest:
    return GenerateRequest(
        contents=(Content(role="user", parts=(TextPart(text=text),)),),
        sampling=Sampling(max_output_tokens=room),
    )


def scripted(text: str) -> ScriptedBackend:
    return ScriptedBackend(parse_script(text, source="test.yaml"))


async def answer(backend: ScriptedBackend, request: GenerateRequest | None = None) -> list[Chunk]:
    return [chunk async for chunk in backend.generate(request or asked())]


async def collect(backend: ScriptedBackend, into: list[Chunk]) -> None:
    async for chunk in backend.generate(asked()):
        into.append(chunk)  # noqa: PERF401 - kept when the stream fails


def steps_of(text: str) -> list[Step]:
    return [s for s in parse_script(text, source="shop.yaml").steps if isinstance(s, Step)]


def texts(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]


@pytest.mark.requirement("simulator.script.steps")
async def test_a_step_speaks_in_the_order_of_its_keys_with_the_thought_first() -> None:
    backend = scripted(
        """
        - function_calls:
            - {name: fetch, args: {orderId: ORD-1, deep: {list: [1, null, 2.5]}}}
            - {name: nobody_declared_this}
          malformed_call: {text: '{"name": fe', reason: cut off}
          text: Let me look.
          thought: An order.
          finish_reason: other
        """
    )
    assert await answer(backend) == [
        ThoughtDelta(text="An"),
        ThoughtDelta(text=" order."),
        FunctionCall(name="fetch", args={"orderId": "ORD-1", "deep": {"list": [1, None, 2.5]}}),
        FunctionCall(name="nobody_declared_this", args={}),
        MalformedCall(text='{"name": fe', reason="cut off"),
        TextDelta(text="Let"),
        TextDelta(text=" me"),
        TextDelta(text=" look."),
        Finish(reason="other", usage=Usage(input_tokens=6, output_tokens=48)),
    ]


@pytest.mark.requirement("simulator.script.steps")
async def test_text_before_a_call_stays_before_it() -> None:
    chunks = await answer(scripted("- {text: One two., function_calls: [{name: f}]}"))
    assert [chunk.kind for chunk in chunks] == ["text", "text", "function_call", "finish"]


@pytest.mark.requirement("simulator.script.steps")
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("{text: abcdefg, chunk_size: 3}", ["abc", "def", "g"]),
        ("{text: abc, chunks: [a, bc]}", ["a", "bc"]),
        ("{chunks: ['a ', '', b]}", ["a ", "", "b"]),
        ('{text: "  Grüße,\\n dir 👋🏽 "}', ["  Grüße,", "\n dir", " 👋🏽", " "]),
        ("{text: ''}", []),
        ("{finish_reason: stop}", []),
    ],
)
async def test_text_is_cut_as_the_step_says(step: str, expected: list[str]) -> None:
    assert texts(await answer(scripted(f"- {step}"))) == expected


@given(text=st.text(max_size=60), size=st.none() | st.integers(1, 9))
async def test_chunks_always_add_up_to_the_text(text: str, size: int | None) -> None:
    step = {"text": text} if size is None else {"text": text, "chunk_size": size}
    backend = scripted(yaml.safe_dump([step]))
    assert "".join(texts(await answer(backend))) == text


@pytest.mark.requirement("simulator.script.drift", "simulator.script.steps")
async def test_steps_are_taken_in_order_and_one_call_too_many_names_itself() -> None:
    backend = scripted("- text: one\n- text: two\n")
    assert backend.remaining() == ("step 1: text 'one'", "step 2: text 'two'")
    assert texts(await answer(backend)) == ["one"]
    assert backend.remaining() == ("step 2: text 'two'",)
    assert texts(await answer(backend)) == ["two"]
    assert (backend.steps, backend.consumed, backend.remaining()) == (2, 2, ())
    with pytest.raises(SimulatorFault) as drift:
        await answer(backend, asked("And again?"))
    assert drift.value.kind is FaultKind.SCRIPT_DRIFT
    assert "generation 3 has no step: the script has 2 steps" in drift.value.message
    assert "'And again?'" in drift.value.message
    assert backend.consumed == 2


@pytest.mark.requirement("simulator.script.left-over")
async def test_what_is_left_over_is_described_in_short() -> None:
    backend = scripted(
        f"""
        - text: {"x" * 100}
          function_calls: [{{name: f}}, {{name: g}}]
        - error: {{code: 9}}
          thought: hm
        - finish_reason: max_tokens
        - malformed_call: {{text: "{{"}}
        """
    )
    assert backend.remaining() == (
        f"step 1: text '{'x' * 57}...'; calls f, g",
        "step 2: error 9; thought",
        "step 3: empty answer",
        "step 4: malformed_call",
    )


async def test_loading_a_script_starts_anew_and_spares_a_running_answer() -> None:
    backend = scripted("- text: one two three\n- text: never\n")
    running = backend.generate(asked())
    first = await anext(running)
    backend.load(parse_script("- text: fresh", source="second"))
    rest = [chunk async for chunk in running]
    assert texts([first, *rest]) == ["one", " two", " three"]
    assert (backend.steps, backend.consumed) == (1, 0)
    assert texts(await answer(backend)) == ["fresh"]


@pytest.mark.requirement("simulator.script.errors-and-delays")
async def test_a_scripted_failure_comes_after_the_chunks_it_names() -> None:
    backend = scripted(
        """
        - {text: a b c, error: {code: 11, message: Filtered., after_chunks: 2}}
        - {text: a b c, error: {code: -105}}
        - error: {code: 9}
        - {text: a, finish_reason: max_tokens, error: {code: 15, after_chunks: 0}}
        """
    )
    seen: list[tuple[list[str], int, str]] = []
    for _ in range(4):
        said: list[Chunk] = []
        with pytest.raises(BackendError) as failure:
            await collect(backend, said)
        seen.append((texts(said), failure.value.error_code, failure.value.message))
    assert seen == [
        (["a", " b"], 11, "Filtered."),
        (["a", " b", " c"], -105, "Scripted failure."),
        ([], 9, "Scripted failure."),
        ([], 15, "Scripted failure."),
    ]


@pytest.mark.requirement("simulator.script.errors-and-delays")
async def test_delays_pass_on_the_device_clock() -> None:
    clock = NapClock()
    script = parse_script("- {text: a b c, delay: 12, chunk_delay: 0.5}", source="test")
    await answer(ScriptedBackend(script, clock=clock))
    assert clock.naps == [12.0, 0.5, 0.5]


@pytest.mark.requirement("aicore.generate.max-output-tokens")
@pytest.mark.parametrize(
    ("room", "expected", "reason", "tokens"),
    [
        (1, "one", "max_tokens", 1),
        (3, "one, two", "max_tokens", 3),
        (5, "one, two three.", "stop", 5),
        (None, "one, two three.", "stop", 5),
    ],
)
async def test_text_stops_at_the_output_limit(
    room: int | None, expected: str, reason: str, tokens: int
) -> None:
    chunks = await answer(scripted("- text: one, two three."), asked(room=room))
    assert "".join(texts(chunks)) == expected
    assert chunks[-1] == Finish.model_validate(
        {"reason": reason, "usage": {"input_tokens": 6, "output_tokens": tokens}}
    )


async def test_a_step_may_state_its_usage() -> None:
    usage = "{input_tokens: 900, output_tokens: 0, cached_input_tokens: 850}"
    chunks = await answer(scripted(f"- {{text: hi, usage: {usage}}}"))
    assert chunks[-1] == Finish(
        reason="stop", usage=Usage(input_tokens=900, output_tokens=0, cached_input_tokens=850)
    )


async def test_input_tokens_are_words_and_punctuation_of_everything_that_is_sent() -> None:
    backend = scripted("")
    tool = ToolDeclaration(name="f", description="Does it.", parameters=Schema(type="object"))
    bare = asked("Hello, you!")
    assert await backend.count_tokens(bare) == 4
    with_system = bare.model_copy(update={"system_instruction": "Be brief."})
    assert await backend.count_tokens(with_system) == 7
    assert await backend.count_tokens(with_system.model_copy(update={"tools": (tool,)})) > 7
    response = FunctionResponsePart(name="f", response={"status": "ok"})
    more = Content(role="user", parts=(response,))
    longer = bare.model_copy(update={"contents": (*bare.contents, more)})
    assert await backend.count_tokens(longer) > 4


async def test_an_expectation_that_is_met_lets_the_step_run() -> None:
    backend = scripted(
        '- {text: ok, expect: {tool: fetch, last_message_contains: \'"status": "ok"\'}}'
    )
    request = GenerateRequest(
        contents=(
            Content(role="user", parts=(TextPart(text="earlier"),)),
            Content(
                role="user", parts=(FunctionResponsePart(name="fetch", response={"status": "ok"}),)
            ),
        ),
        tools=(ToolDeclaration(name="fetch", parameters=Schema(type="object")),),
    )
    assert texts(await answer(backend, request)) == ["ok"]


@pytest.mark.requirement("simulator.script.drift")
@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("tool: fetch", "- tool: fetch\n+ tool: none"),
        (
            "last_message_contains: ORD-2",
            "- last_message_contains: ORD-2\n+ last_message: Where is ORD-1?",
        ),
    ],
)
async def test_an_expectation_that_is_not_met_is_drift_and_keeps_the_step(
    expect: str, message: str
) -> None:
    backend = scripted(f"- {{text: ok, expect: {{{expect}}}}}")
    with pytest.raises(SimulatorFault, match=re.escape(message)) as drift:
        await answer(backend)
    assert drift.value.kind is FaultKind.SCRIPT_DRIFT
    assert backend.consumed == 0


async def test_an_empty_script_is_a_script() -> None:
    backend = scripted("")
    assert backend.remaining() == ()
    assert backend.unavailable_reason is None
    assert backend.info.model_dump() == {
        "name": "scripted",
        "token_limit": 8192,
        "dialect": "scripted",
        "constrained": False,
    }


def call(value: str) -> str:
    """A second step that calls a function with `value`."""
    return f"- text: hi\n- function_calls: [{{name: f, args: {{x: {value}}}}}]"


BOMB = f"[&a [{'1, ' * 99}], &b [{'*a, ' * 99}], [{'*b, ' * 99}]]"
"""A million values in a few hundred characters."""


@pytest.mark.requirement("simulator.script.strict")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "text: hi",
            "key 'text': unknown key (known: rules, steps, otherwise); a script is a list",
        ),
        ("- text: hi\n- hello", "script 'shop.yaml', step 2: expected keys and values, not str"),
        ("-", "script 'shop.yaml', step 1: expected keys and values, not nothing"),
        ("- {}", "step 1: the step says nothing"),
        ("- expect: {tool: f}", "step 1: the step says nothing"),
        ("- text: hi\n- texts: hi", "script 'shop.yaml', step 2, key 'texts': unknown key (known"),
        ("- {text: hi, order: [text]}", "step 1, key 'order': unknown key"),
        ("- text:", "step 1, key 'text': has no value"),
        ("- text: 5", "step 1, key 'text': Input should be a valid string"),
        ("- {text: hi, delay: -1}", "step 1, key 'delay': "),
        ("- {text: hi, chunk_size: 0}", "step 1, key 'chunk_size': "),
        ("- {text: hi, chunks: [h]}", "step 1: 'chunks' do not add up to 'text'"),
        ("- {chunks: [h], chunk_size: 1}", "step 1: 'chunks' and 'chunk_size' exclude each other"),
        ("- {thought: h, chunk_size: 1}", "step 1: 'chunk_size' needs 'text'"),
        ("- function_calls: [{nam: f}]", "step 1, key 'function_calls.0.nam': unknown key"),
        ("- function_calls: [{name: f, args: {d: 2026-01-01}}]", "'function_calls.0.args.d"),
        ("- function_calls: [{name: f, args: {1: 2}}]", "'function_calls.0.args.1"),
        ("- error: {code: [9]}", "step 1, key 'error.code': "),
        ("- {text: hi, finish_reason: done}", "step 1, key 'finish_reason': "),
        ("- {text: hi, expect: {tools: f}}", "step 1, key 'expect.tools': unknown key"),
        ("- text: [", "script 'shop.yaml' is not YAML: "),
        ("- !!python/object:os.system {}", "script 'shop.yaml' is not YAML: "),
        ("- text: !!int x", "script 'shop.yaml' has a value that is not YAML: "),
        ("- text: !!timestamp x", "script 'shop.yaml' has a value that is not YAML: "),
        ("- text: " + "9" * 5000, "script 'shop.yaml'"),
        ("- error: {code: 2147483648}", "step 1, key 'error.code': "),
        ("- error: {code: -2147483649}", "step 1, key 'error.code': "),
        ("- {text: a, usage: {output_tokens: 2147483648}}", "step 1, key 'usage.output_tokens': "),
        ("- {text: a, delay: .inf}", "step 1, key 'delay': "),
        ("- {text: a, delay: 1e9}", "step 1, key 'delay': "),
        (call("[1, .nan]"), "step 2, key 'function_calls.0.args.x': nan cannot be sent"),
        (call("9223372036854775808"), "key 'function_calls.0.args.x': does not fit into 64 bits"),
        (
            call("[" * 31 + "1" + "]" * 31),
            "step 2, key 'function_calls.0.args.x': nested more than 30",
        ),
        (call("[" * 201 + "]" * 201), "script 'shop.yaml', line 2: nested more than 200 levels"),
        ("[" * 100_000, "script 'shop.yaml'"),
        (call("&a [*a]"), "step 2, key 'function_calls.0.args.x': nested more than 30"),
        (call(BOMB), "step 2, key 'function_calls.0.args.x': here the script has over 50000 value"),
        ("- &a {text: hi}\n" + "- *a\n" * 30_000, "step 25001: here the script has over"),
        ("- {text: a, <<: {delay: 1}}", "script 'shop.yaml': merge keys"),
        ("- {text: a, !!merge x: {delay: 1}}", "script 'shop.yaml': merge keys"),
        ("- text: hi\n" * 20_000, "script 'shop.yaml' is too big: it has over 50000 values"),
        ("- text: " + "x" * 2**20, "script 'shop.yaml' is too big: it has 1048584 bytes"),
    ],
)
def test_a_script_that_breaks_the_format_is_refused_by_step_and_key(
    script: str, message: str
) -> None:
    with pytest.raises(ScriptError) as refused:
        parse_script(script, source="shop.yaml")
    assert message in str(refused.value)


@pytest.mark.requirement("simulator.script.strict")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("text", '"\\ud800"'),
        ("error.message", '{code: 9, message: "\\udfff"}'),
        ("function_calls.0.name", '[{name: "\\ud800"}]'),
        ("function_calls.0.args.x", '[{name: f, args: {x: ["\\ud800"]}}]'),
        ("chunks.1", '[a, "\\udc00"]'),
    ],
)
def test_text_that_cannot_be_sent_is_refused_by_step_and_key(path: str, value: str) -> None:
    with pytest.raises(ScriptError) as refused:
        parse_script(f"- text: hi\n- {path.partition('.')[0]}: {value}", source="shop.yaml")
    message = str(refused.value)
    assert "surrogate" in message or "is not YAML" in message
    message.encode()


@pytest.mark.requirement("simulator.script.strict")
def test_values_at_the_limits_are_a_script() -> None:
    deep = "[" * 30 + "1" + "]" * 30
    args = f"{{x: {deep}, y: 9223372036854775807, z: -9223372036854775808}}"
    steps = steps_of(
        f"- {{function_calls: [{{name: f, args: {args}}}]}}\n"
        "- error: {code: -2147483648}\n- {text: a, usage: {input_tokens: 2147483647}}\n"
        "- {text: &t ab, thought: *t}\n- {text: '<<'}\n",
    )
    (spoken,) = steps[0].spoken()
    assert isinstance(spoken, FunctionCall)
    to_object(spoken.args)
    assert [step.describe() for step in steps[1:]] == [
        "error -2147483648",
        "text 'a'",
        "text 'ab'; thought",
        "text '<<'",
    ]


@given(text=st.text(alphabet="-{}[]:,!&*<'\"|>#%@ \n\t.0aé\\xu", max_size=40))
def test_whatever_a_script_is_made_of_it_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ScriptError):
        parse_script(text, source="shop.yaml")


async def test_counting_a_huge_request_leaves_the_device_responsive() -> None:
    backend = scripted("- text: hi")
    counting = asyncio.create_task(backend.count_tokens(asked("word " * 600_000)))
    turns = 0
    while not counting.done():
        turns += 1
        await asyncio.sleep(0)
    assert counting.result() == 600_000
    assert turns > 5


def test_a_script_file_is_named_when_it_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "answers.yaml"
    with pytest.raises(ScriptError, match=re.escape(f"cannot read script {str(path)!r}")):
        load_script(path)
    path.write_bytes(b"- text: \xff")
    with pytest.raises(ScriptError, match="cannot read script"):
        load_script(path)
    path.write_bytes(b"- text: " + b"x" * 2**20)
    with pytest.raises(ScriptError, match="is too big"):
        load_script(path)
    path.write_text("- text: grüß dich", encoding="utf-8")
    assert load_script(path) == parse_script("- text: grüß dich", source="s")


def test_an_error_may_be_given_by_its_name() -> None:
    [busy] = steps_of("- error: {code: BUSY}")
    assert busy.error is not None
    assert busy.error.code == 9
    with pytest.raises(ScriptError, match="'BUZY' names no error code; use .*BUSY"):
        parse_script("- error: {code: BUZY}", source="s")
