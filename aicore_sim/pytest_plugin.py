"""pytest's way to the testing kit; loaded by the entry point, it imports the kit when it is used.

Fixtures: `device_process`, `device`, `caller`, `app_function`, `scripted_model`, `virtual_clock`.
docs/testing.md has examples.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aicore_sim.testing import Device

_ENVIRONMENTS = ("in-process", "local", "virtual-time")
_DEVICE = pytest.StashKey[Any]()
_SECTION = "simulated device"
_PROPERTY = "simulated-device-conduct"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("aicore-sim", "simulated device")
    group.addoption(
        "--device-env",
        default="in-process",
        metavar="ENV",
        help=f"where the device runs: {', '.join(_ENVIRONMENTS)}, or dir:PATH, the directory of "
        "one that runs and that the tests may reset (default: in-process)",
    )
    group.addoption(
        "--device-profile",
        default=None,
        metavar="NAME",
        help="hardware profile of the device (default: pixel-10)",
    )
    group.addoption(
        "--device-log",
        action="store_true",
        help="show what the device saw in the report of every test, not only of failed ones",
    )


def pytest_configure(config: pytest.Config) -> None:
    named = config.getoption("--device-env")
    if named not in _ENVIRONMENTS and not named.startswith("dir:"):
        raise pytest.UsageError(
            f"--device-env {named!r}: use {', '.join(_ENVIRONMENTS)}, or dir:PATH"
        )
    if named.startswith("dir:") and config.getoption("--device-profile") is not None:
        raise pytest.UsageError("--device-profile: a device that runs has its profile already")


@pytest.fixture(scope="session")
def device_process(pytestconfig: pytest.Config) -> Iterator[Device]:
    """The device of this session, and of this worker under pytest-xdist; never reset."""
    from aicore_sim.testing import DeviceEnvironment

    named = pytestconfig.getoption("--device-env")
    profile = pytestconfig.getoption("--device-profile")
    options = {} if profile is None else {"profile": profile}
    if named == "local":
        started = DeviceEnvironment.start_local(**options)
    elif named == "virtual-time":
        started = DeviceEnvironment.start_virtual_time(**options)
    elif named == "in-process":
        started = DeviceEnvironment.in_process(**options)
    else:
        started = DeviceEnvironment.connect(named.removeprefix("dir:"))
    with started as running:
        yield running


@pytest.fixture
def device(device_process: Device, request: pytest.FixtureRequest) -> Iterator[Device]:
    """The device, as new for each test."""
    yield from _of_a_test(device_process, request)


@pytest.fixture
def virtual_clock(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Iterator[Device]:
    """A device of the test's own, whose time stands still until `advance`."""
    from aicore_sim.testing import DeviceEnvironment

    profile = pytestconfig.getoption("--device-profile")
    options = {} if profile is None else {"profile": profile}
    with DeviceEnvironment.start_virtual_time(**options) as started:
        yield from _of_a_test(started, request)


@pytest.fixture
def caller(device: Device) -> Callable[..., Any]:
    """`caller("com.example.x", permissions=[…])`: a connection of that app to `device`."""
    return device.caller


@pytest.fixture
def app_function(device: Device) -> Callable[..., tuple[str, ...]]:
    """`app_function("com.example.x", Service)`: serve the functions of an app on `device`."""
    return device.app_function


@pytest.fixture
def scripted_model(device: Device) -> Iterator[Callable[[Any], None]]:
    """`scripted_model(script)`: what the model of `device` answers.

    Steps that are left over fail the test.
    """
    yield device.set_script
    device.assert_script_complete()


def _of_a_test(device: Device, request: pytest.FixtureRequest) -> Iterator[Device]:
    device.reset()
    request.node.stash[_DEVICE] = device
    yield device
    del request.node.stash[_DEVICE]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    device = item.stash.get(_DEVICE, None)
    if device is not None and report.when == "call":
        try:
            if report.failed or item.config.getoption("--device-log"):
                report.sections.append((_SECTION, _seen(device)))
            if found := "\n".join(map(str, device.findings())):
                report.user_properties.append((_PROPERTY, found))
        except Exception as error:  # a device that died is itself worth the report
            report.sections.append((_SECTION, f"the device does not answer: {error}"))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = [
        (report.nodeid, value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == _PROPERTY
    ]
    if found:
        terminalreporter.section("conduct on the simulated device")
        for nodeid, text in found:
            terminalreporter.write_line(f"{nodeid}\n{text}")


def _seen(device: Device) -> str:
    parts = [f"seed {device.seed}", device.journal.tail() or "(the journal is empty)"]
    if log := device.log_tail():
        parts.append(log)
    return "\n".join(parts)
