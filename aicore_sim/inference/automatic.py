"""Answers without a script: `echo`, and `auto`, which calls every function once."""

from __future__ import annotations

from aicore_sim.inference.backend import (
    FunctionCallPart,
    GenerateRequest,
    TextPart,
    ToolDeclaration,
)
from aicore_sim.inference.request_text import last_text, to_json
from aicore_sim.inference.schema_values import made_value
from aicore_sim.inference.script import ScriptedCall, Step


def echo_step(request: GenerateRequest) -> Step:
    """Says what the last message says."""
    return Step(text=last_text(request))


def automatic_step(request: GenerateRequest, *, seed: int) -> Step:
    """Calls each declared function once since the user's last message, then answers.

    Arguments follow from the schema and the seed alone, so a run repeats. With a response schema
    the answer is JSON of it. A tool choice is followed. Raises SimulatorFault naming a schema that
    no value could be made for.
    """
    called = _called(request)
    choice = request.tool_choice
    tools = [tool for tool in request.tools if choice.mode != "named" or tool.name == choice.name]
    due = [tool for tool in tools if tool.name not in called]
    if choice.mode in ("required", "named") and not due:
        due = tools
    if due and choice.mode != "none":
        return Step(function_calls=[_call(tool, seed) for tool in due])
    if request.response_schema is not None:
        value = made_value(request.response_schema, seed=seed, name="response")
        return Step(text=to_json(value))
    named = ", ".join(called) if called else "no function"
    return Step(text=f"Automatic answer (seed {seed}): called {named}.")


def _call(tool: ToolDeclaration, seed: int) -> ScriptedCall:
    args = made_value(tool.parameters, seed=seed, name=tool.name)
    assert isinstance(args, dict)
    return ScriptedCall(name=tool.name, args=args)


def _called(request: GenerateRequest) -> list[str]:
    """Names of the functions called since the user last said something, in order."""
    names: list[str] = []
    for content in request.contents:
        if content.role == "user" and any(isinstance(part, TextPart) for part in content.parts):
            names = []
        names += [part.name for part in content.parts if isinstance(part, FunctionCallPart)]
    return list(dict.fromkeys(names))
