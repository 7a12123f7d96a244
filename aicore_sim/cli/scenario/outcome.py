"""What an app's calls came to, and whether that is what a scenario expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from aicore_sim.cli.ctl import values
from aicore_sim.cli.scenario.format import Expected


@dataclass(kw_only=True)
class Outcome:
    """One call as the app saw it."""

    ok: bool = True
    code: int | None = None
    """Of a failure of AICore; None when the app cancelled the call, or the simulator failed."""
    message: str = ""
    retry_delay: float = 0.0
    """Seconds; of a failed call."""
    status: int | None = None
    text: str = ""
    chunks: int = 0
    items: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    attempts: int = 1
    real_seconds: float = 0.0

    @property
    def ended(self) -> str:
        """`ok`, `cancelled`, the name of the code, or the class of another failure."""
        if self.ok:
            return "ok"
        if self.code is None:
            return self.message.partition(":")[0]
        return values.code_name(self.code)

    def shown(self) -> str:
        """One line for people."""
        parts = [self.ended if self.code is None else f"{self.code} {self.ended}"]
        if self.status is not None:
            known = self.status in list(values.FeatureStatus)
            parts.append(values.FeatureStatus(self.status).name if known else str(self.status))
        if self.items:
            parts.append(" → ".join(self.items))
        if self.events:
            parts.append(" → ".join(self.events))
        if self.text:
            parts.append(f"text {_shortened(self.text)!r}")
        if self.chunks:
            parts.append(f"{self.chunks} chunks")
        if self.retry_delay:
            parts.append(f"retry after {values.shown_duration(self.retry_delay)}")
        if not self.ok and self.code is None and self.message != "cancelled":
            parts.append(_shortened(self.message))
        return ", ".join(parts)

    def facts(self) -> dict[str, Any]:
        """For JSON; what is empty is left out."""
        made = {key: value for key, value in asdict(self).items() if value not in ("", [], None)}
        return {**made, "ended": self.ended}


def summary(expected: Expected, outcomes: Sequence[Outcome]) -> str:
    """How several calls ended, in one line."""
    if len(outcomes) == 1:
        return outcomes[0].shown()
    counts = Counter(outcome.ended for outcome in outcomes)
    parts = [f"{number} {ended}" for ended, number in counts.items()]
    if expected.lost is not None:
        parts.insert(0, f"lost {len(outcomes) - counts['ok']} of {len(outcomes)}")
    if counts["ok"] and len(counts) > 1:
        first = before_refusal(outcomes)
        parts.append(f"{first} before the first refusal, {counts['ok'] - first} after it")
    attempts = sum(outcome.attempts for outcome in outcomes)
    if attempts > len(outcomes):
        parts.append(f"{attempts} attempts")
    return ", ".join(parts)


def before_refusal(outcomes: Sequence[Outcome]) -> int:
    """Calls in a row that succeeded before the first that did not."""
    return next((place for place, one in enumerate(outcomes) if not one.ok), len(outcomes))


def differences(expected: Expected, outcomes: Sequence[Outcome]) -> list[str]:
    """What is not as expected, one sentence each; empty when all is right."""
    wrong = list(_of_all(expected, outcomes))
    for number, outcome in enumerate(outcomes, 1):
        found = list(_of_one(expected, outcome))
        if found:
            where = f"call {number}: " if len(outcomes) > 1 else ""
            wrong += [f"{where}{sentence}" for sentence in found]
            break  # one call in full is evidence enough
    return wrong


def _of_one(expected: Expected, outcome: Outcome) -> Iterator[str]:
    if isinstance(expected.code, int):
        if outcome.code != expected.code:
            name = values.code_name(expected.code)
            yield f"expected {expected.code} {name}, got {outcome.shown()}{_why(outcome)}"
    elif not outcome.ok and (expected.code == "ok" or not _names_failures(expected)):
        yield f"expected no failure, got {outcome.shown()}{_why(outcome)}"
    if expected.status is not None and outcome.status != expected.status:
        yield f"expected status {expected.status.name}, got {outcome.shown()}"
    if expected.text is not None and outcome.text != expected.text:
        yield f"expected the text {expected.text!r}, got {outcome.text!r}"
    if expected.chunks is not None and not _within(expected.chunks, outcome.chunks):
        yield f"expected {_range(expected.chunks)} chunks, got {outcome.chunks}"
    if expected.retry_delay == "zero" and outcome.retry_delay:
        yield f"expected no retry delay, got {outcome.retry_delay:g} s"
    if expected.retry_delay == "positive" and not outcome.retry_delay:
        yield "expected a retry delay, got none"
    wanted_text = expected.message_contains
    if wanted_text is not None and wanted_text not in outcome.message:
        yield f"expected {wanted_text!r} in the message, got {outcome.message!r}"
    if expected.items is not None and outcome.items != list(expected.items):
        yield f"expected the items {' → '.join(expected.items)}, got {' → '.join(outcome.items)}"
    if expected.events is not None and outcome.events != expected.events:
        yield (
            f"expected the events {' → '.join(expected.events)}, got {' → '.join(outcome.events)}"
        )
    if expected.within is not None and outcome.real_seconds > expected.within / values.NANOS:
        limit = values.shown_duration(expected.within / values.NANOS)
        yield f"expected an end within {limit}, took {outcome.real_seconds:.3f} s"


def _of_all(expected: Expected, outcomes: Sequence[Outcome]) -> Iterator[str]:
    counts = Counter(outcome.ended for outcome in outcomes)
    if expected.outcomes:
        wanted = {_name(name): limits for name, limits in expected.outcomes.items()}
        for name in wanted | counts:
            limits = wanted.get(name, (0, 0))
            if not _within(limits, counts[name]):
                yield f"expected {_range(limits)} calls that end with {name}, got {counts[name]}"
    first = before_refusal(outcomes)
    if expected.before_refusal is not None and not _within(expected.before_refusal, first):
        yield f"expected {_range(expected.before_refusal)} calls before a refusal, got {first}"
    after = counts["ok"] - first
    if expected.after_refusal is not None and not _within(expected.after_refusal, after):
        yield f"expected {_range(expected.after_refusal)} successes after it, got {after}"
    lost = len(outcomes) - counts["ok"]
    if expected.lost is not None and not _within(expected.lost, lost):
        yield f"expected {_range(expected.lost)} lost prompts, got {lost}"


def _names_failures(expected: Expected) -> bool:
    """Whether failures are counted, or shown by their message, instead of being excluded."""
    return bool(
        expected.outcomes
        or expected.before_refusal
        or expected.after_refusal
        or expected.lost
        or expected.message_contains
        or expected.retry_delay == "positive"
        or (expected.items and expected.items[-1] == "failed")
    )


def _name(name: str) -> str:
    return name if name in ("ok", "cancelled") else values.code_name(values.error_code(name))


def _within(limits: tuple[int, int], number: int) -> bool:
    return limits[0] <= number <= limits[1]


def _range(limits: tuple[int, int]) -> str:
    return str(limits[0]) if limits[0] == limits[1] else f"{limits[0]} to {limits[1]}"


def _why(outcome: Outcome) -> str:
    return f" ({outcome.message})" if outcome.message else ""


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
