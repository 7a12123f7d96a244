"""Failures on demand: counted rules, and what they do to a call. Nothing here is random.

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


class FaultPlan:
    """The rules of one device, in the order in which they were added.

    Delays add up. Of the other actions a call gets one: the first rule that is due. The rules
    behind it do not see the call, so "BUSY twice" and then "NOT_AVAILABLE once" is a sequence.
    """

    def __init__(self, *, rpcs: Iterable[str], clock: Clock) -> None:
        """`rpcs` are the bare names of the calls that faults may be for."""
        self._rpcs = frozenset(rpcs)
        self._clock = clock
        self._rules: dict[str, tuple[FaultRule, _Counts]] = {}
        self._number = 0

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
        self._rules[rule.id] = (rule, _Counts())
        return ListedFault(rule=rule, hits=0)

    def list(self) -> tuple[ListedFault, ...]:
        """Every rule, spent and ended ones included."""
        return tuple(ListedFault(rule=rule, hits=seen.hits) for rule, seen in self._rules.values())

    def remove(self, fault_id: str) -> None:
        """Drop one rule. Raises KeyError."""
        del self._rules[fault_id]

    def clear(self) -> None:
        self._rules.clear()

    def decide(
        self, rpc: str, *, package_name: str, function_identifier: str = ""
    ) -> tuple[Fired, ...]:
        """What happens to this call: any delays, then at most one other action.

        Counts the call. Ask once for each call, when the call is known to be well formed.
        """
        fired: list[Fired] = []
        for rule, seen in self._rules.values():
            match = rule.match
            if (
                match.rpc not in ("", rpc)
                or match.package_name not in ("", package_name)
                or match.function_identifier not in ("", function_identifier)
            ):
                continue
            seen.matched += 1
            if not self._due(rule, seen):
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
