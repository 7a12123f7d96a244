"""An adapter is merged when a model is converted, and the daemon asks as it was trained."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

from aicore_sim.cli.main import app
from aicore_sim.inference.engine import Engine
from aicore_sim.inference.model_folder import read_settings
from aicore_sim.models.adapter import Adapter, shipped
from aicore_sim.models.catalogue import (
    CATALOGUE,
    DEFAULT_MODEL,
    PLAIN_MODEL,
    CatalogueModel,
    model_folder,
    model_home,
    without_adapter,
)
from aicore_sim.models.convert import convert
from aicore_sim.models.errors import ModelNotFound, PullError, UnsupportedModel
from aicore_sim.models.gguf_weights import GgufModel
from aicore_sim.models.manifest import Manifest
from aicore_sim.models.pull import NoProgress, pull
from scripts.adapter.conversations import CATEGORIES, Writer
from scripts.adapter.encode import ExampleEncoder
from tests.models.synthetic import HIDDEN, catalogue_entry

RANK = 4
Q, DOWN = "blk.0.attn_q.weight", "blk.1.ffn_down.weight"
MOST_BYTES = 12 * 1024 * 1024


def write_adapter(path: Path, matrices: dict[str, tuple[int, int]]) -> Path:
    """Random changes of these matrices, each (rows, columns)."""
    random = np.random.default_rng(3)
    parts: dict[str, npt.NDArray[np.float16]] = {}
    for name, (rows, columns) in matrices.items():
        parts[f"{name}.a"] = random.standard_normal((RANK, columns)).astype(np.float16)
        parts[f"{name}.b"] = random.standard_normal((rows, RANK)).astype(np.float16)
    _save(path, parts)
    return path


def _save(path: Path, parts: dict[str, npt.NDArray[np.float16]]) -> None:
    np.savez(path, allow_pickle=False, **parts)


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return write_adapter(tmp_path / "tiny.npz", {Q: (HIDDEN, HIDDEN), DOWN: (HIDDEN, 96)})


@pytest.fixture
def adapted(tiny_gguf: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogueModel:
    """A model of the catalogue with an adapter, and the same one without."""
    plain = catalogue_entry(tiny_gguf)
    model = replace(
        plain,
        name="tiny-tuned",
        adapter="tiny",
        adapter_sha256=hashlib.sha256(adapter.read_bytes()).hexdigest(),
    )
    monkeypatch.setattr("aicore_sim.models.catalogue.CATALOGUE", (model, plain))
    monkeypatch.setattr("aicore_sim.models.adapter._ADAPTERS", adapter.parent)
    return model


def test_the_products_are_added_to_the_weights_before_they_are_rounded(
    tiny_gguf: Path, adapter: Path
) -> None:
    parts = np.load(adapter)
    plain, merged = GgufModel(tiny_gguf), GgufModel(tiny_gguf, Adapter(adapter))
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(tiny_gguf).tensors}

    for name in (Q, DOWN):
        exact = gguf.quants.dequantize(stored[name].data, stored[name].tensor_type)
        change = parts[f"{name}.b"].astype(np.float32) @ parts[f"{name}.a"].astype(np.float32)
        found = merged.matrix(name).dequantized()
        assert np.abs(change).max() > 1
        # Half a step of 255 over the range of a block.
        assert np.abs(found - (exact + change)).max() <= np.abs(exact + change).max() / 253
    for name in ("blk.1.attn_q.weight", "token_embd.weight"):
        assert np.array_equal(merged.matrix(name).q, plain.matrix(name).q)


@pytest.mark.parametrize(
    "matrices",
    [{Q: (HIDDEN, 2 * HIDDEN)}, {"blk.9.attn_q.weight": (4, 4)}, {"output_norm.weight": (1, 4)}],
)
def test_an_adapter_of_another_model_is_refused(
    tiny_gguf: Path, tmp_path: Path, matrices: dict[str, tuple[int, int]]
) -> None:
    other = Adapter(write_adapter(tmp_path / "other.npz", matrices))

    with pytest.raises(UnsupportedModel, match="it is for another model") as refusal:
        GgufModel(tiny_gguf, other)
    assert next(iter(matrices)) in str(refusal.value)


def test_a_file_that_is_no_adapter_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.npz"
    text.write_text("no archive")
    half = tmp_path / "half.npz"
    _save(half, {f"{Q}.a": np.zeros((4, 4), np.float16)})
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, allow_pickle=True, **{f"{Q}.a": np.array([{}], dtype=object)})

    for path in (text, half, pickled, tmp_path / "missing.npz"):
        with pytest.raises(UnsupportedModel, match=path.name):
            Adapter(path)


def test_a_pull_merges_the_adapter_and_says_so(
    adapted: CatalogueModel, tiny_gguf: Path, cache: Path
) -> None:
    plain = without_adapter(adapted)

    result = pull(adapted, NoProgress(), source=tiny_gguf)
    other = pull(plain, NoProgress(), source=tiny_gguf)

    assert result.path == model_folder(adapted) != other.path == model_folder(plain)
    assert read_settings(result.path).prompting == "tuned"
    assert read_settings(other.path).prompting == "plain"
    manifest = Manifest.model_validate_json((result.path / "manifest.json").read_bytes())
    assert manifest.adapter_sha256 == adapted.adapter_sha256
    assert "'tiny'" in (result.path / "MODEL_CARD.md").read_text()
    data = [(path / "model.onnx.data").read_bytes() for path in (result.path, other.path)]
    assert len(data[0]) == len(data[1])
    assert data[0] != data[1]


def test_a_changed_adapter_makes_another_folder(adapted: CatalogueModel, cache: Path) -> None:
    newer = replace(adapted, adapter_sha256="f" * 64)

    assert model_folder(newer) != model_folder(adapted)
    assert model_folder(newer).parent == model_home(adapted)


def test_an_adapter_that_is_not_the_shipped_one_is_not_merged(
    adapted: CatalogueModel, adapter: Path, tiny_gguf: Path, cache: Path
) -> None:
    adapter.write_bytes(adapter.read_bytes() + b"more")
    with pytest.raises(PullError, match="--no-adapter") as changed:
        pull(adapted, NoProgress(), source=tiny_gguf)
    adapter.unlink()
    with pytest.raises(PullError, match="No such file"):
        pull(adapted, NoProgress(), source=tiny_gguf)

    assert changed.value.failure == "checksum"
    assert not model_folder(adapted).exists()


def test_the_command_pulls_without_the_adapter_when_told_to(
    adapted: CatalogueModel, tiny_gguf: Path, cache: Path
) -> None:
    command = ["models", "pull", "tiny-tuned", "--from", str(tiny_gguf)]
    done = CliRunner().invoke(app, [*command, "--no-adapter"])
    assert done.exit_code == 0, done.output
    assert "tiny is ready" in done.output
    assert not model_folder(adapted).exists()

    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "tiny-tuned is ready" in done.output


def test_a_model_without_a_plain_form_says_so(adapted: CatalogueModel) -> None:
    other = replace(adapted, name="lonely", gguf_sha256="0" * 64)
    with pytest.raises(ModelNotFound, match="'lonely' has no adapter to leave out"):
        without_adapter(other)


def test_the_shipped_adapter_is_the_one_of_the_catalogue() -> None:
    path = shipped(DEFAULT_MODEL.adapter)

    assert hashlib.sha256(path.read_bytes()).hexdigest() == DEFAULT_MODEL.adapter_sha256
    assert path.stat().st_size <= MOST_BYTES
    assert len(Adapter(path).matrices) == 7 * DEFAULT_MODEL.layers
    assert (path.parent / f"{DEFAULT_MODEL.adapter}.md").is_file()
    assert CATALOGUE == (DEFAULT_MODEL, PLAIN_MODEL)
    assert without_adapter(DEFAULT_MODEL) == PLAIN_MODEL


def test_training_and_daemon_make_the_same_tokens_of_every_kind_of_example(
    tiny_gguf: Path, adapter: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    convert(tiny_gguf, folder, lambda done, total: None, adapter=adapter)
    training = ExampleEncoder(folder)
    daemon = Engine(folder, threads=1)
    writer = Writer("train", seed=5)

    for category in CATEGORIES:
        for _ in range(10):
            example = writer.write(category)
            assert training.prompt(example.request) == daemon.encode(example.request), category
