"""Each test fails when the app does not do what its name says."""

from __future__ import annotations

import order_assistant as app
import pytest

from aicore_client import (
    AppFunctionException,
    AppFunctionManager,
    DeviceClock,
    ExecuteAppFunctionRequest,
    Generation,
)
from aicore_client.blocking import run_blocking
from aicore_sim.testing import BUSY


def ask(connection, question="Where is A-17?"):
    model = Generation.get_client(connection=connection)
    return run_blocking(app.answer(model, DeviceClock(connection), question))


def test_busy_is_tried_again_after_a_pause(device, caller, scripted_model):
    scripted_model([{"text": "On its way."}])
    connection = caller(app.PACKAGE)
    with device.fault(BUSY, times=2):
        assert ask(connection) == "On its way."
    device.assert_well_behaved()


def test_in_the_background_the_user_is_told_to_open_the_app(device, caller):
    connection = caller(app.PACKAGE)
    with device.background(app.PACKAGE):
        assert ask(connection) == app.OPEN_THE_APP
    assert [call.error_code for call in device.journal.calls(rpc="GenerateContent")] == [30]


def test_an_assistant_may_not_cancel_orders(caller, app_function):
    (cancel,) = app_function(app.PACKAGE, app.Orders)
    assistant = caller(
        "com.example.assistant", permissions=["EXECUTE_APP_FUNCTIONS"], allowlist=[app.PACKAGE]
    )
    request = ExecuteAppFunctionRequest(app.PACKAGE, cancel, {"orderId": "A-17"})
    with pytest.raises(AppFunctionException) as refused:
        run_blocking(AppFunctionManager(assistant).execute_app_function(request))
    assert refused.value.error_code == AppFunctionException.ERROR_DENIED


def test_nothing_is_cancelled_when_the_user_says_no(caller, app_function, scripted_model):
    app_function(app.PACKAGE, app.Orders)
    scripted_model(
        [
            {"function_calls": [{"name": "cancel_order", "args": {"orderId": "A-17"}}]},
            {
                "text": "It was not cancelled.",
                "expect": {"last_message_contains": "CANCELLED_BY_USER"},
            },
        ]
    )
    app.cancelled.clear()
    answer = run_blocking(app.run_agent(caller(app.PACKAGE), "Cancel A-17."))
    assert answer == "It was not cancelled."
    assert app.cancelled == []


def test_a_missing_model_is_downloaded(device, caller, scripted_model):
    scripted_model([{"text": "On its way."}])
    connection = caller(app.PACKAGE)
    with device.feature_status("DOWNLOADABLE"), device.instant_downloads():
        with device.network_off():
            assert ask(connection) == "The model is not there yet."
        assert ask(connection) == "On its way."
    assert len(device.journal.calls(rpc="Download", package=app.PACKAGE)) == 2
