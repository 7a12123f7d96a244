"""What the daemon's policy costs: refusals, status calls beside a prefill, many calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aicore_protos import device_pb2
from aicore_sim.cli.bench.client import PACKAGE, Answer, BenchClient, measured_daemon
from aicore_sim.cli.control import CommandError
from aicore_sim.measure.figures import Figure, median, percentile

Advance = Callable[[str, int, int], None]
"""Name of what is measured, how much is done, and of how much."""

REFUSAL_RATIO = 1.5
STATUS_P99_MS = 100.0
MANY_RATIO = 1.5

_WARM_UP = 50
_PROMPT_TOKENS = 3900
_SETTLE_TRIES = 100
_WORDS = 5
# The daemon answers with a chunk for each word and a last one, the echo with a chunk for each word.
_TEXT = " ".join(["word"] * _WORDS)
_PROMPT = " ".join(["word"] * (_WORDS + 1))

# Quota is off except where its refusals are measured; the queue holds every call.
_PROFILE = """\
extends = "pixel-10"
[queue]
slots = 64
waiting = 2000
[load]
cold_seconds = 0
idle_unload_seconds = 0
[quota]
active = "off"
"""


@dataclass(frozen=True, kw_only=True)
class PolicyPlan:
    """How much is measured."""

    pairs: int = 1000
    """BUSY and echo, call by call."""
    calls: int = 1000
    """At once."""
    rounds: int = 9
    """Pairs of `calls` calls and `calls` echo streams."""
    prefills: int = 3


@dataclass(kw_only=True)
class PolicyReport:
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str = "", target: float | None = None) -> None:
        self.figures.append(Figure(name=name, value=value, unit=unit, target=target))


async def measure(
    folder: Path, plan: PolicyPlan, *, model: str | None, advance: Advance
) -> PolicyReport:
    """Measure everything; without a `model` no prefill. Raises CommandError."""
    report = PolicyReport()
    profile = folder / "bench.toml"
    profile.write_text(_PROFILE)
    part = folder / "scripted"
    part.mkdir()
    async with measured_daemon(part, profile=str(profile), model="scripted") as client:
        await client.warmup()
        await _refusals(client, plan, report, advance)
        await _many(client, plan, report, advance)
    if model is None:
        report.notes.append(
            "status calls beside a prefill were not measured: the model is not on this machine; "
            "run `aicore-sim models pull`"
        )
        return report
    part = folder / "model"
    part.mkdir()
    async with measured_daemon(part, profile=str(profile), model=model) as client:
        await _status(client, plan, report, advance)
    return report


async def _refusals(
    client: BenchClient, plan: PolicyPlan, report: PolicyReport, advance: Advance
) -> None:
    name = "BUSY against echo"
    await _set_quota(client, device_pb2.SetQuotaRequest(model="token-bucket"))
    await _set_quota(client, device_pb2.SetQuotaRequest(package_name=PACKAGE, charge_seconds=7000))
    busy: list[float] = []
    echoes: list[float] = []
    for number in range(_WARM_UP + plan.pairs):
        # Which of the two comes first alternates, so that neither profits from the other.
        if number % 2:
            refused, echoed = await client.generate("hi"), await client.echo("hi")
        else:
            echoed, refused = await client.echo("hi"), await client.generate("hi")
        if not refused.failed or echoed.failed:
            raise CommandError("a call that must be refused was answered, or an echo failed")
        if number >= _WARM_UP:
            busy.append(refused.seconds)
            echoes.append(echoed.seconds)
            advance(name, number + 1 - _WARM_UP, plan.pairs)
    report.add("BUSY refusal p50", percentile(busy, 50) * 1e3, "ms")
    report.add("BUSY refusal p99", percentile(busy, 99) * 1e3, "ms")
    report.add("echo p50", percentile(echoes, 50) * 1e3, "ms")
    report.add("echo p99", percentile(echoes, 99) * 1e3, "ms")
    report.add(
        "BUSY p50 ÷ echo p50", percentile(busy, 50) / percentile(echoes, 50), "", REFUSAL_RATIO
    )
    await _set_quota(client, device_pb2.SetQuotaRequest(model="off"))


async def _many(
    client: BenchClient, plan: PolicyPlan, report: PolicyReport, advance: Advance
) -> None:
    name = f"{plan.calls} calls at once"

    script = f"- text: {_TEXT}\n" * plan.calls

    async def calls() -> float:
        await asyncio.to_thread(client.control.load_script, script)
        return await _together([client.generate(_PROMPT) for _ in range(plan.calls)])

    async def echoes() -> float:
        return await _together([client.echo(_PROMPT) for _ in range(plan.calls)])

    await calls()
    await echoes()
    before = await _settled(client, None)
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(plan.rounds):
        for measured, kept in ((calls, ours), (echoes, theirs))[:: 1 if number % 2 else -1]:
            kept.append(await measured())
        advance(name, number + 1, plan.rounds)
    after = await _settled(client, before)
    report.add(f"{plan.calls} calls at once", median(ours), "s")
    report.add(f"{plan.calls} echo streams at once", median(theirs), "s")
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    report.add("calls ÷ echo streams", median(ratios), "", MANY_RATIO)
    for key, text in (
        ("tasks", "tasks left over"),
        ("descriptors", "descriptors left over"),
    ):
        if before[key] is not None:
            report.add(text, after[key] - before[key], "", 0)
    report.add("queue entries left over", after["running"] + after["waiting"], "", 0)
    if before["memory_bytes"] is not None:
        report.add("memory before", before["memory_bytes"] / 1e6, "MB")
        report.add("memory after", after["memory_bytes"] / 1e6, "MB")


async def _status(
    client: BenchClient, plan: PolicyPlan, report: PolicyReport, advance: Advance
) -> None:
    name = "status beside a prefill"
    await client.warmup()
    await client.generate("Hello", max_output_tokens=1)
    idle_p99: list[float] = []
    busy_p99: list[float] = []
    prefills: list[float] = []
    polled = 0
    for number in range(plan.prefills):
        prompt, tokens = await _long_prompt(client, number)
        idle = [await client.check_status() for _ in range(300)]
        answer = asyncio.create_task(client.generate(prompt, max_output_tokens=1))
        busy: list[float] = []
        while not answer.done():
            busy.append(await client.check_status())
            await asyncio.sleep(0.002)
        result = answer.result()
        if result.failed or result.first_chunk_seconds is None:
            raise CommandError(f"a prompt of {tokens} tokens was not answered")
        idle_p99.append(percentile(idle, 99))
        busy_p99.append(percentile(busy, 99))
        prefills.append(result.first_chunk_seconds)
        polled += len(busy)
        advance(name, number + 1, plan.prefills)
    report.add("input tokens of the prefill", tokens, "")
    report.add("prefill", median(prefills), "s")
    report.add("status calls beside it", polled, "")
    report.add("CheckStatus p99, idle", median(idle_p99) * 1e3, "ms")
    report.add("CheckStatus p99, prefill", median(busy_p99) * 1e3, "ms", STATUS_P99_MS)
    ratios = [busy / idle for busy, idle in zip(busy_p99, idle_p99, strict=True)]
    report.add("prefill ÷ idle", median(ratios), "")


async def _long_prompt(client: BenchClient, number: int) -> tuple[str, int]:
    """About _PROMPT_TOKENS tokens that begin unlike the other rounds', so that no cache helps."""
    start, sentence = f"Round {number}. ", "The quick brown fox jumps over the lazy dog. "
    one = await client.count_tokens(start + sentence)
    each = (await client.count_tokens(start + sentence * 101) - one) / 100
    prompt = start + sentence * int((_PROMPT_TOKENS - one) / each)
    return prompt, await client.count_tokens(prompt)


async def _together(calls: list[Any]) -> float:
    """Real seconds until every call has ended. Raises CommandError when one went wrong."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    answers: list[Answer] = await asyncio.gather(*calls)
    seconds = loop.time() - started
    wrong = sum(answer.failed or answer.chunks != _WORDS + 1 for answer in answers)
    if wrong:
        raise CommandError(f"{wrong} of {len(answers)} calls were not answered in full")
    return seconds


async def _settled(client: BenchClient, before: dict[str, Any] | None) -> dict[str, Any]:
    """The daemon's facts when its calls have unwound, at the latest after two seconds."""
    found = await client.facts()
    for _ in range(_SETTLE_TRIES):
        calm = not found["running"] and not found["waiting"]
        if calm and (before is None or found["tasks"] <= before["tasks"]):
            break
        await asyncio.sleep(0.02)
        found = await client.facts()
    return found


async def _set_quota(client: BenchClient, request: device_pb2.SetQuotaRequest) -> None:
    await asyncio.to_thread(client.control.set_quota, request)
