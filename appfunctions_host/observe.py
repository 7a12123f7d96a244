"""`observeAppFunctions`: what changed, as each observer can see it.

Every poke compares what an observer sees now with what it saw before, so only effective changes are
reported, whatever caused them: a provider, a switch, an uninstall or a cleared package in another
process. A function that comes or goes is a change of metadata, not of state.

Source: https://developer.android.com/reference/android/app/appfunctions/AppFunctionObserver
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.errors import FaultKind, SimulatorFault
from aicore_sim.device.packages import Identity
from appfunctions_host.catalog import Catalog, FunctionName
from appfunctions_host.registrations import Registrations
from appfunctions_host.state import EnabledStates, effective

BUFFERED_CHANGES = 64
"""Changes that wait for a slow observer; beyond, they are merged into one."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One report. Android's order: the packages first, the states after."""

    packages: frozenset[str] = frozenset()
    """Whose metadata changed."""
    functions: frozenset[FunctionName] = frozenset()
    """Whose effective state changed."""


_Seen = dict[FunctionName, tuple[pb.AppFunctionMetadata, bool]]


class Observation:
    """One observer. `who` says who it is now, or None once its token has ended."""

    def __init__(
        self, who: Callable[[], Identity | None], look: Callable[[Identity], _Seen]
    ) -> None:
        self._who = who
        self._look = look
        self._changes: deque[Change] = deque()
        self._news = asyncio.Event()
        self._ended = False
        identity = who()
        self._seen: _Seen = look(identity) if identity is not None else {}

    def poke(self) -> None:
        """Compare and keep what changed."""
        identity = self._who()
        if identity is None:
            self.end()
            return
        now = self._look(identity)
        change = _difference(self._seen, now)
        self._seen = now
        if change is None:
            return
        if len(self._changes) == BUFFERED_CHANGES:
            change = _merged((*self._changes, change))
            self._changes.clear()
        self._changes.append(change)
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Until the observer's token or the host ends; the former raises SimulatorFault."""
        while True:
            self._news.clear()
            while self._changes:
                yield self._changes.popleft()
            if self._ended:
                if self._who() is None:
                    raise SimulatorFault(
                        FaultKind.UNAUTHENTICATED, "the observer's token has ended"
                    )
                return
            await self._news.wait()


class Observers:
    """All observers of one host."""

    def __init__(
        self, catalog: Catalog, states: EnabledStates, registrations: Registrations
    ) -> None:
        self._catalog = catalog
        self._states = states
        self._registrations = registrations
        self._open: set[Observation] = set()

    def open(self, who: Callable[[], Identity | None]) -> Observation:
        """Observe from now on; `close` it."""
        made = Observation(who, self._look)
        self._open.add(made)
        return made

    def close(self, observation: Observation) -> None:
        self._open.discard(observation)

    def poke(self) -> None:
        """Something may have changed."""
        for observation in tuple(self._open):
            observation.poke()

    def end(self) -> None:
        """The host goes."""
        for observation in tuple(self._open):
            observation.end()

    def _look(self, identity: Identity) -> _Seen:
        states = self._states.all()
        return {
            function.key: (
                function.metadata,
                effective(function.metadata, states.get(function.key, 0))
                and (not function.is_runtime or self._registrations.is_registered(function.key)),
            )
            for function in self._catalog.visible(identity)
        }


def _difference(before: _Seen, now: _Seen) -> Change | None:
    packages = {name[0] for name in before.keys() ^ now.keys()}
    functions = set()
    for name in before.keys() & now.keys():
        (old, was), (new, is_now) = before[name], now[name]
        if old is not new and old != new:
            packages.add(name[0])
        if was is not is_now:
            functions.add(name)
    if not packages and not functions:
        return None
    return Change(packages=frozenset(packages), functions=frozenset(functions))


def _merged(changes: tuple[Change, ...]) -> Change:
    return Change(
        packages=frozenset().union(*(change.packages for change in changes)),
        functions=frozenset().union(*(change.functions for change in changes)),
    )
