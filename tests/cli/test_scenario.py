"""Every shipped scenario passes in time, and a broken promise fails one."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from aicore_sim.cli.control import CommandError
from aicore_sim.cli.main import app
from aicore_sim.cli.scenario.command import shipped, shipped_names
from aicore_sim.cli.scenario.format import parse_scenario
from aicore_sim.cli.scenario.result import ScenarioResult
from aicore_sim.cli.scenario.run import run_scenario


async def run(text: str) -> ScenarioResult:
    return await run_scenario(parse_scenario(text, source="test.yaml"))


@pytest.mark.requirement("simulator.command.scenario")
@pytest.mark.parametrize("name", shipped_names())
async def test_a_shipped_scenario_passes(name: str) -> None:
    result = await run_scenario(shipped(name))
    assert result.passed, [step.facts() for step in result.steps if not step.passed]
    assert len(result.steps) >= len(shipped(name).steps)


@pytest.mark.requirement("simulator.command.scenario.retry-policies")
async def test_impatient_retry_policies_lose_prompts_and_patient_ones_do_not() -> None:
    result = await run_scenario(shipped("retry-policies"))
    assert result.passed, [step.problems for step in result.steps]
    lost = [
        sum(not outcome.ok for outcome in step.outcomes)
        for step in result.steps
        if len(step.outcomes) == 93
    ]
    assert lost == [53, 30, 24, 0, 0, 0]


@pytest.mark.requirement("simulator.command.scenario")
async def test_the_first_step_that_fails_ends_a_scenario_with_evidence() -> None:
    result = await run(
        "steps:\n"
        "- check_status: {expect: {status: DOWNLOADABLE}}\n"
        "- check_status: {expect: {status: AVAILABLE}}\n"
    )
    assert not result.passed
    (step,) = result.steps
    assert step.problems == ("expected status DOWNLOADABLE, got ok, AVAILABLE",)
    assert step.evidence == "ok, AVAILABLE"


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("generate: {expect: {text: other}}", "expected the text 'other', got 'hello'"),
        ("generate: {expect: {code: BUSY}}", "expected 9 BUSY, got ok"),
        ("generate: {expect: {chunks: 7}}", "expected 7 chunks, got 1"),
        ("generate: {times: 2, expect: {code: ok}}", "call 2: expected no failure"),
        ("generate: {times: 1, expect: {lost: 1}}", "expected 1 lost prompts, got 0"),
        ("generate: {expect: {retry_delay: positive}}", "expected a retry delay"),
        ("generate: {expect: {outcomes: {BUSY: 1}}}", "expected 1 calls that end with BUSY"),
        ("device: {script_left: 0}", "expected script_left to be 0, it is 1"),
    ],
)
async def test_what_a_step_expects_and_does_not_get_is_said(step: str, problem: str) -> None:
    result = await run(f"device: {{script: [{{text: hello}}]}}\nsteps:\n- {step}\n")
    assert not result.passed
    assert problem in " ".join(result.steps[-1].problems)


async def test_a_device_that_cannot_boot_fails_its_scenario() -> None:
    result = await run("device: {profile: pixel-99}\nsteps: [{advance: 1s}]")
    assert not result.passed
    assert "pixel-99" in result.steps[0].problems[0]


async def test_a_scenario_without_steps_is_no_passed_one() -> None:
    with pytest.raises(CommandError, match="no steps"):
        await run("device: {network: off}")


async def test_an_agents_turn_is_checked_by_its_events() -> None:
    result = await run(
        "device: {script: [{text: Good morning.}]}\n"
        "steps:\n"
        "- agent: {prompt: hi, expect: {events: [partial, TextMessage], text: Good morning.}}\n"
    )
    assert result.passed, result.steps[-1].problems


@pytest.mark.requirement("simulator.command.scenario")
def test_the_command_prints_evidence_as_json_and_fails_with_one() -> None:
    passed = CliRunner().invoke(app, ["scenario", "run", "unsupported-phone", "--json"])
    assert passed.exit_code == 0, passed.output
    (found,) = json.loads(passed.output)
    assert (found["name"], found["passed"]) == ("unsupported-phone", True)
    assert found["device_seconds"] == 3 * 86_400
    assert [step["passed"] for step in found["steps"]] == [True] * len(found["steps"])


def test_a_failed_scenario_of_ones_own_is_exit_code_one(tmp_path: object) -> None:
    file = f"{tmp_path}/mine.yaml"
    with open(file, "w") as out:
        out.write("steps: [{check_status: {expect: {status: UNAVAILABLE}}}]")
    failed = CliRunner().invoke(app, ["scenario", "run", file])
    assert failed.exit_code == 1
    assert "FAIL" in failed.output
    assert "expected status UNAVAILABLE" in failed.output
