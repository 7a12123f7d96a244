"""What a scenario file may say, and how it is told that it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from aicore_sim.cli.control import CommandError
from aicore_sim.cli.ctl.values import NANOS, FeatureStatus
from aicore_sim.cli.scenario import boot_options
from aicore_sim.cli.scenario.command import chosen, shipped, shipped_names
from aicore_sim.cli.scenario.format import load_scenario, parse_scenario

WHOLE = """
name: whole
device:
  profile: pixel-9
  platform: android-17.0
  seed: 3
  network: off
  disk: full
  download: {seconds: 20}
  availability: downloadable
  quota: off
  foreground: exclusive
  importance: {com.example.app: foreground-service}
  faults:
    - match: {rpc: GenerateContent}
      action: {error_code: 9}
      times: 2
  script:
    - text: hi
      repeat: 3
steps:
  - generate: {prompt: hi, takes: 1.5s, expect: {outcomes: {ok: [1, 2], BUSY: 1}}}
  - advance: 2m30s
  - repeat: {times: 2, steps: [{check_status: {expect: {code: -101}}}]}
"""


@pytest.mark.requirement("simulator.command.scenario.format")
def test_a_scenario_sets_status_quota_importance_faults_and_script_together() -> None:
    scenario = parse_scenario(WHOLE, source="whole.yaml")
    device = scenario.device
    assert (device.network, device.disk, device.quota, device.foreground) == (
        "off",
        "full",
        "off",
        "exclusive",
    )
    assert device.availability is FeatureStatus.DOWNLOADABLE
    assert device.importance == {"com.example.app": "foreground-service"}
    assert device.download == "seconds=20"
    assert device.faults is not None
    assert device.faults[0]["action"] == {"error_code": 9}
    assert device.script is not None
    boot = boot_options(scenario)
    assert (boot.profile, boot.platform, boot.seed, boot.scripted) == (
        "pixel-9",
        "android-17.0",
        3,
        True,
    )
    generate, advance, repeat = scenario.steps
    assert generate.generate is not None
    assert generate.generate.takes == 1.5 * NANOS
    assert generate.generate.expect.outcomes == {"ok": (1, 2), "BUSY": (1, 1)}
    assert advance.advance == 150 * NANOS
    assert repeat.repeat is not None
    assert repeat.repeat.times == 2


@pytest.mark.requirement("simulator.command.scenario.format")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("device: {netwrok: on}", ("device.netwrok", "unknown key")),
        ("device: {network: maybe}", ("device.network", "maybe")),
        ("device: {quota: 3}", ("device.quota", "3")),
        ("device: {availability: 7}", ("device.availability", "7")),
        ("device: {download: seconds=-3}", ("device.download", "seconds=-3")),
        ("device: {importance: {com.example.app: hidden}}", ("importance", "hidden")),
        ("device: {importance: {com.other: top}}", ("com.other", "not in apps")),
        ("device: {faults: [{action: {explode: 1}}]}", ("faults.1", "explode")),
        ("device: {faults: [{match: {rpc: Nope}, action: {error_code: 9}}]}", ("faults.1", "Nope")),
        ("device: {script: [{texxt: hi}]}", ("device.script", "texxt")),
        ("device: {script: [{text: hi, repeat: 0}]}", ("step 1", "repeat", "0")),
        ("device: {platform: android-3}", ("device.platform", "android-3")),
        ("steps: [{advance: 3}]", ("steps.1.advance", "3", "unit")),
        ("steps: [{advance: -3s}]", ("steps.1.advance", "-3s")),
        ("steps: [{generate: {}, advance: 3s}]", ("steps.1", "exactly one")),
        ("steps: [{note: only}]", ("steps.1", "exactly one")),
        ("steps: [{wait: {call: a}}]", ("background: a",)),
        ("steps: [{generate: {expect: {code: NOPE}}}]", ("steps.1.generate.expect.code", "NOPE")),
        ("steps: [{generate: {expect: {outcomes: {oky: 1}}}}]", ("outcomes", "oky")),
        ("steps: [{generate: {expect: {lost: [3, 1]}}}]", ("lost", "[3, 1]")),
        ("steps: [{generate: {background: a, pause: 1s}}]", ("background",)),
        ("steps: [{move_download: {complete: true, fail: 8}}]", ("move_download", "exactly one")),
        ("name: Not A Name", ("Not A Name",)),
        ("- a list", ("name, device, apps and steps",)),
        ("{", ("not YAML",)),
    ],
)
def test_what_is_wrong_in_a_scenario_is_named_by_file_key_and_value(
    text: str, named: tuple[str, ...]
) -> None:
    with pytest.raises(CommandError) as refused:
        parse_scenario(text, source="mine.yaml")
    assert refused.value.exit_code == 2
    assert all(part in str(refused.value) for part in ("mine.yaml", *named)), str(refused.value)


def test_the_name_is_the_files_and_a_profile_lies_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "my-phone.yaml"
    file.write_text("device: {profile: phone.toml}")
    scenario = load_scenario(file)
    assert scenario.name == "my-phone"
    assert scenario.device.profile == str(tmp_path / "phone.toml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"none\.yaml"):
        load_scenario(tmp_path / "none.yaml")


@pytest.mark.requirement("simulator.command.scenario")
def test_the_promised_scenarios_are_shipped_each_under_its_own_name() -> None:
    assert set(shipped_names()) >= {
        "fresh-phone",
        "airplane-mode",
        "background-in-mid-request",
        "hammer-the-button",
        "unsupported-phone",
        "quota-wall-and-recovery",
        "daily-battery-quota",
        "cancel-storm",
        "queue-full",
        "model-crash",
        "retry-policies",
    }
    for name in shipped_names():
        scenario = shipped(name)
        assert scenario.name == name
        assert scenario.title
        assert scenario.steps


def test_a_name_that_is_no_scenario_lists_those_that_there_are() -> None:
    with pytest.raises(CommandError) as refused:
        chosen("fresh-fone")
    assert "'fresh-fone'" in str(refused.value)
    assert "fresh-phone" in str(refused.value)
    assert [scenario.name for scenario in chosen("all")] == list(shipped_names())
