"""Reading suites: shipped ones by name, files of users, and parts of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from aicore_sim.evaluation.suite import Case

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SHIPPED = "aicore_sim.evaluation.suites"
_LINES = ".jsonl"
_YAML = (".yaml", ".yml")


class SuiteError(ValueError):
    """A suite that cannot be used; the message names source, case and key."""


def shipped_names() -> tuple[str, ...]:
    """Names of the suites that come with the simulator."""
    found = (item.name for item in files(_SHIPPED).iterdir())
    return tuple(sorted(name.removesuffix(_LINES) for name in found if name.endswith(_LINES)))


def load_suite(name: str) -> tuple[Case, ...]:
    """The cases of a shipped suite or of a file (.yaml, .yml or .jsonl). Raises SuiteError."""
    if name in shipped_names():
        text = (files(_SHIPPED) / f"{name}{_LINES}").read_text(encoding="utf-8")
        return parse_suite(text, source=name, lines=True)
    path = Path(name)
    if path.suffix not in (*_YAML, _LINES):
        raise SuiteError(
            f"{name!r} is neither a shipped suite ({', '.join(shipped_names())}) "
            f"nor a file that ends in {', '.join((*_YAML, _LINES))}"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"cannot read the suite {name!r}: {error}") from None
    return parse_suite(text, source=name, lines=path.suffix == _LINES)


def parse_suite(text: str, *, source: str, lines: bool) -> tuple[Case, ...]:
    """Read YAML, or JSON with a case on each of its `lines`. Raises SuiteError."""
    entries = _json_lines(text, source) if lines else _yaml_list(text, source)
    cases = tuple(_case(found, f"suite {source!r}, {where}") for where, found in entries)
    if not cases:
        raise SuiteError(f"suite {source!r} has no case")
    twice = [name for name, count in Counter(case.id for case in cases).items() if count > 1]
    if twice:
        raise SuiteError(f"suite {source!r}: the id {twice[0]!r} is used more than once")
    return cases


def select(
    cases: Sequence[Case], *, categories: Sequence[str] = (), limit: int | None = None
) -> tuple[Case, ...]:
    """The first `limit` cases of each of the categories; without them, of all.

    Raises SuiteError for a category that has no case.
    """
    known = list(dict.fromkeys(case.category for case in cases))
    for category in categories:
        if category not in known:
            raise SuiteError(f"no case is of the category {category!r}; there are {known}")
    seen: Counter[str] = Counter()
    chosen = []
    for case in cases:
        seen[case.category] += 1
        if categories and case.category not in categories:
            continue
        if limit is None or seen[case.category] <= limit:
            chosen.append(case)
    return tuple(chosen)


def _json_lines(text: str, source: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except ValueError as error:
            raise SuiteError(f"suite {source!r}, line {number} is not JSON: {error}") from None


def _yaml_list(text: str, source: str) -> Iterator[tuple[str, Any]]:
    try:
        found = yaml.load(text, _LOADER)  # a safe loader
    except (yaml.YAMLError, ValueError) as error:
        raise SuiteError(f"suite {source!r} is not YAML: {error}") from None
    if not isinstance(found, list):
        raise SuiteError(f"suite {source!r} is no list of cases, but {type(found).__name__}")
    for number, case in enumerate(found, 1):
        yield f"case {number}", case


def _case(found: Any, where: str) -> Case:
    if isinstance(found, dict) and isinstance(found.get("id"), str):
        where += f" ({found['id']})"
    try:
        return Case.model_validate(found)
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(map(str, wrong["loc"]))
        what = (
            "unknown key" if wrong["type"] == "extra_forbidden"
            else wrong["msg"].removeprefix("Value error, ")
        )  # fmt: skip
        raise SuiteError(f"{where}, {f'key {key!r}' if key else 'the case'}: {what}") from None
