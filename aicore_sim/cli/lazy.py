"""Commands that are imported when they are used, so that each starts as fast as it can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group


@dataclass(frozen=True, kw_only=True)
class LazyCommand:
    """Where a command is: a function, or the `typer.Typer` of a group."""

    module: str
    attribute: str
    context_settings: Mapping[str, Any] = field(default_factory=dict)


def lazy_group(commands: Mapping[str, LazyCommand]) -> type[TyperGroup]:
    """A group for `typer.Typer(cls=...)` whose commands are listed in the order of `commands`."""

    # Typer carries a copy of click under a private name, so its command type has no public one.
    @cache
    def load(name: str) -> Any:
        entry = commands[name]
        found = getattr(import_module(entry.module), entry.attribute)
        parent = typer.Typer(add_completion=False, rich_markup_mode=None)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=name)
        else:
            parent.command(name, context_settings=dict(entry.context_settings))(found)
        return get_group(parent).commands[name]

    def list_commands(self: TyperGroup, ctx: Any) -> list[str]:
        return list(commands)

    def get_command(self: TyperGroup, ctx: Any, cmd_name: str) -> Any:
        return load(cmd_name) if cmd_name in commands else None

    overrides = {"list_commands": list_commands, "get_command": get_command}
    return type("LazyGroup", (TyperGroup,), overrides)
