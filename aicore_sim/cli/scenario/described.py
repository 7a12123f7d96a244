"""A step in words, for one that has no note."""

from __future__ import annotations

from aicore_sim.cli.ctl import values
from aicore_sim.cli.scenario.format import Generate, Step


def described(step: Step) -> str:
    """Its action and the keys that were given."""
    action = getattr(step, step.kind)
    name = step.kind.replace("_", " ")
    if isinstance(action, int):
        return f"{name} {values.shown_duration(action / values.NANOS)}"
    if isinstance(action, str):
        return f"{name} {action}"
    if isinstance(action, list):
        return f"{name} {', '.join(action)}"
    if isinstance(action, Generate) and action.times > 1:
        return f"{name} {action.times} {'at once' if action.together else 'times'}"
    changed = ", ".join(
        f"{key} {_word(getattr(action, key))}"
        for key in type(action).model_fields
        if key in action.model_fields_set and key not in ("expect", "retry", "script", "faults")
    )
    return f"{name} {changed}".rstrip()


def _word(value: object) -> str:
    if isinstance(value, values.FeatureStatus):
        return value.name
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return str(value)
