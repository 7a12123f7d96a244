"""The default model chooses a function, or none, and writes its arguments itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from aicore_sim.inference.backend import (
    Chunk,
    FunctionCall,
    FunctionCallPart,
    FunctionResponsePart,
    GenerateRequest,
    Sampling,
    Schema,
    ToolDeclaration,
)
from aicore_sim.inference.dialect import HermesDialect
from aicore_sim.inference.engine import Engine
from aicore_sim.inference.grammar import build_grammar
from aicore_sim.inference.model_folder import read_settings
from tests.inference.requests import ORDER_TOOL, merged, said, user

pytestmark = pytest.mark.real_model

INSTRUCTIONS = (
    "You are a helpful assistant for looking up store orders. "
    "Use available tools to fetch order information."
)
GREEDY = Sampling(temperature=0.0, max_output_tokens=80)
CANCEL_TOOL = ToolDeclaration(
    name="cancel_order", description="Cancels an order.", parameters=ORDER_TOOL.parameters
)
RESET_TOOL = ToolDeclaration(
    name="reset_order_cache",
    description="Empties the cache of orders.",
    parameters=Schema(type="object"),
)
PHRASINGS = Path(__file__).parents[2] / "scripts/adapter/demo_phrasings.yaml"


@pytest.fixture(scope="module")
def engine(real_model_dir: Path) -> Engine:
    return Engine(real_model_dir, threads=2, name="default")


def run(engine: Engine, request: GenerateRequest) -> list[Any]:
    chunks: list[Chunk] = []
    engine.generate(request, chunks.append, lambda tokens: False)
    return merged(chunks)


def order_request(question: str) -> GenerateRequest:
    return GenerateRequest(
        contents=(user(question),),
        system_instruction=INSTRUCTIONS,
        tools=(ORDER_TOOL, CANCEL_TOOL, RESET_TOOL),
        sampling=GREEDY,
    )


@pytest.mark.parametrize(
    "order_id", ["ORD-8492", "A17-330", "84921", "INV/2024/77", "QX7", "b-22-c", "K9000", "po_5512"]
)
@pytest.mark.parametrize("question", ["Where is my order {}?", "What is the status of order {}?"])
def test_the_call_carries_the_id_of_the_question(
    engine: Engine, question: str, order_id: str
) -> None:
    request = order_request(question.format(order_id))
    grammar = build_grammar(request, HermesDialect(declarations="calls"))

    assert grammar is not None
    assert order_id not in grammar.lark
    assert run(engine, request) == [
        FunctionCall(name="fetch_order_details", args={"orderId": order_id})
    ]


def test_nine_of_ten_ways_to_ask_are_understood(engine: Engine) -> None:
    """Phrasings that were written down before the adapter was trained, and never trained on."""
    phrasings: list[str] = yaml.safe_load(PHRASINGS.read_text())
    right = 0
    for phrasing in phrasings:
        match run(engine, order_request(phrasing)):
            case [FunctionCall(name="fetch_order_details", args={"orderId": str(found)})]:
                right += found.strip() == found and len(found) > 2 and found in phrasing
    assert len(phrasings) == 10
    assert right >= 9


@pytest.mark.parametrize("said_by_user", ["Hello!", "Thank you very much.", "Who are you?"])
def test_small_talk_is_answered_without_a_call(engine: Engine, said_by_user: str) -> None:
    (answer,) = run(engine, order_request(said_by_user))
    assert isinstance(answer, str)
    assert answer.strip()


def test_the_default_model_is_asked_as_it_was_trained(real_model_dir: Path) -> None:
    assert read_settings(real_model_dir).prompting == "tuned"


def test_the_answer_after_the_response_is_a_sentence_about_it(engine: Engine) -> None:
    question = user("Where is my order ORD-8492?")
    call = FunctionCallPart(name="fetch_order_details", args={"orderId": "ORD-8492"})
    record = {"orderId": "ORD-8492", "status": "Out for delivery", "eta": "2:30 PM"}
    response = FunctionResponsePart(name="fetch_order_details", response=record)
    request = order_request("").model_copy(
        update={"contents": (question, said("model", call), said("user", response))}
    )

    (text,) = run(engine, request)

    assert "2:30 PM" in text
    assert json.dumps(record) not in text
