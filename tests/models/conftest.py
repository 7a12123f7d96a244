from __future__ import annotations

from pathlib import Path

import pytest

from aicore_sim.models.catalogue import CatalogueModel
from aicore_sim.models.errors import PullError
from aicore_sim.models.pull import NoProgress, PullResult, pull_default
from tests.models.synthetic import catalogue_entry, write_gguf


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    return write_gguf(folder / "tiny.gguf", matrices="Q4_1", embedding="Q8_0")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty model cache of this test alone."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("AICORE_SIM_CACHE", str(folder))
    return folder


@pytest.fixture
def tiny_model(tiny_gguf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogueModel:
    """The only model of the catalogue while the test runs."""
    model = catalogue_entry(tiny_gguf)
    monkeypatch.setattr("aicore_sim.models.catalogue.CATALOGUE", (model,))
    return model


@pytest.fixture(scope="session")
def default_model() -> PullResult:
    """The default model, from the user's cache or else pulled into it."""
    try:
        return pull_default(NoProgress())
    except PullError as error:
        pytest.fail(f'{error} To run the tests without the model: -m "not real_model".')
