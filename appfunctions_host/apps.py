"""Names of apps on the command line: `com.example.shop=module:Class`."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from appfunctions_host.annotations import AppFunctionService

_SPEC = re.compile(r"(?P<package>[\w.]+)=(?P<module>[\w.]+):(?P<name>[\w.]+)")


class AppSpecError(ValueError):
    """An app that cannot be named or loaded, with the reason."""


def load_apps(specs: Iterable[str]) -> dict[str, tuple[type[AppFunctionService], ...]]:
    """Import the service classes of `PACKAGE=MODULE:CLASS`, by package.

    Modules are also looked up in the current directory. Raises AppSpecError.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found: dict[str, tuple[type[AppFunctionService], ...]] = {}
    for spec in specs:
        parts = _SPEC.fullmatch(spec)
        if parts is None:
            raise AppSpecError(f"{spec!r} is not PACKAGE=MODULE:CLASS")
        service = _load(spec, parts["module"], parts["name"])
        found[parts["package"]] = (*found.get(parts["package"], ()), service)
    return found


def _load(spec: str, module_name: str, name: str) -> type[AppFunctionService]:
    try:
        target: object = importlib.import_module(module_name)
    except ImportError as error:
        raise AppSpecError(
            f"{spec!r}: cannot import {module_name!r} from {str(Path.cwd())!r}: {error}"
        ) from error
    for part in name.split("."):
        target = getattr(target, part, None)
    if not (isinstance(target, type) and issubclass(target, AppFunctionService)):
        raise AppSpecError(f"{spec!r}: {name!r} in {module_name!r} is no AppFunctionService class")
    return target
