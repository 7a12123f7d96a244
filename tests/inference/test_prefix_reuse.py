"""Prompts that begin alike, on a model that answers with a sum over all that it has read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aicore_sim.inference.backend import (
    Chunk,
    Content,
    Finish,
    FunctionCall,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    Sampling,
    TextPart,
)
from aicore_sim.inference.engine import PREFILL_CHUNK, Engine
from aicore_sim.inference.warm_states import common_prefix
from tests.inference.requests import ORDER_TOOL, ask_with_tools, merged, said, user
from tests.inference.synthetic import RECALL, build_recalling_model, recalled

PREFIX = "These are the rules of the shop. " * 11  # about 360 tokens, as static instructions are
TWELVE = Sampling(temperature=0.0, max_output_tokens=12)


def never(tokens: int) -> bool:
    return False


def asking(
    *texts: str, app: str = "com.a", sampling: Sampling = TWELVE, system: str = ""
) -> GenerateRequest:
    """A conversation: user, model, user …; the last text is followed by RECALL."""
    contents = [
        Content(role="model" if number % 2 else "user", parts=(TextPart(text=text),))
        for number, text in enumerate(texts[:-1])
    ]
    contents.append(user(texts[-1] + RECALL))
    return GenerateRequest(
        contents=tuple(contents), sampling=sampling, app=app, system_instruction=system
    )


def run(
    engine: Engine, request: GenerateRequest, cancelled: Callable[[int], bool] = never
) -> tuple[str, Finish]:
    chunks: list[Chunk] = []
    finish = engine.generate(request, chunks.append, cancelled)
    return "".join(str(part) for part in merged(chunks)), finish


@pytest.fixture
def engine(recalling_dir: Path) -> Engine:
    return Engine(recalling_dir, threads=1)


@pytest.fixture
def forgetful(recalling_dir: Path) -> Engine:
    return Engine(recalling_dir, threads=1, prefix_memory_mb=0)


@pytest.mark.requirement("aicore.prefix.same-answer")
def test_fifty_prompts_get_the_answers_of_a_model_that_reads_each_from_the_start(
    engine: Engine, forgetful: Engine, recalling_dir: Path
) -> None:
    requests = [
        asking("Q" * (number % 7) + f"uestion {number}", system=PREFIX + "x" * (number % 3))
        for number in range(50)
    ]
    expected = [recalled(recalling_dir, engine.encode(one), 12) for one in requests]

    assert [run(engine, request)[0] for request in requests] == expected
    assert [run(forgetful, request)[0] for request in requests] == expected
    assert engine.warm.states == 1
    assert (forgetful.warm.states, forgetful.warm.bytes) == (0, 0)


@pytest.mark.requirement("aicore.prefix.reused")
def test_a_prefix_is_computed_once_and_the_usage_says_so(engine: Engine, forgetful: Engine) -> None:
    steps: list[int] = []

    def counting(tokens: int) -> bool:
        steps.append(tokens)
        return False

    _, first = run(engine, asking("one", system=PREFIX), counting)
    cold = steps.count(0) - 1
    steps.clear()
    _, second = run(engine, asking("two", system=PREFIX), counting)
    warm = steps.count(0) - 1

    one, two = (engine.encode(asking(text, system=PREFIX)) for text in ("one", "two"))
    assert first.usage.cached_input_tokens == 0
    assert second.usage.cached_input_tokens == common_prefix(one, two) >= 300
    assert second.usage.input_tokens - second.usage.cached_input_tokens <= 16
    assert (cold, warm) == (-(-len(one) // PREFILL_CHUNK), 1)
    run(forgetful, asking("one", system=PREFIX))
    _, unsaved = run(forgetful, asking("two", system=PREFIX))
    assert unsaved.usage.cached_input_tokens == 0


@pytest.mark.requirement("aicore.prefix.reused")
def test_a_conversation_goes_on_where_it_ended(engine: Engine, recalling_dir: Path) -> None:
    turns, before = ["Hello" * 40], 0
    for _ in range(5):
        request = asking(*turns, system=PREFIX)
        text, finish = run(engine, request)
        assert text == recalled(recalling_dir, engine.encode(request), 12)
        # This model's template puts the role before an answer only when it stands in the history.
        assert finish.usage.cached_input_tokens == before
        before = finish.usage.input_tokens
        turns = [*turns[:-1], turns[-1] + RECALL, text, "And then" * 5]

    assert engine.warm.states == 1


def test_the_very_same_prompt_again_gets_the_same_answer(engine: Engine) -> None:
    request = asking("again", system=PREFIX)

    first, _ = run(engine, request)
    second, finish = run(engine, request)

    assert first == second
    assert finish.usage.cached_input_tokens == finish.usage.input_tokens - 1


@pytest.mark.requirement("aicore.prefix.own-app-only")
def test_an_app_never_profits_from_another_apps_prompt(engine: Engine) -> None:
    run(engine, asking("secret", app="com.a"))
    _, theirs = run(engine, asking("secret", app="com.b"))
    _, mine = run(engine, asking("secret", app="com.a"))

    assert theirs.usage.cached_input_tokens == 0
    assert mine.usage.cached_input_tokens == mine.usage.input_tokens - 1
    engine.forget("com.a")
    assert run(engine, asking("secret", app="com.a"))[1].usage.cached_input_tokens == 0
    assert run(engine, asking("secret", app="com.b"))[1].usage.cached_input_tokens > 0


@pytest.mark.requirement("aicore.prefix.cancel-leaves-warm")
@pytest.mark.parametrize("stop_at", [0, 1, 5])
def test_a_cancelled_answer_leaves_its_prefix_warm_and_right(
    engine: Engine, recalling_dir: Path, stop_at: int
) -> None:
    run(engine, asking("one", system=PREFIX))
    _, cut = run(engine, asking("two", system=PREFIX), lambda tokens: tokens >= stop_at)
    request = asking("three", system=PREFIX)
    text, finish = run(engine, request)

    assert cut.reason == "other"
    one = engine.encode(asking("one", system=PREFIX))
    assert finish.usage.cached_input_tokens >= common_prefix(one, engine.encode(request)) >= 300
    assert text == recalled(recalling_dir, engine.encode(request), 12)


@pytest.mark.requirement("aicore.generate.cancel-within-two-tokens")
def test_what_a_cancelled_prefill_had_read_is_not_read_again(
    engine: Engine, recalling_dir: Path
) -> None:
    looks: list[int] = []

    def third_look(tokens: int) -> bool:
        looks.append(tokens)
        return len(looks) == 3

    request = asking("long", system=PREFIX * 2)
    run(engine, request, third_look)
    text, finish = run(engine, request)

    assert finish.usage.cached_input_tokens == 2 * PREFILL_CHUNK
    assert text == recalled(recalling_dir, engine.encode(request), 12)


@pytest.mark.requirement("aicore.prefix.grammar-starts-afresh")
def test_a_grammar_that_was_cut_short_does_not_leak_into_the_next_answer(
    engine: Engine,
) -> None:
    request = ask_with_tools(PREFIX + "!", mode="required")
    whole, _ = _calls(engine, request)

    for limit in range(1, 60, 4):
        cut = request.model_copy(update={"sampling": Sampling(max_output_tokens=limit)})
        engine.generate(cut, lambda chunk: None, never)
        engine.generate(request, lambda chunk: None, lambda tokens, at=limit: tokens >= at)  # type: ignore[misc]
        again, finish = _calls(engine, request)
        assert again == whole == [FunctionCall(name="fetch_order_details", args={"orderId": ""})]
        assert finish.usage.cached_input_tokens == finish.usage.input_tokens - 1


def test_another_grammar_has_a_state_of_its_own(engine: Engine) -> None:
    forced = ask_with_tools(PREFIX + "!", mode="required")
    other = ORDER_TOOL.model_copy(update={"name": "other_tool"})

    for request, name in (
        (forced, "fetch_order_details"),
        (ask_with_tools(PREFIX + "!", other, mode="required"), "other_tool"),
        (forced, "fetch_order_details"),
    ):
        (call,), _ = _calls(engine, request)
        assert isinstance(call, FunctionCall)
        assert call.name == name
    assert engine.warm.states == 2


def test_a_call_with_dictated_tokens_is_read_once_and_read_right(
    engine: Engine, recalling_dir: Path
) -> None:
    def exchange(call: FunctionCall) -> tuple[Content, ...]:
        return (
            said("model", FunctionCallPart(name=call.name, args=call.args)),
            said("user", FunctionResponsePart(name=call.name, response={"state": "sent"})),
            said("model", TextPart(text="It is sent.")),
        )

    earlier = FunctionCall(name="fetch_order_details", args={"orderId": "B-2"})
    opened = ask_with_tools("Where?")
    question = opened.model_copy(
        update={"contents": (*opened.contents, *exchange(earlier), user(PREFIX + "&"))}
    )
    chunks, asked = _calls(engine, question)
    (call,) = [chunk for chunk in chunks if isinstance(chunk, FunctionCall)]
    contents = (*question.contents, *exchange(call), user("Sure" + RECALL))
    following = question.model_copy(update={"contents": contents, "sampling": TWELVE})
    text, finish = run(engine, following)

    assert text == recalled(recalling_dir, engine.encode(following), 12)
    assert finish.usage.cached_input_tokens >= asked.usage.input_tokens


@pytest.mark.requirement("aicore.prefix.memory-bounded")
def test_warm_states_stay_within_the_memory_that_they_are_given(recalling_dir: Path) -> None:
    engine = Engine(recalling_dir, threads=1, prefix_memory_mb=1)
    run(engine, asking("00" * 100))
    per_state = engine.warm.bytes

    for number in range(40):
        run(engine, asking(f"{number:02}" * 100, app=f"com.app{number}"))
        assert engine.warm.bytes <= 2**20

    assert 1 < engine.warm.states == 2**20 // per_state
    assert engine.warm.evicted == 41 - engine.warm.states


@pytest.mark.requirement("aicore.prefix.same-answer")
@pytest.mark.parametrize("megabytes", [0, 8])
def test_an_answer_that_outgrows_its_state_goes_on_as_if_nothing_had_been(
    recalling_dir: Path, megabytes: int
) -> None:
    engine = Engine(recalling_dir, threads=1, prefix_memory_mb=megabytes)
    request = asking("long", sampling=Sampling())
    text, finish = run(engine, request)

    assert finish.usage.input_tokens + finish.usage.output_tokens == 4096
    assert text == recalled(recalling_dir, engine.encode(request), finish.usage.output_tokens)
    request = asking("longer", sampling=TWELVE)
    assert run(engine, request)[0] == recalled(recalling_dir, engine.encode(request), 12)


@pytest.mark.requirement("aicore.generate.cancel-within-two-tokens")
def test_an_answer_cancelled_while_it_moves_to_a_larger_state_stops_and_can_be_asked_again(
    engine: Engine, recalling_dir: Path
) -> None:
    request = asking("long", sampling=Sampling(max_output_tokens=1600))
    looks: list[int] = []

    def in_the_move(tokens: int) -> bool:
        looks.append(tokens)
        return looks.count(tokens) == 3  # once for the token, and again for each chunk moved

    _, cut = run(engine, request, in_the_move)
    looks.clear()
    text, finish = run(engine, request)

    assert cut.reason == "other"
    assert 1024 <= cut.usage.output_tokens < 1600
    assert text == recalled(recalling_dir, engine.encode(request), 1600)
    assert finish.usage.cached_input_tokens == finish.usage.input_tokens - 1


@pytest.mark.requirement("aicore.prefix.reused")
@pytest.mark.parametrize("then", [Sampling(), Sampling(max_output_tokens=3000)])
def test_an_answer_without_a_short_limit_begins_on_a_prefix_of_a_short_one(
    engine: Engine, then: Sampling
) -> None:
    run(engine, asking("one", system=PREFIX, sampling=Sampling(max_output_tokens=1)))
    _, finish = run(engine, asking("two", system=PREFIX, sampling=then), lambda n: n > 20)

    assert finish.usage.cached_input_tokens >= 300


def test_a_prompt_that_outgrows_its_state_gets_a_larger_one(
    engine: Engine, recalling_dir: Path
) -> None:
    for length in (100, 600, 1200, 2500):
        request = asking("y" * length)
        assert run(engine, request)[0] == recalled(recalling_dir, engine.encode(request), 12)


@pytest.mark.requirement("aicore.prefix.same-answer")
def test_a_warm_state_serves_every_temperature_and_seed(tmp_path: Path) -> None:
    folder = build_recalling_model(tmp_path)
    warm, cold = Engine(folder, threads=1), Engine(folder, threads=1, prefix_memory_mb=0)

    def sampled(engine: Engine, seed: int) -> str:
        sampling = Sampling(temperature=1.0, top_k=500, seed=seed, max_output_tokens=30)
        request = asking("draw", sampling=sampling, system=PREFIX).model_copy(
            update={"contents": (user("draw"),)}
        )
        return run(engine, request)[0]

    seeds = [3, 4, 3, 5, 4]
    assert [sampled(warm, seed) for seed in seeds] == [sampled(cold, seed) for seed in seeds]
    assert warm.warm.states == 1


def _calls(engine: Engine, request: GenerateRequest) -> tuple[list[Chunk], Finish]:
    chunks: list[Chunk] = []
    finish = engine.generate(request, chunks.append, never)
    return chunks, finish
