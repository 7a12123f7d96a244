"""A broken model folder is reported by file and key."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aicore_sim.inference.engine import Engine
from aicore_sim.inference.model_folder import ModelFolderError, read_settings
from tests.inference.requests import ask_with_tools

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def folder(synthetic_dir: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(synthetic_dir, tmp_path / "model"))


def failure(folder: Path) -> str:
    with pytest.raises(ModelFolderError) as caught:
        Engine(folder, threads=1)
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["genai_config.json", "model.onnx", "tokenizer.json", "tokenizer_config.json"]
)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()

    assert str(folder / name) in failure(folder)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "nowhere") in failure(tmp_path / "nowhere")


def test_a_missing_chat_template_is_named(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()

    assert "chat_template.jinja" in failure(folder)


@pytest.mark.parametrize("name", ["genai_config.json", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe"])
def test_a_file_that_holds_no_json_object_is_named(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)

    assert str(folder / name) in failure(folder)


def test_a_damaged_graph_is_named(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"not a graph")

    assert "model.onnx" in failure(folder)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda c: c.update(serach={}), "serach"),
        (lambda c: c["model"].update(colour=1), "colour"),
        (lambda c: c["model"]["decoder"].update(colour=1), "colour"),
        (lambda c: c["model"]["decoder"]["inputs"].update(colour="x"), "colour"),
        (lambda c: c["search"].update(colour=1), "colour"),
        (lambda c: c["search"].update(max_length="many"), "max_length"),
        (lambda c: c["model"].update(type="zebra"), "zebra"),
        (lambda c: c["model"].update(context_length="x"), "model.context_length"),
        (lambda c: c["model"].update(vocab_size=True), "model.vocab_size"),
        (lambda c: c["model"]["decoder"].pop("filename"), "model.decoder.filename"),
        (lambda c: c["model"]["decoder"].update(filename="x.onnx"), "model.decoder.filename"),
        (lambda c: c.pop("model"), "model.type"),
        (
            lambda c: c["model"]["decoder"]["inputs"].update(past_key_names="pk.%d"),
            "past_key_values.0",
        ),
    ],
)
def test_a_wrong_key_is_named_together_with_its_file(
    folder: Path, change: Change, key: str
) -> None:
    path = folder / "genai_config.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))

    reason = failure(folder)

    assert "genai_config.json" in reason or "config.json" in reason
    assert key in reason


@pytest.mark.parametrize(
    ("files", "prompting"),
    [
        ({}, "plain"),
        ({"manifest.json": '{"name": "smollm2-135m-instruct"}'}, "plain"),
        ({"aicore_sim.json": "{}"}, "plain"),
        ({"aicore_sim.json": '{"prompting": "tuned"}'}, "tuned"),
    ],
)
def test_how_a_model_is_asked_is_a_property_of_its_folder(
    tmp_path: Path, files: dict[str, str], prompting: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)

    assert read_settings(tmp_path).prompting == prompting


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('{"promting": "plain"}', "promting"),
        ('{"prompting": "loud"}', "'loud'"),
        ('{"prompting": ["plain"]}', "'plain'"),
        ("{", "aicore_sim.json"),
    ],
)
def test_a_mistake_in_the_settings_is_named(folder: Path, content: str, named: str) -> None:
    (folder / "aicore_sim.json").write_text(content)

    message = failure(folder)
    assert named in message
    assert "aicore_sim.json" in message


def test_a_tuned_model_is_shown_functions_in_the_form_of_their_calls(folder: Path) -> None:
    request = ask_with_tools("Where is ORD-1?")
    plain = Engine(folder, threads=1).prompt_text(request)
    (folder / "aicore_sim.json").write_text('{"prompting": "tuned"}')
    tuned = Engine(folder, threads=1).prompt_text(request)

    form = '{"name": "fetch_order_details", "arguments": {"orderId": string}}'
    assert form in tuned
    assert form not in plain
