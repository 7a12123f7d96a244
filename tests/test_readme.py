"""What the README shows is executed, word for word."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def _blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def _commands(*beginnings: str) -> list[str]:
    """Indented lines that begin with one of these words, in order."""
    lines = [line[4:] for line in README.splitlines() if line.startswith("    ")]
    return [line for line in lines if line.startswith(beginnings)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's folder with the README's files."""
    shop, agent = _blocks("python")
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "agent.py").write_text(agent)
    (tmp_path / "busy.yaml").write_text(_blocks("yaml")[0])
    return tmp_path


@pytest.fixture
def environment(project: Path) -> Iterator[dict[str, str]]:
    """As after `source .venv/bin/activate`, with a device directory of its own."""
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    made = {**os.environ, "PATH": path, "AICORE_SIM_HOME": str(project / "device")}
    yield made
    _shell("aicore-sim stop", project, made)


def _shell(script: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=env,
        timeout=110,
        stdin=subprocess.DEVNULL,
    )


def test_both_one_line_commands_are_there() -> None:
    first, second = _commands("python3 -m venv")
    assert first.endswith("aicore-sim demo")
    assert second.endswith("pytest -n 2 --dist loadfile")


@pytest.mark.real_model
def test_the_agent_runs_as_shown(
    project: Path, environment: dict[str, str], real_model_dir: Path
) -> None:
    [command] = [line for line in _commands("aicore-sim exec") if "scripted" not in line]
    done = _shell(command, project, environment)
    assert done.returncode == 0, done.stderr
    assert "FunctionCall(name='find_order', args={'orderId': 'A-17'}" in done.stdout
    assert "TextMessage(text=" in done.stdout


def test_the_scripted_agent_is_told_that_the_system_is_busy(
    project: Path, environment: dict[str, str]
) -> None:
    [command] = [line for line in _commands("aicore-sim exec") if "scripted" in line]
    done = _shell(command, project, environment)
    assert done.returncode == 0, done.stderr
    assert "failed: <ErrorCode.BUSY: 9>" in done.stdout


@pytest.mark.real_model
def test_the_session_with_a_device_that_stays_runs_as_shown(
    project: Path, environment: dict[str, str], real_model_dir: Path
) -> None:
    lines = _commands(
        "aicore-sim up --detach", "eval", "python agent", "aicore-sim pm", "appfunctions-host"
    )
    done = _shell("set -e\n" + "\n".join(lines), project, environment)
    assert done.returncode == 0, done.stderr
    assert "A-17 is out for delivery." in done.stdout
    assert "FunctionCall(name='find_order'" in done.stdout


def test_the_device_is_set_as_shown(project: Path, environment: dict[str, str]) -> None:
    lines = [
        line.partition("#")[0].replace("journal -f", "journal")
        for line in _commands("aicore-sim ctl")
    ]
    assert len(lines) == 7
    boot = "aicore-sim up --detach --clock virtual --model scripted:busy.yaml"
    install = "aicore-sim pm install com.example.shop"
    done = _shell("set -e\n" + "\n".join((boot, install, *lines)), project, environment)
    assert done.returncode == 0, done.stderr


def test_the_script_of_the_documentation_is_a_script() -> None:
    from aicore_sim.inference.script_file import parse_script

    text = _blocks("yaml", (ROOT / "docs" / "scripts.md").read_text())[0]
    assert len(parse_script(text, source="docs/scripts.md").steps) == 8


def test_the_functions_of_an_android_app_run_as_the_page_shows(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    page = (ROOT / "docs" / "app-function-xml.md").read_text()
    (tmp_path / "app_functions_v2.xml").write_text(_blocks("xml", page)[0])
    (tmp_path / "results.yaml").write_text(_blocks("yaml", page)[0])
    run, export = _blocks("bash", page)
    assert [word for word in _commands("aicore-sim up --xml") if "--stub results.yaml" in word]
    done = _shell(run, tmp_path, environment)
    assert (done.returncode, done.stdout) == (0, "note-1\n"), done.stderr
    boot = "set -e\naicore-sim up --detach --model scripted --app com.example.shop=shop:Shop\n"
    done = _shell(boot + export, tmp_path, environment)
    assert done.returncode == 0, done.stderr
    assert "#find_order" in (tmp_path / "app_functions_v2.xml").read_text()
    assert "<function_id>" in done.stdout


def test_the_model_is_asked_as_the_page_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    page = (ROOT / "docs" / "prompt-api.md").read_text()
    (tmp_path / "ask.py").write_text(_blocks("python", page)[0])
    (tmp_path / "answers.yaml").write_text(_blocks("yaml", page)[0])
    done = _shell(_blocks("bash", page)[0], tmp_path, environment)
    assert "tokens\nRed, green, blue.\n" in done.stdout
    assert "GenAiException" in done.stderr


def test_functions_with_levels_and_signatures_are_declared_as_the_page_shows(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    page = (ROOT / "docs" / "app-functions.md").read_text()
    (tmp_path / "notes.py").write_text(_blocks("python", page)[0])
    [declare] = re.findall(r"^    (aicore-sim exec .*)$", page, re.MULTILINE)
    listing = "appfunctions-host list-app-functions --package com.example.notes"
    boot = "set -e\naicore-sim up --detach --model scripted > up.log\n"
    done = _shell(f"{boot}{declare}\n{listing}", tmp_path, environment)
    assert done.returncode == 0, done.stderr
    for name in ("NoteTools#count_notes", "NoteTools#delete_all", "Editor#rename"):
        assert f"com.example.notes.{name}" in done.stdout


def test_no_page_links_to_a_file_that_is_not_there() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    missing = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
        if not target.startswith("https://") and not (page.parent / target).exists()
    ]
    assert missing == []
