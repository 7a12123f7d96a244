"""PARITY.md, made from the manifest and the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tests.requirements.manifest import TITLES, Area, Requirement, Status, load_manifest
from tests.requirements.usage import Proof, find_proofs

EMULATED_VERSIONS: Final = {
    "ML Kit agents": "`com.google.mlkit:genai-agent` 1.0.0-alpha1",
    "AppFunctions": "`androidx.appfunctions:appfunctions` 1.0.0-alpha13",
    "Platform": "Android 17.2",
}
_STATUSES: Final[Mapping[Status, str]] = {
    "emulated": "behaves as the source says",
    "partial": "behaves so as far as it goes; the row says what is left out",
    "differs": "behaves otherwise on purpose; the row says how",
    "not-yet": "not there; a call is refused with its name, or the element does not exist",
}
_SHOWN_PROOFS: Final = 3


def parity_text() -> str:
    """PARITY.md as it should be. Raises ManifestError."""
    return render(load_manifest(), find_proofs())


def render(requirements: Sequence[Requirement], proofs: Mapping[str, Sequence[Proof]]) -> str:
    """The page for any manifest: what is documented, by area, then what is our choice."""
    documented = [item for item in requirements if item.source is not None]
    ours = [item for item in requirements if item.ours is not None]
    lines = [
        "# Parity with Android",
        "",
        "Made by `scripts/gen_parity.py` from `tests/requirements` and the tests; do not edit.",
        "",
        *(f"- {name}: {version}" for name, version in EMULATED_VERSIONS.items()),
        "",
        "Each row is one behaviour. A test that names its id proves it, and the test suite fails "
        "when a row that claims to work has none. Letters with numbers are reports from the field "
        "that ask for the behaviour.",
        "",
        *_summary(requirements),
    ]
    for area in Area:
        rows = [item for item in documented if item.area is area]
        if rows:
            lines += ["", f"## {TITLES[area]}", "", *_documented_table(rows, proofs)]
    lines += ["", "## Ours", "", "Choices that no source documents, and why they are as they are."]
    for area in Area:
        rows = [item for item in ours if item.area is area]
        if rows:
            lines += ["", f"### {TITLES[area]}", "", *_ours_table(rows, proofs)]
    return "\n".join(lines) + "\n"


def _summary(requirements: Iterable[Requirement]) -> list[str]:
    items = list(requirements)
    counts = Counter((item.area, item.status) for item in items)
    lines = [
        f"| area | {' | '.join(_STATUSES)} | all |",
        "|---" * (len(_STATUSES) + 2) + "|",
    ]
    for area in Area:
        numbers = [counts[area, status] for status in _STATUSES]
        if any(numbers):
            lines.append(_row([TITLES[area], *map(str, numbers), str(sum(numbers))]))
    totals = Counter(item.status for item in items)
    numbers = [totals[status] for status in _STATUSES]
    lines.append(_row(["**all**", *map(str, numbers), str(sum(numbers))]))
    lines += ["", *(f"- **{status}**: {meaning}" for status, meaning in _STATUSES.items())]
    return lines


def _documented_table(
    rows: Iterable[Requirement], proofs: Mapping[str, Sequence[Proof]]
) -> list[str]:
    lines = [
        "| Android element | Python element | status | behaviour | source | test |",
        "|---|---|---|---|---|---|",
    ]
    for item in rows:
        source = ", ".join([f"[page]({item.source})", *_cases(item)])
        cells = [item.android or "—", item.python, item.status, _behaviour(item), source]
        lines.append(_row([*cells, _tests(proofs.get(item.id, ()))]))
    return lines


def _ours_table(rows: Iterable[Requirement], proofs: Mapping[str, Sequence[Proof]]) -> list[str]:
    lines = [
        "| Android element | Python element | status | behaviour | why | test |",
        "|---|---|---|---|---|---|",
    ]
    for item in rows:
        cases = _cases(item)
        why = f"{item.ours} {', '.join(cases)}" if cases else str(item.ours)
        cells = [item.android or "—", item.python, item.status, _behaviour(item), why]
        lines.append(_row([*cells, _tests(proofs.get(item.id, ()))]))
    return lines


def _behaviour(item: Requirement) -> str:
    text = f"{item.behaviour} `{item.id}`"
    return text if item.divergence is None else f"{text} **But:** {item.divergence}"


def _cases(item: Requirement) -> list[str]:
    return [f"[{name}]({url})" for name, url in sorted(item.cases.items())]


def _tests(proofs: Sequence[Proof]) -> str:
    shown = [f"[{proof.name}]({proof.path})" for proof in proofs[:_SHOWN_PROOFS]]
    if len(proofs) > _SHOWN_PROOFS:
        shown.append(f"{len(proofs) - _SHOWN_PROOFS} more")
    return ", ".join(shown) or "—"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
