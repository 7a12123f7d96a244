"""Which dialect a folder speaks, and folders whose template or stop tokens cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aicore_sim.inference.backend import BackendError
from aicore_sim.inference.dialect.choice import read_added_tokens, read_template
from aicore_sim.inference.engine import Engine, open_prompts
from aicore_sim.inference.model_folder import ModelFolderError
from aicore_sim.inference.onnx_backend import OnnxBackend
from tests.inference.models import GEMMA_TURNS, SPEAKS_OF_CALLS, build_model
from tests.inference.requests import ask, ask_with_tools
from tests.inference.test_prompts import CHATML, QWEN


def turns(body: str, opening: str = "") -> str:
    return f"{{% for message in messages %}}{body}{{% endfor %}}{opening}"


@pytest.mark.requirement("aicore.dialect.chosen")
@pytest.mark.parametrize(
    ("template", "stop", "name"),
    [
        (CHATML, "<|im_end|>", "hermes"),
        (QWEN, "<|im_end|>", "hermes"),
        (GEMMA_TURNS, "<end_of_turn>", "gemma"),
        (SPEAKS_OF_CALLS + GEMMA_TURNS, "<end_of_turn>", "functiongemma"),
        (
            turns("{{ '<|turn>' + message['role'] + '\n' + message['content'] + '<turn|>\n' }}")
            + "{# <|tool_call> #}",
            "<turn|>",
            "gemma4",
        ),
        (
            turns("{{ '[' + message['role'] + ']' + message['content'] + '</s>' }}"),
            "</s>",
            "hermes",
        ),
    ],
)
def test_the_chat_template_tells_the_dialect(
    tmp_path: Path, template: str, stop: str, name: str
) -> None:
    folder = build_model(tmp_path / "model", template=template, stops=(stop,))

    assert open_prompts(folder)[1] == name
    assert open_prompts(folder, dialect="gemma")[1] == "gemma"


@pytest.mark.requirement("aicore.dialect.chosen")
def test_the_settings_of_a_folder_choose_another_dialect(tmp_path: Path) -> None:
    folder = build_model(tmp_path / "model", template=CHATML)
    (folder / "aicore_sim.json").write_text('{"dialect": "functiongemma"}')

    assert open_prompts(folder)[1] == "functiongemma"

    (folder / "aicore_sim.json").write_text('{"dialect": "klingon"}')
    with pytest.raises(ModelFolderError, match=r"aicore_sim\.json.*'dialect'.*'klingon'"):
        open_prompts(folder)


def test_a_template_may_stand_in_tokenizer_config_by_name(tmp_path: Path) -> None:
    folder = build_model(tmp_path / "model", template=CHATML)
    (folder / "chat_template.jinja").unlink()
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    path.write_text(json.dumps({**settings, "chat_template": named}))

    assert read_template(folder) == "b"


def test_control_tokens_and_visible_ones_are_told_apart(tmp_path: Path) -> None:
    folder = build_model(
        tmp_path / "model", template=CHATML, control=("<a>",), visible=("<b>", "<c>")
    )

    tokens = read_added_tokens(folder)

    assert "<a>" in tokens.control
    assert set(tokens.visible) == {"<b>", "<c>"}


def test_a_template_without_a_system_role_gets_instructions_with_the_question(
    tmp_path: Path,
) -> None:
    refuses = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    )
    folder = build_model(tmp_path / "model", template=refuses + CHATML)
    asked = ask("Hi").model_copy(update={"system_instruction": "Be brief."})

    assert "user\nBe brief.\n\nHi<|im_end|>" in open_prompts(folder)[0].text(asked)


@pytest.mark.requirement("aicore.dialect.template-checked")
@pytest.mark.parametrize(
    ("template", "stop", "reason"),
    [
        (turns("{{ message['content'] }}<|im_end|>"), "<|im_end|>", "tell the user's turns"),
        (
            turns("{% if message['role'] == 'user' %}u{{ message['content'] }}<e>{% endif %}"),
            "<e>",
            "does not render the turns",
        ),
        (turns("{{ message['role'] + message['content'][:5] }}<e>"), "<e>", "loses 'probe-system'"),
        (
            turns(
                "{% if message['role'] != 'assistant' %}"
                "{{ message['role'] + message['content'] }}<e>{% endif %}"
            ),
            "<e>",
            "does not render the turns",
        ),
        (CHATML, "<|other|>", "No stop token ends an answer.*im_end.*other"),
        ("{{ raise_exception('not today') }}", "<e>", "refuses a conversation.*not today"),
        ("", "<e>", "Empty chat template"),
    ],
)
def test_a_template_that_cannot_carry_a_conversation_is_refused_with_the_reason(
    tmp_path: Path, template: str, stop: str, reason: str
) -> None:
    folder = build_model(tmp_path / "model", template=template, stops=(stop,))

    with pytest.raises(ModelFolderError, match=reason):
        Engine(folder, threads=1)


@pytest.mark.requirement("aicore.dialect.template-checked")
async def test_a_model_whose_stop_tokens_end_nothing_is_unavailable_for_that_reason(
    tmp_path: Path,
) -> None:
    folder = build_model(tmp_path / "model", template=CHATML, stops=("<|other|>",))
    backend = OnnxBackend(folder, threads=1)
    try:
        await backend.start()

        assert "No stop token ends an answer" in str(backend.unavailable_reason)
        with pytest.raises(BackendError) as refused:
            await backend.count_tokens(ask_with_tools("Hi"))
        assert refused.value.error_code == 8
    finally:
        await backend.stop()
