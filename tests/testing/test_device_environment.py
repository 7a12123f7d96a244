"""One test body on every environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aicore_client import (
    AppFunctionException,
    AppFunctionManager,
    ExecuteAppFunctionRequest,
    GenAiException,
    Generation,
)
from aicore_client.blocking import run_blocking
from aicore_sim.testing import BUSY, CommandError, Device, DeviceEnvironment, Scope
from appfunctions_host import (
    AppFunctionService,
    app_function_declaration,
    app_function_service_entry_point,
)
from tests.cli.processes import Up

APP = "com.example.app"


@app_function_service_entry_point(service_name="Shop", app_function_xml_file_name="shop")
class Shop(AppFunctionService):
    @app_function_declaration(is_described_by_kdoc=True)
    def find_order(self, orderId: str) -> str:
        """Finds an order.

        Args:
            orderId: The order's identifier
        """
        return f"{orderId} is on its way"


@pytest.fixture(
    params=["in_process", "start_local", "start_virtual_time", "connect"], scope="module"
)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if request.param == "connect":
        folder = request.getfixturevalue("tmp_path_factory").mktemp("device")
        with Up(Path(folder), "--model", "scripted"), DeviceEnvironment.connect(folder) as found:
            yield found
    else:
        with getattr(DeviceEnvironment, request.param)(seed=3) as found:
            yield found


def _ask(device: Device, package: str = APP) -> int:
    """The code of a generation, 0 when it answered."""
    model = Generation.get_client(connection=device.caller(package))
    try:
        run_blocking(model.generate_content("hi"))
    except GenAiException as error:
        return error.error_code
    return 0


@pytest.mark.requirement("simulator.testing.environments")
def test_the_same_body_runs_on_every_environment(device: Device) -> None:
    device.reset()
    device.caller(APP)
    device.set_script([{"text": "a"}, {"text": "b"}, {"text": "c"}])
    assert _ask(device) == 0
    with device.fault(BUSY, times=1):
        assert _ask(device) == 9
        assert _ask(device) == 0
    with device.background(APP):
        assert _ask(device) == 30
    assert [entry.error_code for entry in device.journal.calls(rpc="GenerateContent")] == [
        0, 9, 0, 30,
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="step 3"):
        device.assert_script_complete()
    assert _ask(device) == 0
    device.assert_script_complete()
    (function,) = device.app_function("com.example.shop", Shop)

    def run(package: str, *permissions: str) -> object:
        connection = device.caller(package, permissions=permissions, allowlist=["com.example.shop"])
        request = ExecuteAppFunctionRequest("com.example.shop", function, {"orderId": "A-17"})
        try:
            return run_blocking(AppFunctionManager(connection).execute_app_function(request))
        except AppFunctionException as error:
            return error.error_code

    assert "A-17 is on its way" in str(run("com.example.assistant", "EXECUTE_APP_FUNCTIONS"))
    assert run("com.example.assistant") == 1000
    device.reset()
    assert device.packages() == ()
    assert device.journal.entries() == ()


def _raise_after_a_change(now: object, before: object) -> None:
    assert now != before
    raise KeyError("the body")


@pytest.mark.requirement("simulator.testing.states")
def test_states_are_put_back_also_when_the_body_raises(device: Device) -> None:
    device.reset()
    device.install(APP)
    control = device._control

    def state() -> tuple[str, ...]:
        return (
            str(control.foreground()),
            control.quota().model,
            str(control.availability()),
            str(control.faults()),
        )

    before = state()
    scopes: list[Scope[Any]] = [
        device.background(APP),
        device.quota("off"),
        device.network_off(),
        device.instant_downloads(),
        device.feature_status("DOWNLOADABLE"),
        device.fault("BUSY"),
    ]
    for scope in scopes:
        with pytest.raises(KeyError, match="the body"), scope:
            _raise_after_a_change(state(), before)
        assert state() == before


@pytest.mark.requirement("simulator.testing.unknown-names")
def test_unknown_names_are_refused_and_say_what_exists(device: Device) -> None:
    device.reset()
    device.install(APP)
    with pytest.raises(ValueError, match="BUZY"):
        device.fault("BUZY")
    with (
        pytest.raises(CommandError, match="GenerateConten"),
        device.fault(BUSY, rpc="GenerateConten"),
    ):
        pass
    with pytest.raises(ValueError, match=APP), device.background("com.example.ap"):
        pass
    with pytest.raises(CommandError, match="sometimes"), device.quota("sometimes"):
        pass
    with pytest.raises(ValueError, match="GenerateContent"):
        device.journal.calls(rpc="Generate")
    with pytest.raises(ValueError, match=APP):
        device.journal.calls(package="com.example.ap")
    with pytest.raises(ValueError, match="busy-retried"):
        device.assert_well_behaved(ignore=["busy"])


async def test_states_may_be_entered_in_a_coroutine(device: Device) -> None:
    device.reset()
    model = Generation.get_client(connection=device.caller(APP))
    async with device.fault(BUSY):
        with pytest.raises(GenAiException) as failed:
            await model.generate_content("hi")
    assert failed.value.error_code == 9
    assert device._control.faults() == ()


def test_asking_before_the_retry_delay_is_over_is_found(device: Device) -> None:
    device.reset()
    device.caller(APP)
    device.charge(APP, 100)
    assert [_ask(device), _ask(device)] == [9, 9]
    found = device.findings()
    assert [finding.rule for finding in found] == ["busy-retried-too-soon", "status-not-checked"]
    with pytest.raises(AssertionError, match="busy-retried-too-soon"):
        device.assert_well_behaved(ignore=["status-not-checked"])
