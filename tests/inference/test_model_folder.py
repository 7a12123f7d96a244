"""A broken model folder is reported by file and key."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aicore_sim.inference.engine import Engine
from aicore_sim.inference.model_folder import ModelFolderError

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
