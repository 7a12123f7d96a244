"""Draws tokens, so that one generator serves requests of any temperature and seed.

The library fixes temperature and seed when a generator is made. Here the generator always takes
the likeliest token, of logits to which noise was added: the token with the largest sum of logit
and Gumbel noise is a draw from the softmax. A grammar's mask still comes after it.
https://en.wikipedia.org/wiki/Gumbel_distribution#Gumbel_reparameterization_tricks
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from aicore_sim.inference.backend import Sampling

Logits = npt.NDArray[np.float32]

_OUT = np.float32(1e4)
"""Put below the candidates, in order, and not out of the question: a grammar may forbid all of
them, and then the likeliest of the others is taken."""


class Sampler:
    """Made for one answer. `defaults` is `search` of `genai_config.json`.

    https://onnxruntime.ai/docs/genai/reference/config.html
    """

    def __init__(self, sampling: Sampling, defaults: Mapping[str, Any]) -> None:
        temperature = sampling.temperature
        if temperature is None:
            temperature = defaults.get("temperature", 1.0) if defaults.get("do_sample") else 0.0
        top_k = defaults.get("top_k", 0) if sampling.top_k is None else sampling.top_k
        self.greedy = not temperature or top_k == 1
        self._temperature = np.float32(temperature)
        self._top_k = int(top_k or 0)
        self._top_p = float(defaults.get("top_p") or 1.0)
        self._random = np.random.default_rng(sampling.seed)

    def noisy(self, logits: Logits) -> Logits:
        """The logits to choose the largest of, in the shape of `logits`."""
        flat = logits.reshape(-1)
        candidates = self._candidates(flat)
        noise = self._random.gumbel(size=len(candidates)).astype(np.float32)
        # Others keep their order below every candidate, whatever the scale of the logits.
        result = flat - (np.float32(flat.max()) + _OUT)
        result[candidates] = (flat[candidates] - flat.max()) / self._temperature + noise
        return result.reshape(logits.shape)

    def _candidates(self, flat: Logits) -> npt.NDArray[np.intp]:
        count = min(self._top_k or len(flat), len(flat))
        chosen: npt.NDArray[np.intp] = np.argpartition(flat, -count)[-count:]
        if self._top_p >= 1.0:
            return chosen
        chosen = chosen[np.argsort(flat[chosen])[::-1]]
        shares = np.exp((flat[chosen] - flat[chosen[0]]) / self._temperature)
        before = np.cumsum(shares) - shares
        likeliest: npt.NDArray[np.intp] = chosen[before < self._top_p * shares.sum()]
        return likeliest
