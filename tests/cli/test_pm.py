"""Packages from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import HOST_COMMAND, Up, run, script

SHORT = "EXECUTE_APP_FUNCTIONS"
FULL = "android.permission.EXECUTE_APP_FUNCTIONS"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("pm")
    device_dir = folder / "device"
    with Up(device_dir, "--model", script(folder / "script.yaml")):
        yield ("--device-dir", str(device_dir))


def _packages(home: tuple[str, str]) -> dict[str, dict[str, object]]:
    listed = json.loads(run("pm", "list", "--json", *home).stdout)
    return {item["package"]: item for item in listed}


@pytest.mark.requirement("simulator.identity.uid")
def test_a_package_gets_a_uid_and_its_permissions_and_goes_again(home: tuple[str, str]) -> None:
    installed = run(
        "pm", "install", "com.example.a", "--permission", SHORT, "--allowlist", "*", *home
    )
    assert installed.returncode == 0, installed.stderr
    found = _packages(home)["com.example.a"]
    assert found["uid"] == 10000
    assert found["permissions"] == [FULL]
    assert found["allowlist"] == ["*"]
    assert "app_" not in installed.stdout
    assert run("pm", "revoke", "com.example.a", FULL, *home).returncode == 0
    assert _packages(home)["com.example.a"]["permissions"] == []
    assert run("pm", "grant", "com.example.a", SHORT, *home).returncode == 0
    assert _packages(home)["com.example.a"]["permissions"] == [FULL]
    assert run("pm", "uninstall", "com.example.a", *home).returncode == 0
    assert _packages(home) == {}


def test_clearing_a_package_puts_its_functions_back_to_their_default(tmp_path: Path) -> None:
    home = ("--device-dir", str(tmp_path / "device"))
    shop = ("--package", "com.example.shop", "--function", "fetch_order_details", *home)
    model = script(tmp_path / "script.yaml")
    app = "com.example.shop=aicore_sim.cli.demo.shop:OrderTools"
    with Up(tmp_path / "device", "--model", model, "--app", app):
        run(
            "set-enabled",
            *shop,
            "--as",
            "com.example.shop",
            "--state",
            "disable",
            command=HOST_COMMAND,
        )
        assert run("is-enabled", *shop, command=HOST_COMMAND).stdout == "false\n"
        assert run("pm", "clear", "com.example.shop", *home).returncode == 0
        assert run("is-enabled", *shop, command=HOST_COMMAND).stdout == "true\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("install", "nodots"), "nodots"),
        (("install", "com.example.b", "--permission", "FLY"), "FLY"),
        (("install", "com.example.b", "--cert", "abc"), "abc"),
        (("uninstall", "com.example.missing"), "com.example.missing"),
        (("clear", "com.example.missing"), "com.example.missing"),
        (("grant", "com.example.missing", SHORT), "com.example.missing"),
        (("revoke", "com.example.missing", SHORT), "com.example.missing"),
    ],
)
def test_a_wrong_package_or_permission_is_named_and_changes_nothing(
    home: tuple[str, str], arguments: tuple[str, ...], named: str
) -> None:
    before = _packages(home)
    done = run("pm", *arguments, *home)
    assert done.returncode == 1
    assert named in done.stderr
    assert _packages(home) == before


@pytest.mark.parametrize("function", ["cancel_order", "com.example.shop.OrderTools#cancel_order"])
def test_a_refusal_does_not_depend_on_how_the_function_is_spelt(
    tmp_path: Path, function: str
) -> None:
    home = ("--device-dir", str(tmp_path / "device"))
    agent = ("--permission", "EXECUTE_APP_FUNCTIONS", "--allowlist", "com.example.shop")
    model = script(tmp_path / "script.yaml")
    app = "com.example.shop=aicore_sim.cli.demo.shop:OrderTools"
    with Up(tmp_path / "device", "--model", model, "--app", app):
        assert run("pm", "install", "com.example.agent", *agent, *home).returncode == 0
        refused = run(
            "execute-app-function", "--as", "com.example.agent", "--package", "com.example.shop",
            "--function", function, "--parameters", '{"orderId": "1"}', *home,
            command=HOST_COMMAND,
        )  # fmt: skip
        assert refused.returncode == 255
        assert "[1000]" in refused.stderr


def test_without_a_device_the_command_says_how_to_start_one(tmp_path: Path) -> None:
    done = run("pm", "list", "--device-dir", str(tmp_path / "none"))
    assert done.returncode == 4
    assert "aicore-sim up" in done.stderr
