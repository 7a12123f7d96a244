"""Which warm states are kept and which one a prompt continues, without a model."""

from __future__ import annotations

import pytest

from aicore_sim.inference.warm_states import (
    WarmFigures,
    WarmKey,
    WarmState,
    WarmStates,
    capacity_for,
    common_prefix,
)

KEY = WarmKey(app="com.a", grammar="", fast_forward=False)
OTHER_APP = WarmKey(app="com.b", grammar="", fast_forward=False)
OTHER_GRAMMAR = WarmKey(app="com.a", grammar="start: /x/", fast_forward=False)


def states(max_bytes: int = 10_000, max_states: int = 4) -> WarmStates[str]:
    return WarmStates(max_bytes=max_bytes, bytes_per_token=1, max_states=max_states)


def state(
    name: str,
    tokens: list[int],
    capacity: int = 1000,
    key: WarmKey = KEY,
    asked: int | None = None,
) -> WarmState[str]:
    return WarmState(key, name, capacity, tokens, len(tokens) if asked is None else asked)


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [([], [1], 0), ([1, 2], [1, 2, 3], 2), ([1, 2, 3], [1, 4, 3], 1), ([5], [5], 1), ([1], [2], 0)],
)
def test_the_common_prefix_ends_at_the_first_difference(
    one: list[int], other: list[int], length: int
) -> None:
    assert common_prefix(one, other) == common_prefix(other, one) == length


@pytest.mark.parametrize(
    ("tokens", "limit", "capacity"),
    [
        (10, 4096, 512),
        (512, 4096, 512),
        (513, 4096, 1024),
        (3000, 3050, 3050),
        (300, 300, 300),
        (900, 700, 700),
    ],
)
def test_room_comes_in_steps_within_the_context(tokens: int, limit: int, capacity: int) -> None:
    assert capacity_for(tokens, limit) == capacity


def test_the_state_that_saves_most_is_taken_and_is_then_the_takers_alone() -> None:
    pool = states()
    pool.keep(state("short", [1, 2, 3]))
    pool.keep(state("long", [1, 2, 3, 4, 5]))

    first = pool.take(KEY, [1, 2, 3, 4, 9], 10)
    second = pool.take(KEY, [1, 2, 3, 4, 9], 10)

    assert first is not None
    assert second is not None
    assert (first.generator, second.generator) == ("long", "short")
    assert pool.take(KEY, [1, 2, 3, 4, 9], 10) is None


@pytest.mark.parametrize("key", [OTHER_APP, OTHER_GRAMMAR])
def test_a_state_serves_its_own_app_and_grammar_only(key: WarmKey) -> None:
    pool = states()
    pool.keep(state("mine", [1, 2, 3]))

    assert pool.take(key, [1, 2, 3, 4], 10) is None
    assert pool.take(KEY, [1, 2, 3, 4], 10) is not None


def test_a_conversation_that_would_lose_more_than_it_saves_is_left_alone() -> None:
    pool = states()
    pool.keep(state("chat", list(range(1000))))

    assert pool.take(KEY, [*range(499), -1], 600) is None
    assert pool.take(KEY, [*range(500), -1], 600) is not None


def test_an_answer_is_given_up_for_any_prompt_that_goes_on_from_its_question() -> None:
    pool = states()
    pool.keep(state("chat", list(range(1000)), asked=300))

    assert pool.take(KEY, [*range(149), -1], 600) is None
    assert pool.take(KEY, [*range(150), -1], 600) is not None


def test_of_two_that_save_the_same_the_shorter_is_taken_and_a_short_one_for_any_prompt() -> None:
    pool = states()
    pool.keep(state("short", list(range(100))))
    pool.keep(state("medium", list(range(120))))
    pool.keep(state("long", list(range(200))))

    taken = [pool.take(KEY, [-1, -2, -3], 600) for _ in range(3)]

    assert [one.generator if one else None for one in taken] == ["short", "medium", None]


def test_a_state_without_room_for_the_prompt_and_its_answer_is_not_taken() -> None:
    pool = states()
    pool.keep(state("small", [1, 2, 3], capacity=512))

    assert pool.take(KEY, [1, 2, 3], 513) is None
    assert pool.take(KEY, [1, 2, 3], 512) is not None


@pytest.mark.requirement("aicore.prefix.memory-bounded")
def test_the_state_used_longest_ago_goes_first_when_memory_is_short() -> None:
    pool = states(max_bytes=3000)
    prompts = {name: [start, *range(300)] for start, name in enumerate("abcd", 1000)}
    for name in "abc":
        pool.keep(state(name, prompts[name]))
    again = pool.take(KEY, prompts["a"], 10)
    assert again is not None
    pool.keep(again)

    pool.keep(state("d", prompts["d"]))

    assert pool.figures == WarmFigures(states=3, bytes=3000, evicted=1)
    assert pool.take(KEY, prompts["b"], 10) is None
    assert pool.take(KEY, prompts["a"], 10) is again


@pytest.mark.requirement("aicore.prefix.memory-bounded")
def test_there_is_room_before_another_state_is_made() -> None:
    pool = states(max_bytes=2500)
    pool.keep(state("a", [1]))
    pool.keep(state("b", [2]))

    pool.make_room(1000)

    assert pool.figures == WarmFigures(states=1, bytes=1000, evicted=1)


def test_no_more_states_are_kept_than_allowed() -> None:
    pool = states(max_states=2)
    for number in range(5):
        pool.keep(state(str(number), [number]))

    assert (pool.figures.states, pool.figures.evicted) == (2, 3)


def test_a_state_too_large_or_without_tokens_is_not_kept_and_costs_no_other() -> None:
    pool = states(max_bytes=1500)
    pool.keep(state("a", [1]))
    pool.keep(state("huge", [1, 2], capacity=1501))
    pool.keep(state("empty", []))

    assert pool.figures == WarmFigures(states=1, bytes=1000, evicted=0)


def test_an_apps_states_are_forgotten_and_those_of_others_stay() -> None:
    pool = states()
    pool.keep(state("mine", [1]))
    pool.keep(state("also mine", [1], key=OTHER_GRAMMAR))
    pool.keep(state("theirs", [1], key=OTHER_APP))

    assert pool.forget("com.a") == 2
    assert pool.take(OTHER_APP, [1, 2], 10) is not None
    pool.keep(state("mine", [1]))
    assert pool.forget() == 1
