"""`pm`: packages of the device, as on `adb shell pm`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aicore_protos import device_pb2
from aicore_sim.cli import options as shared
from aicore_sim.cli.control import CommandError, connect_home
from aicore_sim.device import permissions as known

app = typer.Typer(
    help="Packages of the device and their permissions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_PackageName = Annotated[str, typer.Argument(metavar="PACKAGE")]
_Permission = Annotated[
    str, typer.Argument(help="Full or short name, for example EXECUTE_APP_FUNCTIONS.")
]


@app.command()
def install(
    package: _PackageName,
    permissions: Annotated[
        list[str] | None, typer.Option("--permission", help="May be repeated.")
    ] = None,
    cert: Annotated[
        str, typer.Option(help="SHA-256 of the signing certificate (default: made from the name).")
    ] = "",
    allowlist: Annotated[
        list[str] | None,
        typer.Option(help="Package whose functions this agent may run, or '*'. May be repeated."),
    ] = None,
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Install a package, or replace the permissions of an installed one.

    A certified agent needs the permission and an entry of the allowlist:

    \b
    aicore-sim pm install com.example.assistant --permission EXECUTE_APP_FUNCTIONS \\
        --allowlist com.example.shop
    """
    request = device_pb2.InstallPackageRequest(
        package_name=package,
        permissions=permissions or (),
        signing_digest=cert,
        allowlist_targets=allowlist or (),
    )
    with connect_home(shared.home_of(device_dir)) as control:
        _show([control.install(request)], json_output)


@app.command()
def uninstall(package: _PackageName, device_dir: shared.DeviceDir = None) -> None:
    """Remove a package with its tokens and grants."""
    with connect_home(shared.home_of(device_dir)) as control:
        control.uninstall(package)
    print("Success")


@app.command()
def clear(package: _PackageName, device_dir: shared.DeviceDir = None) -> None:
    """Clear a package's data: states of its functions, quota and importance."""
    with connect_home(shared.home_of(device_dir)) as control:
        control.clear(package)
    print("Success")


@app.command()
def grant(
    package: _PackageName,
    permission: _Permission,
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Grant a permission."""
    with connect_home(shared.home_of(device_dir)) as control:
        _show([control.grant(package, permission)], json_output)


@app.command()
def revoke(
    package: _PackageName,
    permission: _Permission,
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Revoke a permission."""
    with connect_home(shared.home_of(device_dir)) as control:
        _show([control.revoke(package, permission)], json_output)


@app.command()
def allowlist(
    package: _PackageName,
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]...", help="Packages, or '*'; none clears the entry."),
    ] = None,
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """Replace the packages whose functions an agent may run."""
    with connect_home(shared.home_of(device_dir)) as control:
        _show([control.set_allowlist(package, tuple(targets or ()))], json_output)


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help="`packages`, as on `adb shell pm`.")] = "packages",
    device_dir: shared.DeviceDir = None,
    json_output: shared.Json = False,
) -> None:
    """List the installed packages."""
    if what != "packages":
        raise CommandError(f"pm lists packages, not {what!r}", exit_code=2)
    with connect_home(shared.home_of(device_dir)) as control:
        _show(list(control.packages()), json_output)


def _show(packages: list[device_pb2.Package], json_output: bool) -> None:
    if json_output:
        shared.print_json([_facts(package) for package in packages])
        return
    shared.print_rows(
        "Packages",
        ("package", "uid", "permissions", "may run functions of", "certificate"),
        [
            (
                package.package_name,
                str(package.uid),
                "\n".join(name.removeprefix(known.PREFIX) for name in sorted(package.permissions)),
                ", ".join(sorted(package.allowlist_targets)),
                package.signing_digest[:16] + "…",
            )
            for package in packages
        ],
    )


def _facts(package: device_pb2.Package) -> dict[str, Any]:
    return {
        "package": package.package_name,
        "uid": package.uid,
        "permissions": sorted(package.permissions),
        "signing_digest": package.signing_digest,
        "allowlist": sorted(package.allowlist_targets),
    }
