"""Whether a model folder's chat template and stop tokens can carry a conversation with tools.

A template that drops a role or a tool, or a stop token that ends nothing, does not fail: the model
only answers badly. So the folder is refused when it is loaded.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from aicore_sim.inference.backend import (
    Content,
    GenerateRequest,
    Schema,
    TextPart,
    ToolDeclaration,
)
from aicore_sim.inference.dialect.base import CUT, ChatMessage, Dialect, Prompt
from aicore_sim.inference.dialect.choice import Render

_ASKED, _ANSWERED, _ASKED_AGAIN = "probe-question", "probe-answer", "probe-reply"
_TOOL = ToolDeclaration(
    name="probe_function",
    parameters=Schema(type="object", properties={"probe_parameter": Schema(type="string")}),
)


class TemplateError(ValueError):
    """The template or the stop tokens cannot be used; the message says what is missing."""


def check_template(dialect: Dialect, render: Render, stop_tokens: Collection[str]) -> None:
    """`stop_tokens` as text. Raises TemplateError."""
    conversation = [
        _said("user", _ASKED),
        _said("model", _ANSWERED),
        _said("user", _ASKED_AGAIN),
    ]
    request = GenerateRequest(
        contents=tuple(conversation), system_instruction="probe-system", tools=(_TOOL,)
    )
    prompt = dialect.prompt(request)
    rendered = _rendered(prompt, render)
    for text in ("probe-system", _TOOL.name, "probe_parameter"):
        if text not in rendered:
            raise TemplateError(f"The chat template loses {text!r}, a part of the instructions.")
    places = [rendered.find(text) for text in (_ASKED, _ANSWERED, _ASKED_AGAIN)]
    if -1 in places or places != sorted(places):
        raise TemplateError("The chat template does not render the turns of a conversation.")
    _check_roles(prompt, rendered, render)
    after = rendered[places[1] + len(_ANSWERED) : places[2]]
    if not any(stop in after for stop in stop_tokens):
        raise TemplateError(
            f"No stop token ends an answer: the chat template ends one with {after[:40]!r}, the "
            f"stop tokens ('model.eos_token_id' in genai_config.json) are {sorted(stop_tokens)!r}."
        )


def _check_roles(prompt: Prompt, rendered: str, render: Render) -> None:
    """A template that takes no notice of roles makes the model answer itself."""
    last = prompt.messages[-1]
    other: ChatMessage = {"role": "assistant", "content": last["content"]}
    try:
        changed = render([*prompt.messages[:-1], other])
    except RuntimeError:  # roles have to alternate, so they are told apart
        return
    if changed == rendered:
        raise TemplateError("The chat template does not tell the user's turns from the model's.")


def _rendered(prompt: Prompt, render: Render) -> str:
    try:
        return render(prompt.messages).replace(CUT, "")
    except RuntimeError as error:
        raise TemplateError(f"The chat template refuses a conversation: {error}") from error


def _said(role: Literal["user", "model"], text: str) -> Content:
    return Content(role=role, parts=(TextPart(text=text),))
