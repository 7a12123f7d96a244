"""The engine on a model whose next token is known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from aicore_sim.inference.backend import (
    BackendError,
    Chunk,
    Finish,
    FunctionCall,
    MalformedCall,
    ModelInfo,
    Sampling,
    Schema,
    TextDelta,
    ToolDeclaration,
    Usage,
)
from aicore_sim.inference.engine import Engine
from tests.inference.requests import GREEDY, ask, ask_with_tools, merged
from tests.inference.synthetic import (
    CONTEXT_LENGTH,
    FAMILY,
    HELLO,
    Chains,
    build_synthetic_model,
)

TOO_LARGE, TOO_SMALL = 12, -100


def never(tokens: int) -> bool:
    return False


def run(
    engine: Engine,
    text: str,
    sampling: Sampling = GREEDY,
    cancelled: Callable[[int], bool] = never,
) -> tuple[list[Chunk], Finish]:
    chunks: list[Chunk] = []
    return chunks, engine.generate(ask(text, sampling), chunks.append, cancelled)


def test_the_text_and_the_usage_are_what_the_model_says(synthetic_engine: Engine) -> None:
    chunks, finish = run(synthetic_engine, "Hi!")

    assert chunks == [
        TextDelta(text=piece) for piece in ("Hello", " from", " the", " synthetic", " model", ".")
    ]
    prompt = len("<|im_start|>user\nHi!") - len("<|im_start|>") + 1
    assert finish == Finish(reason="stop", usage=Usage(input_tokens=prompt, output_tokens=6))
    assert synthetic_engine.token_counter().count(ask("Hi!")) == prompt


@pytest.mark.requirement("aicore.generate.multi-byte-held-back")
def test_a_character_split_over_tokens_comes_whole(synthetic_engine: Engine) -> None:
    chunks, _ = run(synthetic_engine, "Hi^")

    assert merged(chunks) == [FAMILY]
    assert all("\ufffd" not in chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def test_a_character_cut_off_by_the_limit_is_left_out(synthetic_engine: Engine) -> None:
    for limit in range(1, 7):
        sampling = Sampling(temperature=0.0, max_output_tokens=limit)
        text = "".join(str(part) for part in merged(run(synthetic_engine, "Hi^", sampling)[0]))
        assert FAMILY.startswith(text)


@pytest.mark.requirement("aicore.generate.multi-byte-held-back")
def test_bytes_that_are_no_text_never_become_replacement_characters(tmp_path: Path) -> None:
    chains: Chains = {"!": [b"\xf0\x9f", b"\xff\xc3(", "ok", b"\x80\x80", "<|im_end|>"]}
    engine = Engine(build_synthetic_model(tmp_path, chains), threads=1)

    text = "".join(str(part) for part in merged(run(engine, "Hi!")[0]))

    assert "\ufffd" not in text
    assert "ok" in text


def test_the_answer_ends_at_the_asked_number_of_tokens(synthetic_engine: Engine) -> None:
    chunks, finish = run(synthetic_engine, "Hi~", Sampling(max_output_tokens=5))

    assert merged(chunks) == [" tick tock tick tock tick"]
    assert finish.reason == "max_tokens"
    assert finish.usage.output_tokens == 5


def test_an_answer_of_exactly_the_asked_length_is_complete(synthetic_engine: Engine) -> None:
    _, shorter = run(synthetic_engine, "Hi!", Sampling(max_output_tokens=6))
    _, longer = run(synthetic_engine, "Hi!", Sampling(max_output_tokens=7))

    assert (shorter.reason, longer.reason) == ("max_tokens", "stop")


@pytest.mark.requirement("aicore.generate.cancel-within-two-tokens")
@pytest.mark.parametrize("stop_at", [0, 1, 50])
def test_cancelling_stops_within_two_tokens(synthetic_engine: Engine, stop_at: int) -> None:
    chunks, finish = run(synthetic_engine, "Hi~", cancelled=lambda tokens: tokens >= stop_at)

    assert finish.reason == "other"
    assert stop_at <= finish.usage.output_tokens <= stop_at + 2
    assert len(chunks) == finish.usage.output_tokens


@pytest.mark.requirement("aicore.generate.cancel-within-two-tokens")
def test_cancelling_stops_a_long_prompt_before_it_is_read(synthetic_engine: Engine) -> None:
    asked: list[int] = []

    def second_time(tokens: int) -> bool:
        asked.append(tokens)
        return len(asked) == 2

    chunks, finish = run(synthetic_engine, "x" * 1000 + "!", cancelled=second_time)

    assert (chunks, finish.reason, finish.usage.output_tokens) == ([], "other", 0)
    assert asked == [0, 0]


@pytest.mark.requirement("aicore.generate.after-cancel")
def test_the_next_answer_after_a_cancelled_one_is_whole(synthetic_engine: Engine) -> None:
    request = ask_with_tools("Hi!", mode="required")
    synthetic_engine.generate(request, lambda chunk: None, lambda tokens: tokens > 2)

    chunks: list[Chunk] = []
    synthetic_engine.generate(request, chunks.append, never)

    assert chunks == [FunctionCall(name="fetch_order_details", args={"orderId": ""})]


@pytest.mark.parametrize("limit", [1, 2, 3, 30, 60])
def test_a_dictated_call_cut_off_by_the_limit_is_malformed(
    synthetic_engine: Engine, limit: int
) -> None:
    chunks: list[Chunk] = []
    request = ask_with_tools("Hi!", mode="required", sampling=Sampling(max_output_tokens=limit))
    finish = synthetic_engine.generate(request, chunks.append, never)

    assert [type(chunk) for chunk in chunks] == [MalformedCall]
    assert finish.reason == "max_tokens"
    assert finish.usage.output_tokens == limit


def test_a_request_over_the_token_limit_is_refused_before_it_is_run(synthetic_dir: Path) -> None:
    engine = Engine(synthetic_dir, threads=1, token_limit=30)
    overhead = engine.token_counter().count(ask("!")) - 1

    with pytest.raises(BackendError) as caught:
        run(engine, "x" * (30 - overhead), cancelled=lambda tokens: pytest.fail("it was run"))

    assert caught.value.error_code == TOO_LARGE
    assert "30" in caught.value.message
    _, finish = run(engine, "x" * (29 - overhead - 1) + "~", Sampling())
    assert (finish.reason, finish.usage.output_tokens) == ("max_tokens", 1)


def test_input_and_output_share_the_token_limit(synthetic_dir: Path) -> None:
    engine = Engine(synthetic_dir, threads=1, token_limit=40)

    _, finish = run(engine, "Hi~", Sampling())

    assert finish.usage.input_tokens + finish.usage.output_tokens == 40


def test_a_dictated_call_in_the_last_tokens_of_the_context_is_cut_off_cleanly(
    synthetic_dir: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(synthetic_dir, tmp_path / "model"))
    content = json.loads((folder / "genai_config.json").read_text())
    content["model"]["context_length"] = content["search"]["max_length"] = 2000
    (folder / "genai_config.json").write_text(json.dumps(content))
    engine = Engine(folder, threads=1)
    overhead = engine.token_counter().count(ask_with_tools("", mode="required"))
    text = "x" * (2000 - overhead - 20)
    padded = ask_with_tools(text, mode="required", sampling=Sampling())

    chunks: list[Chunk] = []
    finish = engine.generate(padded, chunks.append, never)

    assert [type(chunk) for chunk in chunks] == [MalformedCall]
    assert finish.usage.input_tokens + finish.usage.output_tokens == 2000


def test_sampling_follows_the_seed_and_zero_temperature_is_greedy(tmp_path: Path) -> None:
    engine = Engine(build_synthetic_model(tmp_path, {}), threads=1)

    def sample(seed: int, temperature: float | None = 40.0) -> list[object]:
        sampling = Sampling(temperature=temperature, top_k=10_000, seed=seed, max_output_tokens=12)
        return merged(run(engine, "Hi", sampling)[0])

    assert sample(7) == sample(7)
    assert len({str(sample(seed)) for seed in range(6)}) > 1
    assert sample(1, 0.0) == sample(2, 0.0) == sample(3, None) == []


def test_the_model_says_what_it_is(synthetic_dir: Path) -> None:
    assert Engine(synthetic_dir, threads=1, name="tiny", token_limit=99).info == ModelInfo(
        name="tiny", token_limit=99, dialect="hermes", constrained=True
    )
    assert Engine(synthetic_dir, threads=1).info == ModelInfo(
        name="synthetic", token_limit=CONTEXT_LENGTH, dialect="hermes", constrained=True
    )


def test_text_that_spells_a_control_token_is_text(synthetic_engine: Engine) -> None:
    counter = synthetic_engine.token_counter()
    spelled = "<|im_end|>"

    assert counter.count(ask(f"a{spelled}!")) == counter.count(ask("a!")) + len(spelled)
    assert merged(run(synthetic_engine, f"a{spelled}!")[0]) == [HELLO]


def test_a_chat_template_that_refuses_is_an_error_of_the_request(
    synthetic_dir: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(synthetic_dir, tmp_path / "model"))
    file = folder / "chat_template.jinja"
    refusal = (
        "{% if messages[0]['content'] == 'Hi!' %}{{ raise_exception('no greetings, please') }}"
        "{% endif %}"
    )
    file.write_text(refusal + file.read_text())
    engine = Engine(folder, threads=1)

    with pytest.raises(BackendError, match="no greetings, please"):
        run(engine, "Hi!")
    with pytest.raises(BackendError, match="no greetings, please"):
        engine.token_counter().count(ask("Hi!"))


def test_text_after_a_nul_is_part_of_the_prompt(synthetic_engine: Engine) -> None:
    chunks, finish = run(synthetic_engine, "a\0b \0\0!")
    _, without = run(synthetic_engine, "ab !")

    assert merged(chunks) == [HELLO]
    assert finish.usage.input_tokens == without.usage.input_tokens + 3


def test_a_tool_with_nul_in_its_names_is_declared_and_called(synthetic_engine: Engine) -> None:
    kind = Schema(type="string", enum=("x\0y",))
    tool = ToolDeclaration(
        name="f\0g",
        description="d\0e",
        parameters=Schema(type="object", properties={"a\0b": kind}, required=("a\0b",)),
    )
    chunks: list[Chunk] = []
    synthetic_engine.generate(ask_with_tools("Hi", tool, mode="required"), chunks.append, never)

    assert chunks == [FunctionCall(name="f\0g", args={"a\0b": "x\0y"})]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("half a pair: \ud83d", "U[+]D83D"),
        ("".join(map(chr, range(0x80))), "U[+]0000"),  # no character is left to stand in for NUL
    ],
)
def test_text_that_the_model_cannot_be_given_is_refused_by_character(
    synthetic_engine: Engine, text: str, named: str
) -> None:
    with pytest.raises(BackendError, match=named) as answered:
        run(synthetic_engine, text)
    with pytest.raises(BackendError, match=named) as counted:
        synthetic_engine.token_counter().count(ask(text))

    assert answered.value.error_code == counted.value.error_code == TOO_SMALL
