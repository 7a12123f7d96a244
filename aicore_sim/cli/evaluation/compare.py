"""`eval compare A B`: two runs of the same cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError
from aicore_sim.evaluation.comparison import (
    Comparison,
    ComparisonError,
    Paired,
    compare,
    read_answers,
)

NOT_REACHED = 7
"""Exit code of a run that did not reach what it had to."""
_NAMED = 10


def compare_(
    first: Annotated[Path, typer.Argument(metavar="A", help="A file of `eval --output`.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another, of the same cases.")],
    grammar: Annotated[
        Literal["on", "off"] | None,
        typer.Option(help="Of files with both: which answers.", show_default=False),
    ] = None,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse",
            help="Exit with 7 when B has fewer right answers and p is below 0.05.",
        ),
    ] = False,
    json_output: shared.Json = False,
) -> None:
    """Compare two runs case by case: what became right or wrong, and whether that is chance."""
    try:
        found = compare(read_answers(first, grammar), read_answers(second, grammar))
    except ComparisonError as error:
        raise CommandError(str(error), exit_code=2) from None
    if json_output:
        shared.print_json(found.facts())
    else:
        _show(f"{first} against {second}", found)
    if fail_if_worse and found.is_worse:
        raise typer.Exit(NOT_REACHED)


def _show(title: str, found: Comparison) -> None:
    shared.print_rows(
        title,
        ("category", "n", "right A", "right B", "better", "worse", "B - A", "95 % interval", "p"),
        [_row(one) for one in (*found.categories, found.total)],
    )
    if found.changes:
        shared.print_rows(
            "Cases that changed",
            ("case", "category", "now", "what was or is wrong"),
            [
                (one.id, one.category, "right" if one.better else "wrong", one.why)
                for one in found.changes
            ],
        )
    for name, ids in (("A", found.only_first), ("B", found.only_second)):
        if ids:
            more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
            print(f"only in {name}, not compared: {', '.join(ids[:_NAMED])}{more}")


def _row(one: Paired) -> tuple[str, ...]:
    low, high = one.interval
    return (
        one.name,
        str(one.total),
        f"{one.first_right / one.total:.1%}",
        f"{one.second_right / one.total:.1%}",
        str(one.better),
        str(one.worse),
        f"{one.difference:+.1%}",
        f"{low:+.1%} to {high:+.1%}",
        f"{one.p_value:.3f}",
    )
