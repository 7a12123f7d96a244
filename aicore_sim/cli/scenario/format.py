"""The format of a scenario: the state of a device, and what an app goes through on it.

The whole format with examples is in docs/scenarios.md. Unknown keys are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from aicore_protos import aicore_pb2, appfunctions_pb2
from aicore_sim.cli.control import CommandError
from aicore_sim.cli.ctl import values
from aicore_sim.cli.ctl.availability import progression
from aicore_sim.cli.scenario.values import (
    Bytes,
    Code,
    ExclusiveFree,
    FullOk,
    Importance,
    Nanoseconds,
    OnOff,
    QuotaModel,
    Range,
    Status,
    error_code,
)
from aicore_sim.device.fault_rules import FaultError, parse_fault
from aicore_sim.device.profile import DEFAULT_PLATFORM, DEFAULT_PROFILE, PlatformName
from aicore_sim.inference.script import ScriptError
from aicore_sim.inference.script_file import parse_script

DEFAULT_PACKAGE = "com.example.app"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_RPCS = frozenset(
    method.name
    for descriptor in (aicore_pb2.DESCRIPTOR, appfunctions_pb2.DESCRIPTOR)
    for service in descriptor.services_by_name.values()
    for method in service.methods
)
_CALLS_LIMIT = 2000


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _progression(value: object) -> str:
    """`immediate`, `manual`, `seconds=20`, `polls=3`, or a table `{seconds: 20}`."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, amount),) = value.items()
        value = f"{name}={amount}"
    progression(str(value))
    return str(value)


def _ok_or_code(value: object) -> int | str | None:
    if value is None or value == "ok":
        return value if value is None else "ok"
    return error_code(value)


def _fault(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is no fault rule; it has the keys match, action, times, after")
    try:
        return parse_fault(value, rpcs=_RPCS).to_wire(hits=0)
    except FaultError as error:
        raise ValueError(str(error)) from None


def _script(value: object) -> str:
    """The script as YAML; a step of a list may say `repeat: 93`."""
    if isinstance(value, dict):
        return _checked_script(_dumped(value))
    if not isinstance(value, list):
        raise ValueError("expected a list of steps, or a table of rules and steps")
    steps: list[Any] = []
    for number, step in enumerate(value, 1):
        times = step.get("repeat", 1) if isinstance(step, dict) else 1
        if type(times) is not int or not 1 <= times <= _CALLS_LIMIT:
            raise ValueError(f"step {number}, repeat: {times!r} is not from 1 to {_CALLS_LIMIT}")
        once = {key: item for key, item in step.items() if key != "repeat"} if times > 1 else step
        steps += [once] * times
    return _checked_script(_dumped(steps))


def _checked_script(text: str) -> str:
    try:
        parse_script(text, source="scenario")
    except ScriptError as error:
        raise ValueError(str(error)) from None
    return text


class DeviceState(_Table):
    """What may be set before and between the steps. What is absent stays as it is."""

    network: OnOff | None = None
    disk: FullOk | None = None
    download: Annotated[str, BeforeValidator(_progression)] | None = None
    """How later simulated downloads move."""
    availability: Status | None = None
    quota: QuotaModel | None = None
    foreground: ExclusiveFree | None = None
    importance: dict[str, Importance] = Field(default_factory=dict)
    faults: list[Annotated[dict[str, Any], BeforeValidator(_fault)]] | None = None
    """Replaces the rules that are set; an empty list clears them."""
    script: Annotated[str, BeforeValidator(_script)] | None = None
    """Replaces the script of the scripted model."""


class DeviceSetup(DeviceState):
    """The device that a scenario boots."""

    profile: str = DEFAULT_PROFILE
    """A shipped profile, or the path of a TOML file, relative to the scenario's."""
    platform: PlatformName = DEFAULT_PLATFORM
    seed: int = 0
    pace: Literal["host", "phone"] = "host"
    """`phone`: answers take the device time that they take on the profile's phone."""
    warm: bool = True
    """Load the model before the first step; without it the first call pays for loading."""


class Expected(_Table):
    """What one call, or each of several calls, must have come to. Absent keys are not looked at."""

    code: Annotated[int | Literal["ok"] | None, BeforeValidator(_ok_or_code)] = None
    """A failure by its number or name, or `ok`. 0 is the failure UNKNOWN."""
    status: Status | None = None
    text: str | None = None
    chunks: Range | None = None
    retry_delay: Literal["zero", "positive"] | None = None
    message_contains: str | None = None
    items: list[Literal["started", "progress", "completed", "failed"]] | None = None
    """Of a download; progress in a row counts once."""
    events: list[str] | None = None
    """Of an agent's turn: names of AgentEvent; partial texts in a row count once, as `partial`."""
    within: Nanoseconds | None = None
    """Real time from the call, or from the last step before `wait`, to its end."""
    outcomes: dict[str, Range] = Field(default_factory=dict)
    """Calls by how they ended: `ok`, names of codes, or `cancelled`. Others must not occur."""
    before_refusal: Range | None = None
    """Calls in a row that succeeded before the first that did not."""
    after_refusal: Range | None = None
    """Calls that succeeded after the first that did not."""
    lost: Range | None = None
    """Prompts that got no answer after all retries."""

    @model_validator(mode="after")
    def _outcomes_have_names(self) -> Self:
        for name in self.outcomes:
            if name not in ("ok", "cancelled"):
                try:
                    values.error_code(name)
                except ValueError as error:
                    raise ValueError(f"outcomes: {error}; or ok, or cancelled") from None
        return self


class _Call(_Table):
    app: str = DEFAULT_PACKAGE
    background: str | None = Field(default=None, min_length=1)
    """Go on with the next step; `wait` and `cancel` use this name."""
    expect: Expected = Expected()


class CheckStatus(_Call):
    pass


class Download(_Call):
    pass


class Warmup(_Call):
    pass


class Retry(_Table):
    """What the app does when a call is refused with BUSY."""

    delays: list[Nanoseconds] = Field(default_factory=list)
    """Waits before each retry; afterwards the prompt is lost."""
    honour_retry_delay: bool = False
    """Wait for retryDelay instead, as often as it is given."""


class Generate(_Call):
    prompt: str = Field(default="Hello", min_length=1)
    times: int = Field(default=1, ge=1, le=_CALLS_LIMIT)
    together: bool = False
    """All of `times` at once, not one after another."""
    takes: Nanoseconds = 0
    """Device time that passes with a call that succeeds."""
    refusal_takes: Nanoseconds = 0
    """Device time that passes with a call that fails."""
    pause: Nanoseconds = 0
    """Device time between two calls."""
    retry: Retry | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        paced = self.takes or self.refusal_takes or self.pause or self.retry
        if paced and (self.together or self.background):
            raise ValueError("calls that move the clock cannot be together or in the background")
        return self


class AgentTurn(_Call):
    prompt: str = Field(min_length=1)
    instructions: str = ""


class Chunks(_Table):
    call: str
    chunks: int = Field(ge=1)


class Ended(_Table):
    call: str
    calls: int = Field(ge=1)


class Wait(_Table):
    call: str
    expect: Expected = Expected()


class MoveDownload(_Table):
    """Exactly one of these."""

    advance: Bytes | None = None
    complete: Literal[True] | None = None
    fail: Code | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("needs exactly one of advance, complete and fail")
        return self


class Charge(_Table):
    app: str = DEFAULT_PACKAGE
    device_time: Nanoseconds


class DeviceExpected(_Table):
    """What the device must come to, at once or within two seconds of real time."""

    running: int | None = None
    waiting: int | None = None
    script_left: int | None = None
    fault_hits: int | None = None


class Step(_Table):
    """Exactly one action, and a note for the report."""

    note: str = ""
    check_status: CheckStatus | None = None
    download: Download | None = None
    warmup: Warmup | None = None
    generate: Generate | None = None
    agent: AgentTurn | None = None
    await_chunks: Chunks | None = None
    await_ended: Ended | None = None
    wait: Wait | None = None
    cancel: str | None = None
    advance: Nanoseconds | None = None
    set: DeviceState | None = None
    move_download: MoveDownload | None = None
    charge: Charge | None = None
    reset: list[Literal["conversations", "quota", "faults", "journal", "all"]] | None = None
    device: DeviceExpected | None = None
    repeat: Repeat | None = None

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        given = self.model_fields_set - {"note"}
        if len(given) != 1 or getattr(self, next(iter(given))) is None:
            known = ", ".join(name for name in Step.model_fields if name != "note")
            raise ValueError(f"a step has exactly one action of {known}")
        return self

    @property
    def kind(self) -> str:
        """Name of the action."""
        return next(iter(self.model_fields_set - {"note"}))


class Repeat(_Table):
    times: int = Field(ge=1, le=1000)
    steps: list[Step] = Field(min_length=1)


class App(_Table):
    package: str = Field(min_length=1)
    permissions: list[str] = Field(default_factory=list)


class Scenario(_Table):
    name: str
    title: str = ""
    device: DeviceSetup = DeviceSetup()
    apps: list[App] = Field(default_factory=lambda: [App(package=DEFAULT_PACKAGE)])
    steps: list[Step] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_what_exists(self) -> Self:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name: {self.name!r} must be small letters, digits and single -")
        installed = {app.package for app in self.apps}
        named = set(self.device.importance)
        open_calls: set[str] = set()
        for step in _flat(self.steps):
            action = getattr(step, step.kind)
            if isinstance(action, _Call | Charge):
                named.add(action.app)
            if isinstance(action, DeviceState):
                named |= set(action.importance)
            if isinstance(action, _Call) and action.background:
                open_calls.add(action.background)
            call = action if step.kind == "cancel" else getattr(action, "call", None)
            if call is not None and call not in open_calls:
                raise ValueError(f"{step.kind}: no call before has `background: {call}`")
        unknown = sorted(named - installed)
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: named, but not in apps")
        return self


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file. Raises CommandError naming file and key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"cannot read scenario {str(path)!r}: {error}", exit_code=values.BAD_INPUT
        ) from None
    return parse_scenario(text, source=str(path), default_name=path.stem, folder=path.parent)


def parse_scenario(
    text: str, *, source: str, default_name: str = "scenario", folder: Path | None = None
) -> Scenario:
    """Read a scenario. A profile's path is taken from `folder`. Raises CommandError."""
    try:
        found = yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _refused(source, f"not YAML: {error}") from None
    if not isinstance(found, dict):
        raise _refused(source, "expected the keys name, device, apps and steps")
    try:
        scenario = Scenario.model_validate({"name": default_name, **found})
    except ValidationError as error:
        raise _refused(source, "; ".join(_problem(item) for item in error.errors())) from None
    profile = scenario.device.profile
    if profile.endswith(".toml") and folder is not None:
        device = scenario.device.model_copy(update={"profile": str(folder / profile)})
        return scenario.model_copy(update={"device": device})
    return scenario


# The C versions of PyYAML read the same and are ten times as fast, which long scripts feel.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _dumped(script: Any) -> str:
    return str(yaml.dump(script, Dumper=_DUMPER, sort_keys=False, allow_unicode=True))


def _flat(steps: list[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        if step.repeat is not None:
            yield from _flat(step.repeat.steps)


def _refused(source: str, problem: str) -> CommandError:
    return CommandError(f"scenario {source!r}: {problem}", exit_code=values.BAD_INPUT)


def _problem(item: Any) -> str:
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"{key}: unknown key"
    message = str(item["msg"]).removeprefix("Value error, ")
    shown = "" if item["type"] in ("value_error", "missing") else f" (found {item['input']!r})"
    return f"{key}: {message}{shown}" if key else message
