"""Whether a request is the one that a step or a rule is for, and how to say that it is not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.inference.backend import GenerateRequest
from aicore_sim.inference.request_text import last_text
from aicore_sim.inference.script import Computed, Expectation, Step, shortened

_TEXT_SHOWN = 300
Difference = tuple[str, str, str]
"""A key of the expectation, what it says, and what the request has there."""


def differences(expect: Expectation, request: GenerateRequest) -> list[Difference]:
    """Where the request is not as expected; empty when it is."""
    found: list[Difference] = []
    declared = [tool.name for tool in request.tools]
    if expect.tool is not None and expect.tool not in declared:
        found.append(("tool", expect.tool, ", ".join(declared) or "none"))
    text = last_text(request)
    wanted = expect.last_message_contains
    if wanted is not None and wanted not in text:
        found.append(("last_message_contains", wanted, text))
    pattern = expect.last_message_matches
    if pattern is not None and re.search(pattern, text) is None:
        found.append(("last_message_matches", pattern, text))
    if expect.caller is not None and expect.caller != request.app:
        found.append(("caller", expect.caller, request.app or "unknown"))
    return found


def drift(
    steps: Sequence[Step | Computed], taken: int, request: GenerateRequest, *, generation: int
) -> SimulatorFault:
    """The error of a request that is not the one of the next step, or that no step is left for.

    `taken` is how many of the steps are used up. It names the nearest step and what differs.
    """
    asked = describe(request)
    if taken >= len(steps):
        problem = (
            f"generation {generation} has no step: the script has {len(steps)} steps; asked was "
            f"{asked}; add a step, or find out why the app asks again"
        )
        found: list[Difference] = []
    else:
        expect = steps[taken].expect or Expectation()
        found = differences(expect, request)
        problem = f"step {taken + 1} does not expect this: asked was {asked}"
    lines = [problem, *_shown(found), *_nearest(steps, taken, request)]
    return SimulatorFault(FaultKind.SCRIPT_DRIFT, "\n".join(lines))


def describe(request: GenerateRequest) -> str:
    """A request in a few words."""
    return (
        f"{len(request.contents)} contents and {len(request.tools)} tools, "
        f"the last content being {shortened(last_text(request))!r}"
    )


def _shown(found: Sequence[Difference]) -> list[str]:
    lines = []
    for key, expected, asked in found:
        label = "last_message" if key.startswith("last_message") else key
        lines += [f"- {key}: {_cut(expected)}", f"+ {label}: {_cut(asked)}"]
    return lines


def _nearest(steps: Sequence[Step | Computed], taken: int, request: GenerateRequest) -> list[str]:
    """The step that the request fits best, if it is another one than the next."""
    rated = [
        (_likeness(step.expect, request), -abs(number - taken), number)
        for number, step in enumerate(steps)
        if step.expect is not None and number != taken
    ]
    if not rated:
        if steps and taken >= len(steps):
            return [f"nearest: step {len(steps)}, used: {steps[-1].describe()}"]
        return []
    likeness, _, number = max(rated)
    step = steps[number]
    state = "used" if number < taken else "not used"
    line = f"nearest: step {number + 1}, {state}: {step.describe()}"
    assert step.expect is not None
    if likeness < 1.0:
        return [line, *_shown(differences(step.expect, request))]
    if number > taken:
        skipped = f"{taken + 1}" if number == taken + 1 else f"{taken + 1} to {number}"
        return [f"{line}; it expects this request, so nothing asked for step {skipped}"]
    return [f"{line}; it expects this request, so the app asks the same again"]


def _likeness(expect: Expectation, request: GenerateRequest) -> float:
    """1.0 for a request that fits."""
    found = differences(expect, request)
    keys = len(expect.model_fields_set) or 1
    rating = 1.0 - len(found) / keys
    for key, wanted, asked in found:
        if key == "last_message_contains":
            ratio = difflib.SequenceMatcher(None, wanted[:_TEXT_SHOWN], asked[:_TEXT_SHOWN]).ratio()
            rating += 0.9 * ratio / keys
    return rating


def _cut(text: str) -> str:
    text = text.replace("\n", "\\n")
    return text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 3] + "..."
