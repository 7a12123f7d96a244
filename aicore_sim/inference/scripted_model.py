"""A script made in Python: for tests, and to be written to a script file.

::

    model = ScriptedModel(
        fail("BUSY", repeat=2),
        say("Let me look.", calls=[call("fetch_order_details", {"orderId": "ORD-8492"})]),
        say("It is out for delivery.", chunk_size=10, delay=1.5),
        rules=[when(caller="com.example.notes").say("I am the notes app's model.")],
    )
    model.save(Path("answers.yaml"))  # for --model scripted:answers.yaml
    backend = model.backend(clock=clock)  # for a device in this process
    model.assert_complete()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from aicore_sim.device.clock import Clock
from aicore_sim.inference.backend import GenerateRequest
from aicore_sim.inference.script import (
    Answering,
    Computed,
    ComputedRule,
    Expectation,
    Otherwise,
    Rule,
    Script,
    ScriptedCall,
    ScriptedUsage,
    ScriptError,
    Step,
)
from aicore_sim.inference.script_file import (
    check_sendable,
    dump_script,
    load_script,
    parse_script,
)
from aicore_sim.inference.scripted import DEFAULT_TOKEN_LIMIT, ScriptedBackend

__all__ = [
    "ScriptError",
    "ScriptedModel",
    "When",
    "call",
    "compute",
    "expecting",
    "fail",
    "malformed",
    "say",
    "when",
]

FinishReason = Literal["stop", "max_tokens", "other"]


def call(name: str, args: Mapping[str, Any] | None = None) -> ScriptedCall:
    """A call of a function, with its arguments."""
    return ScriptedCall(name=name, args=dict(args or {}))


def expecting(
    *,
    tool: str | None = None,
    last_message_contains: str | None = None,
    last_message_matches: str | None = None,
    caller: str | None = None,
) -> Expectation:
    """What the request must look like that a step answers; see `Expectation`.

    Raises ScriptError for a pattern that is no regular expression.
    """
    given = {
        "tool": tool,
        "last_message_contains": last_message_contains,
        "last_message_matches": last_message_matches,
        "caller": caller,
    }
    try:
        return Expectation.model_validate(_without_none(given))
    except ValidationError as error:
        raise ScriptError(str(error)) from None


def say(
    text: str | None = None,
    *,
    calls: Sequence[ScriptedCall] = (),
    chunks: Sequence[str] | None = None,
    chunk_size: int | None = None,
    thought: str | None = None,
    delay: float = 0.0,
    chunk_delay: float = 0.0,
    finish_reason: FinishReason = "stop",
    usage: ScriptedUsage | None = None,
    expect: Expectation | None = None,
    repeat: int = 1,
) -> Step:
    """An answer: a text, then calls. Delays are seconds of device time; a chunk has `chunk_size`
    characters. `say("")` is an empty answer. Raises ScriptError."""
    given: dict[str, Any] = {
        "thought": thought,
        "text": text,
        "chunks": None if chunks is None else list(chunks),
        "function_calls": list(calls) or None,
        "chunk_size": chunk_size,
        "delay": delay or None,
        "chunk_delay": chunk_delay or None,
        "finish_reason": finish_reason if finish_reason != "stop" else None,
        "usage": usage,
        "expect": expect,
        "repeat": repeat if repeat != 1 else None,
    }
    return _step(given)


def fail(
    code: int | str,
    message: str = "Scripted failure.",
    *,
    after: str | None = None,
    after_chunks: int | None = None,
    delay: float = 0.0,
    expect: Expectation | None = None,
    repeat: int = 1,
) -> Step:
    """A failure by its name or number; after the text `after`, or `after_chunks` chunks of it.
    Raises ScriptError, for a name that is no error code's, too."""
    error = _without_none({"code": code, "message": message, "after_chunks": after_chunks})
    given = {
        "text": after,
        "error": error,
        "delay": delay or None,
        "expect": expect,
        "repeat": repeat if repeat != 1 else None,
    }
    return _step(given)


def malformed(text: str, reason: str = "scripted") -> Step:
    """A call that does not parse; `text` is what the model wrote."""
    return _step({"malformed_call": {"text": text, "reason": reason}})


def compute(function: Answering, *, expect: Expectation | None = None, repeat: int = 1) -> Computed:
    """A step that a function answers, with a text or a step. It runs in the device's event loop:
    it must not block, and may be a coroutine function. It cannot be written to a file."""
    return Computed(function=function, expect=expect, repeat=repeat)


@dataclass(frozen=True)
class When:
    """The first half of a rule; its methods make the rule. `times` of None is any number."""

    fits: Expectation

    def say(self, text: str, *, delay: float = 0.0, times: int | None = None) -> Rule:
        """Answers with a text, after `delay` seconds of device time."""
        return self.answer(say(text, delay=delay), times=times)

    def call(
        self, name: str, args: Mapping[str, Any] | None = None, *, times: int | None = None
    ) -> Rule:
        """Calls a function."""
        return self.answer(say(calls=[call(name, args)]), times=times)

    def fail(
        self, code: int | str, message: str = "Scripted failure.", *, times: int | None = None
    ) -> Rule:
        """Fails with a code, by its name or number. Raises ScriptError for an unknown name."""
        return self.answer(fail(code, message), times=times)

    def compute(self, function: Answering, *, times: int | None = None) -> ComputedRule:
        """Lets a function answer; see `compute`."""
        return ComputedRule(when=self.fits, function=function, times=times)

    def answer(self, step: Step, *, times: int | None = None) -> Rule:
        """A rule with any answer; `expect` and `repeat` are the step's alone and refused here."""
        given = {name: getattr(step, name) for name in step.model_fields_set}
        given |= _without_none({"when": self.fits, "times": times})
        try:
            return Rule.model_validate(given)
        except ValidationError as error:
            raise ScriptError(_said(error)) from None


def when(
    *,
    tool: str | None = None,
    last_message_contains: str | None = None,
    last_message_matches: str | None = None,
    caller: str | None = None,
) -> When:
    """Requests that declare a tool, whose last message is such, or that come from a package."""
    fits = expecting(
        tool=tool,
        last_message_contains=last_message_contains,
        last_message_matches=last_message_matches,
        caller=caller,
    )
    if not fits.model_fields_set:
        raise ScriptError("when() needs one of tool, last_message_contains, …; see its signature")
    return When(fits)


class ScriptedModel:
    """A script and the backends that play it."""

    def __init__(
        self,
        *steps: Step | Computed,
        rules: Sequence[Rule | ComputedRule] = (),
        otherwise: Otherwise = "error",
    ) -> None:
        """`rules` answer what fits them, before the steps; `otherwise` what is left: with an
        error (the default), an echo, or automatic calls (`auto`).

        Raises ScriptError for a step whose values cannot be sent to an app.
        """
        for kind, found in (("step", steps), ("rule", tuple(rules))):
            for number, step in enumerate(found, 1):
                if isinstance(step, Step):
                    check_sendable(step, f"{kind} {number}")
        self.script = Script(steps=steps, rules=tuple(rules), otherwise=otherwise)
        self._backends: list[ScriptedBackend] = []

    @classmethod
    def from_yaml(cls, text: str, *, source: str = "script") -> ScriptedModel:
        """Read a script. Raises ScriptError that begins with `source`."""
        return cls._of(parse_script(text, source=source))

    @classmethod
    def load(cls, path: Path) -> ScriptedModel:
        """Read a script file. Raises ScriptError."""
        return cls._of(load_script(path))

    @classmethod
    def _of(cls, script: Script) -> ScriptedModel:
        return cls(*script.steps, rules=script.rules, otherwise=script.otherwise)

    def to_yaml(self) -> str:
        """The script as a script file. Raises ScriptError for Python functions."""
        return dump_script(self.script)

    def save(self, path: Path) -> str:
        """Write the script file and return the `--model` value that plays it."""
        path.write_text(self.to_yaml(), encoding="utf-8")
        return f"scripted:{path}"

    def backend(
        self,
        *,
        clock: Clock | None = None,
        token_limit: int = DEFAULT_TOKEN_LIMIT,
        seed: int = 0,
    ) -> ScriptedBackend:
        """A backend for a device in this process, with the script from its beginning. `seed` is
        for `otherwise="auto"`."""
        made = ScriptedBackend(self.script, clock=clock, token_limit=token_limit, seed=seed)
        self._backends.append(made)
        return made

    @property
    def requests(self) -> tuple[GenerateRequest, ...]:
        """What was asked of the backends made here, in the order of the backends."""
        return tuple(request for one in self._backends for request in one.requests)

    def assert_complete(self) -> None:
        """Raises AssertionError when a step, or a rule with `times`, is left over, or when no
        backend was made here: a device in another process is asked with
        `aicore-sim ctl script show`, and `aicore-sim exec` exits with 6."""
        if not self._backends:
            raise AssertionError("no device in this process has used the script")
        for backend in self._backends:
            backend.assert_complete()


def _step(given: Mapping[str, Any]) -> Step:
    try:
        return Step.model_validate(_without_none(given))
    except ValidationError as error:
        raise ScriptError(_said(error)) from None


def _said(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, one['loc'])) or 'step'}: {one['msg'].removeprefix('Value error, ')}"
        for one in error.errors()
    )


def _without_none(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}
