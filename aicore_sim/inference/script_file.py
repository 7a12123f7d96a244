"""Reading and writing scripts."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from aicore_sim.device.errors import GenAiCode
from aicore_sim.inference.script import (
    OTHERWISE,
    Computed,
    ComputedRule,
    Rule,
    Script,
    ScriptError,
    Step,
    shortened,
)

MAX_SCRIPT_BYTES = 1024 * 1024
MAX_VALUES = 50_000
"""Of a whole script. It is read while the device waits, so it has to be read in a moment."""
MAX_DEPTH = 30
"""Lists and tables inside one another in the arguments of a call, as on the wire."""
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_ARGS_AT = 3
"""How deep the arguments of a call lie in a step: `function_calls`, number, `args`."""
_MAX_NESTING = 200  # what recursive readers bear; a step that is nested deeper is refused by name
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_KEYS = ("rules", "steps", "otherwise")
_Path = tuple[str | int, ...]
# Line breaks to YAML, which would come back as another one unless they are escaped.
_BREAKS = re.compile("[\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    """Writes texts so that they are read as the same."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def parse_script(text: str, *, source: str) -> Script:
    """Read a script. `source` is what messages call it, for example the file's path.

    Raises ScriptError naming the step or rule, from 1, and the key that is wrong, or the limit
    that the script is over.
    """
    size = len(text.encode(errors="replace"))
    if size > MAX_SCRIPT_BYTES:
        raise _too_big(source, f"it has {size} bytes, at most {MAX_SCRIPT_BYTES} are read")
    try:
        _check_shape(text, source)
        found = yaml.load(text, _LOADER)  # a safe loader
    except yaml.YAMLError as error:
        raise ScriptError(f"script {source!r} is not YAML: {error}") from None
    except ScriptError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        # PyYAML lets such errors out for a value that does not fit its tag, like `!!int x`.
        raise ScriptError(f"script {source!r} has a value that is not YAML: {error}") from None
    return _script(found, source)


def load_script(path: Path) -> Script:
    """Read a script file. Raises ScriptError, also for a file that cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
        if len(data) > MAX_SCRIPT_BYTES:
            raise _too_big(str(path), f"at most {MAX_SCRIPT_BYTES} bytes are read")
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"cannot read script {str(path)!r}: {error}") from None
    return parse_script(text, source=str(path))


def dump_script(script: Script) -> str:
    """The script as YAML, which `parse_script` reads as an equal one.

    Raises ScriptError for a Python function, which no file can hold.
    """
    steps = [_table(step, f"step {number}") for number, step in enumerate(script.steps, 1)]
    rules = [_table(rule, f"rule {number}") for number, rule in enumerate(script.rules, 1)]
    written: Any = steps
    if rules or script.otherwise != "error":
        written = {"rules": rules} if rules else {}
        written |= {"steps": steps} if steps else {}
        written |= {} if script.otherwise == "error" else {"otherwise": script.otherwise}
    return str(yaml.dump(written, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def check_sendable(step: Step, where: str) -> None:
    """Refuse a step made in Python that could not be written to a file, or sent to an app.

    Raises ScriptError naming `where` and the key.
    """
    _check_values(_table(step, where), where, at_most=MAX_VALUES)


def _script(found: Any, source: str) -> Script:
    if found is None:
        return Script()
    if isinstance(found, list):
        found = {"steps": found}
    if not isinstance(found, dict):
        raise ScriptError(f"script {source!r}: expected a list of steps, not {_kind(found)}")
    for key in found:
        if key not in _KEYS:
            known = ", ".join(_KEYS)
            raise ScriptError(
                f"script {source!r}, key {key!r}: unknown key (known: {known}); "
                "a script is a list of steps, or a table of these"
            )
    otherwise = found.get("otherwise", "error")
    if otherwise not in OTHERWISE:
        known = ", ".join(OTHERWISE)
        raise ScriptError(f"script {source!r}, key 'otherwise': {otherwise!r} is none of {known}")
    values = 0
    read: dict[str, list[Any]] = {"steps": [], "rules": []}
    for plural, singular in (("rules", "rule"), ("steps", "step")):
        listed = found.get(plural, [])
        if not isinstance(listed, list):
            problem = f"expected a list of {plural}, not {_kind(listed)}"
            raise ScriptError(f"script {source!r}: {problem}")
        for number, raw in enumerate(listed, 1):
            where = f"script {source!r}, {singular} {number}"
            if not isinstance(raw, dict):
                raise ScriptError(f"{where}: expected keys and values, not {_kind(raw)}")
            values += _check_values(raw, where, at_most=MAX_VALUES - values)
            read[plural].append(_read(Rule if plural == "rules" else Step, raw, where))
    return Script(steps=tuple(read["steps"]), rules=tuple(read["rules"]), otherwise=otherwise)


def _read(kind: type[Step], raw: dict[Any, Any], where: str) -> Step:
    if "order" in raw:
        raise ScriptError(f"{where}, key 'order': unknown key")
    for key, value in raw.items():
        if value is None:
            raise ScriptError(f"{where}, key {key!r}: has no value")
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        problems = (_problem(kind, where, item) for item in error.errors())
        raise ScriptError("; ".join(problems)) from None


def _table(step: Step | Computed | ComputedRule, where: str) -> dict[str, Any]:
    if isinstance(step, Computed | ComputedRule):
        raise ScriptError(
            f"{where} is the Python function {step.name!r}, which a script file cannot hold; "
            "use it with a device in the same process"
        )
    dumped = step.model_dump(exclude_unset=True)
    if step.error is not None and step.error.code in set(GenAiCode):
        dumped["error"]["code"] = GenAiCode(step.error.code).name
    text = ["text", "chunks"] if step.text is not None else ["chunks"]
    first = ["when"] if "when" in dumped else []
    for key in step.order:
        first += text if key == "text" else [key]
    keys = dict.fromkeys([*first, *dumped])
    return {key: dumped[key] for key in keys if key in dumped}


def _too_big(source: str, reason: str) -> ScriptError:
    return ScriptError(f"script {source!r} is too big: {reason}; cut it into several scripts")


def _check_shape(text: str, source: str) -> None:
    """Refuses, before anything is built, what would take long or deep recursion to build."""
    depth = values = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and (
            event.tag == _MERGE if event.tag else event.value == "<<" and event.implicit[0]
        ):
            raise ScriptError(f"script {source!r}: merge keys ('<<') are not supported")
        values += isinstance(event, yaml.NodeEvent)
        if depth > _MAX_NESTING:
            line = f", line {event.start_mark.line + 1}" if event.start_mark else ""
            raise ScriptError(f"script {source!r}{line}: nested more than {_MAX_NESTING} levels")
        if values > MAX_VALUES:
            raise _too_big(source, f"it has over {MAX_VALUES} values")


def _check_values(raw: dict[Any, Any], where: str, *, at_most: int) -> int:
    """Refuses what could not be sent to an app, wherever in the step it stands.

    Returns how many values the step has, those that aliases repeat included.
    """
    waiting: list[tuple[_Path, Any]] = [((), raw)]
    seen = 0
    while waiting:
        path, value = waiting.pop()
        seen += 1
        problem = _why_not_sendable(value)
        if len(path) > MAX_DEPTH + _ARGS_AT + 1:
            problem = f"nested more than {MAX_DEPTH} levels deep"
        elif seen > at_most:
            problem = f"here the script has over {MAX_VALUES} values"
        if problem is not None:
            key = ".".join(map(str, path[: _ARGS_AT + 1]))
            raise ScriptError(f"{where}, key {key!r}: {problem}" if key else f"{where}: {problem}")
        if isinstance(value, dict):
            for name in value:
                if problem := _why_not_sendable(name):
                    raise ScriptError(f"{where}, key {name!r}: {problem}")
            waiting += [((*path, name), item) for name, item in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [((*path, at), item) for at, item in enumerate(value)]
    return seen


def _why_not_sendable(value: object) -> str | None:
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        return "text with a lone surrogate cannot be sent"
    if isinstance(value, int) and not _INT64_MIN <= value <= _INT64_MAX:
        return "does not fit into 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} cannot be sent"
    return None


def _problem(kind: type[Step], where: str, item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        known = sorted(set(kind.model_fields) - {"order"})
        hint = f" (known: {', '.join(known)})" if len(item["loc"]) == 1 else ""
        return f"{where}, key {key!r}: unknown key{hint}"
    message = item["msg"].removeprefix("Value error, ")
    return f"{where}, key {key!r}: {message}" if key else f"{where}: {message}"


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {shortened(repr(value))}"
