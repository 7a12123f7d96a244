"""`appfunctions-host` and the commands of `adb shell cmd app_function`."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from typer.testing import CliRunner

from aicore_protos import device_pb2, device_pb2_grpc
from aicore_sim.device.home import DeviceHome
from appfunctions_host.cli import app
from tests.host.cli_rig import (
    ASSISTANT,
    Served,
    ended,
    prepared,
    ready,
    served_shop,
    start,
)
from tests.host.rig import ROOT, START, WAIT
from tests.host.shop import CANCEL, FETCH, HANG, OFF, PACKAGE, RAISES, RESET


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_shop(tmp_path_factory.mktemp("cli")) as running:
        yield running


@pytest.fixture
def launch_tokens(served: Served) -> Iterator[None]:
    """The one call of the AICore daemon that `--as` needs, at its usual address."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    device_pb2_grpc.add_DeviceControlServicer_to_server(_LaunchTokens(served), server)
    server.add_insecure_port(f"unix:{served.home.socket_path('aicore')}")
    server.start()
    yield
    server.stop(None).wait(WAIT)


class _LaunchTokens(device_pb2_grpc.DeviceControlServicer):
    def __init__(self, served: Served) -> None:
        self._served = served

    def IssueLaunchToken(
        self, request: device_pb2.IssueLaunchTokenRequest, context: grpc.ServicerContext
    ) -> device_pb2.IssueLaunchTokenResponse:
        metadata = dict(context.invocation_metadata())
        assert metadata["authorization"] == f"Bearer {self._served.home.read_control_token()}"
        token = self._served.packages.issue_launch_token(request.package_name, request.pid)
        return device_pb2.IssueLaunchTokenResponse(token=token)


@pytest.mark.requirement(
    "shell.list.field-names",
    "shell.list.json",
    "shell.list.package-filter",
    "shell.shell-identity",
)
def test_the_shell_lists_every_function_with_static_and_runtime_metadata(served: Served) -> None:
    result = served.run("list-app-functions", "--package", PACKAGE)
    listed = json.loads(result.stdout)

    assert result.exit_code == 0
    assert list(listed) == [PACKAGE]
    assert len(listed[PACKAGE]) == 18
    assert listed[PACKAGE][0] == {
        "appFunctionStaticMetadata": {
            "functionId": CANCEL,
            "packageName": PACKAGE,
            "description": "",
            "enabledByDefault": True,
            "accessLevel": "self",
            "isCompatEnforcementEnabled": True,
            "scope": "global",
            "parameters": [
                {
                    "name": "orderId",
                    "isRequired": True,
                    "description": "",
                    "dataTypeMetadata": {"type": 8, "isNullable": False},
                }
            ],
            "response": {"description": "", "valueType": {"type": 8, "isNullable": False}},
        },
        "appFunctionRuntimeMetadata": {
            "functionId": CANCEL,
            "packageName": PACKAGE,
            "enabled": True,
        },
    }
    assert served.run("list-app-functions", "--package", "com.none").stdout == "{}\n"


@pytest.mark.requirement("appfunctions.execute.return-value", "shell.execute.json")
def test_an_execution_prints_every_value_as_an_array(served: Served) -> None:
    result = served.execute(FETCH, '{"orderId": "ORD-1"}')

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "androidAppfunctionsReturnValue": [
            {
                "orderId": ["ORD-1"],
                "status": ["Out for delivery"],
                "itemCount": [2],
                "eta": [],
            }
        ]
    }
    assert result.stdout.startswith('{\n  "androidAppfunctionsReturnValue": [\n')


def test_a_bare_method_name_is_enough_while_only_one_service_has_it(
    served: Served, tmp_path: Path
) -> None:
    once = served.execute("fetch_order_details", '{"orderId": "ORD-1"}', "--brief-yaml")
    hidden = served.execute("no_such_method")
    with prepared(tmp_path) as (home, packages):
        apps = [f"--app={PACKAGE}=tests.host.shop:{name}" for name in ("OrderTools", "MoreTools")]
        process = start(home, *apps)
        with ended(process):
            two = Served(home=home, packages=packages, process=process, facts=ready(process))
            twice = two.execute("fetch_order_details", '{"orderId": "ORD-1"}')

    assert once.stdout.startswith("orderId: ORD-1\n")
    assert hidden.stderr == FAILED.format("[1003] App function not found.")
    assert twice.exit_code == 255
    assert twice.stderr == (
        "Exception: --function fetch_order_details is ambiguous; use one of "
        f"{PACKAGE}.MoreTools#fetch_order_details, {FETCH}\n"
    )


@pytest.mark.requirement("shell.execute.brief-yaml")
def test_brief_yaml_prints_the_plain_result(served: Served) -> None:
    result = served.execute(FETCH, '{"orderId": "ORD-1"}', "--brief-yaml")

    assert (result.exit_code, result.stdout) == (
        0,
        "orderId: ORD-1\nstatus: Out for delivery\nitemCount: 2\neta: null\n",
    )
    assert served.execute(RESET, "{}", "--brief-yaml").stdout == "reset\n"


def test_a_function_without_a_result_prints_an_empty_document(served: Served) -> None:
    result = served.execute(f"{PACKAGE}.TroubleTools#nothing")

    assert (result.exit_code, result.stdout) == (0, "{}\n")


FAILED = (
    "Error executing app function: android.app.appfunctions.AppFunctionException: {}. "
    "See logcat for more details.\n"
)


@pytest.mark.requirement(
    "shell.execute.error",
    "shell.execute.timeout",
    "shell.exit-code",
    "shell.shell-level",
    "shell.unknown-option",
    "shell.user",
)
@pytest.mark.parametrize(
    ("function", "parameters", "more", "error"),
    [
        (
            CANCEL,
            '{"orderId": "1"}',
            [],
            FAILED.format("[1000] Caller does not have permission to execute the appfunction"),
        ),
        (
            FETCH,
            '{"orderId": 1}',
            [],
            FAILED.format(
                f"[1001] {FETCH}: Parameter 'orderId' should be the type of String, but was Int"
            ),
        ),
        (OFF, "{}", [], FAILED.format("[1002] The app function is disabled")),
        ("T#none", "{}", [], FAILED.format("[1003] App function not found.")),
        (RAISES, "{}", [], FAILED.format("[3000] 'no such order'")),
        (
            FETCH,
            "{}",
            ["--user", "10"],
            FAILED.format("[1000] Cross user interaction is not allowed"),
        ),
        (HANG, "{}", ["--timeout-duration", "0.3"], "Timed out\n"),
        (FETCH, "[1]", [], "Exception: --parameters is list; give a JSON object\n"),
        (FETCH, '{"orderId": NaN}', [], "Exception: nan is not a finite number\n"),
        (FETCH, "{}", ["--bogus"], "Unknown option: --bogus\n"),
    ],
)
def test_a_failed_execution_prints_the_shells_text_and_exits_with_255(
    served: Served, function: str, parameters: str, more: list[str], error: str
) -> None:
    result = served.execute(function, parameters, *more)

    assert (result.exit_code, result.stdout, result.stderr) == (255, "", error)


@pytest.mark.requirement(
    "shell.execute.missing-flag",
    "shell.exit-code",
    "shell.unknown-option",
    "shell.user",
)
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["execute-app-function"], "Error: --package must be specified.\n"),
        (["execute-app-function", "--package", "p"], "Error: --function must be specified.\n"),
        (
            ["execute-app-function", "--package", "p", "--function", "f"],
            "Error: --parameters must be specified.\n",
        ),
        (
            ["set-enabled", "--package", "p", "--function", "f"],
            "Error: --state must be specified.\n",
        ),
        (
            ["set-enabled", "--package", "p", "--function", "f", "--state", "on"],
            "Exception: Invalid state: on; use enable, disable or default\n",
        ),
        (["is-enabled", "--package", "p"], "Error: --function must be specified.\n"),
        (
            ["list-app-functions", "--user", "10"],
            "Exception: user 10 does not exist on this device; use --user 0\n",
        ),
        (["list-app-functions", "--bogus"], "Unknown option: --bogus\n"),
    ],
)
def test_a_wrong_command_line_prints_the_shells_text_and_exits_with_255(
    served: Served, arguments: list[str], error: str
) -> None:
    result = served.run(*arguments)

    assert (result.exit_code, result.stdout, result.stderr) == (255, "", error)


@pytest.mark.requirement("shell.is-enabled", "shell.set-enabled")
def test_states_are_switched_and_read(served: Served) -> None:
    name = ["--package", PACKAGE, "--function", OFF]
    seen = []
    for state in ("enable", "disable", "default"):
        switched = served.run("set-enabled", *name, "--state", state)
        read = served.run("is-enabled", *name)
        seen.append((switched.exit_code, switched.stdout, read.exit_code, read.stdout))

    done = "App function enabled state updated successfully.\n"
    assert seen == [(0, done, 0, "true\n"), (0, done, 0, "false\n"), (0, done, 0, "false\n")]


@pytest.mark.requirement("shell.set-enabled")
def test_a_refused_state_is_reported_and_exits_with_zero(served: Served) -> None:
    name = ["--package", PACKAGE, "--function", "T#none"]
    switched = served.run("set-enabled", *name, "--state", "enable")
    read = served.run("is-enabled", *name)

    assert (switched.exit_code, switched.stderr) == (
        0,
        "Error setting app function state: Function T#none does not exist\n",
    )
    assert (read.exit_code, read.stderr) == (
        0,
        "Error checking app function state: App function not found.\n",
    )


@pytest.mark.requirement("shell.as-package")
@pytest.mark.usefixtures("launch_tokens")
def test_as_calls_with_the_rights_of_that_package(served: Served) -> None:
    listed = served.run("list-app-functions", "--as", ASSISTANT)
    names = [
        item["appFunctionStaticMetadata"]["functionId"]
        for item in json.loads(listed.stdout)[PACKAGE]
    ]
    own = served.execute(CANCEL, '{"orderId": "1"}', "--as", PACKAGE)
    foreign = served.execute(RESET, "{}", "--as", ASSISTANT)
    missing = served.execute(RESET, "{}", "--as", "com.none")

    assert FETCH in names
    assert CANCEL not in names
    assert RESET not in names
    assert (own.exit_code, foreign.exit_code) == (0, 255)
    assert "[1000]" in foreign.stderr
    assert missing.exit_code == 255


def test_as_without_aicore_says_what_is_missing(served: Served) -> None:
    result = served.run("list-app-functions", "--as", ASSISTANT)

    assert result.exit_code == 255
    assert result.stderr.startswith(f"Exception: --as {ASSISTANT} needs the AICore daemon")


@pytest.mark.requirement("shell.service-missing")
def test_addresses_come_from_the_flag_the_directory_or_the_environment(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPFUNCTIONS_ADDRESS", f"unix:{tmp_path / 'other.sock'}")
    by_directory = served.run("list-app-functions")
    by_flag = served.run("list-app-functions", "--address", f"unix:{tmp_path / 'third.sock'}")
    monkeypatch.setenv("AICORE_SIM_HOME", str(served.home.path))
    by_environment = CliRunner().invoke(app, ["list-app-functions"])

    assert by_directory.exit_code == 0
    for silent in (by_flag, by_environment):
        assert silent.exit_code == 20
        assert silent.stderr.startswith("cmd: Can't find service: app_function\n")


def test_a_directory_without_a_device_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["list-app-functions", "--device-dir", str(tmp_path)])

    assert result.exit_code == 255
    assert result.stderr.startswith(f"Exception: no device in {str(tmp_path)!r}")


def test_help_and_version_answer_without_a_device() -> None:
    text = CliRunner().invoke(app, ["help"])
    facts = json.loads(CliRunner().invoke(app, ["--version", "--json"]).stdout)

    assert text.exit_code == 0
    assert "execute-app-function" in text.stdout
    assert set(facts) == {"version", "python", "grpcio"}


def test_serve_announces_itself_and_leaves_nothing_behind(tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    with prepared(tmp_path) as (home, _):
        process = start(home, "--address", "127.0.0.1:0", "--ready-file", str(ready_file))
        with ended(process):
            facts = ready(process)
            port = int(facts["address"].rpartition(":")[2])
            socket.create_connection(("127.0.0.1", port), timeout=WAIT).close()
            assert json.loads(ready_file.read_text()) == facts
            assert (facts["pid"], facts["device_dir"]) == (process.pid, str(home.path))
            assert set(facts) == {"version", "device_dir", "address", "pid"}

            process.send_signal(signal.SIGTERM)

            assert process.wait(WAIT) == 0
            assert "Traceback" not in process.communicate()[1]


@pytest.mark.requirement("simulator.device.one-owner")
def test_a_second_host_is_refused_and_the_lock_and_socket_of_a_killed_one_are_taken_over(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with prepared(tmp_path) as (home, _):
        first = start(home)
        with ended(first):
            ready(first)
            second = start(home)
            out, err = second.communicate(timeout=START)
            assert (second.returncode, out) == (1, "")
            assert f"is in use by process {first.pid}" in err
        assert home.socket_path("appfunctions").exists()

        third = start(home)
        with ended(third):
            assert ready(third)["pid"] == third.pid


def test_a_provider_ends_with_one_when_its_host_is_killed(tmp_path: Path) -> None:
    with prepared(tmp_path) as (home, packages):
        _, token = packages.install(PACKAGE)
        host = start(home)
        with ended(host):
            address = ready(host)["address"]
            provider = subprocess.Popen(
                [sys.executable, "-m", "appfunctions_host.provider"]
                + [f"{PACKAGE}=tests.host.shop:OrderTools"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={
                    **os.environ,
                    "APPFUNCTIONS_ADDRESS": address,
                    "AICORE_SIM_TOKEN": token,
                },
            )
            with ended(provider):
                assert ready(provider)["pid"] == provider.pid
                host.kill()

                assert provider.wait(WAIT) == 1
                assert "error: " in provider.communicate(timeout=WAIT)[1]


def test_a_host_ends_with_the_pipe_of_its_parent(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    with prepared(tmp_path) as (home, _):
        process = start(home, "--exit-with-parent-fd", str(read_end), pass_fds=(read_end,))
        os.close(read_end)
        with ended(process):
            ready(process)
            os.close(write_end)

            assert process.wait(WAIT) == 0
        assert not home.socket_path("appfunctions").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--app", "com.example.shop"], "'com.example.shop' is not PACKAGE=MODULE:CLASS"),
        (["--app", "com.a=tests.host.no_such:X"], "cannot import 'tests.host.no_such'"),
        (["--app", "com.a=tests.host.shop:OrderDetails"], "is no AppFunctionService class"),
        (["--address", "0.0.0.0:1"], "'0.0.0.0:1' is not served"),
    ],
)
def test_a_host_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, more: list[str], message: str
) -> None:
    with prepared(tmp_path) as (home, _):
        process = start(home, *more)
        out, err = process.communicate(timeout=START)

    assert (process.returncode, out) == (1, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.requirement("simulator.command.port-in-use")
def test_a_port_in_use_is_named(served: Served, tmp_path: Path) -> None:
    with socket.socket() as taken, prepared(tmp_path) as (home, _):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = start(home, "--address", address)
        err = process.communicate(timeout=START)[1]

    assert process.returncode == 1
    assert f"cannot serve on {address!r}" in err


def test_a_host_without_a_device_says_how_to_start_one(tmp_path: Path) -> None:
    process = start(DeviceHome(tmp_path / "none"))
    err = process.communicate(timeout=START)[1]

    assert process.returncode == 1
    assert "start one with `aicore-sim up`" in err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("profile.json", b"{}", "profile.json' is damaged"),
        ("profile.json", b"\xff", "profile.json' is damaged"),
        ("device.db", b"no database" * 100, "device.db"),
    ],
)
def test_a_damaged_state_file_is_one_line_and_no_trace(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with prepared(tmp_path) as (home, _):
        pass
    for part in home.path.glob("device.db-*"):
        part.unlink()
    (home.path / name).write_bytes(content)
    process = start(home)
    err = process.communicate(timeout=START)[1]

    assert process.returncode == 1
    assert message in err
    assert "Traceback" not in err


def test_a_device_directory_that_cannot_be_one_fails_as_the_shell_does(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    result = CliRunner().invoke(
        app, ["is-enabled", "--device-dir", str(file / "x"), "--package", "a", "--function", "b"]
    )

    assert result.exit_code == 255
    assert result.stderr.startswith("Exception: ")
