"""Puts cases to a model: a device is booted, and an app on it asks one case after the other."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from aicore_client import (
    DeviceConnection,
    GenAiException,
    Generation,
    GenerativeModel,
    SimulatorError,
)
from aicore_protos import device_pb2
from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError, connect
from aicore_sim.cli.evaluation.requests import Heard, to_request
from aicore_sim.cli.supervisor import DeviceOptions
from aicore_sim.cli.up import booted
from aicore_sim.device.home import DeviceHome
from aicore_sim.evaluation.report import Cost, Result
from aicore_sim.evaluation.scoring import judge
from aicore_sim.evaluation.suite import Case

PACKAGE = "com.example.evaluation"
_OF_THE_REQUEST = frozenset({4, 11, 12, 15, 16, -100, -104, -105, -106})
"""Error codes that say something of one request. Any other is about the device: the run ends."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What is asked, and how."""

    model: str
    grammar: bool = True
    """Whether answers are held to a grammar, where the model can be."""
    seed: int = 0
    max_output_tokens: int = 256


async def ask_all(
    cases: Sequence[Case], options: RunOptions, *, on_result: Callable[[Result], None]
) -> list[Result]:
    """Boot a device, ask every case in turn and hand each result out as it comes.

    The device lives as long as the run. Raises CommandError when it cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="aicore-sim-eval-") as folder:
        home = DeviceHome(Path(folder))
        device = DeviceOptions(
            home=home,
            device=shared.DEVICE_DEFAULT,
            platform=shared.PLATFORM_DEFAULT,
            model=options.model,
            seed=options.seed,
            quota="off",
            grammar=options.grammar,
        )
        async with booted(device) as (_, facts):
            if facts["unavailable_reason"]:
                raise CommandError(f"the model cannot be used: {facts['unavailable_reason']}")
            with connect(facts["aicore"]["address"], home.read_control_token()) as control:
                installed = await asyncio.to_thread(
                    control.install_app, device_pb2.InstallPackageRequest(package_name=PACKAGE)
                )
            async with DeviceConnection(
                facts["aicore"]["address"], facts["appfunctions"]["address"], installed.token
            ) as connection:
                return await _ask(cases, options, connection, on_result)


async def _ask(
    cases: Sequence[Case],
    options: RunOptions,
    connection: DeviceConnection,
    on_result: Callable[[Result], None],
) -> list[Result]:
    model = Generation.get_client(connection=connection)
    await model.warmup()
    results = []
    for case in cases:
        try:
            result = await _answered(model, case, options)
        except (GenAiException, SimulatorError) as error:
            raise CommandError(f"case {case.id!r}: {error}") from None
        results.append(result)
        on_result(result)
    return results


async def _answered(model: GenerativeModel, case: Case, options: RunOptions) -> Result:
    """Raises GenAiException for what is not the case's, and SimulatorError."""
    request = to_request(case, seed=options.seed, max_output_tokens=options.max_output_tokens)
    heard, failed = Heard(), ""
    started = time.perf_counter()
    first: float | None = None
    try:
        async with aclosing(model.generate_content_stream(request)) as chunks:
            async for chunk in chunks:
                if heard.add(chunk) and first is None:
                    first = time.perf_counter() - started
    except GenAiException as error:
        if int(error.error_code) not in _OF_THE_REQUEST:
            raise
        failed = str(error)
    seconds = time.perf_counter() - started
    answer = heard.answer(failed)
    usage = heard.usage
    return Result(
        case=case,
        answer=answer,
        verdict=judge(case, answer),
        cost=Cost(
            input_tokens=usage.input_tokens if usage else 0,
            cached_input_tokens=usage.cached_input_tokens if usage else 0,
            output_tokens=usage.output_tokens if usage else 0,
            first_seconds=seconds if first is None else first,
            seconds=seconds,
        ),
    )
