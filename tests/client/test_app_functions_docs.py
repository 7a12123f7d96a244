"""The examples of docs/app-functions-client.md."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from aicore_client import (
    CancellationSignal,
    ExecuteAppFunctionRequest,
    OperationCanceledException,
    default_connection,
)
from tests.host.rig import ROOT, WAIT, Device, provider_process, running_device
from tests.host.shop import FETCH, PACKAGE

PAGE = ROOT / "docs" / "app-functions-client.md"


def _examples() -> list[dict[str, object]]:
    made = []
    for source in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        names: dict[str, object] = {}
        exec(compile(source, str(PAGE), "exec"), names)
        made.append(names)
    return made


def _as_app(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AICORE_SIM_ADDRESS": "unix:/nowhere/aicore.sock",
        "APPFUNCTIONS_ADDRESS": device.address,
        "AICORE_SIM_TOKEN": device.tokens[PACKAGE],
    }.items():
        monkeypatch.setenv(name, value)


async def test_the_examples_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    platform, jetpack, cancelling, watching, registering = _examples()
    async with running_device(tmp_path) as device:
        device.install(PACKAGE)
        _as_app(device, monkeypatch)
        connection = default_connection()
        async with connection, asyncio.timeout(4 * WAIT):
            await platform["main"]()  # type: ignore[operator]
            async with provider_process(device, "OrderTools"):
                await platform["main"]()  # type: ignore[operator]
                await jetpack["main"]()  # type: ignore[operator]
                signal = CancellationSignal()
                signal.cancel()
                request = ExecuteAppFunctionRequest(PACKAGE, FETCH, {"orderId": "1"})
                cancelled = await cancelling["run"](request, signal)  # type: ignore[operator]

    failed, returned, status = capsys.readouterr().out.splitlines()
    assert failed == "failed 1003 App function not found."
    assert "Out for delivery" in returned
    assert status == "Out for delivery"
    assert "answers nobody" in str(cancelled)
    assert OperationCanceledException in cancelling.values()
    assert callable(watching["main"])
    with pytest.raises(ValueError, match="the name is empty"):
        await registering["rename"](  # type: ignore[operator]
            ExecuteAppFunctionRequest(PACKAGE, "Editor#rename", {"name": ""})
        )
