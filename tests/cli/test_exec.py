"""`exec`: commands as apps of the device, with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import (
    COMMAND,
    Up,
    killed_at_end,
    processes_of,
    run,
    script,
    wait_until,
)

WHO = """
import asyncio, json, os
from aicore_client import AppFunctionManager, AppFunctionSearchSpec, Generation

async def main():
    status = await Generation.get_client().check_status()
    found = await AppFunctionManager().search_app_functions(AppFunctionSearchSpec())
    print(json.dumps({"status": int(status), "found": len(found)}))

asyncio.run(main())
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    return script(tmp_path / "script.yaml", "[]\n")


@pytest.mark.requirement("simulator.command.exec")
@pytest.mark.parametrize("code", [0, 7])
def test_exec_returns_the_exit_code_of_the_command(model: str, code: int) -> None:
    command = (sys.executable, "-c", f"raise SystemExit({code})")
    assert run("exec", "--model", model, "--", *command).returncode == code


@pytest.mark.requirement("simulator.command.exec")
def test_exec_gives_the_command_a_device_and_an_identity(model: str) -> None:
    done = run("exec", "--as", "com.example.x", "--model", model, "--", sys.executable, "-c", WHO)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"status": 3, "found": 0}


def test_exec_passes_standard_input_through(model: str) -> None:
    done = subprocess.run(
        [*COMMAND, "exec", "--model", model, "--", "cat"],
        input="through",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "through"


def test_a_command_that_does_not_exist_is_named(model: str) -> None:
    done = run("exec", "--model", model, "--", "no-such-command")
    assert done.returncode == 127
    assert "no-such-command" in done.stderr


def test_exec_without_a_command_says_so(model: str) -> None:
    assert run("exec", "--model", model).returncode == 2


def test_a_command_killed_by_a_signal_is_reported_as_a_shell_would(model: str) -> None:
    command = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert run("exec", "--model", model, "--", *command).returncode == 137


@pytest.mark.requirement("simulator.identity.launch-token", "simulator.identity.unauthenticated")
def test_the_token_of_a_command_ends_with_it(tmp_path: Path, model: str) -> None:
    with Up(tmp_path / "device", "--model", model) as up:
        home = ("--device-dir", str(tmp_path / "device"))
        token = run("exec", *home, "--", "printenv", "AICORE_SIM_TOKEN").stdout.strip()
        assert token.startswith("run_")
        done = run(
            command=(sys.executable, "-c", WHO),
            env={
                "AICORE_SIM_ADDRESS": up.facts["aicore"]["address"],
                "APPFUNCTIONS_ADDRESS": up.facts["appfunctions"]["address"],
                "AICORE_SIM_TOKEN": token,
            },
        )
        assert done.returncode == 1
        assert "UnauthenticatedError" in done.stderr


def test_exec_uses_a_running_device_and_leaves_it_running(tmp_path: Path, model: str) -> None:
    home = ("--device-dir", str(tmp_path / "device"))
    with Up(tmp_path / "device", "--model", model):
        done = run("exec", *home, "--as", "com.example.x", "--permission", "QUERY_ALL_PACKAGES",
                   "--", sys.executable, "-c", WHO)  # fmt: skip
        assert done.returncode == 0, done.stderr
        listed = json.loads(run("pm", "list", *home, "--json").stdout)
        assert [(item["package"], item["permissions"]) for item in listed] == [
            ("com.example.x", ["android.permission.QUERY_ALL_PACKAGES"])
        ]
        for flag in (("--model", model), (f"--model={model}",)):
            refused = run("exec", *home, *flag, "--", "true")
            assert refused.returncode == 2
            assert "--model would change nothing" in refused.stderr


def test_without_a_directory_exec_uses_the_device_that_runs_in_the_usual_one(
    tmp_path: Path, model: str
) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path), "AICORE_SIM_HOME": ""}
    command = ("--", sys.executable, "-c", "import os; print(os.environ['AICORE_SIM_HOME'])")
    with Up(tmp_path / "aicore-sim" / "device", "--model", model):
        assert run("exec", *command, env=env).stdout.strip() == str(
            tmp_path / "aicore-sim" / "device"
        )
        own = run("exec", "--model", model, *command, env=env).stdout.strip()
        assert own != str(tmp_path / "aicore-sim" / "device")


def test_exec_boots_with_the_quota_and_the_clock_that_it_is_told(model: str) -> None:
    shown = (*COMMAND, "ctl", "quota", "show", "--json")
    done = run("exec", "--model", model, "--quota", "off", "--clock", "virtual", "--", *shown)
    assert done.returncode == 0, done.stderr
    assert '"off"' in done.stdout
    assert run("exec", "--model", model, "--quota", "none", "--", "true").returncode == 2


@pytest.mark.requirement("simulator.command.no-orphans")
def test_killing_exec_ends_the_command_and_the_device(tmp_path: Path, model: str) -> None:
    device_dir = tmp_path / "device"
    marker = f"import sys; print('up', flush=True); sys.stdin.read()  # {device_dir}"
    with killed_at_end(
        subprocess.Popen(
            [*COMMAND, "exec", "--device-dir", str(device_dir), "--model", model, "--",
             sys.executable, "-c", marker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.kill()
        process.wait(timeout=5)
        wait_until(lambda: not processes_of(device_dir), "command and daemons to end")


def test_a_signal_ends_exec_with_everything_it_made(tmp_path: Path, model: str) -> None:
    """Also the temporary device directory, which holds a control token."""
    marker = "import sys; print('up', flush=True); sys.stdin.read()"
    with killed_at_end(
        subprocess.Popen(
            [*COMMAND, "exec", "--model", model, "--", sys.executable, "-c", marker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.wait(timeout=10) == 143
    assert [path.name for path in tmp_path.iterdir()] == ["script.yaml"]


def test_steps_that_are_left_over_are_an_error_that_names_them(tmp_path: Path) -> None:
    left = script(tmp_path / "left.yaml", "- text: Never said.\n")
    done = run("exec", "--model", left, "--", "true")
    assert done.returncode == 6
    assert "steps of the script that were not used: step 1: text 'Never said.'" in done.stderr
    assert run("exec", "--model", left, "--", "false").returncode == 1


def test_exec_without_a_script_repeats_or_calls_every_function(tmp_path: Path) -> None:
    ask = (
        "import asyncio\n"
        "from aicore_client import Generation\n"
        "said = asyncio.run(Generation.get_client().generate_content('say it'))\n"
        "print(said.candidates[0].text)\n"
    )
    command = ("--", sys.executable, "-c", ask)
    assert run("exec", "--model", "echo", *command).stdout == "say it\n"
    done = run("exec", "--model", "auto", "--seed", "5", *command)
    assert done.stdout == "Automatic answer (seed 5): called no function.\n", done.stderr
