"""`eval SUITE` and `eval compare A B`: the suite needs no name of a command before it."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from aicore_sim.cli.evaluation.command import eval_
from aicore_sim.cli.evaluation.compare import compare_

_RUN, _COMPARE = "run", "compare"


class _RunsByDefault(TyperGroup):
    """What is no command's name is the suite of `run`; a file called `compare` is `./compare`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (_RUN, _COMPARE):
            args = [_RUN, *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(cls=_RunsByDefault, add_completion=False, rich_markup_mode=None)
app.command(_RUN)(eval_)
app.command(_COMPARE)(compare_)
