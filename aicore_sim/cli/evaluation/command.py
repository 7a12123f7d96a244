"""`eval SUITE`: how well a model chooses functions and answers, through a device of its own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import typer

from aicore_sim.cli import options as shared
from aicore_sim.cli.bars import Advance, named_bars
from aicore_sim.cli.control import CommandError
from aicore_sim.cli.evaluation.compare import NOT_REACHED
from aicore_sim.cli.launcher import run_interruptible
from aicore_sim.evaluation.junit import junit_xml
from aicore_sim.evaluation.loading import SuiteError, load_suite, select, shipped_names
from aicore_sim.evaluation.report import Report, Result, summarise
from aicore_sim.evaluation.suite import Case
from aicore_sim.evaluation.thresholds import (
    Checked,
    ThresholdError,
    check,
    check_applicable,
    parse_threshold,
)
from aicore_sim.measure.figures import machine

_CONFUSIONS_SHOWN = 12
_BAD_INPUT = 2


@dataclass(frozen=True)
class _Run:
    """What was asked with one setting of the grammar."""

    grammar: str
    results: list[Result]
    report: Report
    checked: tuple[Checked, ...]

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        made = {"grammar": self.grammar, **self.report.facts()}
        if self.checked:
            made["thresholds"] = [
                {"name": one.threshold.name, "least": one.threshold.least, "met": one.met}
                | one.share.facts()
                for one in self.checked
            ]
        return made


def eval_(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help=f"A suite that comes with the simulator ({', '.join(shipped_names())}), "
            "or a file (.yaml, .jsonl).",
        ),
    ],
    model: shared.Model = shared.DEFAULT_MODEL,
    grammar: Annotated[
        Literal["on", "off", "both"],
        typer.Option(help="Whether answers are held to a grammar of the declared functions."),
    ] = "on",
    categories: Annotated[
        list[str] | None,
        typer.Option("--category", metavar="NAME", help="Only these. May be repeated."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Only the first N cases of each category."),
    ] = None,
    seed: shared.Seed = 0,
    max_output_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="Where an answer is cut off.")
    ] = 256,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write every case with what the model said, as JSON lines.",
            show_default=False,
        ),
    ] = None,
    minimum: Annotated[
        list[str] | None,
        typer.Option(
            "--min",
            metavar="[CATEGORY:]MEASURE=SHARE",
            help="Exit with 7 below this share of right, or right_tools. May be repeated.",
            show_default=False,
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the run as JUnit XML.", show_default=False),
    ] = None,
    json_output: shared.Json = False,
) -> None:
    """Put every case of a suite to a model and report what is right.

    The model runs in a device of its own, greedily and without quota. A wrong answer is a figure
    and no failure: the exit code is 0 unless the run itself failed, or a share is below its
    --min (7). `aicore-sim eval compare A B` compares two files of --output.

    \b
    aicore-sim eval tools --limit 3
    aicore-sim eval my_suite.yaml --grammar both --output answers.jsonl
    aicore-sim eval my_suite.yaml --min right=0.9 --min talk:right=1 --junit eval.xml
    """
    try:
        cases = select(load_suite(suite), categories=categories or (), limit=limit)
        thresholds = [parse_threshold(text) for text in minimum or ()]
        check_applicable(thresholds, cases)
    except SuiteError as error:
        raise CommandError(str(error), exit_code=_BAD_INPUT) from None
    except ThresholdError as error:
        raise CommandError(f"--min {error}", exit_code=_BAD_INPUT) from None
    checked = _present(model)
    # The daemon's modules are loaded only when something is asked.
    from aicore_sim.cli.evaluation.run import RunOptions

    modes = {"on": (True,), "off": (False,), "both": (True, False)}[grammar]
    runs: list[_Run] = []
    with (
        _opened("--output", output) as file,
        _opened("--junit", junit) as xml,
        named_bars() as advance,
    ):
        for mode in modes:
            options = RunOptions(
                model=checked, grammar=mode, seed=seed, max_output_tokens=max_output_tokens
            )
            name = "on" if mode else "off"
            results = _run(cases, options, name, file, advance)
            report = summarise(results)
            runs.append(_Run(name, results, report, check(thresholds, report)))
        if xml is not None:
            xml.write(junit_xml(suite, [(one.grammar, one.results, one.checked) for one in runs]))
    if json_output:
        shared.print_json(
            {
                "suite": suite,
                "model": checked,
                "seed": seed,
                "sampling": "greedy",
                "quota": "off",
                "max_output_tokens": max_output_tokens,
                "machine": machine(),
                "runs": [one.facts() for one in runs],
            }
        )
    else:
        for one in runs:
            title = f"{suite}: {model}, grammar {one.grammar}, greedy, seed {seed}, quota off"
            _show(title, one.report)
            for checked_one in one.checked:
                print(checked_one.shown())
    if not all(one.met for run in runs for one in run.checked):
        raise typer.Exit(NOT_REACHED)


def _run(
    cases: Sequence[Case], options: Any, name: str, file: IO[str] | None, advance: Advance
) -> list[Result]:
    from aicore_sim.cli.evaluation.run import ask_all

    done = 0
    label = f"cases, grammar {name}"
    advance(label, 0, len(cases))

    def keep(result: Result) -> None:
        nonlocal done
        done += 1
        advance(label, done, len(cases))
        if file is not None:
            print(
                json.dumps({"grammar": name, **result.facts()}, ensure_ascii=False),
                file=file,
                flush=True,
            )

    return run_interruptible(ask_all(cases, options, on_result=keep))


def _show(title: str, report: Report) -> None:
    shared.print_rows(
        title,
        ("category", "n", "right", "95 % interval", "right tool", "tokens in", "out", "s"),
        [
            (
                one.name,
                str(one.right.total),
                *one.right.shown(),
                one.right_tools.shown()[0],
                f"{one.input_tokens:.0f}",
                f"{one.output_tokens:.0f}",
                f"{one.seconds:.2f}",
            )
            for one in (*report.categories, report.total)
        ],
    )
    shared.print_rows(
        "What is measured, over all categories",
        ("measured", "n", "right", "95 % interval"),
        [(name, str(share.total), *share.shown()) for name, share in report.measures.items()],
    )
    if report.confusions:
        shared.print_rows(
            "Confusions, the most frequent",
            ("expected", "called", "times"),
            [
                (one.expected, one.called, str(one.count))
                for one in report.confusions[:_CONFUSIONS_SHOWN]
            ],
        )
    tokens = report.tokens
    print(
        f"{tokens['input']} tokens in ({tokens['cached_input']} of them warm), "
        f"{tokens['output']} out; a case took {report.total.seconds:.2f} s, "
        f"its first words {report.total.first_seconds:.2f} s (medians)"
    )
    if report.cut_off:
        print(f"{report.cut_off} answers were cut off by --max-output-tokens")
    if report.errors:
        print(f"{report.errors} answers failed with an error and count as wrong")


@contextlib.contextmanager
def _opened(flag: str, output: Path | None) -> Iterator[IO[str] | None]:
    if output is None:
        yield None
        return
    try:
        file = output.open("w", encoding="utf-8")
    except OSError as error:
        raise CommandError(
            f"{flag} {str(output)!r}: {error.strerror}", exit_code=_BAD_INPUT
        ) from None
    with file:
        yield file


def _present(model: str) -> str:
    """Raises CommandError for a name that is no model's, or of one that is not on this machine."""
    from aicore_sim.models.catalogue import find_model
    from aicore_sim.models.errors import ModelNotFound

    checked = shared.check_model(model)
    if not shared.is_written(checked):
        try:
            find_model(checked)
        except ModelNotFound:
            raise CommandError(
                f"--model {model!r} is not on this machine; run `aicore-sim models pull`"
            ) from None
    return checked
