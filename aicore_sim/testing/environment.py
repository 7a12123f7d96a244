"""Ways to a device for tests. What they give has one surface, so a test runs on any of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal

from aicore_sim.cli.control import connect
from aicore_sim.device.profile import DEFAULT_PROFILE
from aicore_sim.testing._boot import BootOptions, Running, existing, in_process, local
from aicore_sim.testing._loop import LoopThread
from aicore_sim.testing.device import Device

START_SECONDS = 130.0
STOP_SECONDS = 30.0


class DeviceEnvironment:
    """Starts devices. Each method returns a ready `Device`; leave it with `with`, or `stop` it.

    A device that was started here ends with this process, also when that is killed. Every method
    raises CommandError, ProfileError or AddressError when the device does not come up.
    """

    @staticmethod
    def in_process(
        *,
        profile: str = DEFAULT_PROFILE,
        seed: int = 0,
        pace: Literal["host", "phone"] = "host",
        quota: str | None = None,
    ) -> Device:
        """Both daemons in a thread of this process: the quickest. Time flows."""
        options = BootOptions(profile=profile, seed=seed, pace=pace, quota=quota)
        return _start(lambda: in_process(options))

    @staticmethod
    def start_virtual_time(
        *,
        profile: str = DEFAULT_PROFILE,
        seed: int = 0,
        pace: Literal["host", "phone"] = "host",
        quota: str | None = None,
    ) -> Device:
        """As `in_process`, and time stands still until `Device.advance`.

        With `pace="phone"`, answers take the time that they take on the phone of the profile, so
        somebody must advance it meanwhile.
        """
        options = BootOptions(profile=profile, seed=seed, clock="virtual", pace=pace, quota=quota)
        return _start(lambda: in_process(options))

    @staticmethod
    def start_local(
        *,
        profile: str = DEFAULT_PROFILE,
        seed: int = 0,
        clock: Literal["real", "virtual"] = "real",
        pace: Literal["host", "phone"] = "host",
        quota: str | None = None,
    ) -> Device:
        """Both daemons as processes, as `aicore-sim up` starts them."""
        options = BootOptions(profile=profile, seed=seed, clock=clock, pace=pace, quota=quota)
        return _start(lambda: local(options))

    @staticmethod
    def connect(device_dir: Path | str | None = None) -> Device:
        """A device that runs already, by its directory; None is the usual one, or AICORE_SIM_HOME.

        Its control token is read from the directory. `stop` leaves it running; `Device.reset`
        does reset it. Its model must be scripted for `Device.set_script`.
        """
        folder = None if device_dir is None else Path(device_dir)
        return _start(lambda: existing(folder))


def _start(boot: Callable[[], AbstractAsyncContextManager[Running]]) -> Device:
    stack = contextlib.ExitStack()
    try:
        loop = LoopThread("aicore-sim-device")
        stack.callback(loop.close)
        booting = boot()
        running = loop.run(booting.__aenter__(), START_SECONDS)
        stack.callback(_leave, loop, booting)
        control = stack.enter_context(
            connect(running.facts["aicore"]["address"], running.home.read_control_token())
        )
        return Device(running, control, stack.close)
    except BaseException:
        stack.close()
        raise


def _leave(loop: LoopThread, booting: AbstractAsyncContextManager[Running]) -> None:
    loop.run(booting.__aexit__(None, None, None), STOP_SECONDS)
