"""What every test shares: a clean environment, and the default model for those that need it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

_VARIABLES = (
    "AICORE_SIM_ADDRESS",
    "APPFUNCTIONS_ADDRESS",
    "AICORE_SIM_TOKEN",
    "AICORE_SIM_HOME",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "grpc_proxy",
)


def pytest_configure() -> None:
    """A shell that starts the suite in the background has it, and all it starts, ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What tests log may hold lone surrogates, which pytest-xdist cannot send."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode("utf-8"))
        for name, text in report.sections
    ]
    return report


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def _arithmetic_of_ieee_754() -> Iterator[None]:
    """Making a model leaves its thread taking the smallest numbers for zero; Hypothesis minds."""
    yield
    if sys.platform == "linux" and 5e-324 * 1.0 == 0.0:
        default_environment = ctypes.c_void_p(-1)
        ctypes.CDLL("libm.so.6").fesetenv(default_environment)


@pytest.fixture(scope="session")
def real_model_dir() -> Path:
    """The folder of the default model; pulled when it is not in the cache yet."""
    from aicore_sim.models.catalogue import find_model

    pulled = subprocess.run(
        [sys.executable, "-m", "aicore_sim", "models", "pull"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=os.environ.copy(),
    )
    if pulled.returncode != 0:
        pytest.fail(
            "the real-model tests need the default model, and it could not be pulled:\n"
            f"{pulled.stderr}\n"
            'To run everything else: pytest -m "not real_model"'
        )
    return find_model("smollm2-135m-instruct")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = sum(
        "real_model" in report.keywords for report in terminalreporter.stats.get("passed", ())
    )
    terminalreporter.write_line(f"real-model tests passed: {passed}")
