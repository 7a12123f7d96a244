"""The demo: a device, a shop, its agent, and twelve attempts by four apps."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aicore_protos import device_pb2
from aicore_sim.cli.control import CommandError, connect
from aicore_sim.cli.demo import expected
from aicore_sim.cli.demo.caller import SHOP
from aicore_sim.cli.launcher import launch
from aicore_sim.cli.supervisor import DeviceOptions
from aicore_sim.cli.up import booted

SERVICE_TARGET = "aicore_sim.cli.demo.shop:OrderTools"
SERVICE_CLASS = f"{SHOP}.OrderTools"
STEP_TIMEOUT = 180.0

_APPS = (
    device_pb2.InstallPackageRequest(package_name=SHOP),
    device_pb2.InstallPackageRequest(
        package_name="com.example.launcher",
        permissions=["android.permission.EXECUTE_APP_FUNCTIONS_SYSTEM"],
    ),
    device_pb2.InstallPackageRequest(
        package_name="com.example.assistant",
        permissions=["android.permission.EXECUTE_APP_FUNCTIONS"],
        allowlist_targets=[SHOP],
    ),
    device_pb2.InstallPackageRequest(package_name="com.example.notes"),
)
ROLES = {
    SHOP: "the shop itself",
    "com.example.launcher": "system surface",
    "com.example.assistant": "certified assistant",
    "com.example.notes": "ordinary app",
}


class Output:
    """What the demo tells while it runs; `run` knows nothing of tables or JSON."""

    def say(self, text: str) -> None:
        raise NotImplementedError

    def event(self, event: dict[str, Any]) -> None:
        raise NotImplementedError

    def outcomes(self, outcomes: list[dict[str, Any]]) -> None:
        raise NotImplementedError


async def run(options: DeviceOptions, output: Output) -> list[str]:
    """Run everything. Returns what went wrong, one sentence each; empty when all is right."""
    async with booted(options) as (_, facts):
        if facts["unavailable_reason"]:
            raise CommandError(f"the model cannot be used: {facts['unavailable_reason']}")
        with connect(facts["aicore"]["address"], options.home.read_control_token()) as control:
            for app in _APPS:
                await asyncio.to_thread(control.install, app)
        async with _shop_provider(facts):
            wrong = await _ask_agent(facts, output)
            outcomes = await _try_all(facts)
    output.outcomes(outcomes)
    wrong += [
        f"{item['package']} and {item['function']}: expected discovered "
        f"{item['expected_discovered']}, code {item['expected_code']}; "
        f"got {item['discovered']}, {item['code']}"
        for item in outcomes
        if not item["ok"]
    ]
    return wrong


async def _ask_agent(facts: dict[str, Any], output: Output) -> list[str]:
    output.say("The shop's agent may call any of the shop's three functions, or none.")
    output.say(f"User: {expected.QUESTION}")
    events: list[dict[str, Any]] = []
    command = [sys.executable, "-m", "aicore_sim.cli.demo.order_agent", expected.QUESTION]
    async with asyncio.timeout(STEP_TIMEOUT), launch(facts, SHOP, command, stdout=PIPE) as process:
        assert process.stdout is not None
        async for line in process.stdout:
            events.append(json.loads(line))
            output.event(events[-1])
        await process.wait()
    return expected.wrong_events(events)


async def _try_all(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Each app in its own process, all with the device still running."""
    outcomes = []
    for package, functions in expected.OUTCOMES.items():
        seen = await _visit(facts, package)
        for function, (discovered, code) in functions.items():
            found = seen[function]
            outcomes.append(
                {
                    "package": package,
                    "role": ROLES[package],
                    "function": function,
                    "discovered": found["discovered"],
                    "code": found["code"],
                    "expected_discovered": discovered,
                    "expected_code": code,
                    "ok": (found["discovered"], found["code"]) == (discovered, code),
                }
            )
    return outcomes


async def _visit(facts: dict[str, Any], package: str) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "aicore_sim.cli.demo.caller", SERVICE_CLASS]
    async with (
        asyncio.timeout(STEP_TIMEOUT),
        launch(facts, package, command, stdout=PIPE) as process,
    ):
        output, _ = await process.communicate()
    if process.returncode != 0:
        raise CommandError(f"the process of {package} ended with {process.returncode}")
    seen: dict[str, dict[str, Any]] = json.loads(output)
    return seen


@asynccontextmanager
async def _shop_provider(facts: dict[str, Any]) -> AsyncIterator[None]:
    """The shop's provider process, registered with the host."""
    command = [sys.executable, "-m", "appfunctions_host.provider", f"{SHOP}={SERVICE_TARGET}"]
    async with launch(facts, SHOP, command, stdout=PIPE) as process:
        assert process.stdout is not None
        async with asyncio.timeout(STEP_TIMEOUT):
            line = await process.stdout.readline()
        if not line.startswith(b"READY"):
            raise CommandError("the shop's provider process did not register its functions")
        yield
