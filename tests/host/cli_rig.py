"""A host process and the command line, for the tests of the commands."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from aicore_sim.device.database import open_database
from aicore_sim.device.home import DeviceHome
from aicore_sim.device.packages import PackageStore
from appfunctions_host.cli import app
from tests.host.rig import ROOT, START, WAIT
from tests.host.shop import PACKAGE

ASSISTANT = "com.assistant"


@dataclass(frozen=True, kw_only=True)
class Served:
    home: DeviceHome
    packages: PackageStore
    process: subprocess.Popen[str]
    facts: dict[str, Any]

    def run(self, *arguments: str) -> Result:
        command, *rest = arguments
        return CliRunner().invoke(app, [command, "--device-dir", str(self.home.path), *rest])

    def execute(self, function: str, parameters: str = "{}", *more: str) -> Result:
        return self.run(
            "execute-app-function",
            "--package",
            PACKAGE,
            "--function",
            function,
            "--parameters",
            parameters,
            *more,
        )


@contextlib.contextmanager
def prepared(folder: Path) -> Iterator[tuple[DeviceHome, PackageStore]]:
    """A device directory as AICore leaves it, with the shop and an assistant installed."""
    home = DeviceHome(folder / "device")
    home.prepare()
    with contextlib.closing(open_database(home.database_path, create=True)) as connection:
        packages = PackageStore(connection, control_token=home.read_control_token())
        packages.install(PACKAGE)
        packages.install(ASSISTANT, ["EXECUTE_APP_FUNCTIONS"], allowlist_targets=["*"])
        yield home, packages


def start(home: DeviceHome, *more: str, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "appfunctions_host", "serve", "--device-dir", str(home.path), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        pass_fds=pass_fds,
        env={**os.environ, "COLUMNS": "200"},
    )


def read_line(process: subprocess.Popen[str], timeout: float = START) -> str:
    assert process.stdout is not None
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        line = pool.submit(process.stdout.readline)
        try:
            return line.result(timeout).strip()
        except TimeoutError:
            process.kill()
            raise


def ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    word, _, facts = read_line(process).partition(" ")
    assert word == "READY", process.communicate(timeout=WAIT)
    found: dict[str, Any] = json.loads(facts)
    return found


@contextlib.contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.communicate(timeout=WAIT)


@contextlib.contextmanager
def served_shop(folder: Path) -> Iterator[Served]:
    """A host process with the shop inside it."""
    apps = [f"--app={PACKAGE}=tests.host.shop:{name}" for name in ("OrderTools", "TroubleTools")]
    with prepared(folder) as (home, packages):
        process = start(home, *apps)
        with ended(process):
            yield Served(home=home, packages=packages, process=process, facts=ready(process))
