"""The `chat` command: a device, and a conversation in a process of an app."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from aicore_sim.cli import options as shared
from aicore_sim.cli.demo.caller import SHOP
from aicore_sim.cli.demo.run import SERVICE_TARGET
from aicore_sim.cli.exec_command import App, given, run_as_app
from aicore_sim.cli.supervisor import DeviceOptions
from aicore_sim.device.home import DeviceHome


def chat(
    context: typer.Context,
    package: Annotated[
        str, typer.Option("--as", metavar="PACKAGE", help="The app whose agent you talk to.")
    ] = SHOP,
    instructions: Annotated[
        str, typer.Option(help="What the agent is told to be.")
    ] = "You are a helpful assistant. Use the functions where they help.",
    temperature: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="0 takes the likeliest word each time.")
    ] = 0.0,
    device: shared.Device = shared.DEVICE_DEFAULT,
    platform: shared.Platform = shared.PLATFORM_DEFAULT,
    model: shared.Model = shared.DEFAULT_MODEL,
    apps: shared.Apps = None,
    xml: shared.Xml = None,
    stub: shared.Stub = None,
    seed: shared.Seed = 0,
    quota: shared.Quota = None,
    pace: shared.PaceName = "host",
    device_dir: shared.DeviceDir = None,
) -> None:
    """Talk to an app's agent; its calls of the app's functions are shown as they happen.

    Where a device runs already the chat is on that one, else a device is booted for it. Without
    --app and --xml that device has the demo's shop, whose agent knows orders.

    \b
    aicore-sim chat
    aicore-sim chat --as com.example.notes --app com.example.notes=notes:Notes
    """
    checked, declared = shared.check_apps(apps), shared.check_xml(xml)
    if not checked and not declared and package == SHOP:
        checked = (f"{SHOP}={SERVICE_TARGET}",)

    def options(home: DeviceHome) -> DeviceOptions:
        return DeviceOptions(
            home=home,
            device=shared.check_device(device),
            platform=shared.check_platform(platform),
            model=shared.check_model(model),
            seed=seed,
            quota=shared.check_quota(quota, device),
            pace=pace,
            apps=checked,
            xml=declared,
            stub=shared.check_stub(stub, declared),
        )

    command = [sys.executable, "-m", "aicore_sim.cli.chat.session", instructions, str(temperature)]
    code = run_as_app(
        App(package, (), ()), command, options, device_dir=device_dir, given=given(context)
    )
    raise typer.Exit(code)
