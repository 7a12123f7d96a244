"""The page about types does what it says."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import appfunctions_host
from aicore_sim.device.errors import AppFunctionError
from aicore_sim.rpc.values import from_value, to_object
from appfunctions_host.annotations import AppFunctionException
from appfunctions_host.invoke import Invoker

PAGE = (Path(__file__).parents[2] / "docs" / "app-function-types.md").read_text()
PACKAGE = "com.example.shop"


@pytest.fixture
def invoker(monkeypatch: pytest.MonkeyPatch) -> Invoker:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    module = types.ModuleType("app_function_types_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, "app-function-types.md", "exec"), vars(module))
    service: Any = module.ShopFunctions
    return Invoker(PACKAGE, [service])


async def test_the_example_runs(invoker: Invoker) -> None:
    how = {"amount": 5, "number": "4111"}
    pay, payments = f"{PACKAGE}.ShopFunctions#pay", f"{PACKAGE}.ShopFunctions#payments"

    paid = await invoker.invoke(pay, to_object({"order": "ORD-0001", "how": how}))
    listed = await invoker.invoke(payments, to_object({}))

    assert from_value(paid) == "5 for ORD-0001"
    assert from_value(listed) == {"items": [how, {"amount": 7, "account": "DE02"}], "next": None}


async def test_the_example_fails_as_the_page_says(invoker: Invoker) -> None:
    pay = f"{PACKAGE}.ShopFunctions#pay"
    how = {"amount": 5, "number": "4111"}
    for order, code in ((7, 1001), ("ORD-1", 1001), ("ORD-0000", 1500)):
        with pytest.raises(AppFunctionError) as failed:
            await invoker.invoke(pay, to_object({"order": order, "how": how}))
        assert failed.value.error_code == code
        if order == 7:
            assert failed.value.message in PAGE


@pytest.mark.requirement("jetpack.errors.extra-codes")
def test_the_table_of_exceptions_is_that_of_the_package() -> None:
    table = dict(re.findall(r"^\| `(AppFunction\w+Exception)` \| (\d+) \|$", PAGE, re.MULTILINE))
    classes = {
        name: getattr(appfunctions_host, name)
        for name in appfunctions_host.__all__
        if name.endswith("Exception")
    }
    coded = {
        name: str(cls("").error_code)
        for name, cls in classes.items()
        if cls is not AppFunctionException and name != "AppFunctionUnknownException"
    }
    assert table == coded
