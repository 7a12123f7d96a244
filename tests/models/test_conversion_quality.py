"""The comparison of weight layouts, on a synthetic model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aicore_sim.models.convert import convert
from aicore_sim.models.gguf_weights import GgufModel, quantized
from scripts.conversion.layouts import (
    REFERENCE,
    SHIPPED,
    VARIANTS,
    Variant,
    packed_nibbles,
    symmetric,
    with_offsets,
)
from scripts.conversion.matrices import Floats, float_matrices
from scripts.conversion.measure import Divergence, divergence, logits, speed
from scripts.conversion.rewrite import shipped_graphs, write_variant
from tests.models import synthetic
from tests.models.llama_reference import ReferenceLlama
from tests.models.synthetic import write_gguf

ROOT = Path(__file__).resolve().parent.parent.parent
TOKENS = np.random.default_rng(11).integers(3, 259, 100).tolist()

# Random weights in so small a model give flat, sensitive distributions; real ones keep to 0.006.
KL, TOP1 = 0.03, 0.8


@pytest.fixture(scope="module")
def converted(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    convert(tiny_gguf, folder, lambda done, total: None)
    return folder


@pytest.mark.parametrize("own_head", [False, True], ids=["tied", "own head"])
def test_the_fp32_graph_computes_what_the_numpy_reference_does(
    own_head: bool, tmp_path: Path
) -> None:
    source = write_gguf(
        tmp_path / "model.gguf", matrices="Q5_1", embedding="Q4_0", own_head=own_head
    )
    folder = tmp_path / "model"
    folder.mkdir()
    convert(source, folder, lambda done, total: None)

    found = _logits(folder, source, REFERENCE)

    np.testing.assert_allclose(found, ReferenceLlama(source).logits(TOKENS), atol=1e-4)


def test_the_shipped_layout_keeps_what_the_weights_predict(
    tiny_gguf: Path, converted: Path
) -> None:
    expected = _logits(converted, tiny_gguf, REFERENCE)

    found = divergence(expected, logits(converted, shipped_graphs(converted).all_logits, TOKENS))

    assert found.mean_kl < KL
    assert found.top1 > TOP1


def test_four_bits_serve_weights_on_their_grid_only_and_int8_serves_merged_ones_too(
    tiny_gguf: Path, converted: Path
) -> None:
    as_stored = _divergences(converted, tiny_gguf, 0.0)
    merged = _divergences(converted, tiny_gguf, 0.05)

    assert as_stored["4-bit, exact offsets"].mean_kl < KL
    assert as_stored["4-bit, rounded offsets"].mean_kl > 5 * KL
    assert merged[SHIPPED.name].mean_kl < KL
    assert merged[SHIPPED.name].top1 > TOP1
    assert merged["4-bit, exact offsets"].mean_kl > 5 * KL


def test_the_rewritten_shipped_layout_is_the_shipped_graph(
    tiny_gguf: Path, converted: Path
) -> None:
    shipped = shipped_graphs(converted)

    written = write_variant(converted, "same", SHIPPED, float_matrices(GgufModel(tiny_gguf)))

    assert written.weight_bytes == shipped.weight_bytes
    np.testing.assert_array_equal(
        logits(converted, written.all_logits, TOKENS), logits(converted, shipped.all_logits, TOKENS)
    )


def test_eight_bits_are_rounded_as_the_conversion_does() -> None:
    values = _random(16, 64)

    q, scales = symmetric(values, 8, 32)

    expected = quantized(values)
    np.testing.assert_array_equal(q, expected.q)
    np.testing.assert_array_equal(scales, expected.scales)


def test_four_bits_with_offsets_take_over_values_on_their_grid() -> None:
    grid = np.random.default_rng(2).integers(0, 16, (8, 2, 32))
    grid[:, :, :2] = (0, 15)
    values = (grid * 0.25 - 1.9).astype(np.float32).reshape(8, 64)

    q, scales, zeros, rest = with_offsets(values, 32)

    centred = (q.reshape(8, 2, 32) - zeros[:, :, None].astype(np.float32)) * scales[:, :, None]
    np.testing.assert_allclose((centred + rest[:, :, None]).reshape(8, 64), values, atol=1e-6)
    assert (np.abs(rest) <= scales * 0.5001).all()


def test_nibbles_are_packed_low_half_first() -> None:
    values = np.array([[1, 2, 3], [15, 0, 8]], np.uint8)

    assert packed_nibbles(values).tolist() == [[0x21, 0x03], [0x0F, 0x08]]


def test_divergence_of_a_distribution_from_a_known_other() -> None:
    even, tilted = np.zeros((1, 2), np.float32), np.log(np.array([[0.25, 0.75]], np.float32))

    assert divergence(even, even) == Divergence(mean_kl=0.0, top1=1.0)
    found = divergence(tilted, even)

    assert found.mean_kl == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5))
    assert found.top1 == 0.0


def test_speed_wants_a_long_enough_prompt(converted: Path) -> None:
    with pytest.raises(ValueError, match="100 tokens given, 500 needed"):
        speed(converted, shipped_graphs(converted).last_logits, TOKENS, 2)


def test_the_command_reports_every_layout(tiny_gguf: Path) -> None:
    done = _command("--json", "--rounds", "0", str(tiny_gguf))

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    layouts = {row["layout"]: row for row in facts["layouts"]}
    assert list(layouts) == [variant.name for variant in VARIANTS]
    assert layouts[REFERENCE.name]["mean_kl"] == 0
    assert layouts[SHIPPED.name]["decode"] is None
    assert 0 < layouts[SHIPPED.name]["megabytes"] < layouts[REFERENCE.name]["megabytes"]


def test_another_text_can_be_measured_on_and_a_missing_one_is_named(
    tiny_gguf: Path, tmp_path: Path
) -> None:
    text = tmp_path / "own.txt"
    text.write_text("An order of 12 lamps. " * 12)  # more tokens than the context has

    done = _command("--json", "--rounds", "0", "--text", str(text), str(tiny_gguf))
    missing = _command("--text", str(tmp_path / "no.txt"), str(tiny_gguf))

    facts = json.loads(done.stdout)
    assert facts["tokens"] > synthetic.CONTEXT
    assert 0 < facts["layouts"][0]["mean_kl"] < KL
    assert missing.returncode == 2
    assert "no.txt" in missing.stderr


def test_the_command_refuses_what_the_conversion_refuses(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "other.gguf", architecture="qwen2")

    done = _command(str(source))

    assert done.returncode == 2
    assert "qwen2" in done.stderr
    assert "Traceback" not in done.stderr


def _logits(folder: Path, source: Path, variant: Variant, adapter_size: float = 0.0) -> Floats:
    matrices = float_matrices(GgufModel(source), adapter_size)
    stem = f"variant{VARIANTS.index(variant)}"
    return logits(folder, write_variant(folder, stem, variant, matrices).all_logits, TOKENS)


def _divergences(folder: Path, source: Path, adapter_size: float) -> dict[str, Divergence]:
    expected = _logits(folder, source, REFERENCE, adapter_size)
    return {
        variant.name: divergence(expected, _logits(folder, source, variant, adapter_size))
        for variant in VARIANTS
    }


def _random(rows: int, columns: int) -> Floats:
    return np.random.default_rng(5).standard_normal((rows, columns)).astype(np.float32)


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "conversion_quality.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
