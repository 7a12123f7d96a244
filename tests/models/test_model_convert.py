from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import onnxruntime_genai as og
import pytest

from aicore_sim.models import graph
from aicore_sim.models.convert import convert
from aicore_sim.models.errors import UnsupportedModel
from aicore_sim.models.gguf_weights import SUPPORTED_TYPES, GgufModel, quantized, stacked
from tests.models import synthetic
from tests.models.llama_reference import Floats, ReferenceLlama
from tests.models.synthetic import write_gguf

TOKENS = np.random.default_rng(7).integers(3, 259, 40).tolist()
# 8-bit weights and 8-bit products cost 4 to 7 % of the output's size in so small a model; a wrong
# row order or rotation costs more than 100 %.
ROUNDING = 0.1


@pytest.mark.parametrize("own_head", [False, True], ids=["tied", "own head"])
@pytest.mark.parametrize("kind", SUPPORTED_TYPES)
def test_every_step_gives_the_logits_of_the_reference(
    kind: str, own_head: bool, tmp_path: Path
) -> None:
    source = write_gguf(tmp_path / "model.gguf", matrices=kind, embedding=kind, own_head=own_head)
    generator = _generator(_converted(source, tmp_path / "model"))

    steps = [_logits_after(generator, [token]) for token in TOKENS]

    expected = ReferenceLlama(source).logits(TOKENS)
    assert _relative_error(np.stack(steps), expected) < ROUNDING


def test_a_whole_prompt_gives_the_same_logits_in_both_graphs(
    tiny_gguf: Path, tmp_path: Path
) -> None:
    folder = _converted(tiny_gguf, tmp_path / "model")
    expected = ReferenceLlama(tiny_gguf).logits(TOKENS)
    whole = _generator(folder, graph.ALL_LOGITS)
    last_only = _generator(folder, graph.LAST_LOGITS)

    whole.append_tokens(TOKENS)
    last_only.append_tokens(TOKENS)

    every_position = whole.get_output("logits")
    assert every_position.shape == (1, len(TOKENS), len(synthetic.vocabulary()))
    assert _relative_error(every_position[0], expected) < ROUNDING
    assert last_only.get_output("logits").shape == (1, 1, len(synthetic.vocabulary()))
    assert _relative_error(last_only.get_logits().reshape(-1), expected[-1]) < ROUNDING


def test_a_prompt_longer_than_a_chunk_gives_the_same_logits(
    tiny_gguf: Path, tmp_path: Path
) -> None:
    folder = _converted(tiny_gguf, tmp_path / "model")
    in_chunks = _generator(folder, search={"chunk_size": 16})

    logits = _logits_after(in_chunks, TOKENS)

    assert _relative_error(logits, ReferenceLlama(tiny_gguf).logits(TOKENS)[-1]) < ROUNDING


def test_q8_0_is_taken_over_without_rounding(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "q8.gguf", matrices="Q8_0", embedding="Q8_0")
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(source).tensors}

    model = GgufModel(source)

    for name in ("token_embd.weight", "blk.1.ffn_down.weight"):
        exact = gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type)
        np.testing.assert_array_equal(model.matrix(name).dequantized(), exact)


def test_rounding_is_at_most_half_a_step_and_keeps_the_largest_value() -> None:
    values = np.random.default_rng(3).standard_normal((64, 96)).astype(np.float32)
    values[0, :32] = 0
    values[1, 5] = -40

    blocks = quantized(values)

    error = np.abs(blocks.dequantized() - values).reshape(64, 3, 32)
    assert (error <= blocks.scales[:, :, None] * 0.5001).all()
    assert (blocks.dequantized()[0, :32] == 0).all()
    assert blocks.dequantized()[1, 5] == pytest.approx(-40)


def test_stacked_matrices_keep_their_rows_in_order() -> None:
    random = np.random.default_rng(5)
    first, second = (random.standard_normal((rows, 32)).astype(np.float32) for rows in (3, 5))

    both = stacked([quantized(first), quantized(second)])

    np.testing.assert_array_equal(both.q, quantized(np.concatenate([first, second])).q)


def test_rows_of_a_head_go_from_neighbours_to_halves() -> None:
    rows = np.repeat(np.arange(8, dtype=np.float32)[:, None], 32, axis=1)

    halves = graph.unrotated(quantized(rows), heads=2).dequantized()[:, 0]

    np.testing.assert_allclose(halves, [0, 2, 1, 3, 4, 6, 5, 7], rtol=1e-6)


def test_the_same_file_gives_the_same_bytes(tiny_gguf: Path, tmp_path: Path) -> None:
    folders = [_converted(tiny_gguf, tmp_path / name) for name in ("first", "second")]

    first, second = ({path.name: path.read_bytes() for path in f.iterdir()} for f in folders)

    assert first == second
    assert first.keys() == {
        "model.onnx", "model_last.onnx", "model.onnx.data", "genai_config.json",
        "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
    }  # fmt: skip


def test_the_configuration_names_the_ends_of_a_turn_and_bounds_memory(
    tiny_gguf: Path, tmp_path: Path
) -> None:
    folder = _converted(tiny_gguf, tmp_path / "model")

    config = json.loads((folder / "genai_config.json").read_text())

    assert config["model"]["decoder"]["filename"] == graph.LAST_LOGITS
    assert config["model"]["eos_token_id"] == [2, 0]
    assert config["model"]["context_length"] == synthetic.CONTEXT
    assert config["search"]["max_length"] == synthetic.CONTEXT
    options = config["model"]["decoder"]["session_options"]
    assert options["intra_op_num_threads"] >= 1
    assert options["session.set_denormal_as_zero"] == "1"


def test_progress_counts_every_layer(tiny_gguf: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []

    _converted(tiny_gguf, tmp_path / "model", lambda done, total: steps.append((done, total)))

    assert steps == [(1, 2), (2, 2)]


@dataclass(frozen=True, kw_only=True)
class Refused:
    named: str
    """What the message must name."""
    arguments: dict[str, Any]


@pytest.mark.parametrize(
    "case",
    [
        Refused(named="qwen2", arguments={"architecture": "qwen2"}),
        Refused(named="yarn", arguments={"metadata": {"llama.rope.scaling.type": "yarn"}}),
        Refused(named="is 4.0", arguments={"metadata": {"llama.rope.scaling.factor": 4.0}}),
        Refused(named="is 2.0", arguments={"metadata": {"llama.rope.scale_linear": 2.0}}),
        Refused(
            named="rope_freqs.weight",
            arguments={"tensors": {"rope_freqs.weight": np.ones(8, np.float32)}},
        ),
        Refused(named="[2, 1]", arguments={"metadata": {"llama.attention.head_count_kv": [2, 1]}}),
        Refused(named="is 'many'", arguments={"metadata": {"llama.attention.key_length": "many"}}),
        Refused(named="Q4_K", arguments={"empty": {"blk.0.ffn_up.weight": "Q4_K"}}),
        Refused(named="Q6_K", arguments={"empty": {"token_embd.weight": "Q6_K"}}),
        Refused(named="8 of 16", arguments={"metadata": {"llama.rope.dimension_count": 8}}),
        Refused(named="llama-bpe", arguments={"split_rule": "llama-bpe"}),
        Refused(named="TQ1_0", arguments={"embedding": "TQ1_0"}),
        Refused(
            named="blk.0.attn_q.bias",
            arguments={"tensors": {"blk.0.attn_q.bias": np.zeros(64, np.float32)}},
        ),
        Refused(named="blk.1.ffn_up.weight", arguments={"tensors": {"blk.1.ffn_up.weight": None}}),
        Refused(
            named="(64, 32)",
            arguments={"tensors": {"blk.1.ffn_up.weight": np.ones((32, 64), np.float32)}},
        ),
    ],
    ids=lambda case: case.named,
)
def test_a_model_that_has_no_place_in_the_graph_is_refused_by_name(
    case: Refused, tmp_path: Path
) -> None:
    arguments = dict(case.arguments)
    if arguments.get("embedding") == "TQ1_0":  # its blocks have 256 columns
        arguments |= {"tensors": {"token_embd.weight": np.ones((267, 256), np.float32)}}
    source = write_gguf(tmp_path / "odd.gguf", **arguments)

    with pytest.raises(UnsupportedModel) as caught:
        _converted(source, tmp_path / "model")

    assert case.named in str(caught.value)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.gguf"
    path.write_text("not a model")

    with pytest.raises(UnsupportedModel, match=r"text\.gguf"):
        GgufModel(path)


def test_a_file_that_is_cut_anywhere_is_refused(tiny_gguf: Path, tmp_path: Path) -> None:
    whole = tiny_gguf.read_bytes()
    path = tmp_path / "cut.gguf"

    for length in (0, 3, 30, *range(500, len(whole), 1009), len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(UnsupportedModel, match=r"cut\.gguf"):
            GgufModel(path)


def test_text_of_a_damaged_file_is_refused_with_its_key(tiny_gguf: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.gguf"
    whole = tiny_gguf.read_bytes()
    path.write_bytes(whole.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0\xffllam", 1))

    with pytest.raises(UnsupportedModel, match=r"general\.architecture"):
        GgufModel(path)


def _converted(
    source: Path, folder: Path, on_step: Callable[[int, int], None] = lambda done, total: None
) -> Path:
    folder.mkdir()
    convert(source, folder, on_step)
    return folder


def _generator(
    folder: Path, file: str = graph.LAST_LOGITS, search: dict[str, int] | None = None
) -> Any:
    config = og.Config(str(folder))
    overlay = {"model": {"decoder": {"filename": file}}, "search": search or {}}
    config.overlay(json.dumps(overlay))
    model = og.Model(config)
    parameters = og.GeneratorParams(model)
    parameters.set_search_options(max_length=64)
    return og.Generator(model, parameters)


def _logits_after(generator: Any, tokens: list[int]) -> Floats:
    generator.append_tokens(tokens)
    return np.asarray(generator.get_logits(), dtype=np.float32).reshape(-1)


def _relative_error(found: npt.NDArray[Any], expected: Floats) -> float:
    return float(np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean()))
