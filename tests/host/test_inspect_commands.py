"""`appfunctions-host explain` and `watch`: why, and what is decided."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.host.cli_rig import ASSISTANT, Served, ended, read_line, served_shop
from tests.host.rig import ROOT, WAIT
from tests.host.shop import CANCEL, FETCH, OFF, PACKAGE, RESET


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_shop(tmp_path_factory.mktemp("inspect")) as running:
        yield running


@pytest.mark.requirement("simulator.explain-command")
def test_explain_says_for_each_function_whether_and_why(served: Served) -> None:
    result = served.run("explain", "--as", ASSISTANT, "--package", PACKAGE)
    told = result.stdout.splitlines()

    assert result.exit_code == 0
    assert told[told.index(f"{PACKAGE} {CANCEL}") :][:3] == [
        f"{PACKAGE} {CANCEL}",
        "  visible   no: access level SELF: only the function's own package",
        "  runnable  no (1000): access level SELF: only the function's own package",
    ]
    assert told[told.index(f"{PACKAGE} {OFF}") :][:3] == [
        f"{PACKAGE} {OFF}",
        "  visible   yes: access level ANDROID_TRUSTED",
        "  runnable  no (1002): the function is disabled",
    ]


@pytest.mark.requirement("simulator.explain-command")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("--function", "fetch_order_details"),
            {"function": FETCH, "discoverable": True, "runnable": True, "filtered_out": False},
        ),
        (
            ("--function", FETCH, "--only", "other"),
            {"function": FETCH, "discoverable": True, "runnable": True, "filtered_out": True},
        ),
        (
            ("--function", "T#gone"),
            {
                "function": "T#gone",
                "discoverable": False,
                "runnable": False,
                "execute_error_code": 1003,
                "execute_rule": "NOT_REGISTERED",
                "discovery_rule": "NOT_REGISTERED",
            },
        ),
    ],
)
def test_explain_prints_json_lines_for_programs_also_for_what_is_missing(
    served: Served, arguments: tuple[str, ...], expected: dict[str, object]
) -> None:
    result = served.run("explain", "--as", ASSISTANT, "--package", PACKAGE, "--json", *arguments)
    (found,) = (json.loads(line) for line in result.stdout.splitlines())

    assert {name: found[name] for name in expected} == expected


def test_explain_for_a_caller_that_is_not_installed_fails(served: Served) -> None:
    result = served.run("explain", "--as", "com.none", "--package", PACKAGE)

    assert result.exit_code == 255
    assert "package 'com.none' is not installed" in result.stderr


@pytest.mark.requirement("simulator.audit.watch")
def test_watch_follows_the_decisions_live_until_it_is_interrupted(served: Served) -> None:
    served.execute(RESET)
    watching = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "appfunctions_host",
            "watch",
            "--device-dir",
            str(served.home.path),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ.copy(),
    )
    with ended(watching):
        told = [read_line(watching) for _ in range(2)]
        served.execute(CANCEL, '{"orderId": "1"}')
        told.append(read_line(watching))
        watching.send_signal(signal.SIGINT)
        code = watching.wait(WAIT)

    assert code == 0
    assert [line.split(" ", 2)[2].split(": ")[0] for line in told] == [
        f"execute     com.android.shell {RESET} ok",
        f"result      com.android.shell {RESET} returned",
        f"execute     com.android.shell {CANCEL} refused 1000",
    ]


@pytest.mark.requirement("simulator.audit.watch")
def test_watch_without_following_prints_what_is_recorded_and_ends(served: Served) -> None:
    served.execute(RESET)
    result = served.run("watch", "--no-follow", "--json")
    rest = served.run("watch", "--no-follow", "--json", "--after", "1")
    found = [json.loads(line) for line in result.stdout.splitlines()]

    assert result.exit_code == 0
    assert [(one["operation"], one["rule"]) for one in found] == [
        ("execute", "SYSTEM_PERMISSION"),
        ("result", "RETURNED"),
    ]
    assert [json.loads(line) for line in rest.stdout.splitlines()] == found[1:]


@pytest.mark.requirement("appfunctions.execute.near-matches")
def test_a_missing_function_is_answered_with_near_ones(served: Served) -> None:
    result = served.execute(f"{PACKAGE}.OrderTools#fetch_order_detail", '{"orderId": "1"}')

    assert result.exit_code == 255
    assert "[1003] App function not found. Did you mean" in result.stderr
    assert FETCH in result.stderr
