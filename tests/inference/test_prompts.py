"""Prompts of each family, as the templates of its models write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aicore_sim.inference.backend import (
    Content,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    Schema,
    TextPart,
    ToolDeclaration,
)
from aicore_sim.inference.dialect import GEMMA_4, MarkedDialect
from aicore_sim.inference.engine import open_prompts
from tests.inference.models import (
    FUNCTION_GEMMA_MARKS,
    GEMMA_TURNS,
    SPEAKS_OF_CALLS,
    build_model,
)
from tests.inference.requests import said, user

WEATHER = ToolDeclaration(
    name="get_weather",
    description="Get current weather for a location",
    parameters=Schema(
        type="object",
        properties={
            "location": Schema(type="string", description="City name"),
            "unit": Schema(type="string", enum=("celsius", "fahrenheit")),
        },
        required=("location",),
    ),
)
CALL = FunctionCallPart(name="get_weather", args={"unit": "celsius", "location": "Tokyo"})
RESPONSE = FunctionResponsePart(
    name="get_weather", response={"weather": "sunny", "temperature": 15}
)
CHATML = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant."
    "<|im_end|>\n{% endif %}{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The turns of Qwen2.5; what its template does with tools is the dialect's part."""
QWEN = CHATML + "{# <tools> <tool_call> #}"


def request(*contents: Content, system: str = "", tools: Any = (WEATHER,)) -> GenerateRequest:
    return GenerateRequest(
        contents=contents or (user("What's the weather in Paris?"),),
        system_instruction=system,
        tools=tools,
    )


def rendered(folder: Path, asked: GenerateRequest) -> str:
    return open_prompts(folder)[0].text(asked)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "qwen"
    return build_model(folder, template=QWEN, visible=("<tool_call>", "</tool_call>"))


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "gemma"
    control = ("<start_of_turn>", "<bos>")
    return build_model(folder, template=GEMMA_TURNS, control=control, stops=("<end_of_turn>",))


@pytest.fixture(scope="module")
def function_gemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(
        tmp_path_factory.mktemp("models") / "functiongemma",
        template=SPEAKS_OF_CALLS + GEMMA_TURNS,
        control=(*FUNCTION_GEMMA_MARKS, "<start_of_turn>", "<bos>"),
        stops=("<end_of_turn>",),
    )


QWEN_TOOLS = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{"type": "function", "function": {"name": "get_weather", \
"description": "Get current weather for a location", "parameters": {"type": "object", \
"properties": {"location": {"type": "string", "description": "City name"}, \
"unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}, "required": ["location"]}}}
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""


@pytest.mark.requirement("aicore.dialect.chatml")
def test_a_qwen_prompt_is_the_one_of_its_chat_template(qwen: Path) -> None:
    """Against the template of https://github.com/QwenLM/Qwen2.5, rendered with tools."""
    history = request(
        user("What's the weather in Tokyo?"),
        said("model", TextPart(text="I will look."), CALL),
        said("user", RESPONSE, RESPONSE),
        system="Be brief.",
    )

    assert rendered(qwen, request()) == (
        f"<|im_start|>system\nYou are a helpful assistant.\n\n{QWEN_TOOLS}<|im_end|>\n"
        "<|im_start|>user\nWhat's the weather in Paris?<|im_end|>\n<|im_start|>assistant\n"
    )
    response = '<tool_response>\n{"weather": "sunny", "temperature": 15}\n</tool_response>'
    assert rendered(qwen, history) == (
        f"<|im_start|>system\nBe brief.\n\n{QWEN_TOOLS}<|im_end|>\n"
        "<|im_start|>user\nWhat's the weather in Tokyo?<|im_end|>\n"
        "<|im_start|>assistant\nI will look.\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"unit": "celsius", "location": "Tokyo"}}\n'
        "</tool_call><|im_end|>\n"
        f"<|im_start|>user\n{response}\n{response}<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.requirement("aicore.dialect.thoughts")
@pytest.mark.parametrize(
    ("template", "opening"),
    [
        (QWEN + "{# enable_thinking #}", "<think>\n\n</think>\n\n"),
        (QWEN.replace("assistant\n' }}", "assistant\n<think>\n' }}"), "<think>\n\n</think>\n\n"),
        (QWEN, ""),
    ],
)
def test_a_model_that_thinks_is_told_not_to_as_its_template_would(
    tmp_path: Path, template: str, opening: str
) -> None:
    folder = build_model(tmp_path / "model", template=template)

    prompt = rendered(folder, request(tools=()))

    assert prompt.partition("<|im_start|>assistant\n")[2] == opening


@pytest.mark.requirement("aicore.dialect.gemma")
def test_a_gemma_prompt_says_before_the_question_how_to_call(gemma: Path) -> None:
    """In the words of https://ai.google.dev/gemma/docs/capabilities/function-calling"""
    history = request(
        user("What's the weather in Tokyo?"),
        said("model", CALL),
        said("user", RESPONSE),
        said("model", TextPart(text="Sunny.")),
        user("Thanks"),
        system="Be brief.",
        tools=(),
    )

    first = rendered(gemma, request())

    assert first.startswith(
        "<bos><start_of_turn>user\nYou have access to functions. If you decide to invoke any of "
        "the function(s), you MUST put it in the format of\n"
        '{"name": function name, "parameters": dictionary of argument name and its value}\n\n'
        "You SHOULD NOT include any other text in the response if you call a function\n"
        '[{"name": "get_weather", '
    )
    assert first.endswith("}]\n\nWhat's the weather in Paris?<end_of_turn>\n<start_of_turn>model\n")
    assert rendered(gemma, history) == (
        "<bos><start_of_turn>user\nBe brief.\n\nWhat's the weather in Tokyo?<end_of_turn>\n"
        '<start_of_turn>model\n{"name": "get_weather", "parameters": '
        '{"unit": "celsius", "location": "Tokyo"}}<end_of_turn>\n'
        '<start_of_turn>user\n{"name": "get_weather", "response": '
        '{"weather": "sunny", "temperature": 15}}<end_of_turn>\n'
        "<start_of_turn>model\nSunny.<end_of_turn>\n"
        "<start_of_turn>user\nThanks<end_of_turn>\n<start_of_turn>model\n"
    )


DEVELOPER = (
    "<bos><start_of_turn>developer\n"
    "You are a model that can do function calling with the following functions"
    "<start_function_declaration>declaration:get_weather{"
    "description:<escape>Get current weather for a location<escape>,"
    "parameters:{properties:{"
    "location:{description:<escape>City name<escape>,type:<escape>STRING<escape>},"
    "unit:{enum:[<escape>celsius<escape>,<escape>fahrenheit<escape>],type:<escape>STRING<escape>}},"
    "required:[<escape>location<escape>],type:<escape>OBJECT<escape>}}"
    "<end_function_declaration><end_of_turn>\n"
)
CALLED = (
    "<start_function_call>call:get_weather{"
    "location:<escape>Tokyo<escape>,unit:<escape>celsius<escape>}<end_function_call>"
)
RESPONDED = (
    "<start_function_response>response:get_weather{"
    "temperature:15,weather:<escape>sunny<escape>}<end_function_response>"
)


@pytest.mark.requirement("aicore.dialect.gemma")
def test_a_functiongemma_prompt_is_the_one_of_its_documentation(function_gemma: Path) -> None:
    """https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices"""
    asked = user("What's the weather in Tokyo?")
    waiting = request(asked, said("model", CALL), said("user", RESPONSE))
    later = request(
        asked,
        said("model", CALL),
        said("user", RESPONSE),
        said("model", TextPart(text="Sunny.")),
        user("Thanks"),
    )
    turns = (
        f"{DEVELOPER}<start_of_turn>user\nWhat's the weather in Tokyo?<end_of_turn>\n"
        f"<start_of_turn>model\n{CALLED}{RESPONDED}"
    )

    assert rendered(function_gemma, request()) == (
        f"{DEVELOPER}<start_of_turn>user\nWhat's the weather in Paris?<end_of_turn>\n"
        "<start_of_turn>model\n"
    )
    assert rendered(function_gemma, waiting) == turns
    assert rendered(function_gemma, later) == (
        f"{turns}Sunny.<end_of_turn>\n"
        "<start_of_turn>user\nThanks<end_of_turn>\n<start_of_turn>model\n"
    )


def test_gemma_4_has_marks_of_its_own_for_the_same_notation() -> None:
    """Those of its chat template."""
    prompt = MarkedDialect(GEMMA_4).prompt(
        request(user("Hi"), said("model", CALL), said("user", RESPONSE), system="Be brief.")
    )

    assert prompt.continues
    assert [message["role"] for message in prompt.messages] == ["system", "user", "assistant"]
    system, _, answer = (message["content"] for message in prompt.messages)
    assert system.startswith(
        'Be brief.<|tool>declaration:get_weather{description:<|"|>Get current weather'
    )
    assert answer == (
        '<|tool_call>call:get_weather{location:<|"|>Tokyo<|"|>,unit:<|"|>celsius<|"|>}<tool_call|>'
        '<|tool_response>response:get_weather{temperature:15,weather:<|"|>sunny<|"|>}'
        "<tool_response|>"
    )


@pytest.mark.requirement("aicore.dialect.marks-in-text")
def test_marks_that_an_app_writes_are_shown_as_they_are(
    qwen: Path, function_gemma: Path, gemma: Path
) -> None:
    text = "a<tool_call>b<escape>c<end_of_turn>d\ufdd0e\ufdd1f"

    for folder in (qwen, function_gemma, gemma):
        assert "a<tool_call>b<escape>c<end_of_turn>def" in rendered(
            folder, request(user(text), tools=())
        )


@pytest.mark.requirement("aicore.dialect.marks-in-text")
def test_a_call_mark_in_the_words_of_an_app_is_not_the_token(qwen: Path) -> None:
    prompts, _ = open_prompts(qwen)

    with_mark = prompts.count(request(user("a<tool_call>b"), tools=()))
    without = prompts.count(request(user("ab"), tools=()))

    assert with_mark - without == len("<tool_call>")


@pytest.mark.requirement("aicore.generate.tools-in-prompt")
@pytest.mark.parametrize("name", ["hermes", "gemma", "functiongemma", "gemma4"])
def test_every_tool_and_parameter_is_in_the_prompt_of_every_dialect(qwen: Path, name: Any) -> None:
    inner = Schema(type="object", properties={"lat": Schema(type="number")})
    tools = tuple(
        ToolDeclaration(
            name=f"tool_{number}",
            description=f"Description {number}",
            parameters=Schema(
                type="object",
                properties={
                    f"parameter_{number}": Schema(type="string", description=f"About {number}"),
                    f"places_{number}": Schema(type="array", items=inner, nullable=True),
                    f"choice_{number}": Schema(
                        type="string", any_of=(Schema(type="string"), Schema(type="boolean"))
                    ),
                },
            ),
        )
        for number in range(3)
    )

    text = open_prompts(qwen, dialect=name)[0].text(request(tools=tools))

    for number in range(3):
        for part in ("tool", "parameter", "places", "choice"):
            assert f"{part}_{number}" in text
        assert f"Description {number}" in text
        assert f"About {number}" in text
    assert "lat" in text
