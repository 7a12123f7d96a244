"""Turns a Llama GGUF into an ONNX Runtime GenAI folder, with numpy alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from aicore_sim.models.adapter import Adapter
from aicore_sim.models.genai_config import write_genai_config
from aicore_sim.models.gguf_weights import GgufModel
from aicore_sim.models.graph import write_graphs
from aicore_sim.models.tokenizer import write_tokenizer

_SETTINGS = "aicore_sim.json"
"""Tells the inference worker how the model was trained to read functions."""


def convert(
    source: Path,
    folder: Path,
    on_step: Callable[[int, int], None],
    *,
    adapter: Path | None = None,
) -> None:
    """Converts the GGUF `source`, with `adapter` merged, into the existing, empty `folder`.

    `on_step` gets the layers done and their number. Takes seconds and, for the default model,
    less than 400 MB of memory. The same file gives the same bytes.

    Raises UnsupportedModel, and OSError when the folder cannot be written.
    """
    model = GgufModel(source, None if adapter is None else Adapter(adapter))
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        on_step(done, model.shape.layers)

    write_tokenizer(model, folder)
    write_genai_config(model, folder)
    write_graphs(model, folder, step)
    if adapter is not None:
        (folder / _SETTINGS).write_text(json.dumps({"prompting": "tuned"}), encoding="utf-8")
