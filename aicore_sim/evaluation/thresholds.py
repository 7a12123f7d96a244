"""What a run has to reach, for CI: `right=0.9`, or `single_call:right_tools=0.8`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from aicore_sim.evaluation.report import CategoryFigures, Report, Share
from aicore_sim.evaluation.suite import Case

Measure = Literal["right", "right_tools"]
_FORM = re.compile(r"(?:(?P<category>[A-Za-z0-9_.-]+):)?(?P<measure>\w+)=(?P<share>.*)")


class ThresholdError(ValueError):
    """A threshold that cannot be read, or that no case of the run can meet."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The least share of a measure, over all cases or in a category."""

    measure: Measure
    least: float
    category: str | None = None

    @property
    def name(self) -> str:
        """As it is written, without the share."""
        return self.measure if self.category is None else f"{self.category}:{self.measure}"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A threshold, and what was reached."""

    threshold: Threshold
    share: Share

    @property
    def met(self) -> bool:
        """By the share itself; its interval says how much chance there is in that."""
        return self.share.right >= self.threshold.least * self.share.total - 1e-9

    def shown(self) -> str:
        reached, interval = self.share.shown()
        sign = "met" if self.met else "MISSED"
        return f"{sign}: {self.threshold.name} is {reached} ({interval}), at least {self._least}"

    @property
    def _least(self) -> str:
        return f"{self.threshold.least:.1%}"


def parse_threshold(text: str) -> Threshold:
    """Read `[CATEGORY:]MEASURE=SHARE`. Raises ThresholdError."""
    found = _FORM.fullmatch(text)
    measures = get_args(Measure)
    if found is None or found["measure"] not in measures:
        raise ThresholdError(
            f"{text!r} is not [CATEGORY:]MEASURE=SHARE with a measure of {', '.join(measures)}, "
            "for example right=0.9"
        )
    try:
        least = float(found["share"])
    except ValueError:
        least = math.nan
    if not 0 <= least <= 1:
        raise ThresholdError(f"{text!r}: {found['share']!r} is no share from 0 to 1")
    measure: Measure = "right" if found["measure"] == "right" else "right_tools"
    return Threshold(measure=measure, least=least, category=found["category"])


def check_applicable(thresholds: Sequence[Threshold], cases: Sequence[Case]) -> None:
    """Raises ThresholdError for one that no case of the run is measured by: it would always be
    met, or never."""
    for threshold in thresholds:
        chosen = [case for case in cases if threshold.category in (None, case.category)]
        if not chosen:
            known = ", ".join(dict.fromkeys(case.category for case in cases))
            raise ThresholdError(
                f"{threshold.name}: no case of the run is of that category; it has {known}"
            )
        if threshold.measure == "right_tools" and not any(case.expect.calls for case in chosen):
            raise ThresholdError(f"{threshold.name}: none of its cases expects a call")


def check(thresholds: Sequence[Threshold], report: Report) -> tuple[Checked, ...]:
    """What each threshold comes to."""
    figures = {one.name: one for one in report.categories}
    return tuple(
        Checked(
            threshold=one,
            share=_share(report.total if one.category is None else figures[one.category], one),
        )
        for one in thresholds
    )


def _share(figures: CategoryFigures, threshold: Threshold) -> Share:
    return figures.right if threshold.measure == "right" else figures.right_tools
