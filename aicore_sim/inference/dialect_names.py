"""The names of the dialects, apart from what speaks them: the command line needs no more."""

from __future__ import annotations

from typing import Final, Literal, get_args

DialectName = Literal["hermes", "gemma", "functiongemma", "gemma4"]
DIALECTS: Final[tuple[DialectName, ...]] = get_args(DialectName)
