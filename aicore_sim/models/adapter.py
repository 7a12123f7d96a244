"""Low-rank changes of a model's matrices (LoRA), merged into its weights when it is converted.

An adapter is a numpy archive. For each matrix of the GGUF that it changes it holds, as 16-bit
floats, `NAME.a` of (rank, columns) and `NAME.b` of (rows, rank), in the row order of the file;
what is added to the matrix is their product. https://arxiv.org/abs/2106.09685
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from aicore_sim.models.errors import UnsupportedModel

_ADAPTERS = Path(__file__).parent / "adapters"


class Adapter:
    """The adapter in the file `path`. Raises UnsupportedModel for a file that is none."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._parts: dict[str, npt.NDArray[np.float32]] = {}
        try:
            with np.load(path, allow_pickle=False) as stored:
                for key in stored.files:
                    self._parts[key] = stored[key].astype(np.float32)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise UnsupportedModel(f"The adapter {self._name!r} cannot be read: {error}.") from None
        self.matrices = frozenset(key[:-2] for key in self._parts)
        """Names of what it changes."""
        for name in sorted(self.matrices):
            self._check(name)

    def fits(self, name: str, rows: int, columns: int) -> bool:
        """Whether its change of `name` has that size."""
        a, b = self._parts[f"{name}.a"], self._parts[f"{name}.b"]
        return (b.shape[0], a.shape[1]) == (rows, columns)

    def change(self, name: str, rows: slice) -> npt.NDArray[np.float32]:
        """What is added to these rows of the matrix `name`, one of `matrices`."""
        change: npt.NDArray[np.float32] = self._parts[f"{name}.b"][rows] @ self._parts[f"{name}.a"]
        return change

    def _check(self, name: str) -> None:
        a, b = (self._parts.get(f"{name}.{part}") for part in ("a", "b"))
        if a is None or b is None or a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1]:
            raise UnsupportedModel(
                f"The adapter {self._name!r} holds no two matrices that make one for {name!r}."
            )


def shipped(name: str) -> Path:
    """The adapter of that name in this package."""
    return _ADAPTERS / f"{name}.npz"
