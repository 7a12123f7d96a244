"""What the demo must show, written out by hand from the platform's documentation.

Nothing here is derived from the code that enforces it.
"""

from __future__ import annotations

from typing import Any

QUESTION = "Where is my order ORD-8492?"
FUNCTION = "fetch_order_details"
ARGUMENTS = {"orderId": "ORD-8492"}
RECORD = {"orderId": "ORD-8492", "status": "Out for delivery", "eta": "2:30 PM"}

# App → function → (discovered, code). 0 is success, 1000 is AppFunctionException.ERROR_DENIED.
OUTCOMES: dict[str, dict[str, tuple[bool, int]]] = {
    "com.example.shop": {
        "fetch_order_details": (True, 0),
        "reset_order_cache": (True, 0),
        "cancel_order": (True, 0),
    },
    "com.example.launcher": {
        "fetch_order_details": (True, 0),
        "reset_order_cache": (True, 0),
        "cancel_order": (False, 1000),
    },
    "com.example.assistant": {
        "fetch_order_details": (True, 0),
        "reset_order_cache": (False, 1000),
        "cancel_order": (False, 1000),
    },
    "com.example.notes": {
        "fetch_order_details": (False, 1000),
        "reset_order_cache": (False, 1000),
        "cancel_order": (False, 1000),
    },
}


def wrong_events(events: list[dict[str, Any]]) -> list[str]:
    """What is missing for a finished agent run, one sentence each; empty when it is finished."""
    wrong = []
    kinds = [event["event"] for event in events]
    calls = [event for event in events if event["event"] == "FunctionCall"]
    responses = [event for event in events if event["event"] == "FunctionResponse"]
    texts = [event for event in events if event["event"] == "TextMessage"]
    finals = [event for event in texts if not event["is_partial"]]
    if "Error" in kinds:
        wrong.append(f"the run failed: {events[-1]['message']}")
    if [call["name"] for call in calls] != [FUNCTION]:
        wrong.append(f"expected one call of {FUNCTION}, got {[call['name'] for call in calls]}")
    elif calls[0]["args"] != ARGUMENTS or not calls[0]["id"]:
        wrong.append(f"expected {ARGUMENTS} with an id, got {calls[0]['args']}")
    elif [(item["id"], item["response"]) for item in responses] != [(calls[0]["id"], RECORD)]:
        wrong.append(f"expected the shop's record {RECORD}, got {responses}")
    if not any(event["is_partial"] for event in texts):
        wrong.append("expected at least one partial TextMessage")
    if len(finals) != 1 or not finals[0]["text"].strip() or events[-1] is not finals[0]:
        wrong.append(f"expected one non-empty final TextMessage at the end, got {finals}")
    return wrong
