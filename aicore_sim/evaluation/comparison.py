"""Two runs of the same cases, compared case by case."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

_Z = 1.959963984540054
"""Of the normal distribution: 95 % lie within so many standard deviations."""
ALL = "all"


class ComparisonError(ValueError):
    """Files that are no answers of `eval --output`, or that have no case in common."""


class _Answered(BaseModel):
    """What is needed of a line of `eval --output`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    category: str
    right: bool
    why: str = ""
    grammar: str = "on"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A case that one run answered right and the other wrong."""

    id: str
    category: str
    better: bool
    """Whether the second run is the one that is right."""
    why: str
    """What was wrong in the other."""


@dataclass(frozen=True, kw_only=True)
class Paired:
    """One category, or all cases."""

    name: str
    total: int
    first_right: int
    second_right: int
    better: int
    """Wrong before and right now."""
    worse: int

    @property
    def difference(self) -> float:
        """Of the shares, second minus first."""
        return (self.better - self.worse) / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """95 % of the difference, paired, after Agresti and Min.

        https://doi.org/10.1002/sim.1781
        """
        total = self.total + 2
        middle = (self.better - self.worse) / total
        spread = (self.better + self.worse + 1) - total * middle**2
        half = _Z * math.sqrt(max(0.0, spread)) / total
        return max(-1.0, middle - half), min(1.0, middle + half)

    @property
    def p_value(self) -> float:
        """Two-sided, exact McNemar test: how likely so uneven a split of the changes is by chance.

        1 where nothing changed.
        """
        changes, fewer = self.better + self.worse, min(self.better, self.worse)
        if not changes:
            return 1.0
        tail = sum(math.comb(changes, count) for count in range(fewer + 1))
        return min(1.0, float(2 * tail / 2**changes))

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        low, high = self.interval
        return {
            "name": self.name,
            "n": self.total,
            "first_right": self.first_right,
            "second_right": self.second_right,
            "better": self.better,
            "worse": self.worse,
            "difference": round(self.difference, 4),
            "low": round(low, 4),
            "high": round(high, 4),
            "p_value": round(self.p_value, 4),
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    total: Paired
    categories: tuple[Paired, ...]
    """In the order of the first run."""
    changes: tuple[Change, ...]
    only_first: tuple[str, ...]
    """Cases that the second run does not have."""
    only_second: tuple[str, ...]

    @property
    def is_worse(self) -> bool:
        """Whether the second run has fewer right answers, and chance is no likely reason."""
        return self.total.worse > self.total.better and self.total.p_value < 0.05

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "all": self.total.facts(),
            "categories": [one.facts() for one in self.categories],
            "changes": [vars(one) for one in self.changes],
            "only_first": list(self.only_first),
            "only_second": list(self.only_second),
        }


def read_answers(path: Path, grammar: str | None = None) -> dict[str, _Answered]:
    """The answers of a run by case. Raises ComparisonError; a file of both grammars needs one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ComparisonError(f"cannot read {str(path)!r}: {error}") from None
    # Not `splitlines`: a text of the model may hold other line breaks.
    lines = text.removesuffix("\n").split("\n") if text else []
    read = [_line(line, f"{str(path)!r}, line {at}") for at, line in enumerate(lines, 1)]
    grammars = sorted({one.grammar for one in read})
    if grammar is None and len(grammars) > 1:
        raise ComparisonError(
            f"{str(path)!r} has answers with grammar {' and '.join(grammars)}; choose with "
            "--grammar"
        )
    chosen = [one for one in read if grammar in (None, one.grammar)]
    if not chosen:
        has = f"; it has grammar {', '.join(grammars)}" if grammars else ""
        raise ComparisonError(f"{str(path)!r} has no answers to compare{has}")
    found: dict[str, _Answered] = {}
    for one in chosen:
        if one.id in found:
            raise ComparisonError(f"{str(path)!r} has the case {one.id!r} twice")
        found[one.id] = one
    return found


def compare(first: dict[str, _Answered], second: dict[str, _Answered]) -> Comparison:
    """Pairs the answers by case. Raises ComparisonError when there is no pair."""
    pairs = [(one, second[one.id]) for one in first.values() if one.id in second]
    if not pairs:
        raise ComparisonError("the two runs have no case in common, so nothing can be compared")
    names = dict.fromkeys(one.category for one, _ in pairs)
    return Comparison(
        total=_paired(ALL, pairs),
        categories=tuple(
            _paired(name, [pair for pair in pairs if pair[0].category == name]) for name in names
        ),
        changes=tuple(
            Change(
                id=one.id,
                category=one.category,
                better=other.right,
                why=one.why if other.right else other.why,
            )
            for one, other in pairs
            if one.right != other.right
        ),
        only_first=tuple(name for name in first if name not in second),
        only_second=tuple(name for name in second if name not in first),
    )


def _paired(name: str, pairs: Sequence[tuple[_Answered, _Answered]]) -> Paired:
    return Paired(
        name=name,
        total=len(pairs),
        first_right=sum(one.right for one, _ in pairs),
        second_right=sum(other.right for _, other in pairs),
        better=sum(other.right and not one.right for one, other in pairs),
        worse=sum(one.right and not other.right for one, other in pairs),
    )


def _line(text: str, where: str) -> _Answered:
    try:
        return _Answered.model_validate(json.loads(text))
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(map(str, wrong["loc"]))
        raise ComparisonError(
            f"{where} is no line of `eval --output`: {key}: {wrong['msg']}"
        ) from None
    except ValueError as error:
        raise ComparisonError(f"{where} is no JSON: {error}") from None
