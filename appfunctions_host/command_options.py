"""What the commands share: options, exit codes, and the session around each command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from appfunctions_host.shell_client import (
    CallRefused,
    ExecutionFailed,
    HostClient,
    ServiceMissing,
    Target,
    TimedOut,
    connect,
)
from appfunctions_host.shown import show

FAILED = 255
SERVICE_MISSING = 20

DeviceDir = Annotated[
    Path | None,
    typer.Option(
        "--device-dir",
        help="Directory of the device's state (default: AICORE_SIM_HOME, else the user's data "
        "directory).",
        show_default=False,
    ),
]
Address = Annotated[str | None, typer.Option(help="unix:/absolute/path or 127.0.0.1:PORT.")]
As = Annotated[
    str | None, typer.Option("--as", metavar="PACKAGE", help="Call as this app, not as the shell.")
]
User = Annotated[str, typer.Option(help="Android user; the device has only user 0.")]
PackageName = Annotated[str | None, typer.Option("--package", help="The app that provides it.")]
FunctionId = Annotated[
    str | None, typer.Option("--function", help="CLASS#METHOD, or METHOD alone.")
]


@contextmanager
def shell_session(target: Target) -> Iterator[HostClient]:
    """What the shell command does around each of its commands."""
    try:
        with connect(target) as client:
            yield client
    except ServiceMissing:
        print("cmd: Can't find service: app_function", file=sys.stderr)
        print("No device runs there; start one with `aicore-sim up`.", file=sys.stderr)
        raise typer.Exit(SERVICE_MISSING) from None
    except TimedOut:
        fail("Timed out")
    except (CallRefused, ExecutionFailed, OSError, ValueError) as error:
        fail(f"Exception: {error}")


def fail(message: str) -> NoReturn:
    show(message, error=True)
    raise typer.Exit(FAILED)
