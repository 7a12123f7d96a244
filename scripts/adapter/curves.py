"""Draws loss and validation accuracy of training runs, one after the other, as a picture.

python -m scripts.adapter.curves OUT/history.json [MORE/history.json ...] --to curves.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("agg")
from matplotlib import pyplot as plt

_SMOOTH = 20
"""Steps over which the loss is averaged."""


def draw(histories: list[Path], target: Path) -> None:
    losses: list[float] = []
    apart: list[tuple[int, float]] = []
    measured: dict[str, list[tuple[int, float]]] = {}
    borders: list[int] = []
    for path in histories:
        borders.append(len(losses))
        for entry in json.loads(path.read_text()):
            losses.append(entry["loss"])
            if "divergence" in entry:
                apart.append((len(losses), entry["divergence"]))
            for kind in entry.keys() - {"step", "loss", "divergence"}:
                measured.setdefault(kind, []).append((len(losses), entry[kind]))
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 6))
    smooth = np.convolve(losses, np.ones(_SMOOTH) / _SMOOTH, mode="valid")
    above.semilogy(np.arange(_SMOOTH, len(losses) + 1), smooth)
    above.set_ylabel(f"loss, mean of {_SMOOTH} steps")
    if apart:
        above.semilogy(*zip(*apart, strict=True), alpha=0.5, label="divergence without functions")
        above.legend()
    for kind, points in sorted(measured.items()):
        below.plot(*zip(*points, strict=True), marker="o", label=f"{kind}: exact, validation")
    for axes in (above, below):
        for border in borders[1:]:
            axes.axvline(border, linestyle=":", color="grey")
        axes.grid(alpha=0.3)
    below.set_ylim(0, 1)
    below.set_xlabel("step")
    if measured:
        below.legend()
    figure.tight_layout()
    figure.savefig(target, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("histories", type=Path, nargs="+")
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    draw(options.histories, options.to)


if __name__ == "__main__":
    main()
