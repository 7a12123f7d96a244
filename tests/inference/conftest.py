"""Models for the inference tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from aicore_sim.inference.engine import Engine
from tests.inference.synthetic import build_recalling_model, build_synthetic_model


@pytest.fixture(scope="session")
def synthetic_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with `DEFAULT_CHAINS`; copy it before changing it."""
    return build_synthetic_model(tmp_path_factory.mktemp("models") / "synthetic")


@pytest.fixture(scope="session")
def synthetic_engine(synthetic_dir: Path) -> Engine:
    return Engine(synthetic_dir, threads=1)


@pytest.fixture(scope="session")
def recalling_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose answers depend on the whole prompt."""
    return build_recalling_model(tmp_path_factory.mktemp("models") / "recalling")
