"""Each rule of the verdict, both ways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aicore_protos import aicore_pb2
from aicore_sim.device.journal import JournalEntry
from aicore_sim.rpc.values import to_object
from aicore_sim.service.conversions import longest_tool_result, to_generate_request
from aicore_sim.testing.verdict import RULES, Finding, findings, report

STATUS = ("CheckStatus", 0, 0.0)


def _entries(*calls: tuple[str, int, float], **figures: float) -> list[JournalEntry]:
    """Calls as name, code and time; `figures` are the first generation's."""
    made, given = [], False
    for number, (rpc, code, time) in enumerate(calls, 1):
        first = rpc == "GenerateContent" and not given
        given = given or first
        made.append(
            JournalEntry(
                id=number,
                time=1_700_000_000 + time,
                rpc=rpc,
                package_name="com.example.app",
                decision="rule" if code else "ok",
                error_code=code,
                figures=figures if first else {},
            )
        )
    return made


def _generate(code: int, time: float) -> tuple[str, int, float]:
    return ("GenerateContent", code, time)


def _rules(found: tuple[Finding, ...]) -> list[str]:
    return [finding.rule for finding in found]


@pytest.mark.requirement("simulator.testing.verdict")
@pytest.mark.parametrize(
    ("rule", "bad", "good", "figures"),
    [
        ("busy-retried-at-once", [STATUS, _generate(9, 1), _generate(0, 1.05)],
         [STATUS, _generate(9, 1), _generate(0, 1.1)], {}),
        ("busy-retried-too-soon", [STATUS, _generate(9, 1), _generate(0, 3.9)],
         [STATUS, _generate(9, 1), _generate(0, 4)], {"retry_delay_seconds": 3.0}),
        ("battery-quota-retried", [STATUS, _generate(27, 1), _generate(27, 9000)],
         [STATUS, _generate(27, 1)], {}),
        ("status-not-checked", [_generate(0, 1)], [STATUS, _generate(0, 1)], {}),
        ("inferred-in-background", [STATUS, _generate(30, 1)], [STATUS, _generate(0, 1)], {}),
    ],
)  # fmt: skip
def test_a_rule_finds_the_bad_run_with_its_evidence_and_not_the_good_one(
    rule: str,
    bad: list[tuple[str, int, float]],
    good: list[tuple[str, int, float]],
    figures: dict[str, float],
) -> None:
    found = findings(_entries(*bad, **figures), context_tokens=100)
    assert _rules(found) == [rule]
    assert found[0].evidence
    assert f"docs/verdict.md#{rule}" in str(found[0])
    assert findings(_entries(*good, **figures), context_tokens=100) == ()


def test_leaving_the_top_in_mid_answer_is_no_call_in_the_background() -> None:
    entries = _entries(STATUS, _generate(30, 1), prefill_seconds=0.1)
    assert findings(entries, context_tokens=100) == ()


def test_a_call_that_began_before_the_refusal_is_no_retry() -> None:
    entries = _entries(STATUS, _generate(9, 1), _generate(0, 3))
    slow = JournalEntry(
        id=9,
        time=1_700_000_003,
        rpc="GenerateContent",
        package_name="com.example.app",
        decision="ok",
        figures={"decode_seconds": 2.5},
    )
    assert findings([*entries[:2], slow], context_tokens=100) == ()


@pytest.mark.parametrize(("length", "rules"), [(201, ["large-tool-result"]), (200, [])])
def test_a_tool_result_may_take_half_of_the_context(length: int, rules: list[str]) -> None:
    entries = _entries(STATUS, _generate(0, 1), tool_result_chars=length)
    assert _rules(findings(entries, context_tokens=100)) == rules


def test_left_over_steps_and_running_generations_are_found() -> None:
    found = findings([], context_tokens=1, remaining_steps=["step 1"], running=["com.example.a"])
    assert _rules(found) == ["script-left-over", "generation-left-running"]
    assert report(found, ignore=["script-left-over", "generation-left-running"]) == ""


def test_each_rule_has_its_heading_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verdict.md").read_text()
    assert tuple(re.findall(r"^## (.+)$", page, re.MULTILINE)) == RULES


def test_the_device_tells_the_length_of_a_tool_result() -> None:
    response = aicore_pb2.FunctionResponse(name="find", response=to_object({"text": "x" * 50}))
    content = aicore_pb2.Content(role="USER", parts=[aicore_pb2.Part(function_response=response)])
    asked = to_generate_request(aicore_pb2.GenerateContentRequest(contents=[content]))
    assert longest_tool_result(asked) == len('{"text": ""}') + 50
