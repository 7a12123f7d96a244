"""What a device saw of its apps' conduct: pure functions over the journal.

An entry's time is when its call ended; when it began is that less what its phases took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aicore_sim.device.errors import GenAiCode
from aicore_sim.device.journal import JournalEntry
from aicore_sim.testing.journal import described

PAGE: Final = "docs/verdict.md"
LEAST_BACK_OFF: Final = 0.1
"""Seconds of device time. Shorter waits, after a BUSY without `retry_delay`, are no back-off."""
TOLERANCE: Final = 0.001
"""Seconds that a wait may fall short: times are rounded on their way."""
RESULT_SHARE: Final = 0.5
"""Share of the context that one tool result may take."""
CHARS_PER_TOKEN: Final = 4
_GENERATE: Final = "GenerateContent"
_PHASES: Final = ("queue_seconds", "load_seconds", "prefill_seconds", "decode_seconds")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One way in which an app misbehaved."""

    rule: str
    """A key of `RULES`."""
    message: str
    evidence: tuple[JournalEntry, ...] = ()

    @property
    def page(self) -> str:
        """Where the rule is explained."""
        return f"{PAGE}#{self.rule}"

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.message} ({self.page})"]
        return "\n".join(lines + ([described(self.evidence)] if self.evidence else []))


def busy_retried_at_once(entries: Sequence[JournalEntry]) -> Iterator[Finding]:
    """A generation follows a BUSY that named no delay, without a pause."""
    for refused, again in _followed(entries, GenAiCode.BUSY):
        waited = _began(again) - refused.time
        if not _delay(refused) and waited < LEAST_BACK_OFF - TOLERANCE:
            yield Finding(
                rule="busy-retried-at-once",
                message=f"{again.package_name} asked again {max(waited, 0):.3f} s after BUSY (9); "
                "back off first",
                evidence=(refused, again),
            )


def busy_retried_too_soon(entries: Sequence[JournalEntry]) -> Iterator[Finding]:
    """A generation follows a BUSY before its `retry_delay` is over."""
    for refused, again in _followed(entries, GenAiCode.BUSY):
        waited, delay = _began(again) - refused.time, _delay(refused)
        if delay and waited < delay - TOLERANCE:
            yield Finding(
                rule="busy-retried-too-soon",
                message=f"{again.package_name} asked again {max(waited, 0):.3f} s after BUSY (9), "
                f"whose retry_delay was {delay:.3f} s",
                evidence=(refused, again),
            )


def battery_quota_retried(entries: Sequence[JournalEntry]) -> Iterator[Finding]:
    """A generation follows a 27, which no waiting of an app can clear."""
    for refused, again in _followed(entries, GenAiCode.PER_APP_BATTERY_USE_QUOTA_EXCEEDED):
        yield Finding(
            rule="battery-quota-retried",
            message=f"{again.package_name} asked again after "
            "PER_APP_BATTERY_USE_QUOTA_EXCEEDED (27); do without the model instead",
            evidence=(refused, again),
        )


def status_not_checked(entries: Sequence[JournalEntry]) -> Iterator[Finding]:
    """The first generation of an app comes before it has asked for the status."""
    seen: set[str] = set()
    for entry in entries:
        if entry.package_name in seen:
            continue
        if entry.rpc in ("CheckStatus", "Download"):
            seen.add(entry.package_name)
        elif entry.rpc == _GENERATE:
            seen.add(entry.package_name)
            yield Finding(
                rule="status-not-checked",
                message=f"{entry.package_name} generated before it called checkStatus",
                evidence=(entry,),
            )


def inferred_in_background(entries: Sequence[JournalEntry]) -> Iterator[Finding]:
    """An app began a generation while it was not on top."""
    for entry in entries:
        if entry.error_code == GenAiCode.BACKGROUND_USE_BLOCKED and not any(
            name in entry.figures for name in _PHASES
        ):
            yield Finding(
                rule="inferred-in-background",
                message=f"{entry.package_name} called {entry.rpc} in the background",
                evidence=(entry,),
            )


def large_tool_result(entries: Sequence[JournalEntry], context_tokens: int) -> Iterator[Finding]:
    """One tool result takes more than RESULT_SHARE of the context."""
    room = int(context_tokens * RESULT_SHARE) * CHARS_PER_TOKEN
    for entry in entries:
        length = int(entry.figures.get("tool_result_chars", 0))
        if length > room:
            yield Finding(
                rule="large-tool-result",
                message=f"{entry.package_name} gave the model a tool result of {length} "
                f"characters; about {room} are half of its {context_tokens} tokens",
                evidence=(entry,),
            )


def script_left_over(remaining: Iterable[str]) -> Iterator[Finding]:
    """Steps of the script were not taken."""
    left = list(remaining)
    if left:
        yield Finding(rule="script-left-over", message=f"not used: {'; '.join(left)}")


def generation_left_running(running: Iterable[str]) -> Iterator[Finding]:
    """A generation goes on that nobody waits for."""
    for package in running:
        yield Finding(
            rule="generation-left-running",
            message=f"a generation of {package} still runs; cancel it, or read it to its end",
        )


_OF_ENTRIES: Final[tuple[Callable[[Sequence[JournalEntry]], Iterator[Finding]], ...]] = (
    busy_retried_at_once,
    busy_retried_too_soon,
    battery_quota_retried,
    status_not_checked,
    inferred_in_background,
)

RULES: Final = (
    "busy-retried-at-once",
    "busy-retried-too-soon",
    "battery-quota-retried",
    "status-not-checked",
    "inferred-in-background",
    "large-tool-result",
    "script-left-over",
    "generation-left-running",
)
"""Names of the rules, each a heading of docs/verdict.md."""


def findings(
    entries: Sequence[JournalEntry],
    *,
    context_tokens: int,
    remaining_steps: Iterable[str] = (),
    running: Iterable[str] = (),
) -> tuple[Finding, ...]:
    """Every finding, by rule. `running` are the packages whose generations go on."""
    found = [finding for rule in _OF_ENTRIES for finding in rule(entries)]
    found += large_tool_result(entries, context_tokens)
    found += script_left_over(remaining_steps)
    found += generation_left_running(running)
    return tuple(found)


def report(found: Iterable[Finding], *, ignore: Iterable[str] = ()) -> str:
    """The findings as text, empty without any. Raises ValueError for an unknown rule."""
    ignored = set(ignore)
    for rule in sorted(ignored - set(RULES)):
        raise ValueError(f"{rule!r} is no rule; there are {', '.join(RULES)}")
    return "\n".join(str(finding) for finding in found if finding.rule not in ignored)


def _followed(
    entries: Sequence[JournalEntry], code: int
) -> Iterator[tuple[JournalEntry, JournalEntry]]:
    """Each generation that follows one that failed with `code`, of the same app."""
    last: dict[str, JournalEntry] = {}
    for entry in entries:
        if entry.rpc != _GENERATE:
            continue
        before = last.get(entry.package_name)
        # What began before the refusal is no answer to it.
        if before is not None and before.error_code == code and _began(entry) >= before.time:
            yield before, entry
        last[entry.package_name] = entry


def _began(entry: JournalEntry) -> float:
    # A sum of durations may differ from the difference of times by a rounding.
    began = entry.time - sum(entry.figures.get(name, 0.0) for name in _PHASES)
    return began + TOLERANCE / 10


def _delay(entry: JournalEntry) -> float:
    return entry.figures.get("retry_delay_seconds", 0.0)
