"""What the steps of a scenario came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aicore_sim.cli.scenario.outcome import Outcome

_OUTCOMES_SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class StepResult:
    number: str
    """`3`, or `3.2.1`: the first step of the second round of step 3."""
    step: str
    evidence: str
    problems: tuple[str, ...]
    real_seconds: float
    outcomes: tuple[Outcome, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.problems

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "number": self.number,
            "step": self.step,
            "passed": self.passed,
            "evidence": self.evidence,
            "problems": list(self.problems),
            "real_seconds": round(self.real_seconds, 4),
            "outcomes": [outcome.facts() for outcome in self.outcomes[:_OUTCOMES_SHOWN]],
        }


@dataclass(frozen=True, kw_only=True)
class ScenarioResult:
    name: str
    title: str
    steps: tuple[StepResult, ...]
    device_seconds: float
    """Device time that passed."""
    real_seconds: float

    @property
    def passed(self) -> bool:
        return all(step.passed for step in self.steps)

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "passed": self.passed,
            "device_seconds": round(self.device_seconds, 3),
            "real_seconds": round(self.real_seconds, 3),
            "steps": [step.facts() for step in self.steps],
        }
