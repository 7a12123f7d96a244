"""Draws from logits: of the right distribution, repeatable, and never past top_k and top_p."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from aicore_sim.inference.backend import Sampling
from aicore_sim.inference.sampling import Sampler

LOGITS = np.log(np.array([[[0.5, 0.3, 0.15, 0.05]]], np.float32))
DRAWS = 4000


def shares(sampling: Sampling, defaults: Mapping[str, Any] | None = None) -> list[float]:
    sampler = Sampler(sampling, defaults or {})
    drawn = [int(sampler.noisy(LOGITS).argmax()) for _ in range(DRAWS)]
    return [drawn.count(token) / DRAWS for token in range(4)]


def test_draws_follow_the_softmax_of_the_logits() -> None:
    assert shares(Sampling(temperature=1.0, seed=1)) == pytest.approx(
        [0.5, 0.3, 0.15, 0.05], abs=0.03
    )


def test_a_low_temperature_sharpens_the_distribution() -> None:
    squares = np.array([0.5, 0.3, 0.15, 0.05]) ** 2

    assert shares(Sampling(temperature=0.5, seed=2)) == pytest.approx(
        list(squares / squares.sum()), abs=0.03
    )


def test_top_k_leaves_the_likeliest_tokens_in_proportion() -> None:
    assert shares(Sampling(temperature=1.0, top_k=2, seed=3)) == pytest.approx(
        [0.625, 0.375, 0, 0], abs=0.03
    )


def test_top_p_of_the_model_leaves_the_fewest_tokens_that_reach_it() -> None:
    kept = shares(Sampling(temperature=1.0, seed=4), {"top_p": 0.6, "top_k": 4})

    assert kept == pytest.approx([0.625, 0.375, 0, 0], abs=0.03)


def test_the_same_seed_draws_the_same_and_another_seed_does_not() -> None:
    def drawn(seed: int) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.0, seed=seed), {})
        return [int(sampler.noisy(LOGITS).argmax()) for _ in range(40)]

    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)


@pytest.mark.parametrize(
    ("sampling", "defaults", "greedy"),
    [
        (Sampling(temperature=0.0), {"do_sample": True}, True),
        (Sampling(), {"do_sample": False, "temperature": 1.0}, True),
        (Sampling(), {}, True),
        (Sampling(), {"do_sample": True, "temperature": 0.7}, False),
        (Sampling(temperature=0.2), {"top_k": 1}, True),
        (Sampling(temperature=0.2, top_k=3), {"top_k": 1}, False),
    ],
)
def test_the_request_decides_and_the_model_where_it_says_nothing(
    sampling: Sampling, defaults: Mapping[str, Any], greedy: bool
) -> None:
    assert Sampler(sampling, defaults).greedy is greedy


def test_a_grammar_that_forbids_every_candidate_gets_the_likeliest_of_the_others() -> None:
    sampler = Sampler(Sampling(temperature=0.01, top_k=1, seed=1), {"top_k": 2})
    noisy = Sampler(Sampling(temperature=0.01, top_k=2, seed=1), {}).noisy(LOGITS).reshape(-1)

    assert sampler.greedy
    assert list(np.argsort(noisy)[::-1][2:]) == [2, 3]
    assert np.isfinite(noisy).all()
