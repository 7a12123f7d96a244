"""Conversations to learn from and to measure with: a request to the daemon, and the answer."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from aicore_sim.inference.backend import (
    Content,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    Part,
    TextPart,
    ToolDeclaration,
)
from scripts.adapter import chatter
from scripts.adapter.chatter import acknowledge, cannot, explain
from scripts.adapter.domains import Domain, Function, Split, domains
from scripts.adapter.fill import Named, Style, Use, draw_style, dress, rename, result, use
from scripts.adapter.values import Side

Category = Literal[
    "call",
    "parallel",
    "two_step",
    "small_talk",
    "out_of_scope",
    "missing",
    "result",
    "error",
    "declined",
    "turns",
]
CATEGORIES: tuple[Category, ...] = get_args(Category)
WEIGHTS: dict[Category, int] = {
    "call": 55,
    "parallel": 7,
    "two_step": 7,
    "small_talk": 3,
    "out_of_scope": 6,
    "missing": 6,
    "result": 10,
    "error": 3,
    "declined": 2,
    "turns": 9,
}


class Example(BaseModel):
    """One answer to give. `answer` is what the model should say, in parts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    category: Category
    domain: str
    request: GenerateRequest
    answer: tuple[Part, ...]
    facts: tuple[str, ...] = ()
    """Texts that a right answer contains."""


@dataclass(frozen=True, kw_only=True)
class _Shared:
    """What the examples of a group have in common."""

    system: str
    offered: tuple[Named, ...]


@dataclass(frozen=True, kw_only=True)
class _Says:
    """Words that belong to no domain."""

    instructions: tuple[str, ...]
    small_talk: tuple[tuple[str, str], ...]
    errors: tuple[str, ...]
    links: tuple[str, ...]
    plans: tuple[str, ...]
    bare_wishes: tuple[str, ...]


_OF_TRAINING = _Says(
    instructions=chatter.INSTRUCTIONS,
    small_talk=chatter.SMALL_TALK,
    errors=chatter.ERRORS,
    links=chatter.LINKS,
    plans=chatter.PLANS,
    bare_wishes=chatter.BARE_WISHES,
)
_OF_TESTS = _Says(
    instructions=chatter.INSTRUCTIONS_OF_TESTS,
    small_talk=chatter.SMALL_TALK_OF_TESTS,
    errors=tuple(chatter.ERRORS_OF_TESTS),
    links=chatter.LINKS_OF_TESTS,
    plans=chatter.PLANS_OF_TESTS,
    bare_wishes=chatter.BARE_WISHES_OF_TESTS,
)


class Writer:
    """Writes examples of one split. The same seed gives the same examples."""

    def __init__(self, split: Split, seed: int) -> None:
        self._domains = [domain for domain in domains() if domain.split == split]
        self._side: Side = "train" if split == "train" else "held-out"
        self._says = _OF_TESTS if split == "test" else _OF_TRAINING
        self._rng = random.Random(f"{split} {seed}")
        self._style: Style = "camel"
        self._shared: _Shared | None = None

    def examples(self) -> Iterator[Example]:
        """Without end, by the weights of the categories."""
        while True:
            yield self.write(self._category())

    def group(self, size: int) -> list[Example]:
        """Examples of one instruction and one list of functions, so that their prompts begin alike.

        Each is as if it stood alone.
        """
        domain = self._rng.choice(self._domains)
        self._style = draw_style(self._rng)
        count = self._rng.choice((1, 2, 3, 3, 4, 4, 5, 6, 7, 8))
        offered: dict[str, Named] = {}
        for _ in range(count):
            source = domain if self._rng.random() < 0.6 else self._rng.choice(self._domains)
            named = self._rename(self._rng.choice(source.functions))
            if named.function.name not in {other.function.name for other in offered.values()}:
                offered.setdefault(named.declaration.name, named)
        self._shared = _Shared(
            system=self._rng.choice(self._says.instructions), offered=tuple(offered.values())
        )
        try:
            made: list[Example] = []
            while len(made) < size:
                # One function alone has no second one to be called with, so draws may fail.
                example = self._write(self._category(), domain)
                if example is not None:
                    made.append(example)
            return made
        finally:
            self._shared = None

    def _category(self) -> Category:
        return self._rng.choices(CATEGORIES, [WEIGHTS[name] for name in CATEGORIES])[0]

    def write(self, category: Category) -> Example:
        """One example; draws again where a draw does not fit the category."""
        while True:
            domain = self._rng.choice(self._domains)
            made = self._write(category, domain)
            if made is not None:
                return made

    def _write(self, category: Category, domain: Domain) -> Example | None:
        if self._shared is None:
            self._style = draw_style(self._rng)
            named = self._rename(self._rng.choice(domain.functions))
        else:
            named = self._rng.choice(self._shared.offered)
        tools = self._tools(domain, [named])
        match category:
            case "call":
                used = self._use(named)
                return self._example(category, domain, tools, [_user(used.sentence)], [_call(used)])
            case "parallel":
                return self._parallel(domain, named)
            case "two_step":
                return self._two_step(domain, named)
            case "small_talk":
                said, answer = self._rng.choice(self._says.small_talk)
                return self._example(category, domain, tools, [_user(said)], [_text(answer)])
            case "out_of_scope":
                return self._out_of_scope(domain)
            case "missing":
                return self._missing(domain, named, tools)
            case "result":
                return self._result(domain, named, tools)
            case "error":
                used = self._use(named)
                error = self._rng.choice(self._says.errors)
                contents = [*self._called(used), _response(used, {"error": error})]
                answer = explain(error, self._rng)
                return self._example(category, domain, tools, contents, [_text(answer)], [error])
            case "declined":
                used = self._use(named)
                reply = {
                    "status": "CANCELLED_BY_USER",
                    "message": "Action was declined by the user.",
                }
                contents = [*self._called(used), _response(used, reply)]
                return self._example(
                    category, domain, tools, contents, [_text(acknowledge(self._rng))]
                )
            case "turns":
                return self._turns(domain, named)

    def _parallel(self, domain: Domain, first: Named) -> Example | None:
        second = self._other(domain, first)
        if second is None:
            return None
        uses = [use(named, self._side, self._rng, plain=True) for named in (first, second)]
        if self._rng.random() < 0.4:
            uses[1] = use(first, self._side, self._rng, plain=True)
            if uses[1].arguments == uses[0].arguments:
                return None
        link = self._rng.choice(self._says.links)
        text = dress(link.join(used.sentence for used in uses), uses[0].sentence, self._rng)
        tools = self._tools(domain, [first, second])
        answer = [_call(used) for used in uses]
        return self._example("parallel", domain, tools, [_user(text)], answer)

    def _two_step(self, domain: Domain, first: Named) -> Example | None:
        second = self._other(domain, first)
        if second is None:
            return None
        uses = [use(named, self._side, self._rng, plain=True) for named in (first, second)]
        frame = self._rng.choice(self._says.plans)
        asked = _user(dress(frame.format(*(used.sentence for used in uses)), frame, self._rng))
        tools = self._tools(domain, [first, second])
        given, told, facts = result(uses[0], self._side, self._rng)
        given2, told2, facts2 = result(uses[1], self._side, self._rng)
        step = self._rng.choice((0, 1, 1, 2))
        if step == 0:
            return self._example("two_step", domain, tools, [asked], [_call(uses[0])])
        contents = [asked, _model(_call(uses[0])), _response(uses[0], given)]
        if step == 1:
            return self._example("two_step", domain, tools, contents, [_call(uses[1])])
        if not told or not told2:
            return None
        contents += [_model(_call(uses[1])), _response(uses[1], given2)]
        answer = _text(f"{told} {told2}")
        return self._example("two_step", domain, tools, contents, [answer], [*facts, *facts2])

    def _out_of_scope(self, domain: Domain) -> Example | None:
        other = self._rng.choice(self._domains)
        if other.name == domain.name:
            return None
        foreign = self._rename(self._rng.choice(other.functions))
        if self._shared is not None:
            if foreign.function.name in {named.function.name for named in self._shared.offered}:
                return None
            tools = [named.declaration for named in self._shared.offered]
            asked = _user(use(foreign, self._side, self._rng).sentence)
            return self._example("out_of_scope", domain, tools, [asked], [_text(cannot(self._rng))])
        count = self._rng.randint(0, len(domain.functions))
        offered = [self._rename(each) for each in self._rng.sample(domain.functions, count)]
        tools = [named.declaration for named in offered]
        asked = _user(use(foreign, self._side, self._rng).sentence)
        return self._example("out_of_scope", domain, tools, [asked], [_text(cannot(self._rng))])

    def _missing(
        self, domain: Domain, named: Named, tools: tuple[ToolDeclaration, ...]
    ) -> Example | None:
        function = named.function
        if not function.ask:
            return None
        left_out = self._rng.choice(list(function.ask))
        used = use(named, self._side, self._rng, plain=True)
        told = [
            f"{_in_words(name)} {used.words[name]}"
            for name, given in function.parameters.items()
            if name != left_out and not given.optional and name in used.words
        ]
        frame = self._rng.choice(self._says.bare_wishes)
        tail = f", {', '.join(told)}" if told else ""
        said = dress(frame.format(function.name, tail), frame, self._rng)
        answer = _text(function.ask[left_out])
        if self._rng.random() < 0.3:
            # The user answers, and the call follows.
            value = used.words.get(left_out)
            if value is None:
                return None
            required = {
                named.names[name]
                for name, given in function.parameters.items()
                if not given.optional
            }
            arguments = {key: value for key, value in used.arguments.items() if key in required}
            call = FunctionCallPart(name=named.declaration.name, args=arguments)
            contents = [_user(said), _model(answer), _user(value)]
            return self._example("missing", domain, tools, contents, [call])
        return self._example("missing", domain, tools, [_user(said)], [answer])

    def _result(
        self, domain: Domain, named: Named, tools: tuple[ToolDeclaration, ...]
    ) -> Example | None:
        used = self._use(named)
        given, told, facts = result(used, self._side, self._rng)
        if not told:
            return None
        if self._rng.random() < 0.3:
            given = dict(self._rng.sample(list(given.items()), len(given)))
        contents = [*self._called(used), _response(used, given)]
        return self._example("result", domain, tools, contents, [_text(told)], facts)

    def _turns(self, domain: Domain, first: Named) -> Example | None:
        second = self._other(domain, first)
        if second is None:
            return None
        before, after = self._use(first), self._use(second)
        given, told, _ = result(before, self._side, self._rng)
        if not told:
            return None
        contents = [
            *self._called(before),
            _response(before, given),
            _model(_text(told)),
            _user(after.sentence),
        ]
        tools = self._tools(domain, [first, second])
        return self._example("turns", domain, tools, contents, [_call(after)])

    def _use(self, named: Named) -> Use:
        return use(named, self._side, self._rng)

    def _called(self, used: Use) -> list[Content]:
        return [_user(used.sentence), _model(_call(used))]

    def _other(self, domain: Domain, named: Named) -> Named | None:
        if self._shared is not None:
            found = self._rng.choice(self._shared.offered)
            return None if found is named else found
        function: Function = self._rng.choice(domain.functions)
        return None if function.name == named.function.name else self._rename(function)

    def _rename(self, function: Function) -> Named:
        """In the style of this conversation; now and then in another."""
        style = draw_style(self._rng) if self._rng.random() < 0.1 else self._style
        return rename(function, style, self._rng)

    def _tools(self, domain: Domain, needed: Sequence[Named]) -> tuple[ToolDeclaration, ...]:
        """The needed functions among zero to eight others."""
        if self._shared is not None:
            return tuple(named.declaration for named in self._shared.offered)
        offered = {named.declaration.name: named.declaration for named in needed}
        taken = {named.function.name for named in needed}
        wanted = self._rng.choice((0, 0, 1, 2, 2, 3, 4, 5, 6, 8))
        for _ in range(wanted):
            source = domain if self._rng.random() < 0.6 else self._rng.choice(self._domains)
            function = self._rng.choice(source.functions)
            if function.name not in taken:
                taken.add(function.name)
                made = self._rename(function).declaration
                offered.setdefault(made.name, made)
        return tuple(self._rng.sample(list(offered.values()), len(offered)))

    def _example(
        self,
        category: Category,
        domain: Domain,
        tools: Sequence[ToolDeclaration],
        contents: Sequence[Content],
        answer: Sequence[Part],
        facts: Sequence[str] = (),
    ) -> Example:
        system = (
            self._rng.choice(self._says.instructions)
            if self._shared is None
            else self._shared.system
        )
        return Example(
            category=category,
            domain=domain.name,
            request=GenerateRequest(
                contents=tuple(contents), system_instruction=system, tools=tuple(tools)
            ),
            answer=tuple(answer),
            facts=tuple(facts),
        )


def _user(text: str) -> Content:
    return Content(role="user", parts=(TextPart(text=text),))


def _model(part: Part) -> Content:
    return Content(role="model", parts=(part,))


def _text(text: str) -> TextPart:
    return TextPart(text=text)


def _call(used: Use) -> FunctionCallPart:
    return FunctionCallPart(name=used.named.declaration.name, args=used.arguments)


def _response(used: Use, response: dict[str, Any]) -> Content:
    part = FunctionResponsePart(name=used.named.declaration.name, response=response)
    return Content(role="user", parts=(part,))


def _in_words(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
