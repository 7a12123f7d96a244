"""docs/models-and-prompts.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from aicore_sim.cli.main import app
from aicore_sim.inference.dialect_names import DIALECTS
from aicore_sim.inference.grammar import FORMATS
from aicore_sim.inference.model_folder import FolderSettings
from tests.inference.models import GEMMA_TURNS, build_model

PAGE = (
    Path(__file__).resolve().parent.parent.parent / "docs" / "models-and-prompts.md"
).read_text()


def test_the_page_names_every_format_dialect_and_setting() -> None:
    [formats] = re.findall(r"^\| `format` \| (.*); others", PAGE, re.MULTILINE)
    settings = PAGE.partition("aicore_sim.json")[2].partition("What is ours")[0]

    assert re.findall(r"`([^`]+)`", formats) == list(FORMATS)
    assert re.findall(r"^\| `(\w+)` \| [A-Z]", PAGE, re.MULTILINE) == list(DIALECTS)
    assert set(re.findall(r"^\| `(\w+)` \|", settings, re.MULTILINE)) == set(
        FolderSettings.model_fields
    )


def test_the_tools_of_the_page_can_be_shown(tmp_path: Path) -> None:
    folder = build_model(tmp_path / "model", template=GEMMA_TURNS, stops=("<end_of_turn>",))
    [tools] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "tools.json").write_text(tools)

    done = CliRunner().invoke(
        app,
        [
            *("show-prompt", "What's the weather in Paris?", "--model", str(folder)),
            *("--tools", str(tmp_path / "tools.json")),
        ],
    )

    assert done.exit_code == 0
    assert "get_weather" in done.stdout
