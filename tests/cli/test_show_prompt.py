"""`show-prompt` prints what a model gets, and `serve --show-prompt` logs it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aicore_sim.cli.main import app
from aicore_sim.inference.model_folder import PromptOptions
from aicore_sim.inference.onnx_backend import OnnxBackend
from tests.inference.models import GEMMA_TURNS, build_model
from tests.inference.requests import GREEDY, ask_with_tools

TOOLS = [
    {
        "name": "order_food",
        "description": "Orders food.",
        "parameters": {
            "type": "object",
            "properties": {
                "dish": {"type": "string", "description": "What to eat", "maxLength": 40},
                "count": {"type": ["integer", "null"], "minimum": 1},
                "extras": {"type": "array", "items": {"type": "string", "enum": ["rice", "tea"]}},
                "spice": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
            },
            "required": ["dish"],
        },
    },
    {"name": "cancel_order"},
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "gemma"
    return build_model(
        folder, template=GEMMA_TURNS, control=("<start_of_turn>",), stops=("<end_of_turn>",)
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS))
    return path


def run(*words: object, stdin: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["show-prompt", *map(str, words)], input=stdin)
    failed = "" if result.exception is None else str(result.exception)
    return result.exit_code, result.stdout + failed


@pytest.mark.requirement("aicore.dialect.show-prompt")
@pytest.mark.parametrize("dialect", ["hermes", "gemma", "functiongemma", "gemma4"])
def test_every_tool_and_parameter_is_in_the_prompt(model: Path, tools: Path, dialect: str) -> None:
    code, text = run(
        *("I am hungry.", "--model", model, "--tools", tools, "--dialect", dialect),
        *("--system", "Be brief."),
    )

    assert code == 0
    for name in ("order_food", "cancel_order", "dish", "count", "extras", "spice", "rice", "tea"):
        assert name in text
    assert "Orders food." in text
    assert "What to eat" in text
    assert "Be brief." in text
    assert text.endswith("I am hungry.<end_of_turn>\n<start_of_turn>model\n")


def test_the_prompt_is_printed_to_the_character_and_counted(model: Path) -> None:
    _, text = run("-", "--model", model, stdin="Hi\n")
    _, found = run("-", "--model", model, "--json", stdin="Hi\n")

    prompt = "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n"
    assert text == prompt
    facts = json.loads(found)
    assert (facts["dialect"], facts["prompt"]) == ("gemma", prompt)
    # A byte is a token here, a control token one.
    assert facts["tokens"] == len(prompt) - sum(
        len(mark) - 1 for mark in ("<start_of_turn>", "<start_of_turn>", "<end_of_turn>")
    )


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "cannot be read as JSON"),
        ("{}", "no list"),
        ("[1]", "[0]"),
        ('[{"name": "f", "args": {}}]', "'args'"),
        ('[{"name": "f", "parameters": {"type": "thing"}}]', "[0].parameters.type"),
        (
            '[{"name": "f", "parameters": {"type": "object", "properties": {"a": {"$ref": "b"}}}}]',
            "[0].parameters.properties.a: unknown keys ['$ref']",
        ),
    ],
)
def test_a_mistake_in_the_tools_is_named(
    model: Path, tmp_path: Path, content: str, named: str
) -> None:
    path = tmp_path / "tools.json"
    path.write_text(content)

    code, text = run("Hi", "--model", model, "--tools", path)

    assert code != 0
    assert named in text


def test_an_unknown_dialect_or_model_is_named(model: Path, tmp_path: Path) -> None:
    assert "'klingon' is none of hermes" in run("Hi", "--model", model, "--dialect", "klingon")[1]
    code, text = run("Hi", "--model", tmp_path)
    assert code != 0
    assert "genai_config.json" in text


@pytest.mark.requirement("aicore.dialect.show-prompt")
@pytest.mark.parametrize("show", [True, False])
async def test_a_worker_logs_the_prompts_of_real_calls_only_when_it_is_told_to(
    model: Path, caplog: pytest.LogCaptureFixture, show: bool
) -> None:
    caplog.set_level(logging.INFO)
    backend = OnnxBackend(model, threads=1, prompts=PromptOptions(show=show))
    await backend.start()
    try:
        request = ask_with_tools("Hi!", sampling=GREEDY.model_copy(update={"max_output_tokens": 4}))
        async for _ in backend.generate(request):
            pass
    finally:
        await backend.stop()

    said = [record.getMessage() for record in caplog.records]
    shown = [text for text in said if "fetch_order_details" in text]
    assert len(shown) == (1 if show else 0)
    assert all(text.endswith("Hi!<end_of_turn>\n<start_of_turn>model\n") for text in shown)
