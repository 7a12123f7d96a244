"""`appfunctions-host`: the host itself, and the commands of `adb shell cmd app_function`.

Flags, texts and exit codes are those of the shell command; its -1 is 255 here, and 20 means that
no host answers, as `cmd` itself exits. Ours: the error code in brackets, `--as`, and bare method
names.
"""

from __future__ import annotations

import asyncio
import json
import logging
import platform
import sqlite3
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from aicore_protos import appfunctions_pb2 as pb
from aicore_sim.device.errors import DeviceError
from aicore_sim.device.home import DeviceHome, DeviceInUse
from aicore_sim.rpc.values import to_object
from appfunctions_host import inspect_commands, shell_commands
from appfunctions_host.bench.command import bench
from appfunctions_host.command_options import (
    Address,
    As,
    DeviceDir,
    FunctionId,
    PackageName,
    User,
    fail,
    shell_session,
)
from appfunctions_host.data_types import DefinitionError
from appfunctions_host.documents import metadata_document, plain_result, result_document
from appfunctions_host.export_command import export_xml
from appfunctions_host.server import serve
from appfunctions_host.shell_client import (
    CallRefused,
    ExecutionFailed,
    Target,
    TimedOut,
)
from appfunctions_host.shown import show

_STATES = {
    "enable": pb.APP_FUNCTION_STATE_ENABLED,
    "disable": pb.APP_FUNCTION_STATE_DISABLED,
    "default": pb.APP_FUNCTION_STATE_DEFAULT,
}

# The shell command reports unknown options itself, with its own text and code.
_SHELL: dict[str, Any] = {"ignore_unknown_options": True, "allow_extra_args": True}

app = typer.Typer(
    name="appfunctions-host",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def main(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --version: as JSON.")] = False,
) -> None:
    """The AppFunction host of a simulated device."""
    if show_version:
        facts = {
            "version": version("aicore-sim"),
            "python": platform.python_version(),
            "grpcio": version("grpcio"),
        }
        print(json.dumps(facts) if as_json else f"appfunctions-host {facts['version']}")
        raise typer.Exit


@app.command("serve")
def serve_command(
    device_dir: DeviceDir = None,
    address: Address = None,
    apps: Annotated[
        list[str] | None,
        typer.Option(
            "--app",
            metavar="PACKAGE=MODULE:CLASS",
            help="Run an AppFunctionService of PACKAGE inside the host. May be repeated.",
        ),
    ] = None,
    xml: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PACKAGE=FILE",
            help="Declare the functions of PACKAGE as its app_functions.xml says. May be repeated.",
        ),
    ] = None,
    stub: Annotated[
        Path | None, typer.Option(help="YAML with the results of functions declared by --xml.")
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write the READY facts there when the host answers.")
    ] = None,
    exit_with_parent_fd: Annotated[
        int | None, typer.Option(help="Also stop when this file descriptor reaches its end.")
    ] = None,
) -> None:
    """Run the AppFunction host in the foreground."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(
            serve(
                DeviceHome(device_dir),
                address=address,
                apps=apps or (),
                xml=xml or (),
                stub=stub,
                ready_file=ready_file,
                exit_with_parent_fd=exit_with_parent_fd,
            )
        )
    except (
        DefinitionError,
        DeviceError,
        DeviceInUse,
        OSError,
        sqlite3.Error,
        ValueError,
    ) as error:
        show(f"appfunctions-host: {error}", error=True)
        raise typer.Exit(1) from None


@app.command("help")
def help_command(context: typer.Context) -> None:
    """Print this help."""
    assert context.parent is not None
    print(context.parent.get_help())


@app.command("list-app-functions", context_settings=_SHELL)
def list_app_functions(
    context: typer.Context,
    package: PackageName = None,
    user: User = "current",
    device_dir: DeviceDir = None,
    address: Address = None,
    as_package: As = None,
) -> None:
    """List the functions that the caller may discover, as JSON."""
    _no_extras(context)
    target = Target(device_dir=device_dir, address=address, package_name=as_package)
    with shell_session(target) as client:
        _require_only_user(user)
        found = list(client.search(package))
        states = client.states([metadata.name for metadata in found])
        listed: dict[str, list[dict[str, Any]]] = {}
        for metadata in found:
            name = metadata.name
            enabled = states.get((name.package_name, name.function_identifier))
            document = metadata_document(metadata, enabled=enabled)
            listed.setdefault(name.package_name, []).append(document)
        show(json.dumps(listed, indent=2, ensure_ascii=False))


@app.command("execute-app-function", context_settings=_SHELL)
def execute_app_function(
    context: typer.Context,
    package: PackageName = None,
    function: FunctionId = None,
    parameters: Annotated[str | None, typer.Option(help="Arguments as a JSON object.")] = None,
    timeout_duration: Annotated[float, typer.Option(help="Seconds to wait.")] = 30.0,
    brief_yaml: Annotated[
        bool, typer.Option("--brief-yaml", help="Print the result as plain YAML.")
    ] = False,
    user: User = "current",
    device_dir: DeviceDir = None,
    address: Address = None,
    as_package: As = None,
) -> None:
    """Run a function and print its result as JSON, every value as an array."""
    _no_extras(context)
    name = _name(package, function)
    arguments = _required("--parameters", parameters)
    target = Target(device_dir=device_dir, address=address, package_name=as_package)
    with shell_session(target) as client:
        try:
            value = client.execute(
                client.full_name(name),
                to_object(_json_object(arguments)),
                target_user=_user(user),
                timeout=timeout_duration,
            )
        except TimedOut:
            fail("Timed out")
        except ExecutionFailed as error:
            fail(
                "Error executing app function: android.app.appfunctions.AppFunctionException: "
                f"{error}. See logcat for more details."
            )
        if brief_yaml:
            text = yaml.safe_dump(plain_result(value), sort_keys=False, allow_unicode=True)
            print(text.removesuffix("...\n"), end="")
        else:
            show(json.dumps(result_document(value), indent=2, ensure_ascii=False))


@app.command("set-enabled", context_settings=_SHELL)
def set_enabled(
    context: typer.Context,
    package: PackageName = None,
    function: FunctionId = None,
    state: Annotated[str | None, typer.Option(help="enable, disable or default.")] = None,
    user: User = "current",
    device_dir: DeviceDir = None,
    address: Address = None,
    as_package: As = None,
) -> None:
    """Switch a function on or off. Exits with 0 also when the device refuses, as on a phone."""
    _no_extras(context)
    name = _name(package, function)
    chosen = _required("--state", state)
    if chosen not in _STATES:
        fail(f"Exception: Invalid state: {chosen}; use enable, disable or default")
    target = Target(device_dir=device_dir, address=address, package_name=as_package)
    with shell_session(target) as client:
        _require_only_user(user)
        try:
            client.set_enabled(client.full_name(name), _STATES[chosen])
        except (CallRefused, ExecutionFailed) as error:
            show(f"Error setting app function state: {error}", error=True)
        else:
            print("App function enabled state updated successfully.")


@app.command("is-enabled", context_settings=_SHELL)
def is_enabled(
    context: typer.Context,
    package: PackageName = None,
    function: FunctionId = None,
    user: User = "current",
    device_dir: DeviceDir = None,
    address: Address = None,
    as_package: As = None,
) -> None:
    """Print whether a function is enabled. Exits with 0 also when the device refuses."""
    _no_extras(context)
    name = _name(package, function)
    target = Target(device_dir=device_dir, address=address, package_name=as_package)
    with shell_session(target) as client:
        _require_only_user(user)
        try:
            print("true" if client.is_enabled(client.full_name(name)) else "false")
        except (CallRefused, ExecutionFailed) as error:
            show(f"Error checking app function state: {error}", error=True)


def _no_extras(context: typer.Context) -> None:
    for word in context.args:
        fail(f"Unknown option: {word}")


def _required(flag: str, value: str | None) -> str:
    if value is None:
        fail(f"Error: {flag} must be specified.")
    return value


def _name(package: str | None, function: str | None) -> pb.AppFunctionName:
    return pb.AppFunctionName(
        package_name=_required("--package", package),
        function_identifier=_required("--function", function),
    )


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--parameters is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"--parameters is {type(found).__name__}; give a JSON object")
    return found


def _user(user: str) -> int:
    """Raises ValueError for what is neither a number nor `current`."""
    return 0 if user == "current" else int(user)


def _require_only_user(user: str) -> None:
    if _user(user) != 0:
        raise ValueError(f"user {user} does not exist on this device; use --user 0")


inspect_commands.add_to(app)
shell_commands.add_to(app)
app.command("export-xml")(export_xml)
app.command("bench")(bench)


def run() -> None:
    """The console entry `appfunctions-host`."""
    app()
