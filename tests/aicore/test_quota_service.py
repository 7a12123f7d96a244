"""Quota as apps meet it: on virtual time, over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aicore_protos import aicore_pb2, device_pb2
from tests.aicore.backends import HandDrivenBackend
from tests.aicore.calls import TIMEOUT, App, prompt
from tests.aicore.conftest import Daemon, StartDaemon
from tests.aicore.device_calls import (
    APP,
    OK,
    advance,
    ended,
    failure,
    install,
    journal,
    outcome,
    until,
)

BUSY, APP_BATTERY, DEVICE_BATTERY = 9, 27, 28
PROMPTS, ANSWER_SECONDS, REFUSAL_SECONDS = 93, 1.5, 0.02


def answers(count: int, seconds: float = ANSWER_SECONDS) -> str:
    """A script of answers that cost so much device time each."""
    return f"- {{text: ok, usage: {{device_seconds: {seconds}}}}}\n" * count


async def hammer(daemon: Daemon, app: App, prompts: int = PROMPTS) -> list[int]:
    """Prompts without a pause, as the public measurement made them."""
    codes = []
    for _ in range(prompts):
        codes.append(await outcome(app))
        await advance(daemon, REFUSAL_SECONDS if codes[-1] else ANSWER_SECONDS)
    return codes


async def quota_of(daemon: Daemon, package_name: str = APP) -> device_pb2.Quota:
    found: device_pb2.Quota = await daemon.shell.call(
        "GetQuota", device_pb2.GetQuotaRequest(package_name=package_name)
    )
    return found


@pytest.mark.requirement(
    "aicore.queue.contention-has-no-delay",
    "aicore.quota.per-app",
    "aicore.quota.short-term",
)
async def test_the_default_profile_has_the_wall_of_the_public_measurement(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script=answers(300), clock="virtual") as daemon:
        codes = await hammer(daemon, daemon.app)
        first_wall = codes.index(BUSY)
        assert 36 <= codes.count(OK) <= 41
        assert 36 <= first_wall <= 41
        assert set(codes) == {OK, BUSY}
        # Capacity comes back piece by piece: single successes among the refusals, no reset.
        after = codes[first_wall:]
        assert OK in after
        assert all(pair != (OK, OK) for pair in zip(after, after[1:], strict=False))
        # Another app has an allowance of its own.
        assert await outcome(await install(daemon, "com.example.other")) == OK
        # A refused call never reached the model.
        entries = await journal(daemon, package_name=APP)
        assert {entry.decision for entry in entries} == {"ok", "quota"}
        refused = [entry for entry in entries if entry.error_code == BUSY]
        assert all("output_tokens" not in entry.figures for entry in refused)
        await advance(daemon, 150)
        again = await hammer(daemon, daemon.app)
        assert again.index(BUSY) == first_wall


@pytest.mark.requirement("aicore.quota.short-term")
async def test_pauses_and_the_retry_delay_lose_no_prompt(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=answers(PROMPTS), clock="virtual") as daemon:
        for _ in range(PROMPTS):
            while (refused := await failure(daemon.app)).error_code:
                assert refused.error_code == BUSY
                assert refused.HasField("retry_delay")
                await advance(daemon, refused.retry_delay.ToTimedelta().total_seconds() + 1e-6)
            await advance(daemon, ANSWER_SECONDS + 1)
        script = await daemon.shell.call("GetScript", device_pb2.GetScriptRequest())
    assert script.consumed == PROMPTS


@pytest.mark.requirement("aicore.quota.short-term")
async def test_a_used_up_quota_says_when_to_come_back_and_not_before(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script=answers(2, 40), clock="virtual") as daemon:
        assert await outcome(daemon.app) == OK
        delay = (await failure(daemon.app)).retry_delay.ToTimedelta().total_seconds()
        assert delay == pytest.approx(10 / 0.48, abs=0.01)
        await advance(daemon, delay - 0.01)
        assert await outcome(daemon.app) == BUSY
        await advance(daemon, 0.02)
        assert await outcome(daemon.app) == OK


@pytest.mark.requirement("aicore.quota.battery", "aicore.quota.device-battery")
@pytest.mark.parametrize(
    ("table", "code", "rule"),
    [
        ("app_battery", APP_BATTERY, "quota.app-battery"),
        ("device_battery", DEVICE_BATTERY, "quota.device-battery"),
    ],
)
async def test_a_battery_quota_holds_until_its_period_ends(
    start_daemon: StartDaemon, short_dir: Path, table: str, code: int, rule: str
) -> None:
    profile = short_dir / "phone.toml"
    profile.write_text(
        f'extends = "pixel-10"\n[quota.{table}]\ncalls = 100\nperiod_seconds = 86400\n'
    )
    async with start_daemon(
        script=answers(101, 0.01), clock="virtual", profile=str(profile)
    ) as daemon:
        for _ in range(100):
            assert await outcome(daemon.app) == OK
        for _ in range(23):
            refused = await failure(daemon.app)
            assert (refused.error_code, refused.HasField("retry_delay")) == (code, True)
            await advance(daemon, 3600)
        assert (await journal(daemon, last=1))[0].decision == rule
        other = await install(daemon, "com.example.other")
        quota = await quota_of(daemon)
        budget = getattr(quota, table)
        assert (budget.calls, budget.calls_limit) == (100, 100)
        if code == APP_BATTERY:
            assert await outcome(other) == OK
        else:
            assert await outcome(other) == code
            await advance(daemon, 3600)
            assert await outcome(other) == OK


@pytest.mark.requirement("simulator.device.state-survives-restart")
async def test_the_ledger_survives_a_restart(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=answers(1, 40), clock="virtual") as daemon:
        assert await outcome(daemon.app) == OK
        await advance(daemon, 1)
        before = await failure(daemon.app)
    async with start_daemon(script=answers(1), clock="virtual") as daemon:
        assert await failure(daemon.app) == before
        await advance(daemon, 30)
        assert await outcome(daemon.app) == OK


async def test_without_quota_nothing_is_refused(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=answers(50, 60), clock="virtual", quota="off") as daemon:
        assert [await outcome(daemon.app) for _ in range(50)] == [OK] * 50
        quota = await quota_of(daemon)
    assert quota.model == "off"
    assert not quota.HasField("available_seconds")


@pytest.mark.requirement("aicore.quota.free-before-inference")
async def test_what_is_refused_before_inference_and_what_is_no_inference_is_free(
    start_daemon: StartDaemon,
) -> None:
    async with start_daemon(script="", clock="virtual") as daemon:
        for _ in range(3):
            assert await outcome(daemon.app, prompt("word " * 4001)) == 12
            assert await outcome(daemon.app, prompt(" ")) == -100
            await daemon.app.fault("GenerateContent", prompt("no step"), stream=True)
            counting = aicore_pb2.CountTokensRequest(request=prompt("word " * 3000))
            await daemon.app.call("CountTokens", counting)
            await daemon.app.call("Warmup", aicore_pb2.WarmupRequest())
            await daemon.app.call("CheckStatus", aicore_pb2.CheckStatusRequest())
        assert (await quota_of(daemon)).available_seconds == 30.0


@pytest.mark.requirement("aicore.quota.free-before-inference")
@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_a_call_that_ends_during_inference_is_charged_for_what_ran(
    start_daemon: StartDaemon, how: str
) -> None:
    script = "- {text: a b c d e f g h i j, error: {code: 15, after_chunks: 5}}"
    backend = HandDrivenBackend() if how == "cancelled" else None
    async with start_daemon(script=script, backend=backend, clock="virtual") as daemon:
        if backend is None:
            assert await outcome(daemon.app, prompt("one two three")) == 15
        else:
            stream = daemon.app.start("GenerateContent", prompt("one two three"))
            backend.release(5)
            for _ in range(5):
                await asyncio.wait_for(stream.read(), TIMEOUT)
            stream.cancel()
            await until(daemon, lambda device: not device.running)
        used = 30 - (await quota_of(daemon)).available_seconds
        entry = (await journal(daemon, rpc="GenerateContent"))[0]
    assert used == pytest.approx(3 / 940 + 5 / 9.6)
    assert entry.figures["device_seconds"] == pytest.approx(used)
    assert entry.decision == ("model" if how == "failed" else "cancelled")


async def test_a_call_is_charged_before_its_app_sees_the_end(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=answers(20, 31), clock="virtual") as daemon:
        for _ in range(10):
            assert await outcome(daemon.app) == OK
            assert await outcome(daemon.app) == BUSY
            await daemon.shell.call("ResetQuota", device_pb2.ResetQuotaRequest())


async def test_a_call_that_waited_in_line_is_checked_again(start_daemon: StartDaemon) -> None:
    script = "- {text: ok, delay: 1, usage: {device_seconds: 31}}\n- text: never\n"
    async with start_daemon(script=script, clock="virtual") as daemon:
        streams = [daemon.app.start("GenerateContent", prompt("hi")) for _ in range(2)]
        await until(daemon, lambda device: (device.running, device.waiting) == (1, 1))
        await advance(daemon, 1)
        errors = [await ended(stream) for stream in streams]
        script_state = await daemon.shell.call("GetScript", device_pb2.GetScriptRequest())
    assert sorted(error.error_code for error in errors) == [OK, BUSY]
    assert script_state.consumed == 1


async def test_the_control_service_shows_changes_and_resets_quota(
    start_daemon: StartDaemon,
) -> None:
    shell_request = device_pb2.SetQuotaRequest
    async with start_daemon(script=answers(3, 1), clock="virtual") as daemon:
        charged = await daemon.shell.call(
            "SetQuota", shell_request(package_name=APP, charge_seconds=40)
        )
        assert charged.available_seconds == 0
        assert charged.retry_delay.seconds == 20
        assert charged.device_battery.device_seconds == 40
        assert (await quota_of(daemon, "")).available_seconds == 30
        changed = await daemon.shell.call(
            "SetQuota", shell_request(package_name=APP, model="sliding-calls")
        )
        assert (changed.model, changed.available_calls) == ("sliding-calls", 38)
        assert changed.app_battery.device_seconds == 40
        assert await outcome(daemon.app) == OK
        assert (await quota_of(daemon)).available_calls == 37
        await daemon.shell.call("ResetQuota", device_pb2.ResetQuotaRequest(package_name=APP))
        fresh = await quota_of(daemon)
    assert (fresh.available_calls, fresh.app_battery.device_seconds) == (38, 0)
    assert list(fresh.models) == ["token-bucket", "sliding-calls", "sliding-time", "off"]


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (device_pb2.SetQuotaRequest(model="leaky"), "model: there is no quota model 'leaky'"),
        (device_pb2.SetQuotaRequest(charge_seconds=-1), "charge_seconds: -1 "),
        (device_pb2.SetQuotaRequest(charge_seconds=float("nan")), "charge_seconds: nan "),
        (device_pb2.SetQuotaRequest(package_name="no.such"), "package_name: 'no.such'"),
    ],
)
async def test_a_wrong_quota_request_names_the_field_and_changes_nothing(
    start_daemon: StartDaemon, request_: device_pb2.SetQuotaRequest, named: str
) -> None:
    async with start_daemon(clock="virtual") as daemon:
        before = await quota_of(daemon)
        fault = await daemon.shell.fault("SetQuota", request_)
        assert fault.message.startswith(named)
        assert await quota_of(daemon) == before


async def test_uninstalling_an_app_ends_its_quota(start_daemon: StartDaemon) -> None:
    async with start_daemon(script=answers(2, 60), clock="virtual") as daemon:
        assert await outcome(daemon.app) == OK
        await daemon.shell.call(
            "UninstallPackage", device_pb2.UninstallPackageRequest(package_name=APP)
        )
        assert await outcome(await install(daemon, APP)) == OK
