"""The format of a suite: what a model is asked, and what a right answer is.

A suite is a list of cases, in YAML, or as JSON lines with one case each::

    - id: weather-paris
      category: single_call
      system: You help with the weather.
      tools:
        - name: get_weather
          description: Tells the weather.
          parameters: {type: object, properties: {city: {type: string}}, required: [city]}
      contents:
        - user: How is the weather in Paris?
      expect:
        calls: [{name: get_weather, args: {city: Paris}}]
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from aicore_sim.inference.backend import Schema
from aicore_sim.inference.json_schema import read_schema
from aicore_sim.inference.validation import why_not

Text = Annotated[str, Field(min_length=1)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _parameters(found: object) -> object:
    return found if isinstance(found, Schema) else read_schema(found, "parameters")


def _several(found: object) -> object:
    """One text is a list of one; YAML and JSON know no tuples."""
    return (found,) if isinstance(found, str) else _tuple(found)


def _tuple(found: object) -> object:
    return tuple(found) if isinstance(found, list) else found


class Tool(_Record):
    """A function that the model may call; `parameters` is a JSON schema of an object."""

    name: Text
    description: str = ""
    parameters: Annotated[Schema, BeforeValidator(_parameters)] = Schema(type="object")


class Call(_Record):
    name: Text
    args: dict[str, JsonValue] = {}


class FunctionResult(_Record):
    """What a function answered."""

    name: Text
    response: dict[str, JsonValue]


class Turn(_Record):
    """One content of the conversation: what the user says, what functions answered, or what the
    model said and called before."""

    user: Text | None = None
    model: Text | None = None
    calls: Annotated[tuple[Call, ...], BeforeValidator(_tuple)] = ()
    results: Annotated[tuple[FunctionResult, ...], BeforeValidator(_tuple)] = ()

    @model_validator(mode="after")
    def _has_one_speaker(self) -> Turn:
        said = (self.user is not None, bool(self.results), self.of_model)
        if sum(said) != 1:
            raise ValueError("a turn is one of: user, results, or the model's (model, calls)")
        return self

    @property
    def of_model(self) -> bool:
        return self.model is not None or bool(self.calls)


Calls = Annotated[tuple[Call, ...], BeforeValidator(_tuple)]
Fact = Annotated[tuple[Text, ...], BeforeValidator(_several), Field(min_length=1)]
"""Texts that say the same; one of them is enough."""


class Expectation(_Record):
    """What a right answer is: calls, or none of them and a text."""

    calls: Calls = ()
    """These and no others; the text beside them is free."""
    alternatives: Annotated[tuple[Calls, ...], BeforeValidator(_tuple)] = ()
    """Other lists of calls that are as right."""
    ordered: bool = False
    """Whether the calls have to come in this order."""
    no_call: bool = False
    """The answer is a text. What else is expected of texts implies it."""
    contains: Annotated[tuple[Fact, ...], BeforeValidator(_tuple)] = ()
    """What the text has to say, each as a text or a list of texts of which one is enough."""
    asks_for: Annotated[tuple[Text, ...], BeforeValidator(_several)] = ()
    """Beginnings of words; a text that asks for what is missing has one of them, and asks."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> Expectation:
        of_text = self.no_call or bool(self.contains) or bool(self.asks_for)
        if bool(self.calls) == of_text:
            raise ValueError("expect either calls, or a text: no_call, contains, asks_for")
        if not self.calls and (self.alternatives or self.ordered):
            raise ValueError("alternatives and ordered are about calls, and there are none")
        if not all(self.alternatives):
            raise ValueError("an alternative is a list of calls, and one is empty")
        return self

    @property
    def right_calls(self) -> tuple[tuple[Call, ...], ...]:
        """Every list of calls that is right; empty when a text is expected."""
        return (self.calls, *self.alternatives) if self.calls else ()


class Case(_Record):
    """One answer of the model, and what is right for it."""

    id: Text
    category: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]
    system: str = ""
    tools: Annotated[tuple[Tool, ...], BeforeValidator(_tuple)] = ()
    tool_choice: Literal["auto", "required"] = "auto"
    contents: Annotated[tuple[Turn, ...], BeforeValidator(_tuple), Field(min_length=1)]
    """Oldest first; the last is the user's, or results."""
    expect: Expectation

    @model_validator(mode="after")
    def _fits_together(self) -> Case:
        declared = {tool.name: tool.parameters for tool in self.tools}
        if len(declared) != len(self.tools):
            raise ValueError("two tools have the same name")
        if self.contents[-1].of_model:
            raise ValueError("the last of contents is the model's; the model has to answer it")
        if self.tool_choice == "required" and not self.expect.calls:
            raise ValueError("tool_choice is required, and expect has no calls")
        for call in (call for calls in self.expect.right_calls for call in calls):
            if call.name not in declared:
                raise ValueError(f"expect calls {call.name!r}, tools are {sorted(declared)}")
            if wrong := why_not(declared[call.name], call.args):
                raise ValueError(f"expect calls {call.name!r} with args that do not fit: {wrong}")
        return self

    def schema_of(self, name: str) -> Schema | None:
        """Parameters of a tool; None for one that is not declared."""
        return next((tool.parameters for tool in self.tools if tool.name == name), None)
