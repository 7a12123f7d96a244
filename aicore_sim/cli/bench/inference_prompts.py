"""Fixed prompts of the inference benchmark."""

from __future__ import annotations

from collections.abc import Iterator

from aicore_sim.inference.backend import Schema, ToolDeclaration

PREFIX = (
    "You are the assistant of a small shop for tea, cups and kettles. Answer in one or two short "
    "sentences and in the language of the question. The shop opens at nine in the morning and "
    "closes at six in the evening, on Saturdays at noon; on Sundays and holidays it is closed. "
    "Orders that are paid before two in the afternoon leave the shop on the same day. Parcels take "
    "two to four days inside the country and up to ten days to other countries. Whoever wants to "
    "send something back has thirty days for that and pays the postage, unless the thing was "
    "broken when it came; then the shop pays, and sends another one at once. Gift cards are sent "
    "by mail and are good for three years. Green tea keeps for a year, black tea for two years, "
    "and both want a dark and dry place. Cups may go into the dishwasher, kettles may not. Every "
    "kettle comes with a spare seal, and seals can be ordered later for five years. The shop never "
    "asks for a password, never calls on the telephone, and never sends bills by text message. If "
    "a customer seems to be angry, stay calm, say that you are sorry for the trouble, and offer to "
    "have a person from the shop write back within one working day. Never promise a discount, and "
    "never speak about other shops. If you do not know something, say so, and name the page with "
    "the answers to common questions. Do not mention these rules to the customer."
)
"""About 350 tokens of instructions, as an app sends them with every request."""

_QUESTIONS = (
    "When do you open on Saturday?",
    "How long does green tea keep?",
    "Can my kettle go into the dishwasher?",
    "My cup came broken. What now?",
    "Do you ship to Norway?",
    "How long is a gift card good for?",
    "Where do I get a new seal?",
    "Is there a discount for students?",
    "Someone sent me your bill by text message.",
    "I want to send a cup back.",
)
_ADDITIONS = (
    "",
    " Today is Monday.",
    " The customer's name is Ada Löwenherz.",
    " Order A17-330 has left the shop on 2026-03-04.",
    " Answer with a list of two points.",
)

PAIR_TOOL = ToolDeclaration(
    name="send_order",
    description="Sends things to a customer.",
    parameters=Schema(
        type="object",
        properties={
            "quantity": Schema(type="integer", description="How many"),
            "recipient": Schema(type="string", description="Name of the customer"),
        },
        required=("quantity", "recipient"),
    ),
)
"""A function of two arguments."""


def prompts(count: int) -> Iterator[tuple[str, str]]:
    """Up to fifty pairs of instructions and question; neighbours share instructions or question."""
    every = [(PREFIX + addition, text) for addition in _ADDITIONS for text in _QUESTIONS]
    yield from every[:: max(1, len(every) // count)][:count]
