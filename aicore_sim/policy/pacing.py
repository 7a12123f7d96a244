"""How long the phone of a profile would take: what quota charges, and what `--pace phone` waits.

Pure arithmetic over a :class:`SpeedProfile`; all results are seconds of device time.
"""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.device.profile import SpeedProfile


def device_seconds(speed: SpeedProfile, *, prefill_tokens: int, output_tokens: int) -> float:
    """What an inference costs: the same on a fast machine and a slow one.

    `prefill_tokens` are the input tokens that were worked on, without those of a cached prefix;
    images count as their tokens. For a call that was cut short, pass what ran until then.
    """
    _not_negative(prefill_tokens=prefill_tokens, output_tokens=output_tokens)
    return (
        prefill_tokens / speed.prefill_tokens_per_second
        + output_tokens / speed.decode_tokens_per_second
    )


@dataclass(frozen=True, kw_only=True)
class Pace:
    """When the tokens of one answer are due on the phone."""

    first_token_at: float
    """From the start of the inference to the first token."""
    token_seconds: float
    """Between two tokens."""

    def due(self, output_tokens: int) -> float:
        """From the start of the inference until that many tokens are out; 0 for none."""
        _not_negative(output_tokens=output_tokens)
        if output_tokens == 0:
            return 0.0
        return self.first_token_at + (output_tokens - 1) * self.token_seconds


def phone_pace(
    speed: SpeedProfile, *, input_tokens: int, cached_tokens: int = 0, images: int = 0
) -> Pace:
    """The pace of an answer to `input_tokens`, of which `cached_tokens` need no prefill.

    The weights are taken as loaded; loading them is `LoadProfile.cold_seconds` on top. Raises
    ValueError for negative counts, and for more cached than input tokens.
    """
    _not_negative(input_tokens=input_tokens, cached_tokens=cached_tokens, images=images)
    if cached_tokens > input_tokens:
        raise ValueError(f"{cached_tokens} cached tokens are more than the input's {input_tokens}")
    fixed = speed.cached_first_token_seconds if cached_tokens else speed.first_token_seconds
    prefill = (input_tokens - cached_tokens) / speed.prefill_tokens_per_second
    return Pace(
        first_token_at=fixed + prefill + images * speed.image_seconds,
        token_seconds=1 / speed.decode_tokens_per_second,
    )


def _not_negative(**counts: int) -> None:
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{name} cannot be {count!r}")
