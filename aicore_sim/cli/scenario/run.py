"""Runs a scenario step by step and gathers the evidence."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aicore_protos import device_pb2
from aicore_sim.cli.control import CommandError
from aicore_sim.cli.ctl import values
from aicore_sim.cli.scenario.app import ScenarioApp, observe
from aicore_sim.cli.scenario.apply import apply_state
from aicore_sim.cli.scenario.described import described
from aicore_sim.cli.scenario.device import ScenarioDevice, booted
from aicore_sim.cli.scenario.format import (
    AgentTurn,
    Charge,
    DeviceExpected,
    Expected,
    Generate,
    MoveDownload,
    Repeat,
    Scenario,
    Step,
)
from aicore_sim.cli.scenario.outcome import Outcome, differences, summary
from aicore_sim.cli.scenario.result import ScenarioResult, StepResult
from aicore_sim.device.clock import ClockError, SleeperNotIdle
from aicore_sim.device.errors import GenAiCode
from aicore_sim.device.profile import ProfileError

CALL_TIMEOUT = 5.0
"""Real seconds that a step waits for the app's calls."""
_DEVICE_TIMEOUT = 2.0
_POLL = 0.005
_LOADING = "load-model"
"""How the daemon's load is called among the sleepers of the clock."""
_BUSY = int(GenAiCode.BUSY)


async def run_scenario(
    scenario: Scenario, *, on_step: Callable[[StepResult], None] = lambda _: None
) -> ScenarioResult:
    """Boot the scenario's device, take every step until one fails, stop the device.

    A device that cannot be booted is a failed step 0. Raises CommandError for a scenario without
    steps, since nothing could fail.
    """
    if not scenario.steps:
        raise CommandError(
            f"scenario {scenario.name!r} has no steps, so there is nothing to run; "
            "`aicore-sim up --scenario FILE` starts a device in its state",
            exit_code=values.BAD_INPUT,
        )
    started = time.monotonic()
    results: list[StepResult] = []
    device_seconds = 0.0

    def add(result: StepResult) -> None:
        results.append(result)
        on_step(result)

    try:
        async with booted(scenario) as device:
            runner = _Runner(device, add)
            try:
                if scenario.device.warm:
                    await runner.warm(scenario.apps[0].package)
                await runner.take(scenario.steps)
            finally:
                device_seconds = device.clock.monotonic()
                await runner.close()
    except (CommandError, ProfileError) as error:
        add(
            StepResult(
                number="0",
                step="boot the device",
                evidence="",
                problems=(str(error),),
                real_seconds=time.monotonic() - started,
            )
        )
    return ScenarioResult(
        name=scenario.name,
        title=scenario.title,
        steps=tuple(results),
        device_seconds=device_seconds,
        real_seconds=time.monotonic() - started,
    )


@dataclass(kw_only=True)
class _Background:
    """Calls that go on beside the steps."""

    tasks: list[asyncio.Task[Outcome]]
    outcomes: list[Outcome]
    expect: Expected
    kind: str
    since: float = field(default_factory=time.monotonic)


class _StepFailure(Exception):
    """A step that cannot be taken, or whose result never came."""


class _Runner:
    def __init__(self, device: ScenarioDevice, report: Callable[[StepResult], None]) -> None:
        self._device = device
        self._report = report
        self._background: dict[str, _Background] = {}

    async def close(self) -> None:
        """Cancel what still runs."""
        tasks = [task for calls in self._background.values() for task in calls.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def warm(self, package: str) -> None:
        """Load the model, so that the steps need not wait for it. A refusal is left to them."""
        task = asyncio.create_task(observe(self._app(package).warmup, Outcome()))
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                while not task.done():
                    # Others who sleep, such as the idle unload, must not be woken by this.
                    if any(sleeper.label == _LOADING for sleeper in self._device.clock.sleepers):
                        await self._device.clock.advance_to_next()
                    await asyncio.wait({task}, timeout=_POLL)
        except TimeoutError:
            task.cancel()

    async def take(self, steps: Sequence[Step], prefix: str = "") -> bool:
        """Take the steps in order, until one fails; whether all passed."""
        for number, step in enumerate(steps, 1):
            label = f"{prefix}{number}"
            if step.repeat is not None:
                if not await self._repeat(step.repeat, label):
                    return False
            elif not await self._one(step, label):
                return False
        return True

    async def _repeat(self, repeat: Repeat, label: str) -> bool:
        for round_number in range(1, repeat.times + 1):
            if not await self.take(repeat.steps, f"{label}.{round_number}."):
                return False
        return True

    async def _one(self, step: Step, label: str) -> bool:
        started = time.monotonic()
        outcomes: tuple[Outcome, ...] = ()
        evidence = ""
        problems: list[str] = []
        try:
            evidence, problems, outcomes = await self._act(step)
        except (CommandError, ClockError, SleeperNotIdle, _StepFailure) as error:
            problems = [str(error)]
        self._report(
            StepResult(
                number=label,
                step=step.note or described(step),
                evidence=evidence,
                problems=tuple(problems),
                real_seconds=time.monotonic() - started,
                outcomes=outcomes,
            )
        )
        return not problems

    async def _act(self, step: Step) -> tuple[str, list[str], tuple[Outcome, ...]]:
        control, action = self._device.control, getattr(step, step.kind)
        match step.kind:
            case "check_status" | "download" | "warmup" | "generate" | "agent":
                return await self._call(step.kind, action)
            case "wait":
                return await self._wait(action.call, action.expect)
            case "cancel":
                return await self._cancel(action)
            case "await_chunks":
                return await self._await_chunks(action.call, action.chunks), [], ()
            case "await_ended":
                return await self._await_ended(action.call, action.calls), [], ()
            case "advance":
                await self._device.clock.advance_ns(action)
                return f"it is {self._now()} on the device", [], ()
            case "set":
                self._mark()
                await asyncio.to_thread(apply_state, control, action)
                return "set", [], ()
            case "move_download":
                await asyncio.to_thread(control.control_download, _moved(action))
                return "moved", [], ()
            case "charge":
                quota = await asyncio.to_thread(control.set_quota, _charged(action))
                left = quota.app_battery.device_seconds
                return f"battery: {values.shown_duration(left)} used", [], ()
            case "reset":
                await asyncio.to_thread(control.reset, [scope.upper() for scope in action])
                return "reset", [], ()
            case _:
                return await self._expect_device(action)

    async def _call(self, kind: str, action: Any) -> tuple[str, list[str], tuple[Outcome, ...]]:
        app = self._app(action.app)
        call = _bound(app, kind, action)
        times = action.times if isinstance(action, Generate) else 1
        if action.background is None and not getattr(action, "together", False):
            outcomes = await self._in_turn(call, action, times)
            return (
                summary(action.expect, outcomes),
                differences(action.expect, outcomes),
                tuple(outcomes),
            )
        started = self._start(call, times, kind, action.expect)
        if action.background is not None:
            if action.background in self._background:
                raise _StepFailure(f"a call {action.background!r} is running already")
            self._background[action.background] = started
            await self._arrived()
            return "started", [], ()
        await self._end(started)
        outcomes = started.outcomes
        return (
            summary(action.expect, outcomes),
            differences(action.expect, outcomes),
            tuple(outcomes),
        )

    async def _arrived(self) -> None:
        """Wait until the daemon has got what was sent, so that the next step comes after it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DEVICE_TIMEOUT):
                while self._on_its_way():  # noqa: ASYNC110
                    await asyncio.sleep(_POLL)
        # It is registered there; now let it come to where it waits.
        await asyncio.sleep(4 * _POLL)

    def _on_its_way(self) -> bool:
        """Whether a generation or a download has been sent and not come to the daemon yet."""
        sent = 0
        for calls in self._background.values():
            for task, outcome in zip(calls.tasks, calls.outcomes, strict=True):
                if calls.kind == "download" and not task.done() and not outcome.items:
                    return True
                sent += calls.kind in ("generate", "agent") and not task.done()
        return self._device.generations < sent

    def _start(
        self, call: Callable[[Outcome], Awaitable[None]], times: int, kind: str, expect: Expected
    ) -> _Background:
        outcomes = [Outcome() for _ in range(times)]
        tasks = [asyncio.create_task(observe(call, outcome)) for outcome in outcomes]
        return _Background(tasks=tasks, outcomes=outcomes, expect=expect, kind=kind)

    async def _in_turn(
        self, call: Callable[[Outcome], Awaitable[None]], action: Any, times: int
    ) -> list[Outcome]:
        outcomes = []
        for number in range(times):
            if number and action.pause:
                await self._device.clock.advance_ns(action.pause)
            outcomes.append(await self._with_retries(call, action))
        return outcomes

    async def _with_retries(
        self, call: Callable[[Outcome], Awaitable[None]], action: Any
    ) -> Outcome:
        outcome = await self._once(call, action)
        retry = action.retry if isinstance(action, Generate) else None
        if retry is None:
            return outcome
        delays = iter(retry.delays)
        attempts = 1
        while outcome.code == _BUSY:
            if retry.honour_retry_delay and outcome.retry_delay:
                wait: int | None = round(outcome.retry_delay * values.NANOS)
            else:
                wait = next(delays, None)
            if wait is None:
                break
            await self._device.clock.advance_ns(wait)
            outcome = await self._once(call, action)
            attempts += 1
        outcome.attempts = attempts
        return outcome

    async def _once(self, call: Callable[[Outcome], Awaitable[None]], action: Any) -> Outcome:
        started = self._start(call, 1, "", action.expect)
        await self._end(started)
        outcome = started.outcomes[0]
        if isinstance(action, Generate):
            passes = action.takes if outcome.ok else action.refusal_takes
            if passes:
                await self._device.clock.advance_ns(passes)
        return outcome

    async def _end(self, calls: _Background) -> None:
        _, pending = await asyncio.wait(calls.tasks, timeout=CALL_TIMEOUT)
        if pending:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            raise _StepFailure(
                f"{len(pending)} of {len(calls.tasks)} calls had not ended after "
                f"{CALL_TIMEOUT:g} s; device time moves only by `advance`, so start a call that "
                "takes device time with `background`, advance, and `wait` for it"
            )

    async def _wait(
        self, name: str, expect: Expected
    ) -> tuple[str, list[str], tuple[Outcome, ...]]:
        calls = self._taken(name)
        await self._end(calls)
        for outcome in calls.outcomes:
            outcome.real_seconds = time.monotonic() - calls.since
        evidence = summary(expect, calls.outcomes)
        problems = differences(expect, calls.outcomes)
        if calls.expect != Expected():
            problems += differences(calls.expect, calls.outcomes)
        return evidence, problems, tuple(calls.outcomes)

    async def _cancel(self, name: str) -> tuple[str, list[str], tuple[Outcome, ...]]:
        calls = self._taken(name)
        # The newest first: who waits must be gone before the slot is free.
        for task in reversed(calls.tasks):
            task.cancel()
        await self._end(calls)
        return summary(calls.expect, calls.outcomes), [], tuple(calls.outcomes)

    async def _await_chunks(self, name: str, chunks: int) -> str:
        calls = self._running(name)
        found = await _reached(chunks, lambda: max(one.chunks for one in calls.outcomes))
        if found < chunks:
            raise _StepFailure(f"expected {chunks} chunks of {name!r}, got {found}")
        return f"{found} chunks so far"

    async def _await_ended(self, name: str, number: int) -> str:
        calls = self._running(name)
        found = await _reached(number, lambda: sum(task.done() for task in calls.tasks))
        if found != number:
            raise _StepFailure(f"expected {number} calls of {name!r} to have ended, {found} have")
        return f"{found} of {len(calls.tasks)} have ended"

    async def _expect_device(
        self, expected: DeviceExpected
    ) -> tuple[str, list[str], tuple[Outcome, ...]]:
        deadline = time.monotonic() + _DEVICE_TIMEOUT
        wanted = {name: value for name, value in expected.model_dump().items() if value is not None}
        while True:
            found = await asyncio.to_thread(self._device_facts, frozenset(wanted))
            if found == wanted or time.monotonic() > deadline:
                break
            await asyncio.sleep(_POLL)
        evidence = ", ".join(f"{name} {value}" for name, value in found.items())
        problems = [
            f"expected {name} to be {wanted[name]}, it is {found[name]}"
            for name in wanted
            if found[name] != wanted[name]
        ]
        return evidence, problems, ()

    def _device_facts(self, names: frozenset[str]) -> dict[str, int]:
        control = self._device.control
        found: dict[str, int] = {}
        if names & {"running", "waiting"}:
            device = control.get_device()
            found |= {"running": device.running, "waiting": device.waiting}
        if "script_left" in names:
            state = control.script()
            found["script_left"] = state.steps - state.consumed
        if "fault_hits" in names:
            found["fault_hits"] = sum(fault.hits for fault in control.faults())
        return {name: found[name] for name in DeviceExpected.model_fields if name in names}

    def _app(self, package: str) -> ScenarioApp:
        return self._device.apps[package]

    def _running(self, name: str) -> _Background:
        if name not in self._background:
            raise _StepFailure(f"no call {name!r} is running")
        return self._background[name]

    def _taken(self, name: str) -> _Background:
        calls = self._running(name)
        del self._background[name]
        return calls

    def _mark(self) -> None:
        """What ends a call in the background may be this step: its time counts from here."""
        for calls in self._background.values():
            calls.since = time.monotonic()

    def _now(self) -> str:
        return values.shown_duration(self._device.clock.monotonic()) + " after boot"


async def _reached(wanted: int, count: Callable[[], int]) -> int:
    """What `count` says when it has come to `wanted`, or when the calls have had their time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CALL_TIMEOUT):
            while count() < wanted:  # noqa: ASYNC110
                await asyncio.sleep(_POLL)
    return count()


def _bound(app: ScenarioApp, kind: str, action: Any) -> Callable[[Outcome], Awaitable[None]]:
    if isinstance(action, Generate):
        return partial(app.generate, prompt=action.prompt)
    if isinstance(action, AgentTurn):
        return partial(app.agent_turn, prompt=action.prompt, instructions=action.instructions)
    call: Callable[[Outcome], Awaitable[None]] = getattr(app, kind)
    return call


def _moved(action: MoveDownload) -> device_pb2.ControlDownloadRequest:
    if action.advance is not None:
        return device_pb2.ControlDownloadRequest(advance_bytes=action.advance)
    if action.fail is not None:
        return device_pb2.ControlDownloadRequest(fail_with=action.fail)
    return device_pb2.ControlDownloadRequest(complete=True)


def _charged(action: Charge) -> device_pb2.SetQuotaRequest:
    used = action.device_time / values.NANOS
    return device_pb2.SetQuotaRequest(package_name=action.app, charge_seconds=used)
