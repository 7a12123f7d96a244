"""What the verdicts on a suite come to: shares with their uncertainty, confusions, tokens, time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aicore_sim.evaluation.scoring import Answer, Verdict
from aicore_sim.evaluation.suite import Case
from aicore_sim.measure.figures import median

_Z = 1.959963984540054
"""Of the normal distribution: 95 % lie within so many standard deviations."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Tokens and seconds of one answer."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    first_seconds: float = 0.0
    """Until the first text or call."""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """A case, what the model said to it, and what that is worth."""

    case: Case
    answer: Answer
    verdict: Verdict
    cost: Cost = Cost()

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "id": self.case.id,
            "category": self.case.category,
            "right": self.verdict.right,
            "why": self.verdict.why,
            "text": self.answer.text,
            "calls": [{"name": call.name, "args": call.args} for call in self.answer.calls],
            "malformed_calls": list(self.answer.malformed),
            "error": self.answer.error,
            "cut_off": self.answer.cut_off,
            "input_tokens": self.cost.input_tokens,
            "cached_input_tokens": self.cost.cached_input_tokens,
            "output_tokens": self.cost.output_tokens,
            "first_seconds": round(self.cost.first_seconds, 4),
            "seconds": round(self.cost.seconds, 4),
        }


def wilson(right: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's score. Raises ValueError for none of nothing.

    https://www.itl.nist.gov/div898/handbook/prc/section2/prc241.htm
    """
    if not 0 <= right <= total or total == 0:
        raise ValueError(f"{right} of {total} is no share")
    share, square = right / total, _Z**2 / total
    middle = (share + square / 2) / (1 + square)
    spread = _Z * math.sqrt(share * (1 - share) / total + square / (4 * total)) / (1 + square)
    # At the ends the bound is the end itself, but for rounding.
    low = 0.0 if right == 0 else max(0.0, middle - spread)
    high = 1.0 if right == total else min(1.0, middle + spread)
    return low, high


@dataclass(frozen=True, kw_only=True)
class Share:
    """So many of so many."""

    right: int
    total: int

    @classmethod
    def of(cls, verdicts: Iterable[bool]) -> Share:
        found = list(verdicts)
        return cls(right=sum(found), total=len(found))

    def facts(self) -> dict[str, Any]:
        """For JSON; no share of nothing."""
        if not self.total:
            return {"right": 0, "n": 0}
        low, high = wilson(self.right, self.total)
        return {
            "right": self.right,
            "n": self.total,
            "share": round(self.right / self.total, 4),
            "low": round(low, 4),
            "high": round(high, 4),
        }

    def shown(self) -> tuple[str, str]:
        """The share and its interval, in percent."""
        if not self.total:
            return "", ""
        low, high = wilson(self.right, self.total)
        return f"{self.right / self.total:.1%}", f"{low:.1%} to {high:.1%}"


@dataclass(frozen=True, kw_only=True)
class Confusion:
    expected: str
    called: str
    count: int


@dataclass(frozen=True, kw_only=True)
class CategoryFigures:
    name: str
    right: Share
    right_tools: Share
    input_tokens: float
    output_tokens: float
    """Medians, as the seconds."""
    first_seconds: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Report:
    categories: tuple[CategoryFigures, ...]
    """In the order of the suite."""
    measures: dict[str, Share]
    """Over all categories, by what they measure."""
    confusions: tuple[Confusion, ...]
    """The most frequent first."""
    errors: int
    """Answers that the device refused or broke off."""
    cut_off: int
    """Answers that the limit of output tokens ended."""
    total: CategoryFigures
    tokens: dict[str, int]
    """Sums."""

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "all": _category_facts(self.total),
            "measures": {name: share.facts() for name, share in self.measures.items()},
            "categories": [{"name": one.name, **_category_facts(one)} for one in self.categories],
            "confusions": [vars(one) for one in self.confusions],
            "errors": self.errors,
            "cut_off": self.cut_off,
            "tokens": self.tokens,
        }


def summarise(results: Sequence[Result]) -> Report:
    """Raises ValueError for no results."""
    names = dict.fromkeys(result.case.category for result in results)
    return Report(
        categories=tuple(
            _figures(name, [result for result in results if result.case.category == name])
            for name in names
        ),
        measures=_measures(results),
        confusions=_counted(results),
        errors=sum(bool(result.answer.error) for result in results),
        cut_off=sum(result.answer.cut_off for result in results),
        total=_figures("all", results),
        tokens={
            "input": sum(result.cost.input_tokens for result in results),
            "cached_input": sum(result.cost.cached_input_tokens for result in results),
            "output": sum(result.cost.output_tokens for result in results),
        },
    )


def _measures(results: Sequence[Result]) -> dict[str, Share]:
    one_call = [result for result in results if len(result.case.expect.calls) == 1]
    more_calls = [result for result in results if len(result.case.expect.calls) > 1]
    facts = [result for result in results if result.case.expect.contains]
    asking = [result for result in results if result.case.expect.asks_for]
    found = {
        "one call, exact": Share.of(result.verdict.right for result in one_call),
        "one call, right tool": Share.of(bool(one.verdict.right_tools) for one in one_call),
        "several calls, exact": Share.of(result.verdict.right for result in more_calls),
        "no call where none is due": Share.of(
            result.verdict.called_none
            for result in results
            if result.verdict.called_none is not None
        ),
        "text with all its facts": Share.of(result.verdict.right for result in facts),
        "asks for what is missing": Share.of(result.verdict.right for result in asking),
    }
    return {name: share for name, share in found.items() if share.total}


def _figures(name: str, results: Sequence[Result]) -> CategoryFigures:
    costs = [result.cost for result in results]
    return CategoryFigures(
        name=name,
        right=Share.of(result.verdict.right for result in results),
        right_tools=Share.of(
            result.verdict.right_tools
            for result in results
            if result.verdict.right_tools is not None
        ),
        input_tokens=median([cost.input_tokens for cost in costs]),
        output_tokens=median([cost.output_tokens for cost in costs]),
        first_seconds=median([cost.first_seconds for cost in costs]),
        seconds=median([cost.seconds for cost in costs]),
    )


def _category_facts(one: CategoryFigures) -> dict[str, Any]:
    return {
        **one.right.facts(),
        "right_tools": one.right_tools.facts(),
        "median_input_tokens": one.input_tokens,
        "median_output_tokens": one.output_tokens,
        "median_first_seconds": round(one.first_seconds, 4),
        "median_seconds": round(one.seconds, 4),
    }


def _counted(results: Sequence[Result]) -> tuple[Confusion, ...]:
    """Names that differ only in their style (`get_order`, `getOrder`) are one."""
    spelled: dict[str, str] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        for pair in result.verdict.confusions:
            keys = [name.replace("_", "").casefold() for name in pair]
            for key, name in zip(keys, pair, strict=True):
                spelled.setdefault(key, name)
            counts[keys[0], keys[1]] += 1
    return tuple(
        Confusion(expected=spelled[expected], called=spelled[called], count=count)
        for (expected, called), count in counts.most_common()
    )
