"""Failures on demand: counted rules, and what they do to a call.

A rule with a probability draws from its own seed, which is always shown, so that a run can be had
again.

fired = plan.decide("GenerateContent", package_name="com.example.app")
await before_call(fired, clock=clock, failure=aicore_failure)
async for chunk in faulty_stream(fired, backend.generate(request), port): ...
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from aicore_sim.device.clock import NANOS, Clock
from aicore_sim.device.fault_rules import (
    FailAfterTokens,
    FaultAction,
    FaultError,
    FaultRule,
    KillWorker,
    Malformed,
    check_rpc,
    parse_fault,
)

__all__ = [
    "FaultError",
    "FaultPlan",
    "FaultRule",
    "Fired",
    "ListedFault",
    "StreamPort",
    "before_call",
    "faulty_stream",
    "parse_fault",
]

RULE_LIMIT = 1000


@dataclass(frozen=True, kw_only=True)
class Fired:
    """One rule that fired for a call."""

    fault_id: str
    action: FaultAction


@dataclass(frozen=True, kw_only=True)
class ListedFault:
    """A rule of the plan and how often it has fired."""

    rule: FaultRule
    hits: int

    def to_wire(self) -> dict[str, Any]:
        """JSON of `Fault` in device.proto."""
        return self.rule.to_wire(hits=self.hits)


@dataclass(kw_only=True)
class _Counts:
    matched: int = 0
    hits: int = 0
    changed: bool = False


class HostPort(Protocol):
    """Where the rules go that the AppFunction host follows."""

    def publish(self, rules: Iterable[FaultRule]) -> None:
        """These are all that there are now, in order."""

    def hits(self) -> Mapping[str, int]:
        """How often each has fired, by id."""


class FaultPlan:
    """The rules of one device, in the order in which they were added.

    Delays add up. Of the other actions a call gets one: the first rule that is due. The rules
    behind it do not see the call, so "BUSY twice" and then "NOT_AVAILABLE once" is a sequence.
    """

    def __init__(
        self,
        *,
        rpcs: Iterable[str],
        clock: Clock,
        host: HostPort | None = None,
        for_host: bool = False,
        seed: int = 0,
    ) -> None:
        """`rpcs` are the bare names of the calls that faults may be for.

        With `host`, rules for calls of the AppFunction host are handed to it; `for_host` makes the
        plan that decides there. `seed` is what seeds are made from where a rule has none.
        """
        self._rpcs = frozenset(rpcs)
        self._clock = clock
        self._host = host
        self._for_host = for_host
        self._seed = seed
        self._rules: dict[str, tuple[FaultRule, _Counts]] = {}
        self._number = 0
        self._drawn = 0

    def add(self, table: Mapping[str, Any] | FaultRule) -> ListedFault:
        """Add a rule; a rule without an id gets one.

        Raises FaultError for a bad rule, naming the key, and when there are RULE_LIMIT already.
        Nothing changes then.
        """
        if isinstance(table, FaultRule):
            rule = table
            check_rpc(rule, self._rpcs)
        else:
            rule = parse_fault(table, rpcs=self._rpcs)
        if len(self._rules) >= RULE_LIMIT:
            raise FaultError(f"{RULE_LIMIT} faults are set already; clear them first")
        if rule.id in self._rules:
            raise FaultError(f"id: {rule.id!r} is the id of another fault")
        while not rule.id or rule.id in self._rules:
            self._number += 1
            rule = rule.model_copy(update={"id": f"fault-{self._number}"})
        if rule.probability and not rule.seed:
            self._drawn += 1
            rule = rule.model_copy(update={"seed": self._seed * 1000 + self._drawn})
        self._rules[rule.id] = (rule, _Counts())
        self._publish(rule)
        return ListedFault(rule=rule, hits=0)

    def resume(self, rule: FaultRule, *, matched: int, hits: int) -> None:
        """Take over a rule with what was counted before."""
        self._rules[rule.id] = (rule, _Counts(matched=matched, hits=hits))

    def take_changed_counts(self) -> tuple[tuple[str, int, int], ...]:
        """Id, matched and hits of the rules whose counts have changed since the last time."""
        changed = []
        for rule, seen in self._rules.values():
            if seen.changed:
                seen.changed = False
                changed.append((rule.id, seen.matched, seen.hits))
        return tuple(changed)

    def list(self) -> tuple[ListedFault, ...]:
        """Every rule, spent and ended ones included."""
        elsewhere = self._host.hits() if self._host is not None else {}
        return tuple(
            ListedFault(rule=rule, hits=elsewhere.get(rule.id, seen.hits))
            for rule, seen in self._rules.values()
        )

    def remove(self, fault_id: str) -> None:
        """Drop one rule. Raises KeyError."""
        rule, _ = self._rules.pop(fault_id)
        self._publish(rule)

    def clear(self) -> None:
        had_some = any(rule.match.is_for_host for rule, _ in self._rules.values())
        self._rules.clear()
        if self._host is not None and had_some:
            self._host.publish(())

    def decide(
        self, rpc: str, *, package_name: str, function_identifier: str = ""
    ) -> tuple[Fired, ...]:
        """What happens to this call: any delays, then at most one other action.

        Counts the call. Ask once for each call, when the call is known to be well formed.
        """
        fired: list[Fired] = []
        for rule, seen in self._rules.values():
            if rule.match.is_for_host is not self._for_host or not rule.match.fits(
                rpc, package_name=package_name, function_identifier=function_identifier
            ):
                continue
            seen.matched += 1
            seen.changed = True
            if not self._due(rule, seen) or not rule.draws(seen.matched):
                continue
            seen.hits += 1
            fired.append(Fired(fault_id=rule.id, action=rule.action))
            if rule.action.delay is None:
                break
        return tuple(fired)

    def _due(self, rule: FaultRule, seen: _Counts) -> bool:
        if seen.matched <= rule.after or (rule.times and seen.hits >= rule.times):
            return False
        return rule.until is None or round(self._clock.now() * NANOS) < rule.until

    def _publish(self, changed: FaultRule) -> None:
        if self._host is not None and changed.match.is_for_host:
            self._host.publish(rule for rule, _ in self._rules.values() if rule.match.is_for_host)


class Chunk(Protocol):
    """A chunk of an answer, as `aicore_sim.inference.backend` defines them."""

    @property
    def kind(self) -> str: ...


@runtime_checkable
class _Call(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def args(self) -> dict[str, Any]: ...


AnyChunk = TypeVar("AnyChunk", bound=Chunk)


class StreamPort(Protocol[AnyChunk]):
    """What a service lends the faults: its chunks, its errors and its worker."""

    def tokens(self, chunk: AnyChunk) -> int:
        """Output tokens of a chunk."""

    def malformed(self, text: str, reason: str) -> AnyChunk:
        """A call that does not parse."""

    def empty(self, finish: AnyChunk) -> AnyChunk:
        """The end of an answer that said nothing: no output tokens."""

    def cut_off(self, finish: AnyChunk) -> AnyChunk:
        """The end of an answer that met the output limit."""

    def failure(self, error_code: int, detail: str) -> Exception:
        """The error that an app sees."""

    def kill_worker(self) -> None:
        """End the process that runs the model, as a crash would."""


async def before_call(
    fired: Iterable[Fired], *, clock: Clock, failure: Callable[[int, str], Exception]
) -> None:
    """Pass the delays on the clock, then raise `failure(error_code, detail)` if a rule says so."""
    for one in fired:
        if one.action.delay is not None:
            await clock.sleep(one.action.delay)
        elif one.action.error_code is not None:
            raise failure(one.action.error_code, _detail(one))


async def faulty_stream(
    fired: Iterable[Fired], chunks: AsyncIterator[AnyChunk], port: StreamPort[AnyChunk]
) -> AsyncGenerator[AnyChunk, None]:
    """`chunks` after the action that `before_call` left, if any.

    A chunk is never split: the last one before "after n tokens" ends at n or before. An answer
    that ends earlier fails at its end, in place of its finish. Closing this closes `chunks`.
    """
    stream: AsyncGenerator[AnyChunk, None] = _closing(chunks)
    for one in fired:
        match one.action:
            case FaultAction(drop_after_tokens=int(tokens)):
                stream = _first_tokens(stream, tokens, port, None)
            case FaultAction(fail_after_tokens=FailAfterTokens(tokens=tokens, error_code=code)):
                stream = _first_tokens(stream, tokens, port, port.failure(code, _detail(one)))
            case FaultAction(malformed=Malformed.BROKEN_CALL):
                stream = _broken_calls(stream, port)
            case FaultAction(malformed=Malformed.TRUNCATED_CALL):
                stream = _truncated_call(stream, port)
            case FaultAction(malformed=Malformed.EMPTY_OUTPUT):
                stream = _nothing(stream, port)
            case FaultAction(kill_worker=KillWorker()):
                stream = _killed(stream, port)
            case _:
                pass
    async with aclosing(stream):
        async for chunk in stream:
            yield chunk


async def _closing(chunks: AsyncIterator[AnyChunk]) -> AsyncGenerator[AnyChunk, None]:
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


async def _first_tokens(
    chunks: AsyncGenerator[AnyChunk, None],
    limit: int,
    port: StreamPort[AnyChunk],
    failure: Exception | None,
) -> AsyncGenerator[AnyChunk, None]:
    said = 0
    async with aclosing(chunks):
        # Nothing is asked of the model for an answer that has no room.
        if limit:
            async for chunk in chunks:
                said += port.tokens(chunk)
                if chunk.kind == "finish" or said > limit:
                    break
                yield chunk
                if said == limit:
                    break
    if failure is not None:
        raise failure


async def _broken_calls(
    chunks: AsyncGenerator[AnyChunk, None], port: StreamPort[AnyChunk]
) -> AsyncGenerator[AnyChunk, None]:
    async with aclosing(chunks):
        async for chunk in chunks:
            if isinstance(chunk, _Call):
                # The first colon is missing.
                text = _json(chunk).replace(": ", " ", 1)
                yield port.malformed(text, "Expected ':' after a key")
            else:
                yield chunk


async def _truncated_call(
    chunks: AsyncGenerator[AnyChunk, None], port: StreamPort[AnyChunk]
) -> AsyncGenerator[AnyChunk, None]:
    cut = False
    async with aclosing(chunks):
        async for chunk in chunks:
            if chunk.kind == "finish":
                yield port.cut_off(chunk) if cut else chunk
            elif not cut and isinstance(chunk, _Call):
                text = _json(chunk)
                cut = True
                yield port.malformed(text[: len(text) // 2], "The call is cut off")
            elif not cut:
                yield chunk


async def _nothing(
    chunks: AsyncGenerator[AnyChunk, None], port: StreamPort[AnyChunk]
) -> AsyncGenerator[AnyChunk, None]:
    async with aclosing(chunks):
        async for chunk in chunks:
            if chunk.kind == "finish":
                yield port.empty(chunk)


async def _killed(
    chunks: AsyncGenerator[AnyChunk, None], port: StreamPort[AnyChunk]
) -> AsyncGenerator[AnyChunk, None]:
    killed = False
    async with aclosing(chunks):
        async for chunk in chunks:
            if not killed:
                port.kill_worker()
                killed = True
            yield chunk


def _json(call: _Call) -> str:
    return json.dumps({"name": call.name, "args": call.args}, ensure_ascii=False)


def _detail(fired: Fired) -> str:
    return f"Injected by fault {fired.fault_id!r}."
