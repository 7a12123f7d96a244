"""The file of results for functions that are known by their XML only.

fetch_order_details:            # a function's id, or its method alone
  value: {orderId: "1042", status: SHIPPED}
cancel_order:                   # one after the other; the last stays
  - value: cancelled
  - error: {code: 1500, message: No such order}
    delay: 0.2                  # seconds of device time
say: {echo: text}               # gives back an argument
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, StrictStr, TypeAdapter, ValidationError
from pydantic import field_validator as checked
from pydantic import model_validator as validated

from aicore_sim.device.errors import AppFunctionCode

MAX_BYTES = 4 * 1024 * 1024
_MAX_NESTING = 40
_MAX_VALUES = 100_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class StubError(ValueError):
    """A file of results that is not used; the text names the file and the key."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StubFailure(_Table):
    code: int
    message: StrictStr = ""

    @checked("code", mode="before")
    @classmethod
    def _number(cls, given: object) -> object:
        """A number, or one of Android's names."""
        if isinstance(given, str):
            name = given.removeprefix("ERROR_")
            if name not in AppFunctionCode.__members__:
                raise ValueError(f"there is no code {given!r}; give a number such as 1500")
            return int(AppFunctionCode[name])
        if type(given) is not int:
            raise ValueError(f"{given!r} is no code; give a number such as 1500")
        return given


class StubResult(_Table):
    """One answer: a value, an error or an argument given back."""

    value: Any = None
    error: StubFailure | None = None
    echo: StrictStr = ""
    delay: Annotated[float, Field(ge=0, le=86_400, strict=True)] = 0.0

    @validated(mode="after")
    def _one(self) -> StubResult:
        given = self.model_fields_set & {"value", "error", "echo"}
        if len(given) != 1:
            raise ValueError("an answer has one of value, error and echo")
        return self


_ANSWERS = TypeAdapter(tuple[StubResult, ...])


def load_stubs(path: Path) -> dict[str, tuple[StubResult, ...]]:
    """Answers by id or method. Raises StubError."""
    source = repr(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise StubError(f"{source} is too big: at most {MAX_BYTES} bytes are read")
        text = data.decode()
        _check_shape(text, source)
        found = yaml.load(text, _LOADER)  # a safe loader
    except (OSError, UnicodeDecodeError) as error:
        raise StubError(f"{source} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise StubError(f"{source} is not YAML: {error}") from None
    except StubError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        # PyYAML lets such errors out for a value that does not fit its tag, like `!!int x`.
        raise StubError(f"{source} has a value that is not YAML: {error}") from None
    if not isinstance(found, dict):
        raise StubError(f"{source}: expected functions and their answers")
    return {_name(key, source): _answers(key, raw, source) for key, raw in found.items()}


def _name(key: object, source: str) -> str:
    if not isinstance(key, str) or not key:
        raise StubError(f"{source}: {key!r} is no function; give its id, or its method")
    return key


def _answers(key: str, raw: object, source: str) -> tuple[StubResult, ...]:
    listed = raw if isinstance(raw, list) else [raw]
    if not listed:
        raise StubError(f"{source}: {key}: the list has no answer")
    try:
        return _ANSWERS.validate_python(listed)
    except ValidationError as error:
        raise StubError(f"{source}: {key}: {_problem(error, isinstance(raw, list))}") from None


def _problem(error: ValidationError, is_list: bool) -> str:
    one = error.errors()[0]
    number, *keys = one["loc"]
    where = ".".join(map(str, keys))
    which = f"answer {int(number) + 1}: " if is_list else ""
    if one["type"] == "extra_forbidden":
        return f"{which}{where}: unknown key; an answer has value, error or echo, and delay"
    shown = where + ": " if where else ""
    return f"{which}{shown}{one['msg'].removeprefix('Value error, ')}"


def _check_shape(text: str, source: str) -> None:
    """Refuses, before anything is built, what would take long or deep recursion to build."""
    depth = values = 0
    for event in yaml.parse(text, _LOADER):
        line = f"line {event.start_mark.line + 1}" if event.start_mark else "a line"
        if isinstance(event, yaml.AliasEvent):
            raise StubError(f"{source}, {line}: aliases ('*') are not supported")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        values += isinstance(event, yaml.NodeEvent)
        if depth > _MAX_NESTING:
            raise StubError(f"{source}, {line}: nested more than {_MAX_NESTING} levels")
        if values > _MAX_VALUES:
            raise StubError(f"{source} is too big: it has over {_MAX_VALUES} values")
