"""The commands of `adb shell cmd app_function` that set the device up, and ours beside them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from aicore_protos import appfunctions_pb2 as pb
from aicore_protos import appfunctions_shell_pb2 as shell
from appfunctions_host.access_flags import AccessFlag
from appfunctions_host.command_options import Address, DeviceDir, PackageName, fail, shell_session
from appfunctions_host.shell_client import CallRefused, Target
from appfunctions_host.shown import line, show

Agent = Annotated[str | None, typer.Option("--agent-package", help="The app that calls.")]
TargetPackage = Annotated[
    str | None, typer.Option("--target-package", help="The app whose functions it calls.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
_OTHER = int(AccessFlag.OTHER_GRANTED | AccessFlag.OTHER_DENIED)


def grant_app_function_access(
    agent: Agent = None,
    target: TargetPackage = None,
    device_dir: DeviceDir = None,
    address: Address = None,
) -> None:
    """Set OTHER_GRANTED for an agent and a target. Executions do not consult it."""
    _update(agent, target, AccessFlag.OTHER_GRANTED, "granted", device_dir, address)


def revoke_app_function_access(
    agent: Agent = None,
    target: TargetPackage = None,
    device_dir: DeviceDir = None,
    address: Address = None,
) -> None:
    """Set OTHER_DENIED for an agent and a target. Executions do not consult it."""
    _update(agent, target, AccessFlag.OTHER_DENIED, "revoked", device_dir, address)


def list_valid_agents(device_dir: DeviceDir = None, address: Address = None) -> None:
    """List the packages that hold the permission and are allowlisted."""
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        found = client.set_up("ListValidPackages", shell.ListValidPackagesRequest())
        show(f"Valid agents: [{', '.join(found.agents)}]")


def list_valid_targets(device_dir: DeviceDir = None, address: Address = None) -> None:
    """List the packages that have an AppFunctionService."""
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        found = client.set_up("ListValidPackages", shell.ListValidPackagesRequest())
        show(f"Valid targets: [{', '.join(found.targets)}]")


def read_app_description(
    package: PackageName = None, device_dir: DeviceDir = None, address: Address = None
) -> None:
    """Print what an app's metadata says of the app as a whole."""
    if package is None:
        fail("Error: --package must be specified.")
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        request = shell.ReadAppDescriptionRequest(package_name=package)
        show(client.set_up("ReadAppDescription", request).description)


def set_additional_allowlisted_agents(
    packages: Annotated[list[str], typer.Argument(metavar="PACKAGE...")],
    device_dir: DeviceDir = None,
    address: Address = None,
) -> None:
    """Replace the agents that count as allowlisted for every target."""
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        request = shell.SetAdditionalAgentsRequest(package_names=packages)
        client.set_up("SetAdditionalAgents", request)


def clear_additional_allowlisted_agents(
    device_dir: DeviceDir = None, address: Address = None
) -> None:
    """Take those agents away again."""
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        client.set_up("SetAdditionalAgents", shell.SetAdditionalAgentsRequest())


def enable_allowlist(device_dir: DeviceDir = None, address: Address = None) -> None:
    """Agents need to be on the allowlist."""
    _switch_allowlist(True, device_dir, address)
    print("Enable allowlist")


def disable_allowlist(device_dir: DeviceDir = None, address: Address = None) -> None:
    """Every agent counts as allowlisted."""
    _switch_allowlist(False, device_dir, address)
    print("Disable allowlist")


def purge_allowlist_cache(device_dir: DeviceDir = None, address: Address = None) -> None:
    """Nothing is cached here: a change of the allowlist counts from the next call on."""
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        client.set_up("ListValidPackages", shell.ListValidPackagesRequest())
    print("Purge allowlist cache")


def set_test_page_size(
    page_size: Annotated[int | None, typer.Option(help="Functions on a page.")] = None,
    device_dir: DeviceDir = None,
    address: Address = None,
) -> None:
    """Set how many functions a page of a search has."""
    if page_size is None:
        fail("Error: --page-size must be specified.")
    _page_size(page_size, device_dir, address)


def reset_test_page_size(device_dir: DeviceDir = None, address: Address = None) -> None:
    """Pages have the host's own size again."""
    _page_size(0, device_dir, address)


def set_service_command(
    package: PackageName = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the registration away.")] = False,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD...]", help="Program and arguments.")
    ] = None,
    device_dir: DeviceDir = None,
    address: Address = None,
) -> None:
    """Register the command that runs an app's services; a call starts it when nobody runs them."""
    if package is None:
        fail("Error: --package must be specified.")
    if clear == bool(command):
        fail("Error: give a command after --, or --clear.")
    service = pb.ServiceCommand(package_name=package, command=command or ())
    if command:
        service.directory = str(Path.cwd())
        if shutil.which(command[0]) is None:
            fail(f"Error: there is no program {command[0]!r} on the PATH or at that place.")
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        client.manage("SetServiceCommand", pb.SetServiceCommandRequest(service=service))


def list_service_commands(
    as_json: Json = False, device_dir: DeviceDir = None, address: Address = None
) -> None:
    """List the registered commands, and which of them run."""
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        found = client.manage("ListServiceCommands", pb.ListServiceCommandsRequest())
        rows: list[dict[str, Any]] = [
            {
                "package": one.package_name,
                "command": list(one.command),
                "directory": one.directory,
                "running": one.is_running,
                "last_failure": one.last_failure or None,
            }
            for one in found.services
        ]
    if as_json:
        show(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        state = "running" if row["running"] else "not running"
        if row["last_failure"]:
            state += f"; the last start failed: {row['last_failure']}"
        show(line(f"{row['package']} ({state}): {' '.join(row['command'])}"))


def set_package_queries(
    package: PackageName = None,
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]...", help="Packages that it can see.")
    ] = None,
    device_dir: DeviceDir = None,
    address: Address = None,
) -> None:
    """Name the packages of an app's <queries>; for profiles with package_visibility = "queries"."""
    if package is None:
        fail("Error: --package must be specified.")
    request = shell.SetPackageQueriesRequest(package_name=package, targets=targets or ())
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        client.set_up("SetPackageQueries", request)


def add_to(app: typer.Typer) -> None:
    """Register the commands under the names of the shell's."""
    for command in (
        grant_app_function_access,
        revoke_app_function_access,
        list_valid_agents,
        list_valid_targets,
        read_app_description,
        set_additional_allowlisted_agents,
        clear_additional_allowlisted_agents,
        enable_allowlist,
        disable_allowlist,
        purge_allowlist_cache,
        set_test_page_size,
        reset_test_page_size,
        set_service_command,
        list_service_commands,
        set_package_queries,
    ):
        app.command(command.__name__.replace("_", "-"))(command)


def _update(
    agent: str | None,
    target: str | None,
    flag: AccessFlag,
    done: str,
    device_dir: Path | None,
    address: str | None,
) -> None:
    if agent is None:
        fail("Error: --agent-package must be specified.")
    if target is None:
        fail("Error: --target-package must be specified.")
    request = shell.UpdateAccessRequest(
        agent_package=agent, target_package=target, flags=int(flag), mask=_OTHER
    )
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        try:
            client.set_up("UpdateAccess", request)
        except CallRefused as error:
            fail(f"Failed to update access: {error}")
    print(f"Access {done} successfully.")


def _switch_allowlist(enabled: bool, device_dir: Path | None, address: str | None) -> None:
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        request = shell.SetAllowlistEnabledRequest(enabled=enabled)
        client.set_up("SetAllowlistEnabled", request)


def _page_size(size: int, device_dir: Path | None, address: str | None) -> None:
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        client.set_up("SetTestPageSize", shell.SetTestPageSizeRequest(page_size=size))
