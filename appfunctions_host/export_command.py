"""`export-xml`: an app's functions as its build would write them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from appfunctions_host.command_options import Address, DeviceDir, fail, shell_session
from appfunctions_host.metadata_files.writer import write_v1, write_v2
from appfunctions_host.shell_client import Target


def export_xml(
    package: Annotated[str, typer.Option(help="The app whose functions are written.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file (default: standard output).")
    ] = None,
    v1: Annotated[
        bool, typer.Option("--v1", help="app_functions.xml, without parameters and results.")
    ] = False,
    device_dir: DeviceDir = None,
    address: Address = None,
) -> None:
    """Write app_functions_v2.xml of an app that the device knows."""
    with shell_session(Target(device_dir=device_dir, address=address)) as client:
        functions = list(client.search(package))
        if not functions:
            fail(f"Error: {package} declares no functions on this device.")
        data = write_v1(functions) if v1 else write_v2(functions)
        if output is None:
            sys.stdout.buffer.write(data)
        else:
            output.write_bytes(data)
