"""One random use of a function: its declaration, a sentence, the arguments and a result."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from aicore_sim.inference.backend import Schema, ToolDeclaration
from scripts.adapter.domains import Function, Parameter, Value, slots
from scripts.adapter.values import Side, choose

Style = Literal["camel", "snake", "pascal"]

_OPENINGS = (
    "",
    "",
    "",
    "please ",
    "hey, ",
    "could you help: ",
    "hi, ",
    "ok, ",
    "quick one: ",
    "now ",
)
_CLOSINGS = ("", "", "", ".", ".", "!", " please", ", thanks", " - thank you", "?")


@dataclass(frozen=True, kw_only=True)
class Named:
    """A function under the names that one conversation gives it."""

    function: Function
    declaration: ToolDeclaration
    names: dict[str, str]
    """The parameter's name in the conversation, by its name in the data."""


@dataclass(frozen=True, kw_only=True)
class Use:
    """What is said, and the call that it stands for."""

    named: Named
    sentence: str
    arguments: dict[str, Any]
    words: dict[str, str] = field(repr=False)
    """Each argument as it was said, by slot."""


def draw_style(rng: random.Random) -> Style:
    """One of the styles in which apps name their functions."""
    return rng.choice(("camel", "camel", "snake", "snake", "pascal"))


def rename(function: Function, style: Style, rng: random.Random) -> Named:
    """Declare a function under names of that style, with or without descriptions."""
    described = rng.random()
    names = {name: _styled(name, style) for name in function.parameters}
    properties = {
        names[name]: _schema(given, style, described < 0.75)
        for name, given in function.parameters.items()
    }
    declaration = ToolDeclaration(
        name=_styled(function.name, style, function=True),
        description=function.does if described < 0.92 else "",
        parameters=Schema(
            type="object",
            properties=properties,
            required=tuple(
                names[name] for name, given in function.parameters.items() if not given.optional
            ),
        ),
    )
    return Named(function=function, declaration=declaration, names=names)


def use(named: Named, side: Side, rng: random.Random, *, plain: bool = False) -> Use:
    """Say a random phrase of the function with random values; `plain` adds nothing around it."""
    phrase = rng.choice(named.function.say)
    arguments: dict[str, Any] = {}
    words: dict[str, str] = {}
    style = _style_of(named)
    said = slots(phrase)
    for name, given in named.function.parameters.items():
        if name in said:
            arguments[named.names[name]] = _argument(name, given, style, side, rng, words)
    sentence = re.sub(r"\{([\w.]+)\}", lambda slot: words[slot[1]], phrase)
    return Use(
        named=named,
        sentence=sentence if plain else dress(sentence, phrase, rng),
        arguments=arguments,
        words=words,
    )


def result(used: Use, side: Side, rng: random.Random) -> tuple[dict[str, Any], str, list[str]]:
    """What the function gives, the sentence that tells it, and the facts that have to be in it."""
    given: dict[str, Any] = {}
    for name, value in used.named.function.gives.items():
        if value.copy_of is not None:
            copied = used.arguments.get(used.named.names[value.copy_of])
            given[name] = copied
        else:
            given[name] = _value(value, side, rng)
    usable = [
        text
        for text in used.named.function.answer
        if slots(text) - set(given) <= set(used.words)
        and all(given[slot] is not None for slot in slots(text) & set(given))
    ]
    if not usable:
        return given, "", []
    answer = rng.choice(usable)
    told = {**used.words, **{name: _said(value) for name, value in given.items()}}
    facts = [told[slot] for slot in sorted(slots(answer) & set(given))]
    text = re.sub(r"\{([\w.]+)\}", lambda slot: told[slot[1]], answer)
    return given, text[:1].upper() + text[1:], facts


def dress(sentence: str, phrase: str, rng: random.Random) -> str:
    """Manners and punctuation around a sentence. Values in it stay as they are."""
    opening, closing = rng.choice(_OPENINGS), rng.choice(_CLOSINGS)
    text = opening + sentence
    if (opening or not phrase.startswith("{")) and rng.random() < 0.6:
        text = text[:1].upper() + text[1:]
    return text + closing


def joined(words: list[str]) -> str:
    """As people list things."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _argument(
    name: str,
    given: Parameter,
    style: Style,
    side: Side,
    rng: random.Random,
    words: dict[str, str],
) -> Any:
    """Draw a value and note in `words` how it is said."""
    match given.type:
        case "list":
            pool = given.pool or ""
            values = _distinct(lambda: choose(pool, side, rng), rng.choice((1, 2, 2, 3)))
            words[name] = joined(values)
            return values
        case "integers":
            numbers = [int(_value(given, side, rng)) for _ in range(rng.randint(2, 5))]
            words[name] = joined([str(number) for number in numbers])
            return numbers
        case "object":
            made = {}
            for key, value in given.fields.items():
                made[_styled(key, style)] = _argument(
                    f"{name}.{key}", value, style, side, rng, words
                )
            return made
        case "objects":
            rows = []
            said = []
            for _ in range(rng.choice((1, 2, 2, 3))):
                inner: dict[str, str] = {}
                rows.append(
                    {
                        _styled(key, style): _argument(key, value, style, side, rng, inner)
                        for key, value in given.fields.items()
                    }
                )
                said.append(" for ".join(inner.values()))
            words[name] = joined(said)
            return rows
        case "boolean":
            truth = rng.random() < 0.5
            words[name] = (given.surface or {})[truth]
            return truth
        case _:
            if given.enum is not None:
                sent = rng.choice(list(given.enum))
                words[name] = str(given.enum[sent])
                return sent
            drawn = _value(given, side, rng)
            words[name] = _said(drawn)
            return drawn


def _value(given: Value, side: Side, rng: random.Random) -> Any:
    if given.pool is not None:
        return choose(given.pool, side, rng)
    if given.choose is not None:
        return rng.choice(given.choose)
    assert given.range is not None
    low, high = given.range
    number = round(low + given.step * rng.randint(0, int((high - low) / given.step)), 2)
    return int(number) if float(number).is_integer() else number


def _said(value: Any) -> str:
    return str(value)


def _distinct(draw: Any, count: int) -> list[str]:
    found: list[str] = []
    for _ in range(10 * count):
        if (value := draw()) not in found:
            found.append(value)
        if len(found) == count:
            break
    return found


def _schema(given: Parameter, style: Style, described: bool) -> Schema:
    about = given.about if described else ""
    match given.type:
        case "list":
            return Schema(type="array", description=about, items=Schema(type="string"))
        case "integers":
            return Schema(type="array", description=about, items=Schema(type="integer"))
        case "object" | "objects":
            made = Schema(
                type="object",
                description=about if given.type == "object" else "",
                properties={
                    _styled(key, style): _schema(value, style, described)
                    for key, value in given.fields.items()
                },
                required=tuple(_styled(key, style) for key in given.fields),
            )
            if given.type == "object":
                return made
            return Schema(type="array", description=about, items=made)
        case _:
            enum = tuple(str(value) for value in given.enum or ())
            return Schema(type=given.type, description=about, enum=enum)


def _style_of(named: Named) -> Style:
    name = named.declaration.name
    return "pascal" if name[:1].isupper() else "snake" if "_" in name else "camel"


def _styled(name: str, style: Style, *, function: bool = False) -> str:
    words = re.findall(r"[A-Z]?[a-z0-9]+", name)
    if style == "snake":
        return "_".join(word.lower() for word in words)
    camel = words[0].lower() + "".join(word.capitalize() for word in words[1:])
    return camel[:1].upper() + camel[1:] if style == "pascal" and function else camel
