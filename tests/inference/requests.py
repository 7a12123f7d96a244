"""Requests that several inference tests make, and their answers in short form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from aicore_sim.inference.backend import (
    Chunk,
    Content,
    GenerateRequest,
    Part,
    Sampling,
    Schema,
    TextDelta,
    TextPart,
    ToolChoice,
    ToolDeclaration,
)

ORDER_TOOL = ToolDeclaration(
    name="fetch_order_details",
    description="Fetches details and delivery status for an in-app order.",
    parameters=Schema(
        type="object",
        properties={
            "orderId": Schema(type="string", description="The alphanumeric order identifier")
        },
        required=("orderId",),
    ),
)
GREEDY = Sampling(temperature=0.0, max_output_tokens=400)


def user(text: str) -> Content:
    return Content(role="user", parts=(TextPart(text=text),))


def said(role: Literal["user", "model"], *parts: Part) -> Content:
    return Content(role=role, parts=parts)


def ask(text: str, sampling: Sampling = GREEDY) -> GenerateRequest:
    return GenerateRequest(contents=(user(text),), sampling=sampling)


def ask_with_tools(
    text: str,
    *tools: ToolDeclaration,
    mode: Literal["auto", "none", "required", "named"] = "auto",
    name: str = "",
    sampling: Sampling = GREEDY,
) -> GenerateRequest:
    return GenerateRequest(
        contents=(user(text),),
        tools=tools or (ORDER_TOOL,),
        tool_choice=ToolChoice(mode=mode, name=name),
        sampling=sampling,
    )


def merged(chunks: Iterable[Chunk]) -> list[Any]:
    """The chunks, with neighbouring text deltas as one plain string."""
    result: list[Any] = []
    for chunk in chunks:
        if not isinstance(chunk, TextDelta):
            result.append(chunk)
        elif result and isinstance(result[-1], str):
            result[-1] += chunk.text
        else:
            result.append(chunk.text)
    return result
